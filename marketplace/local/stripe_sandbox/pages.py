"""The hosted invoice page: what a payer sees. No script, one small style sheet, Chinese and English."""
# ruff: noqa: E501  (texts and the style sheet read best on their own lines)

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from html import escape
from typing import Any
from urllib.parse import parse_qs, quote

_CHINA = timezone(timedelta(hours=8))
_EXPONENTS = {"cny": 2, "usd": 2, "jpy": 0}
_SYMBOLS = {"cny": "¥", "usd": "US$", "jpy": "JP¥"}
_SHOWN_LINES = 250

TEXT = {
    "zh": {
        "lang": "zh-Hans", "other": "English", "other_code": "en",
        "banner": "演示环境：不会产生任何真实扣款", "title": "账单", "number": "账单编号", "to": "付款方", "due": "付款期限",
        "issued": "开具日期", "item": "项目", "amount": "金额", "tax": "其中税额", "total": "应付合计", "net": "已抵扣余额",
        "pay": "支付", "fail": "模拟支付失败", "back": "返回商家", "paid_at": "支付时间",
        "open": "待支付", "paid": "已支付", "void": "已作废", "uncollectible": "无法收回",
        "failed": "支付失败：银行卡被拒绝（模拟）。账单仍待支付，可以再试一次。",
        "done": "付款成功，感谢您。", "voided": "这张账单已作废，无需付款。",
        "missing": "找不到这张账单", "missing_why": "链接可能不完整，或账单已被删除。",
    },
    "en": {
        "lang": "en", "other": "中文", "other_code": "zh",
        "banner": "Sandbox: no real money moves", "title": "Invoice", "number": "Invoice number", "to": "Billed to",
        "due": "Due", "issued": "Issued", "item": "Item", "amount": "Amount", "tax": "Tax included", "total": "Amount due",
        "net": "Balance applied", "pay": "Pay", "fail": "Simulate a failed payment", "back": "Return to the shop",
        "paid_at": "Paid",
        "open": "Open", "paid": "Paid", "void": "Void", "uncollectible": "Uncollectible",
        "failed": "The payment failed: the card was declined (simulated). The invoice is still open; you can try again.",
        "done": "Payment received. Thank you.", "voided": "This invoice was voided. Nothing is owed.",
        "missing": "This invoice cannot be found", "missing_why": "The link may be incomplete, or the invoice was deleted.",
    },
}  # fmt: skip

