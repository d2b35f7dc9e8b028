"""The hosted page of a Checkout Session. No script; the buttons say how the payment shall end."""
# ruff: noqa: E501  (texts read best on their own lines)

from datetime import UTC, datetime, timedelta, timezone
from html import escape
from typing import Any

from .pages import frame, money

_CHINA = timezone(timedelta(hours=8))
WORDS = {
    "zh": {
        "title": "收银台", "setup": "保存支付方式", "for": "用途", "to": "付款方", "until": "页面有效期至", "how": "支付方式",
        "card": "银行卡", "alipay": "支付宝", "wechat_pay": "微信支付",
        "pay": "支付", "save": "保存银行卡 •••• 4242", "fail": "模拟支付失败", "bad": "保存一张以后会被拒付的卡",
        "later": "模拟款项稍后到账", "later_failed": "模拟稍后通知支付失败", "cancel": "返回商家",
        "open": "待支付", "complete": "已完成", "expired": "已过期",
        "failed": "支付失败：付款被拒绝（模拟）。可以再试一次。", "done": "已完成，感谢您。", "over": "此页面已过期，没有扣款。请回到商家重新发起。",
    },
    "en": {
        "title": "Checkout", "setup": "Save a means of payment", "for": "For", "to": "Billed to", "until": "Open until",
        "how": "Pay with", "card": "Card", "alipay": "Alipay", "wechat_pay": "WeChat Pay",
        "pay": "Pay", "save": "Save card •••• 4242", "fail": "Simulate a failed payment",
        "bad": "Save a card that will be declined later",
        "later": "Simulate money that arrives later", "later_failed": "Simulate a failure told later",
        "cancel": "Return to the shop", "open": "Open", "complete": "Complete", "expired": "Expired",
        "failed": "The payment was declined (simulated). You can try again.", "done": "Done. Thank you.",
        "over": "This page has expired and nothing was charged. Please start again in the shop.",
    },
}  # fmt: skip

ACTIONS = {"pay": "paid", "fail": "declined", "later": "later", "later_failed": "later_failed"}


def session(shown: dict[str, Any], facts: dict[str, str], *, locale: str, failed: bool, token: str) -> str:
    """The page of a session in one of its states; `facts` are its payer and what it is for."""
    words = WORDS[locale]
    state = shown["status"]
    title = words["setup"] if shown["mode"] == "setup" else words["title"]
    total = f'<p class="sum">{money(shown["amount_total"], shown["currency"])}</p>' if shown["amount_total"] else ""
    badge = {"complete": "paid", "expired": "void"}.get(state, "open")
    body = (
        f'<div class="card"><header><div><h1>{title}</h1>{total}</div>'
        f'<span class="state {badge}">{words[state]}</span></header>'
        f"{_message(words, state, failed)}{_facts(words, shown, facts)}{_actions(words, shown, token, locale)}</div>"
    )
    return frame(locale, title, body)


def return_to(shown: dict[str, Any]) -> str:
    """Where the payer goes once it is complete."""
    return (shown["success_url"] or "").replace("{CHECKOUT_SESSION_ID}", shown["id"])


def _message(words: dict[str, str], state: str, failed: bool) -> str:
    if state == "complete":
        return f'<p class="message good" role="status">{words["done"]}</p>'
    if state == "expired":
        return f'<p class="message bad" role="status">{words["over"]}</p>'
    return f'<p class="message bad" role="alert">{words["failed"]}</p>' if failed else ""


def _facts(words: dict[str, str], shown: dict[str, Any], facts: dict[str, str]) -> str:
    until = datetime.fromtimestamp(shown["expires_at"], UTC).astimezone(_CHINA).strftime("%Y-%m-%d %H:%M")
    rows = [(words[name], facts[name]) for name in ("for", "to") if facts.get(name)] + [(words["until"], until)]
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in rows)}</dl>"


def _actions(words: dict[str, str], shown: dict[str, Any], token: str, locale: str) -> str:
    if shown["status"] != "open":
        back = return_to(shown) if shown["status"] == "complete" else shown["cancel_url"]
        return f'<div class="actions">{_link(words, back, main=True)}</div>'
    setup = shown["mode"] == "setup"
    first = words["save"] if setup else f"{words['pay']} {money(shown['amount_total'], shown['currency'])}"
    second = words["bad"] if setup else words["fail"]
    buttons = [("pay", "main", first), ("fail", "", second)]
    if not setup:
        buttons += [("later", "", words["later"]), ("later_failed", "", words["later_failed"])]
    pressed = "".join(
        f'<button class="{style}" formaction="/c/{escape(token)}/{action}?locale={locale}">{label}</button>'
        for action, style, label in buttons
    )
    form = f'<form class="stack" method="post">{_choices(words, shown["payment_method_types"])}{pressed}</form>'
    return f'{form}<div class="actions">{_link(words, shown["cancel_url"], main=False)}</div>'


def _choices(words: dict[str, str], kinds: list[str]) -> str:
    options = "".join(
        f'<label><input type="radio" name="method" value="{kind}"{" checked" if kind == kinds[0] else ""}> '
        f"{words[kind]}</label>"
        for kind in kinds
    )
    return f"<fieldset><legend>{words['how']}</legend>{options}</fieldset>"


def _link(words: dict[str, str], url: str | None, *, main: bool) -> str:
    return f'<a class="button{" main" if main else ""}" href="{escape(url)}">{words["cancel"]}</a>' if url else ""
