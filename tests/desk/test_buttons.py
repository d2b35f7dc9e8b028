"""Buttons call actions: events and log follow, refusals are told and leave nothing, other groups' buttons are 403."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.urls import reverse

from accounts.models import CreditLine
from billing.models import Invoice, Payment, StripeEvent
from catalog.models import Host, Price, Reservation
from marketplace.lib import clock
from orders import actions as orders
from orders.models import Order, OrderEvent, Quote, QuoteEvent, QuoteLine
from rentals.models import Rental, RentalEvent
from tests import factories
from tests.desk import world

pytestmark = pytest.mark.django_db


def press(client, row, name, **data):
    model = f"{row._meta.app_label}_{row._meta.model_name}"
    return client.post(reverse(f"admin:{model}_press", args=[row.pk, name]), data)


def choose(client, action, *rows):
    model = f"{rows[0]._meta.app_label}_{rows[0]._meta.model_name}"
    return client.post(
        reverse(f"admin:{model}_changelist"), {"action": action, "_selected_action": [row.pk for row in rows]}
    )


def told(answer):
    return [str(message) for message in get_messages(answer.wsgi_request)]


# --- who may ---------------------------------------------------------------------------------------------------------
def test_another_groups_buttons_are_refused_and_do_nothing(staff):
    rental = world.rental(status="needs_operator", reason="no_capacity")
    order = world.waiting_order()
    quote = world.quote()
    invoice = world.invoice()
    event = world.stripe_event()
    host = Host.objects.first()
    price = Price.objects.first()
    organization = rental.organization
    buttons = [
        (rental, "retry", {"operations"}), (rental, "destroy", {"operations"}),
        (order, "cancel", {"operations", "sales"}),
        (quote, "send", {"sales"}), (quote, "add_line", {"sales"}), (quote, "revise", {"sales"}),
        (invoice, "void", {"finance"}), (invoice, "record_payment", {"finance"}), (invoice, "push_again", {"finance"}),
        (event, "apply_again", {"finance"}), (host, "drain", {"operations"}), (price, "replace", {"sales"}),
        (organization, "set_credit_limit", {"finance"}),
    ]  # fmt: skip

    for group in ("operations", "sales", "finance", "auditor"):
        client = staff(group)
        for row, name, allowed in buttons:
            if group not in allowed:
                assert press(client, row, name).status_code == 403, (group, name)

    assert LogEntry.objects.count() == 0
    for row, before in ((rental, "needs_operator"), (order, "awaiting_payment"), (quote, "draft"), (invoice, "issued")):
        row.refresh_from_db()
        assert row.status == before


def test_a_button_needs_a_token_and_a_post(staff):
    from django.test import Client  # noqa: PLC0415

    order = world.waiting_order()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(staff("sales").person, backend="django.contrib.auth.backends.ModelBackend")

    assert press(strict, order, "cancel").status_code == 403
    asked = strict.get(reverse("admin:orders_order_press", args=[order.pk, "cancel"]))

    order.refresh_from_db()
    assert asked.status_code == 200
    assert order.status == "awaiting_payment"


def test_an_unknown_button_or_row_is_not_found(boss):
    order = world.waiting_order()
    assert press(boss, order, "delete").status_code == 404
    assert press(boss, order, "perform").status_code == 404
    order.pk += 1000
    assert press(boss, order, "cancel").status_code == 404


# --- operations ------------------------------------------------------------------------------------------------------
def test_operations_retries_one_rental(staff):
    ops = staff("operations")
    rental = world.rental(status="needs_operator", reason="no_capacity", attempts=9)

    press(ops, rental, "retry")

    rental.refresh_from_db()
    assert (rental.status, rental.attempts, rental.reason) == ("creating", 0, "")
    wish = RentalEvent.objects.get(rental=rental, kind="wish")
    assert (wish.what, wish.outcome, wish.actor) == ("retry", "no_capacity", ops.person)
    log = LogEntry.objects.get()
    assert (log.user, log.object_id, log.change_message) == (ops.person, str(rental.pk), "Try again")


def test_a_bulk_retry_leaves_events_and_names_each_refusal(staff):
    ops = staff("operations")
    waiting = world.rental(status="needs_operator", reason="quota_exceeded")
    running = world.rental()
    before = RentalEvent.objects.filter(rental=running).count()

    answer = choose(ops, "retry_all", waiting, running)

    waiting.refresh_from_db()
    running.refresh_from_db()
    assert (waiting.status, running.status) == ("creating", "running")
    assert waiting.events.filter(kind="wish", what="retry", actor=ops.person).count() == 1
    assert RentalEvent.objects.filter(rental=running).count() == before
    assert told(answer) == [
        f"{running}: “{running}” is Running; this is not possible now.",
        "Done for 1: Try the chosen ones again.",
    ]
    assert LogEntry.objects.count() == 1


def test_operations_destroys_a_rental(staff):
    ops = staff("operations")
    rental = world.rental()

    press(ops, rental, "destroy")

    rental.refresh_from_db()
    assert (rental.status, rental.desired) == ("destroying", "gone")
    assert rental.events.get(kind="wish").what == "destroyed_by_operator"


def test_a_rental_that_is_over_refuses_and_changes_nothing(staff):
    rental = world.rental(status="gone")

    answer = press(staff("operations"), rental, "destroy")

    assert answer.status_code == 302
    assert told(answer) == [f"“{rental}” is Terminated; this is not possible now."]
    assert LogEntry.objects.count() == 0
    assert not rental.events.filter(kind="wish").exists()


def test_hosts_are_drained_together_and_sold_again(staff):
    ops = staff("operations")
    hosts = [world.offer().pool.hosts.get() for _ in range(2)]

    choose(ops, "drain_all", *hosts)
    assert [host.state for host in Host.objects.all()] == ["draining", "draining"]

    press(ops, hosts[0], "activate")
    assert Host.objects.get(pk=hosts[0].pk).state == "active"
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Drain", "Drain", "Sell again"]


def test_a_broken_card_leaves_the_sale_and_its_hosts_counter(staff):
    ops = staff("operations")
    host = world.offer().pool.hosts.get()
    card = host.gpus.first()

    press(ops, card, "mark_broken")
    host.refresh_from_db()
    assert (host.cards_free, host.gpus.filter(healthy=False).get()) == (7, card)

    press(ops, card, "mark_healthy")
    host.refresh_from_db()
    assert host.cards_free == 8


POOL = {"hosts-TOTAL_FORMS": "0", "hosts-INITIAL_FORMS": "0"}


def test_a_pool_is_paused_with_its_reason(staff):
    pool = world.offer().pool
    page = reverse("admin:catalog_pool_change", args=[pool.pk])

    answer = staff("operations").post(
        page, POOL | {"paused_reason": "机房检修", "endpoint": "http://elsewhere.example"}
    )

    pool.refresh_from_db()
    assert answer.status_code == 302
    assert (pool.paused_reason, pool.endpoint) == ("机房检修", "env:DEMO_ENGINE_URL")


def test_only_a_superuser_says_where_an_engine_is_and_which_secret_opens_it(boss):
    pool = world.offer().pool
    page = reverse("admin:catalog_pool_change", args=[pool.pk])
    values = {"driver": "demo", "endpoint": "http://b.example", "credential_ref": "env:B", "resource_name": "x/gpu"}

    boss.post(page, POOL | values)

    pool.refresh_from_db()
    assert (pool.endpoint, pool.credential_ref) == ("http://b.example", "env:B")


def test_cards_are_promised_for_a_time_that_ends_after_it_starts(staff):
    ops = staff("operations")
    pool = world.offer().pool
    values = {"pool": pool.pk, "cards": 4, "starts": "2027-06-01T00:00", "ends": "2027-05-01T00:00", "note": "大客户"}

    refused = ops.post(reverse("admin:catalog_reservation_add"), values)
    assert list(refused.context["adminform"].form.errors) == ["ends"]
    assert not Reservation.objects.exists()

    ops.post(reverse("admin:catalog_reservation_add"), values | {"ends": "2027-07-01T00:00"})
    made = Reservation.objects.get()
    assert (made.period.lower.isoformat(), made.period.upper.isoformat()) == (
        "2027-05-31T16:00:00+00:00",
        "2027-06-30T16:00:00+00:00",
    )
    page = reverse("admin:catalog_reservation_change", args=[made.pk])
    assert 'value="2027-06-01T00:00:00"' in ops.get(page).text
    ops.post(page, {"cards": 2, "starts": "2027-06-01T00:00", "ends": "2027-06-02T00:00", "note": "少一点"})
    made.refresh_from_db()
    assert (made.cards, made.note, made.pool) == (2, "少一点", pool)


# --- sales -----------------------------------------------------------------------------------------------------------
def test_sales_makes_a_quote_from_draft_to_link(staff):
    sales = staff("sales")
    organization = world.customer()
    offer = world.offer()
    until = clock.now() + timedelta(days=3)

    answer = sales.post(
        reverse("admin:orders_quote_add"),
        {
            "organization": organization.pk,
            "valid_until_0": f"{until:%Y-%m-%d}",
            "valid_until_1": f"{until:%H:%M:%S}",
            "note": "含三个月",
        },
    )
    quote = Quote.objects.get()
    assert answer.headers["Location"] == reverse("admin:orders_quote_change", args=[quote.pk])
    assert (quote.version, quote.status, quote.currency, quote.salesperson) == (1, "draft", "CNY", sales.person)
    assert quote.events.get().actor == sales.person

    line = {
        "offer": offer.pk, "image": factories.image().pk, "quantity": 2, "term": "month", "periods": 3,
        "discount_percent": "10",
    }  # fmt: skip
    press(sales, quote, "add_line", **line)
    made = QuoteLine.objects.get()
    assert (made.list_rate, made.rate, made.amount_minor) == (Decimal(1280), Decimal(1152), 2 * 3 * 115_200)

    answer = press(sales, quote, "send")
    quote.refresh_from_db()
    assert quote.status == "sent"
    assert told(answer) == [
        f"The draft {quote} is there. Add its lines now.",
        f"Line 1 added: {offer.title}.",
        f"Sent. Give the customer this link: http://testserver/quotes/{quote.token}/",
    ]
    page = sales.get(reverse("admin:orders_quote_change", args=[quote.pk])).text
    assert f"http://testserver/quotes/{quote.token}/" in page
    assert "¥6,912.00" in page
    assert sales.get(f"/quotes/{quote.token}/").status_code == 200


def test_a_line_that_cannot_be_sold_is_refused_beside_its_field(staff):
    quote = world.quote(lines=0)
    line = {
        "offer": world.offer().pk, "image": factories.image("CANN").pk, "quantity": 1, "term": "month", "periods": 1,
        "discount_percent": "0",
    }  # fmt: skip

    answer = press(staff("sales"), quote, "add_line", **line)

    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == ["image"]
    assert not QuoteLine.objects.exists()
    assert LogEntry.objects.count() == 0


def test_an_empty_quote_is_not_sent(staff):
    quote = world.quote(lines=0)

    answer = press(staff("sales"), quote, "send")

    quote.refresh_from_db()
    assert told(answer) == ["A quote needs at least one line before it is sent."]
    assert quote.status == "draft"
    assert QuoteEvent.objects.filter(quote=quote).count() == 1


def test_a_line_is_removed_from_a_draft_only(staff):
    sales = staff("sales")
    quote = world.quote(lines=2)
    first, second = quote.lines.all()

    press(sales, quote, "remove_line", line=first.pk)
    assert list(quote.lines.all()) == [second]

    orders.send_quote(quote_id=quote.pk, actor=sales.person, at=clock.now())
    answer = press(sales, quote, "remove_line", line=second.pk)
    assert list(quote.lines.all()) == [second]
    assert str(answer.context["form"].non_field_errors()[0]) == "A quote in the state “Sent” does not allow this."


def test_a_line_of_another_quote_cannot_be_removed(staff):
    quote, other = world.quote(), world.quote()

    answer = press(staff("sales"), quote, "remove_line", line=other.lines.get().pk)

    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == ["line"]
    assert QuoteLine.objects.count() == 2


def test_a_sent_quote_is_revised_into_the_next_version(staff):
    sales = staff("sales")
    quote = world.quote()
    orders.send_quote(quote_id=quote.pk, actor=sales.person, at=clock.now())

    answer = press(sales, quote, "revise", valid_until="")

    first, second = Quote.objects.order_by("version")
    assert (first.status, second.status, second.version) == ("superseded", "draft", 2)
    assert second.number == first.number
    assert second.lines.get().rate == Decimal(1152)
    assert answer.headers["Location"] == reverse("admin:orders_quote_change", args=[second.pk])
    assert sales.post(reverse("admin:orders_quote_change", args=[first.pk]), {"note": "x"}).status_code == 403


def test_a_quote_in_the_past_is_refused(staff):
    organization = world.customer()
    answer = staff("sales").post(
        reverse("admin:orders_quote_add"),
        {"organization": organization.pk, "valid_until_0": "2026-01-01", "valid_until_1": "12:00", "note": ""},
    )
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors["valid_until"] == ["A quote has to be valid for some time from now."]
    assert not Quote.objects.exists()


def test_unpaid_orders_are_cancelled_together(staff):
    sales = staff("sales")
    waiting, running = world.waiting_order(), world.rental().order_line.order

    answer = choose(sales, "cancel_all", waiting, running)

    waiting.refresh_from_db()
    running.refresh_from_db()
    assert (waiting.status, running.status) == ("expiring", "confirmed")
    last = OrderEvent.objects.filter(order=waiting).last()
    assert (last.status, last.actor) == ("expiring", sales.person)
    assert told(answer) == [
        f"{running.number}: An order in the state “Confirmed” does not allow this.",
        "Done for 1: Cancel the chosen unpaid orders.",
    ]


def test_an_order_is_found_by_its_number(staff):
    order, _other = world.waiting_order(), world.waiting_order()
    answer = staff("sales").get(reverse("admin:orders_order_changelist"), {"q": order.number})
    assert list(answer.context["cl"].result_list) == [order]
    assert Order.objects.count() == 2


# --- prices ----------------------------------------------------------------------------------------------------------
def price_page(price):
    return reverse("admin:catalog_price_change", args=[price.pk])


def test_a_started_price_keeps_its_rate_and_may_get_an_end(staff):
    sales = staff("sales")
    price = world.offer().prices.get(meter="month")
    end = clock.now() + timedelta(days=30)

    form = sales.get(price_page(price)).context["adminform"].form
    assert list(form.fields) == ["valid_to"]
    sales.post(price_page(price), {"rate": "1", "valid_to_0": f"{end:%Y-%m-%d}", "valid_to_1": "00:00"})

    price.refresh_from_db()
    assert price.rate == Decimal(1280)
    assert f"{price.valid_to:%Y-%m}" == f"{end:%Y-%m}"


def test_the_databases_own_refusal_of_a_started_price_is_a_message(staff, transactional_db):
    """The form was opened while the price was still to come; the database looks at its own clock."""
    price = world.offer().prices.get(meter="month")
    sales = staff("sales")

    with time_machine.travel(price.valid_from - timedelta(days=2), tick=False):
        sales.force_login(sales.person, backend="django.contrib.auth.backends.ModelBackend")
        values = {
            "rate": "1",
            "valid_from_0": "2027-01-01",
            "valid_from_1": "00:00",
            "valid_to_0": "",
            "valid_to_1": "",
        }
        answer = sales.post(price_page(price), values)

    price.refresh_from_db()
    assert answer.status_code == 302
    [message] = told(answer)
    assert message.startswith("The database refused this, nothing has changed: ")
    assert "catalog_price" in message
    assert price.rate == Decimal(1280)
    assert LogEntry.objects.count() == 0


def test_a_new_price_ends_the_old_one_where_it_begins(staff):
    old = world.offer().prices.get(meter="month")
    start = (clock.now() + timedelta(days=10)).replace(microsecond=0)

    with time_machine.travel(clock.now(), tick=False):
        press(staff("sales"), old, "replace", rate="1199.5", valid_from=f"{start:%Y-%m-%dT%H:%M:%S}+00:00")

    first, second = Price.objects.filter(offer=old.offer, meter="month").order_by("valid_from")
    assert (first.rate, first.valid_to, second.valid_from) == (Decimal(1280), start, start)
    assert (second.rate, second.valid_to) == (Decimal("1199.5"), None)


def test_a_price_does_not_begin_in_the_past_nor_overlap(staff):
    sales = staff("sales")
    old = world.offer().prices.get(meter="month")

    past = press(sales, old, "replace", rate="1", valid_from="2026-01-01T00:00")
    assert list(past.context["form"].errors) == ["valid_from"]

    later = clock.now() + timedelta(days=5)
    values = {
        "offer": old.offer.pk, "meter": "month", "currency": "CNY", "rate": "1",
        "valid_from_0": f"{later:%Y-%m-%d}", "valid_from_1": "00:00", "valid_to_0": "", "valid_to_1": "",
    }  # fmt: skip
    overlap = sales.post(reverse("admin:catalog_price_add"), values)
    assert overlap.status_code == 200
    assert overlap.context["adminform"].form.errors
    assert Price.objects.filter(offer=old.offer, meter="month").get() == old


# --- finance ---------------------------------------------------------------------------------------------------------
def test_a_bank_payment_settles_an_invoice_and_confirms_its_order(staff):
    finance = staff("finance")
    invoice = world.invoice()

    answer = press(
        finance, invoice, "record_payment", amount="1280.00", reference="ICBC-1", received_at="2026-11-02T10:00:00"
    )

    invoice.refresh_from_db()
    payment = Payment.objects.get()
    assert told(answer) == ["¥1,280.00 recorded under ICBC-1."]
    assert (payment.amount_minor, payment.reference, payment.recorded_by) == (128_000, "ICBC-1", finance.person)
    assert payment.received_at.isoformat() == "2026-11-02T02:00:00+00:00"
    assert (invoice.status, invoice.paid_minor) == ("paid", 128_000)
    assert invoice.order.status == "confirmed"
    assert invoice.events.last().actor == finance.person


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"amount": "0"}, "amount"),
        ({"amount": "1.001"}, "amount"),
        ({"amount": "-5"}, "amount"),
        ({"reference": " "}, "reference"),
        ({"received_at": "2099-01-01T00:00:00"}, "received_at"),
    ],
)
def test_a_payment_that_cannot_be_is_refused_beside_its_field(staff, values, field):
    invoice = world.invoice()
    data = {"amount": "1280.00", "reference": "R-1", "received_at": "2026-11-02T10:00:00"} | values

    answer = press(staff("finance"), invoice, "record_payment", **data)

    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == [field]
    assert not Payment.objects.exists()
    assert Invoice.objects.get().status == "issued"


def test_a_reference_is_booked_once(staff):
    finance = staff("finance")
    first, second = world.invoice(), world.invoice()
    data = {"amount": "1280.00", "reference": "R-1", "received_at": "2026-11-02T10:00:00"}

    press(finance, first, "record_payment", **data)
    answer = press(finance, second, "record_payment", **data)

    second.refresh_from_db()
    assert "already recorded" in str(answer.context["form"].non_field_errors()[0])
    assert (Payment.objects.count(), second.paid_minor, second.status) == (1, 0, "issued")


def test_stripe_out_of_reach_is_a_message_and_the_invoice_keeps_its_error(staff):
    """Nothing listens at the address of Stripe in tests."""
    finance = staff("finance")
    invoice = world.invoice()
    Order.objects.filter(pk=invoice.order_id).update(hold_expires_at=clock.now() + timedelta(hours=1))

    answer = press(finance, invoice, "push_again")

    invoice.refresh_from_db()
    [message] = told(answer)
    assert message.startswith(f"Stripe has not taken {invoice}: ")
    assert (invoice.status, bool(invoice.push_error)) == ("pushing", True)


def test_an_invoice_is_voided_with_a_reason_and_not_once_money_came(staff):
    finance = staff("finance")
    paid, unpaid = world.invoice(), world.invoice()
    Invoice.objects.filter(pk=unpaid.pk).update(collection="bank_transfer")
    press(finance, paid, "record_payment", amount="10", reference="R", received_at="2026-11-02T10:00:00")

    refused = press(finance, paid, "void", note="doubled")
    press(finance, unpaid, "void", note="ordered by mistake")

    paid.refresh_from_db()
    unpaid.refresh_from_db()
    assert "credit note" in str(refused.context["form"].non_field_errors()[0])
    assert (paid.status, unpaid.status) == ("issued", "void")
    event = unpaid.events.last()
    assert (event.note, event.actor) == ("ordered by mistake", finance.person)


def test_the_credit_limit_is_set_in_major_units_and_logged(staff):
    finance = staff("finance")
    organization = world.customer(credit_minor=500_000)
    CreditLine.objects.update(available_minor=300_000)

    answer = press(finance, organization, "set_credit_limit", limit="12000.50")

    line = CreditLine.objects.get()
    assert (line.limit_minor, line.available_minor) == (1_200_050, 1_000_050)
    assert told(answer) == ["The credit limit is ¥12,000.50 now; it was ¥5,000.00."]
    assert "¥5,000.00 → ¥12,000.50" in [entry.change_message for entry in LogEntry.objects.all()]
    assert press(finance, organization, "set_credit_limit", limit="-1").status_code == 200
    assert CreditLine.objects.get().limit_minor == 1_200_050


def test_a_stripe_event_is_applied_again_or_says_why_not(staff):
    finance = staff("finance")
    nothing_to_do, failing = world.stripe_event(type="customer.created", object_id="cus_1"), world.stripe_event()

    assert told(press(finance, nothing_to_do, "apply_again")) == [f"{nothing_to_do} is applied."]
    answer = press(finance, failing, "apply_again")

    failing.refresh_from_db()
    assert StripeEvent.objects.get(pk=nothing_to_do.pk).processed_at is not None
    assert (failing.processed_at, failing.attempts) == (None, 1)
    assert told(answer)[-1].startswith(f"{failing} could not be applied: ")


def test_a_rental_shows_why_it_waits_and_its_timeline(staff):
    rental = world.rental(status="needs_operator", reason="no_capacity", attempts=4)
    page = staff("operations").get(reverse("admin:rentals_rental_change", args=[rental.pk])).text
    assert "The data centre has no room for this machine at the moment." in page
    assert "421 ms" in page
    listed = staff("auditor").get(reverse("admin:rentals_rental_changelist"), {"reason": "no_capacity"})
    assert list(listed.context["cl"].result_list) == [rental]
    assert Rental.objects.count() == 1