STYLE = """
:root{color-scheme:light dark;--ink:#17202b;--soft:#586575;--line:#dde2e8;--page:#f3f5f7;--card:#fff;--brand:#1f5fd0;
--on-brand:#fff;--ok:#0b6b3c;--ok-bg:#e3f4ea;--bad:#a3201d;--bad-bg:#fdeceb;--note:#6d4a00;--note-bg:#fff3d6}
@media(prefers-color-scheme:dark){:root{--ink:#e9edf2;--soft:#a3afbd;--line:#333d49;--page:#10151b;--card:#19212a;
--brand:#7fb0ff;--on-brand:#08172f;--ok:#7fdcaa;--ok-bg:#12301f;--bad:#ffa8a3;--bad-bg:#3a1716;--note:#ffd887;--note-bg:#33270a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.6 system-ui,"PingFang SC","Microsoft YaHei","Noto Sans SC",
"WenQuanYi Micro Hei",sans-serif}
.banner{margin:1rem 0;border-radius:.5rem;background:var(--note-bg);color:var(--note);text-align:center;padding:.55rem 1rem;font-size:.9rem;font-weight:600}
main{max-width:40rem;margin:0 auto;padding:0 1rem 3rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.5rem}
header{display:flex;justify-content:space-between;align-items:start;gap:1rem;flex-wrap:wrap}
h1{font-size:1.05rem;margin:0;font-weight:600}
.sum{font-size:2.1rem;line-height:1.2;font-weight:650;margin:.3rem 0 0;font-variant-numeric:tabular-nums}
.state{border-radius:1rem;padding:.1rem .75rem;font-size:.85rem;font-weight:600;background:var(--note-bg);color:var(--note)}
.state.paid{background:var(--ok-bg);color:var(--ok)}
.state.void,.state.uncollectible{background:var(--bad-bg);color:var(--bad)}
dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem;margin:1.25rem 0;font-size:.95rem}
dt{color:var(--soft)}dd{margin:0;text-align:right;overflow-wrap:anywhere}
table{width:100%;border-collapse:collapse;font-size:.95rem}
th{color:var(--soft);font-weight:500;text-align:left}
th,td{border-bottom:1px solid var(--line);padding:.6rem 0;vertical-align:top}
th:last-child,td:last-child{text-align:right;padding-left:1rem;white-space:nowrap;font-variant-numeric:tabular-nums}
td small{display:block;color:var(--soft)}td:first-child{overflow-wrap:anywhere}
tfoot th,tfoot td{border:0;padding:.35rem 0;font-weight:400}tfoot .all>*{color:var(--ink);font-weight:650;padding-top:.75rem}
.message{border-radius:.5rem;padding:.7rem 1rem;margin:1.25rem 0 0}
.message.good{background:var(--ok-bg);color:var(--ok)}.message.bad{background:var(--bad-bg);color:var(--bad)}
form{margin-top:.75rem}.stack{display:grid;gap:.75rem}
fieldset{border:1px solid var(--line);border-radius:.5rem;padding:.5rem 1rem;margin:0;display:grid;gap:.25rem}
label{display:block;padding:.35rem 0}legend{color:var(--soft);padding:0 .25rem}
.actions{margin-top:1.5rem}
button,.button{display:block;width:100%;min-height:3rem;border-radius:.5rem;border:1px solid var(--line);background:none;
color:var(--ink);font:inherit;text-align:center;text-decoration:none;line-height:3rem;padding:0 1rem;cursor:pointer}
button.main,.button.main{background:var(--brand);border-color:var(--brand);color:var(--on-brand);font-weight:600}
:focus-visible{outline:3px solid var(--brand);outline-offset:2px}
footer{margin-top:1rem;text-align:center;font-size:.9rem}a{color:var(--brand)}
"""


def locale_of(query: str, accept: str) -> str:
    """zh or en: `?locale=` first, then the browser's order of preference, else Chinese."""
    wanted = parse_qs(query).get("locale", [""])[0].lower()[:2]
    if wanted in TEXT:
        return wanted
    for part in accept.lower().split(","):
        if part.strip()[:2] in TEXT:
            return part.strip()[:2]
    return "zh"


def money(minor: int, currency: str) -> str:
    digits = _EXPONENTS[currency]
    sign = "−" if minor < 0 else ""
    return f"{sign}{_SYMBOLS[currency]}{abs(Decimal(minor).scaleb(-digits)):,.{digits}f}"


def _day(stamp: int | None) -> str:
    return datetime.fromtimestamp(stamp, UTC).astimezone(_CHINA).strftime("%Y-%m-%d") if stamp else "–"


def frame(locale: str, title: str, body: str) -> str:
    text = TEXT[locale]
    return (
        f'<!doctype html><html lang="{text["lang"]}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<main><p class="banner" role="note">{text["banner"]}</p>{body}'
        f'<footer><a href="?locale={text["other_code"]}" lang="{TEXT[text["other_code"]]["lang"]}">{text["other"]}</a></footer>'
        "</main></body></html>"
    )


def not_found(locale: str) -> str:
    text = TEXT[locale]
    return frame(
        locale, text["missing"], f'<div class="card"><h1>{text["missing"]}</h1><p>{text["missing_why"]}</p></div>'
    )


