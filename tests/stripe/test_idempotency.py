"""Keys as https://docs.stripe.com/api/idempotent_requests describes them, and the faults they are there for."""

import threading

import pytest
import stripe

from tests.stripe.conftest import sdk

DAY = 24 * 3600
PARAMS = {"email": "a@example.cn", "name": "甲公司"}
KEYED = {"idempotency_key": "customer:org-1"}


def test_the_same_key_is_the_same_answer(api, sandbox):
    first, second = api.customers.create(PARAMS, KEYED), api.customers.create(PARAMS, KEYED)

    assert first.to_dict() == second.to_dict()
    assert second.last_response.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.last_response.headers
    assert len(sandbox.objects("customer")) == len(sandbox.objects("event")) == 1


@pytest.mark.parametrize(
    "call",
    [lambda api: api.customers.create(PARAMS | {"name": "乙公司"}, KEYED), lambda api: api.invoices.create({}, KEYED)],
    ids=["parameters", "endpoint"],
)
def test_a_key_used_for_something_else_is_refused(api, sandbox, call):
    api.customers.create(PARAMS, KEYED)

    with pytest.raises(stripe.IdempotencyError):
        call(api)

    assert len(sandbox.objects("customer")) == 1
    assert sandbox.objects("invoice") == []


def test_a_key_is_forgotten_after_a_day(api, sandbox):
    first = api.customers.create(PARAMS, KEYED)
    sandbox.advance_clock(DAY - 60)
    assert api.customers.create(PARAMS, KEYED).id == first.id

    sandbox.advance_clock(120)

    assert api.customers.create(PARAMS, KEYED).id != first.id


def test_a_refusal_by_validation_is_not_remembered(api, sandbox):
    with pytest.raises(stripe.InvalidRequestError):
        api.customers.create({"surname": "x"}, KEYED)
    assert len(sandbox.take_violations()) == 1

    assert api.customers.create(PARAMS, KEYED).name == "甲公司"


def test_a_refusal_by_state_is_remembered(api, sandbox):
    customer = api.customers.create(PARAMS)
    invoice = api.invoices.create({"customer": customer.id, "currency": "cny"})
    options = {"idempotency_key": "void"}
    with pytest.raises(stripe.InvalidRequestError):
        api.invoices.void_invoice(invoice.id, {}, options)
    api.invoice_items.create({"customer": customer.id, "invoice": invoice.id, "amount": 500, "currency": "cny"})
    api.invoices.finalize_invoice(invoice.id)

    with pytest.raises(stripe.InvalidRequestError):
        api.invoices.void_invoice(invoice.id, {}, options)

    assert sandbox.objects("invoice")[0]["status"] == "open"


def test_a_key_in_use_is_a_conflict_for_the_other(sandbox):
    sandbox.faults.configure({"requests": [{"kind": "delay", "seconds": 0.2, "method": "POST"}]})
    answers = []

    def create():
        try:
            answers.append(sdk(sandbox, retries=0).customers.create(PARAMS, KEYED).id)
        except stripe.APIError as error:
            answers.append(error.http_status)

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (customer,) = sandbox.objects("customer")
    assert sorted(map(str, answers)) == sorted(["409", customer["id"]])
    assert sdk(sandbox).customers.create(PARAMS, KEYED).id == customer["id"]


def test_the_sdk_rides_over_a_conflict_by_itself(api, sandbox):
    sandbox.faults.configure({"requests": [{"kind": "conflict", "times": 2}]})

    assert api.customers.create(PARAMS, KEYED).id == sandbox.objects("customer")[0]["id"]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
def test_a_dropped_connection_ends_with_one_object(api, sandbox, kind):
    sandbox.faults.configure({"requests": [{"kind": kind, "path": "/v1/customers"}]})

    made = api.customers.create(PARAMS, KEYED)

    assert [customer["id"] for customer in sandbox.objects("customer")] == [made.id]
    assert [key for _, _, key in sandbox.requests] == ["customer:org-1"] * 2


@pytest.mark.parametrize(("kind", "made"), [("error", 0), ("error_after", 1)])
def test_a_500_is_remembered_and_the_sdk_told_not_to_retry(api, sandbox, kind, made):
    sandbox.faults.configure({"requests": [{"kind": kind, "method": "POST"}]})

    for _ in range(2):
        with pytest.raises(stripe.APIError) as caught:
            api.customers.create(PARAMS, KEYED)
        assert (caught.value.http_status, caught.value.headers["stripe-should-retry"]) == (500, "false")

    assert (len(sandbox.objects("customer")), len(sandbox.requests)) == (made, 2)


def test_a_rate_limit_runs_nothing_and_is_forgotten(api, sandbox):
    sandbox.faults.configure({"requests": [{"kind": "limit"}]})
    with pytest.raises(stripe.RateLimitError):
        api.customers.create(PARAMS, KEYED)
    assert sandbox.objects("customer") == []

    assert api.customers.create(PARAMS, KEYED).id == sandbox.objects("customer")[0]["id"]


def test_a_fault_waits_for_its_turn_and_its_address(api, sandbox):
    sandbox.faults.configure({"requests": [{"kind": "limit", "method": "POST", "path": "/v1/customers", "after": 1}]})

    api.tax_rates.create({"display_name": "VAT", "inclusive": True, "percentage": 6})
    api.customers.create(PARAMS)
    with pytest.raises(stripe.RateLimitError):
        api.customers.create(PARAMS)
    api.customers.create(PARAMS)

    assert len(sandbox.objects("customer")) == 2
