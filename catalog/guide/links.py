"""What joins cards: the links of one server, and the network between several."""

from __future__ import annotations

from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.guide import formulas
from catalog.guide.facts import MFU, WHOLE_NODE_FAMILY
from catalog.guide.kinds import TRAINING, Warn
from catalog.guide.worksheet import DoesNotFit, Worksheet, cards_unit, rounded
from marketplace.lib.digits import grouped as _n

_WHOLE_NODE_FROM, _WHOLE_NODE_BELOW = 2, 8
_LINK_NEEDED_FROM = {"training": 2, "sharded": 4}


class Links(Worksheet):
    """The rules R4, R5 and R7."""

    def _whole_node(self) -> None:
        """R7: a shard of this family gets its whole server."""
        if self.card.family == WHOLE_NODE_FAMILY and _WHOLE_NODE_FROM <= self.copy < _WHOLE_NODE_BELOW:
            self._step(
                _("Whole server"),
                _("all_reduce on 2, 4, 8 cards: 18, 30, 72 GB/s"),
                f"{self.copy} → {self.node}",
                self.node,
                cards_unit(self.node),
                rule="R7",
                source="ascend_links",
            )
            self.copy = self.node

    def check_link(self, working: int) -> bool:
        """R4 on the cards that will really work together; False where PCIe joins them, which the plan then warns of."""
        together, kind = (working, "training") if self.is_one_job else (self.copy, "sharded")
        if together < _LINK_NEEDED_FROM[kind]:
            return True
        self.note("R4")
        self.doubt("interconnect_type")
        if formulas.has_scale_up_link(self.card.link):
            return True
        text = ngettext(
            "%(cards)d card works on one job over PCIe, which slows it down; the rule wants NVLink or HCCS here.",
            "%(cards)d cards work on one job over PCIe, which slows it down; the rule wants NVLink or HCCS here.",
            together,
        )
        self.warnings.append(Warn("pcie", text % {"cards": together}, "R4"))
        return False

    def _join_nodes(self) -> None:
        """R5: one job over several servers."""
        card, need = self.card, self.need
        self.doubt("max_gpus_per_node")
        if card.rental_class == "consumer" or not formulas.has_scale_up_link(card.link):
            text = _("One job this large needs RDMA between servers, which consumer and PCIe cards do not have.")
            raise DoesNotFit(text, "R5")
        self.note("R5")
        if need.purpose not in TRAINING:
            return
        if not card.bf16_tflops:
            raise DoesNotFit(
                _("Its BF16 rate is not published, so its network cannot be planned."), "R3", sellable=True
            )
        self.doubt("bf16_tflops")
        needed = formulas.gbps_per_card(card.bf16_tflops, need.step_tokens)
        self.port_gbps = formulas.port_gbps(needed)
        if self.port_gbps is None:
            text = _("It would need %(rate)s Gb/s per card; more tokens per step lower that.")
            raise DoesNotFit(text % {"rate": _n(rounded(needed, 0))}, "R5", sellable=True, cards=self.copy)
        self._network_steps(card.bf16_tflops, needed, self.port_gbps)

    def _network_steps(self, tflops: Decimal, needed: Decimal, port: int) -> None:
        need = self.need
        self._step(
            _("Network per card"),
            _("10⁴ × TFLOPS × MFU / tokens per card and step, next port rate"),
            f"10⁴ × {_n(tflops)} × {MFU} / {need.step_tokens} = {_n(rounded(needed, 0))}",
            port,
            "Gb/s",
            rule="R5",
            source="network",
        )
        work = formulas.step_tflop(need.params_b, need.step_tokens)
        sync = formulas.sync_seconds(need.params_b, port * formulas.WIRE_SHARE)
        self._step(
            _("Check: gradients against one step"),
            _("64 × parameters / (0.8 × Gb/s) ≤ 8 × parameters × tokens / (TFLOPS × MFU)"),
            f"64 × {_n(need.params_b)} / (0.8 × {port}) = {_n(rounded(sync))} s"
            f" ≤ {_n(rounded(work, 1))} / ({_n(tflops)} × {MFU}) = {_n(rounded(work / (tflops * MFU)))} s",
            rounded(sync),
            "s",
            rule="R5",
            source="network",
        )
