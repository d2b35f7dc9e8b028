"""Who the buyer is to the tax bureau: what may be entered. Pure rules.

The bureau counts in bytes of GBK and knows no character beyond it; limits and forms: vendor specifications of the
电子发票 interfaces (showdoc 2284933012546758, csdn 134638518); the credit code: GB 32100-2015.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.translation import gettext_lazy as _
from stdnum import get_cc_module
from stdnum.cn import ric, uscc
from stdnum.exceptions import ValidationError as BadNumber

from billing.models import TaxProfile
from billing.paper.glyphs import can_print
from marketplace.lib.phone import international
from marketplace.lib.refusals import Refusal, Text

Kind = TaxProfile.Kind
# As the bureau prints them: title alone; address with phone, and bank with account number, as one field each.
MOST_BYTES = 100
FIELDS = ("kind", "country", "title", "tax_id", "address", "phone", "bank", "bank_account", "email")
# Digits and capitals but I, O, S, V and Z.
_CREDIT_CODE = re.compile(r"[0-9A-HJ-NP-RT-UW-Y]{18}")
_TAX_ID = re.compile(r"[0-9A-Z]{2,20}")
_ACCOUNT = re.compile(r"[0-9A-Z][0-9A-Z \-]{3,39}")
_PRINTED_TOGETHER: tuple[tuple[tuple[str, ...], Text], ...] = (
    (("title",), _("The title is longer than 100 bytes; a Chinese character counts as two.")),
    (
        ("address", "phone"),
        _("Address and phone together are longer than 100 bytes; a Chinese character counts as two."),
    ),
    (
        ("bank", "bank_account"),
        _("Bank and account together are longer than 100 bytes; a Chinese character counts as two."),
    ),
)


class TaxProfileInvalid(Refusal):
    """What was entered is no tax profile; `problems` has the messages by field, and nothing was saved."""

    code = "invalid_tax_profile"

    def __init__(self, problems: Mapping[str, list[Text]]) -> None:
        field = next(iter(problems))
        super().__init__(message=problems[field][0], field=field)
        self.problems = dict(problems)


def tidied(entered: Mapping[str, str]) -> dict[str, str]:
    """The fields as they are kept: outer blanks gone, numbers in capitals without separators, China for the Chinese."""
    kept = {name: " ".join(str(entered.get(name) or "").split()) for name in FIELDS}
    kept["tax_id"] = re.sub(r"[\s\-.]", "", kept["tax_id"]).upper()
    kept["bank_account"] = kept["bank_account"].upper()
    kept["country"] = kept["country"].upper() if kept["kind"] == Kind.FOREIGN else "CN"
    return kept


def checked(entered: Mapping[str, str]) -> dict[str, str]:
    """The tidied fields. Raises TaxProfileInvalid with every problem beside its field."""
    kept = tidied(entered)
    problems: dict[str, list[Text]] = {}
    for field, problem in _problems(kept):
        problems.setdefault(field, []).append(problem)
    if problems:
        raise TaxProfileInvalid(problems)
    return kept


def is_credit_code(number: str) -> bool:
    """Whether it is a 统一社会信用代码: 18 characters of its alphabet with the right check character at the end."""
    return bool(_CREDIT_CODE.fullmatch(number)) and uscc.calc_check_digit(number[:17]) == number[17]


def _problems(kept: Mapping[str, str]) -> Iterator[tuple[str, Text]]:
    if kept["kind"] not in Kind.values:
        yield "kind", _("Choose what kind of buyer this is.")
    if not kept["title"]:
        yield "title", _("The title is needed: it stands on every document.")
    for fields, too_long in _PRINTED_TOGETHER:
        unknown = [(field, found) for field in fields if (found := _unknown(kept[field], kind=kept["kind"]))]
        yield from unknown
        if not unknown and printed_bytes(*(kept[field] for field in fields)) > MOST_BYTES:
            yield fields[0], too_long
    if kept["kind"] == Kind.FOREIGN and not _is_abroad(kept["country"]):
        yield "country", _("Choose the country or region outside mainland China.")
    else:
        yield from _of_number(kept)
    yield from _of_reach(kept)


def printed_bytes(*parts: str) -> int:
    """How long the bureau takes the parts to be in one field, a blank between them; what GBK has not counts as two."""
    joined = " ".join(part for part in parts if part)
    return sum(len(c.encode("gbk")) if is_gbk(c) else 2 for c in joined)


def is_gbk(text: str) -> bool:
    try:
        text.encode("gbk")
    except UnicodeEncodeError:
        return False
    return True


def _unknown(text: str, *, kind: str) -> Text:
    """What is wrong with the text's characters; empty for nothing.

    A name abroad may have letters that GBK has not (Møller): no 发票 is issued to it then, invoices are.
    """
    for character in text:
        if character in "<>":
            return _("The characters < and > are not allowed here.")
        if not can_print(character) or (kind != Kind.FOREIGN and not is_gbk(character)):
            shown = {"character": f"{character} (U+{ord(character):04X})"}
            return _("The tax bureau does not know the character %(character)s. Write it as the bureau does.") % shown
    return ""


def _is_abroad(country: str) -> bool:
    return bool(re.fullmatch("[A-Z]{2}", country)) and country != "CN"


def _of_number(kept: Mapping[str, str]) -> Iterator[tuple[str, Text]]:
    number = kept["tax_id"]
    if kept["kind"] == Kind.COMPANY:
        if not number:
            yield "tax_id", _("A company needs its unified social credit code.")
        elif not is_credit_code(number):
            yield (
                "tax_id",
                _(
                    "This is no unified social credit code: 18 digits and capitals without I, O, S, V and Z, the last "
                    "one a check. Compare it with the licence."
                ),
            )
    elif number and kept["kind"] == Kind.INDIVIDUAL and not ric.is_valid(number):
        yield "tax_id", _("This is no resident identity number. It may be left empty.")
    elif number and kept["kind"] == Kind.FOREIGN and not _is_foreign_number(kept["country"], number):
        yield "tax_id", _("This is no valid tax number of the chosen country or region.")


def _is_foreign_number(country: str, number: str) -> bool:
    """By the country's own rule where it is known, else 2 to 20 digits and capitals."""
    if not _TAX_ID.fullmatch(number):
        return False
    rule = get_cc_module(country.lower(), "vat")
    if rule is None:
        return True
    try:
        rule.validate(number)
    except BadNumber:
        return False
    return True


def _of_reach(kept: Mapping[str, str]) -> Iterator[tuple[str, Text]]:
    if kept["phone"]:
        try:
            international(kept["phone"])
        except ValueError:
            yield (
                "phone",
                _("This is no phone number. Landlines need their area code, foreign numbers their +country code."),
            )
    if kept["bank_account"] and not _ACCOUNT.fullmatch(kept["bank_account"]):
        yield "bank_account", _("An account number has 4 to 40 digits, capitals, blanks and hyphens.")
    if bool(kept["bank"]) != bool(kept["bank_account"]):
        missing = "bank" if kept["bank_account"] else "bank_account"
        yield missing, _("Bank and account number belong together: enter both or neither.")
    if kept["email"]:
        try:
            validate_email(kept["email"])
        except ValidationError as problem:
            yield "email", problem.messages[0]
