"""The page on which a payer pays."""

import re
import urllib.error

import pytest

from marketplace.local.stripe_sandbox import SandboxServer
from tests.stripe.conftest import KEY, open_invoice, post, sdk


@pytest.fixture
def shop():
    with SandboxServer(
        api_key=KEY, validate=True, return_url="https://shop.example/invoices/{invoice_uuid}?a=1&b={number}"
    ) as server:
        yield server
        assert server.take_violations() == []


def page(url, language="zh-CN,zh;q=0.9"):
    with post(url, None, {"Accept-Language": language}) as answer:
        return answer.read().decode()


def test_an_open_invoice_shows_what_is_owed_in_both_languages(shop):
    facts = {"custom_fields": [{"name": "合同", "value": "HT-7"}], "metadata": {"invoice_uuid": "u/1"}}
    invoice = open_invoice(sdk(shop), number="INV-2026-000042", **facts)

    chinese, english = page(invoice.hosted_invoice_url), page(invoice.hosted_invoice_url, "en-GB")

    for text in ("演示环境：不会产生任何真实扣款", "INV-2026-000042", "福州算力有限公司", "RTX 4090 × 2", "待支付",
                 "支付 ¥106.00", "其中税额</th><td>¥6.00", "模拟支付失败", "合同", "HT-7"):  # fmt: skip
        assert text in chinese
    for text in ("Sandbox: no real money moves", "Pay ¥106.00", "Open", "Tax included</th><td>¥6.00"):
        assert text in english
    assert '<html lang="zh-Hans">' in chinese
    assert '<html lang="en">' in english
    assert "Pay ¥106.00" in page(f"{invoice.hosted_invoice_url}?locale=en")
    assert 'href="https://shop.example/invoices/u%2F1?a=1&amp;b=INV-2026-000042"' in chinese
    assert "<script" not in chinese


def test_pay_settles_the_invoice_and_leads_back(shop):
    api = sdk(shop)
    invoice = open_invoice(api)

    with post(f"{invoice.hosted_invoice_url}/pay?locale=zh") as answer:
        text = answer.read().decode()

    assert "付款成功" in text
    assert "支付 ¥" not in text
    assert "返回商家" in text
    paid = api.invoices.retrieve(invoice.id)
    assert (paid.status, paid.amount_paid) == ("paid", 10_600)
    assert [p.status for p in api.invoice_payments.list({"invoice": invoice.id}).data] == ["paid"]


def test_pressing_pay_twice_pays_once(shop):
    api = sdk(shop)
    invoice = open_invoice(api)

    for _ in range(2):
        post(f"{invoice.hosted_invoice_url}/pay").close()

    assert len(api.charges.list().data) == 1
    assert [e.type for e in api.events.list({"type": "invoice.paid"}).data] == ["invoice.paid"]


def test_a_failed_payment_says_so_and_may_be_tried_again(shop):
    api = sdk(shop)
    invoice = open_invoice(api)

    with post(f"{invoice.hosted_invoice_url}/fail?locale=en") as answer:
        text = answer.read().decode()

    assert "The payment failed" in text
    assert "Pay ¥106.00" in text
    failed = api.invoices.retrieve(invoice.id)
    assert (failed.status, failed.attempt_count) == ("open", 1)
    assert [e.type for e in api.events.list({"types": ["invoice.payment_failed"]}).data] == ["invoice.payment_failed"]
    post(f"{invoice.hosted_invoice_url}/pay").close()
    assert api.invoices.retrieve(invoice.id).status == "paid"


def test_a_void_invoice_cannot_be_paid(shop):
    api = sdk(shop)
    invoice = open_invoice(api)
    api.invoices.void_invoice(invoice.id)

    with post(f"{invoice.hosted_invoice_url}/pay?locale=en") as answer:
        text = answer.read().decode()

    assert "This invoice was voided" in text
    assert api.invoices.retrieve(invoice.id).status == "void"
    assert api.charges.list().data == []


def test_text_from_outside_stays_text(shop):
    api = sdk(shop)
    customer = api.customers.create({"name": "<script>alert(1)</script>"})
    invoice = api.invoices.create({"customer": customer.id, "currency": "usd", "number": "<b>1</b>"})
    api.invoice_items.create(
        {
            "customer": customer.id,
            "invoice": invoice.id,
            "amount": 5000,
            "currency": "usd",
            "description": "<img src=x>",
        }
    )

    text = page(api.invoices.finalize_invoice(invoice.id).hosted_invoice_url)

    assert not re.search(r"<script|<img|<b>", text)
    assert "&lt;img src=x&gt;" in text
    assert "US$50.00" in text


@pytest.mark.parametrize(("path", "method"), [("i/nobody", "GET"), ("i/nobody/pay", "POST"), ("elsewhere", "GET")])
def test_an_unknown_page_is_not_found(shop, path, method):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{shop.url}/{path}", b"" if method == "POST" else None)

    assert caught.value.code == 404
    caught.value.close()


def test_pay_needs_a_post(shop):
    invoice = open_invoice(sdk(shop))

    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{invoice.hosted_invoice_url}/pay", None)

    assert caught.value.code == 404
    caught.value.close()
    assert shop.objects("invoice")[0]["status"] == "open"
