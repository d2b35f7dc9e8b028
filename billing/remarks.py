"""The code a customer states with a bank transfer, so that finance sees at once whose money it is.

`GP`, eight digits of the billing account's number and two check digits (ISO 7064 MOD 97-10, which catches every single
wrong digit and every swap of neighbours). A pure function of the account: it never changes and is stored nowhere.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from billing.models import BillingAccount

PREFIX: Final = "GP"
DIGITS: Final = 8
_CODE: Final = re.compile(rf"{PREFIX}(\d{{{DIGITS + 2}}})")
# What banks and people put between the characters of a code.
_BETWEEN: Final = re.compile(r"[\s\-_.·]+")


def remark_code(account: BillingAccount) -> str:
    """What this account's customers state in the remark of a transfer (GP0000003881)."""
    return code_of(account.pk)


def code_of(account_id: int) -> str:
    """The code of an account's number. Raises ValueError for one with more than eight digits."""
    if not 0 < account_id < 10**DIGITS:
        raise ValueError(f"no remark code for account {account_id}")
    check = 98 - account_id * 100 % 97
    return f"{PREFIX}{account_id:0{DIGITS}d}{check:02d}"


def ids_in(text: str) -> list[int]:
    """Numbers of accounts whose whole, undamaged codes stand in the text, each once, however they are spaced."""
    plain = _BETWEEN.sub("", unicodedata.normalize("NFKC", text)).upper()
    found = (int(match) for match in _CODE.findall(plain))
    return list(dict.fromkeys(number // 100 for number in found if number % 97 == 1 and number >= 100))


def account_of_remark(text: str) -> BillingAccount | None:
    """The one account whose code stands in the text; None without one, or where several do."""
    ids = ids_in(text)
    return BillingAccount.objects.filter(pk=ids[0]).first() if len(ids) == 1 else None
