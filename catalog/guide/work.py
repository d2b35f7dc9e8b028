"""One card's way through the rules: how many of it the need takes, and every line of arithmetic on the way."""

from __future__ import annotations

from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.guide import formulas
from catalog.guide.facts import (
    CARD_COUNTS,
    RUNTIME_GB,
    SHAPES,
    STATE_BYTES,
    STATE_SOURCE,
    WEIGHT_BYTES,
    WHOLE_NODE_FAMILY,
    Shape,
    shape_for,
)
from catalog.guide.kinds import TRAINING, Warn
from catalog.guide.links import Links
from catalog.guide.texts import PRECISIONS
from catalog.guide.worksheet import DoesNotFit, cards_unit, rounded
from marketplace.lib.digits import grouped as _n


class Work(Links):
    """Sizes the need on one card. After `size()`: `copy` cards hold one copy or the whole job, `copies` of it run.

    Raises DoesNotFit where a rule leaves the card out.
    """

    # --- in order ----------------------------------------------------------------------------------------------------
    def size(self) -> Work:
        self._admit()
        if self.need.purpose in TRAINING:
            self._train()
        elif self.need.purpose == "inference":
            self._serve()
        else:
            self._render()
        if self.spans_nodes:
            self._join_nodes()
        return self

    # --- what the card is allowed to do ------------------------------------------------------------------------------
    def _admit(self) -> None:
        if self.need.domestic:
            if not self.card.domestic:
                raise DoesNotFit(_("Not a domestic card."), "R1")
            self.note("R1")
        if self.card.memory_gb is None:
            raise DoesNotFit(_("Its memory is not published, so it cannot be sized."), "R3", sellable=True)
        self.memory_gb = self.card.memory_gb
        self.doubt("memory_gb")
        if self.need.purpose not in TRAINING and self.precision in {"fp8", "fp4"}:
            self._check_precision()

    def _check_precision(self) -> None:
        field = f"{self.precision}_tflops"
        self.note("R2")
        if getattr(self.card, field) is None:
            text = _("The card publishes no %(precision)s rate; the plan serves the same model in INT8.")
            self.warnings.append(Warn("int8", text % {"precision": PRECISIONS[self.precision]}, "R2"))
            self.precision = "int8"
        else:
            self.doubt(field)

    # --- training ----------------------------------------------------------------------------------------------------
    def _train(self) -> None:
        need = self.need
        states, activations = self._states(), self._activations()
        by_memory = formulas.cards_for_training(states, activations, self.memory_gb)
        self.copy = self._by_memory(by_memory, states, activations, "F3")
        self._time()
        by_time = self._by_deadline()
        if self.is_one_job:
            self.copy = self._allowed(max(Decimal(self.copy), by_time))
            self._whole_node()
            return
        self._whole_node()
        if self.spans_nodes:
            self.copy = self._allowed(max(Decimal(self.copy), by_time))
            return
        self.note("R6")
        if need.deadline_days and by_time > self.copy:
            self.copies = -(-self._allowed(by_time) // self.copy)
            self._copies_step(f"{_n(rounded(by_time))} / {self.copy}")

    def _states(self) -> Decimal:
        purpose, params = self.need.purpose, self.need.params_b
        states = formulas.training_states_gb(purpose, params)
        self._step(
            _("Model states"),
            _("bytes per parameter × parameters (billion)"),
            f"{_n(STATE_BYTES[purpose])} × {_n(params)}",
            rounded(states),
            "GB",
            rule="F1",
            source=STATE_SOURCE[purpose],
        )
        return states

    def _activations(self) -> Decimal:
        shape, need = self._shape(), self.need
        b, s, h, v = need.batch, need.sequence, shape.hidden, shape.vocab
        activations = formulas.activation_gb(shape, sequence=s, batch=b)
        self._step(
            _("Activations per card"),
            _("(2·L·b·s·h + 56·b·s·h + 6·b·s·V) / 10⁹, shape of %(model)s") % {"model": shape.name},
            f"(2·{shape.layers}·{b}·{s}·{h} + 56·{b}·{s}·{h} + 6·{b}·{s}·{v}) / 10⁹",
            rounded(activations),
            "GB",
            rule="F2",
            source="activations",
        )
        return activations

    def _shape(self) -> Shape:
        shape = shape_for(self.need.params_b)
        if self.need.params_b > shape.params_b:
            text = _("no model above %(size)s billion parameters is on file; worked out with the shape of %(model)s")
            self._doubt(text % {"size": _n(SHAPES[-1].params_b), "model": shape.name})
        if not shape.checked:
            text = _("the shape of %(model)s is generally known but was not read at its source again")
            self._doubt(text % {"model": shape.name})
        return shape

    def _by_memory(self, cards: int | None, shared: Decimal, each: Decimal, rule: str) -> int:
        """The step that divides among cards; `shared` is divided, `each` stands on every card (GB)."""
        room = formulas.usable_gb(self.memory_gb)
        if cards is None:
            if each > room:
                text = _("What every card must hold (%(need)s GB) is more than it has to give (%(room)s GB).")
                raise DoesNotFit(text % {"need": _n(rounded(each)), "room": _n(room)}, rule)
            raise DoesNotFit(_("More than 1,024 cards would be needed."), rule)
        share = rounded(shared / cards + each)
        self._step(
            _("Cards for the memory"),
            _("total / cards + per card ≤ 0.9 × memory"),
            f"{_n(rounded(shared))} / {cards} + {_n(rounded(each))} = {_n(share)}"
            f" ≤ 0.9 × {self.memory_gb} = {_n(room)}",
            cards,
            cards_unit(cards),
            rule=rule,
        )
        return cards

    def _time(self) -> None:
        """Card-hours of the run, where the number of tokens is known."""
        need, card = self.need, self.card
        if need.tokens_b is None:
            return
        if not card.bf16_tflops:
            raise DoesNotFit(_("Its BF16 rate is not published, so no time can be worked out."), "R3", sellable=True)
        self.doubt("bf16_tflops")
        share = formulas.mfu(link=card.link, domestic=card.domestic)
        self.gpu_hours = formulas.gpu_hours(need.params_b, need.tokens_b, card.bf16_tflops, share)
        self._step(
            _("Card-hours"),
            _("8 × parameters × tokens / (TFLOPS × MFU × 3600)"),
            f"8 × {_n(need.params_b)}·10⁹ × {_n(need.tokens_b)}·10⁹ / ({_n(card.bf16_tflops)}·10¹² × {share} × 3600)",
            rounded(self.gpu_hours, 1),
            _("card-hours"),
            rule="F5",
            source="network",
        )

    def _by_deadline(self) -> Decimal:
        need = self.need
        if self.gpu_hours is None or need.deadline_days is None:
            return Decimal(0)
        cards = formulas.cards_for_deadline(self.gpu_hours, need.deadline_days)
        allowed = self._allowed(max(cards, Decimal(self.copy)))
        days = f"({_n(need.deadline_days)} × 24)"
        self._step(
            _("Cards for the deadline"),
            _("max(memory, card-hours / (days × 24)), rounded up"),
            f"max({self.copy}, {_n(rounded(self.gpu_hours, 1))} / {days} = {_n(rounded(cards))})",
            allowed,
            cards_unit(allowed),
            rule="R8",
        )
        return cards

    def _allowed(self, cards: Decimal | int) -> int:
        allowed = formulas.allowed_count(cards)
        if allowed is None:
            raise DoesNotFit(_("More than 1,024 cards would be needed."), "R8")
        return allowed

    # --- serving and rendering ---------------------------------------------------------------------------------------
    def _serve(self) -> None:
        need, shape = self.need, self._shape()
        weights = self._weights()
        kv = formulas.kv_gb(shape, context=need.sequence, concurrency=need.concurrency)
        self._step(
            _("KV cache"),
            _("2 bytes × 2 × L × h × KV heads / heads × context × requests / 10⁹, shape of %(model)s")
            % {"model": shape.name},
            f"2 × 2 × {shape.layers} × {shape.hidden} × {shape.kv_heads} / {shape.heads}"
            f" × {need.sequence} × {need.concurrency} / 10⁹",
            rounded(kv),
            "GB",
            rule="F4",
            source="kv",
        )
        by_memory = formulas.cards_for_serving(weights + kv, self.memory_gb)
        if by_memory is None or by_memory > self.node:
            split = self._split(weights, kv / need.concurrency)
            if split:
                self.copy, self.copies = split
                self._whole_node()
                return
        self.copy = self._by_memory(by_memory, weights + kv, RUNTIME_GB, "F4")
        self._whole_node()
        if not self.spans_nodes:
            self.note("R6")

    def _weights(self) -> Decimal:
        weights = formulas.weights_gb(self.need.params_b, self.precision)
        self._step(
            _("Weights"),
            _("bytes per parameter in %(precision)s × parameters (billion)")
            % {"precision": PRECISIONS[self.precision]},
            f"{_n(WEIGHT_BYTES[self.precision])} × {_n(self.need.params_b)}",
            rounded(weights),
            "GB",
            rule="F4",
            source="kv",
        )
        return weights

    def _split(self, weights: Decimal, kv_of_one: Decimal) -> tuple[int, int] | None:
        """(cards of a copy, copies) with the fewest cards in all, each copy inside one server; None where none fits."""
        choices = []
        whole = self.card.family == WHOLE_NODE_FAMILY
        for cards in (count for count in CARD_COUNTS if count <= self.node and not (whole and 1 < count < self.node)):
            held = formulas.requests_per_copy(weights, kv_of_one, self.memory_gb, cards)
            if held:
                copies = -(-self.need.concurrency // held)
                choices.append((cards * copies, -cards, copies, held))
        if not choices or min(choices)[0] > CARD_COUNTS[-1]:
            return None
        _total, negative, copies, held = min(choices)
        self._step(
            _("Copies"),
            _("requests / requests that fit beside one copy’s weights"),
            f"{self.need.concurrency} / {held}",
            copies,
            ngettext("copy", "copies", copies),
            rule="R6",
        )
        return -negative, copies

    def _render(self) -> None:
        """One copy per parallel job; no formula for the working memory of such models is published."""
        self._doubt(
            _(
                "no formula for the working memory of image and video models is published; only weights and runtime"
                " are counted"
            )
        )
        self.note("C1")
        weights = self._weights() if self.need.params_b else Decimal(0)
        self.copy = self._by_memory(formulas.cards_for_serving(weights, self.memory_gb), weights, RUNTIME_GB, "F4")
        self._whole_node()
        if not self.spans_nodes:
            self.copies = self.need.concurrency
            self._copies_step(str(self.copies))
            self._allowed(self.cards)

    def _copies_step(self, inserted: str) -> None:
        self._step(
            _("Copies"),
            _("copies that run beside each other, none waiting for another"),
            f"{inserted} → {self.copies} × {self.copy}",
            self.cards,
            cards_unit(self.cards),
            rule="R6",
        )