def invoice(
    shown: dict[str, Any],
    lines: list[dict[str, Any]],
    *,
    locale: str,
    failed: bool,
    token: str,
    return_url: str,
) -> str:
    """The page of a finalized invoice in one of its states."""
    text = TEXT[locale]
    state, amount = shown["status"], money(shown["amount_due"], shown["currency"])
    body = (
        f'<div class="card"><header><div><h1>{text["title"]}</h1><p class="sum">{amount}</p></div>'
        f'<span class="state {state}">{text[state]}</span></header>'
        f"{_message(text, state, failed)}{_facts(text, shown)}{_table(text, shown, lines)}"
        f"{_actions(text, state, amount, token, locale, _return_to(return_url, shown))}</div>"
    )
    return frame(locale, f"{text['title']} {shown['number']}", body)


def _return_to(template: str, shown: dict[str, Any]) -> str:
    """The shop's address, `{number}` and `{any_metadata_name}` filled in."""
    for name, value in {**shown["metadata"], "number": shown["number"]}.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template


def _message(text: dict[str, str], state: str, failed: bool) -> str:
    if state == "paid":
        return f'<p class="message good" role="status">{text["done"]}</p>'
    if state == "void":
        return f'<p class="message bad" role="status">{text["voided"]}</p>'
    return f'<p class="message bad" role="alert">{text["failed"]}</p>' if failed else ""


def _facts(text: dict[str, str], shown: dict[str, Any]) -> str:
    moments = shown["status_transitions"]
    facts = [
        (text["number"], shown["number"]),
        (text["to"], shown["customer_name"] or shown["customer_email"] or "–"),
        (text["issued"], _day(moments["finalized_at"])),
        (text["due"], _day(shown["due_date"])),
    ]
    if moments["paid_at"]:
        facts.append((text["paid_at"], _day(moments["paid_at"])))
    facts += [(field["name"], field["value"]) for field in shown["custom_fields"] or []]
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in facts)}</dl>"


def _table(text: dict[str, str], shown: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    currency = shown["currency"]
    rows = "".join(
        f"<tr><td>{escape(line['description'] or '–')}<small>{_span(line['period'])}</small></td>"
        f"<td>{money(line['amount'], currency)}</td></tr>"
        for line in lines[:_SHOWN_LINES]
    )
    tax = sum(tax["amount"] for tax in shown["total_taxes"])
    foot = f"<tr><th>{text['tax']}</th><td>{money(tax, currency)}</td></tr>"
    if shown["amount_due"] != shown["total"]:
        moved = shown["amount_due"] - shown["total"]
        foot += f"<tr><th>{text['net']}</th><td>{money(moved, currency)}</td></tr>"
    foot += f'<tr class="all"><th>{text["total"]}</th><td>{money(shown["amount_due"], currency)}</td></tr>'
    head = f'<tr><th scope="col">{text["item"]}</th><th scope="col">{text["amount"]}</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody><tfoot>{foot}</tfoot></table>"


def _span(period: dict[str, int]) -> str:
    """From day to day; Stripe's periods include their end."""
    first, last = _day(period["start"]), _day(period["end"])
    return first if first == last else f"{first} – {last}"


def _actions(text: dict[str, str], state: str, amount: str, token: str, locale: str, return_url: str) -> str:
    back = f'<a class="button{" main" if state == "paid" else ""}" href="{escape(return_url)}">{text["back"]}</a>'
    shown = back if return_url else ""
    if state not in {"open", "uncollectible"}:
        return f'<div class="actions">{shown}</div>'
    forms = "".join(
        f'<form method="post" action="/i/{escape(token)}/{action}?locale={locale}">'
        f'<button class="{style}" name="action" value="{action}">{label}</button></form>'
        for action, style, label in (("pay", "main", f"{text['pay']} {amount}"), ("fail", "", text["fail"]))
    )
    return f'<div class="actions">{forms}</div>' + (f'<div class="actions">{shown}</div>' if shown else "")
