"""Amounts of renminbi in Chinese capital numerals (人民币大写), as contracts, invoices and cheques state them.

Rules: 支付结算办法, 附件一 正确填写票据和结算凭证的基本规定 (People's Bank of China, 1997).
"""

from __future__ import annotations

_DIGITS = "零壹贰叁肆伍陆柒捌玖"
_PLACES = ("", "拾", "佰", "仟")
# Four digits each: 10⁴, 10⁸, 10¹², 10¹⁶.
_GROUPS = ("", "万", "亿", "兆", "京")
_LARGEST = 10 ** (4 * len(_GROUPS))


def renminbi(amount_minor: int) -> str:
    """An amount in fen as capitals: 1200000 → 人民币壹万贰仟元整, 1640902 → 人民币壹万陆仟肆佰零玖元零贰分.

    Zeros inside the number are one 零; an amount that ends in yuan or jiao ends in 整. Raises ValueError from 10²⁰
    yuan on.
    """
    yuan, fen = divmod(abs(amount_minor), 100)
    if yuan >= _LARGEST:
        raise ValueError("too large to be written in capitals")
    sign = "负" if amount_minor < 0 else ""
    return f"人民币{sign}{_whole(yuan)}{_parts(fen, after_yuan=bool(yuan))}"


def in_words(amount_minor: int, currency: str) -> str:
    """The amount as a Chinese paper states it beside the figure; empty for a currency without such a custom."""
    return renminbi(amount_minor) if currency == "CNY" else ""


def _whole(yuan: int) -> str:
    """The yuan with 元; nothing for none."""
    if not yuan:
        return ""
    text, gap = "", False
    for index in reversed(range(len(_GROUPS))):
        group = yuan // 10 ** (4 * index) % 10_000
        if not group:
            gap = True
            continue
        # One 零 where a digit is missing between what is written and this group.
        if text and (gap or group < 1000):
            text += _DIGITS[0]
        text += _group(group) + _GROUPS[index]
        gap = False
    return f"{text}元"


def _group(group: int) -> str:
    """Up to four digits; zeros between two of them are one 零, those at the end are none."""
    text, gap = "", False
    for place in reversed(range(4)):
        digit = group // 10**place % 10
        if not digit:
            gap = bool(text)
            continue
        text += (_DIGITS[0] if gap else "") + _DIGITS[digit] + _PLACES[place]
        gap = False
    return text


def _parts(fen: int, *, after_yuan: bool) -> str:
    """Jiao and fen; 整 where the amount ends before the fen."""
    jiao, fen = divmod(fen, 10)
    if not jiao and not fen:
        return "整" if after_yuan else "零元整"
    if not fen:
        return f"{_DIGITS[jiao]}角整"
    # A missing jiao is said between yuan and fen.
    tens = f"{_DIGITS[jiao]}角" if jiao else (_DIGITS[0] if after_yuan else "")
    return f"{tens}{_DIGITS[fen]}分"
