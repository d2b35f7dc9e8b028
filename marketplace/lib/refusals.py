"""What an action raises when it cannot do what was asked."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Text = str | Promise


class Refusal(Exception):
    """What was asked for cannot be done, and nothing has changed. `str()` is the message.

    `code` is stable and for programs; `message` and `next_step` are for the person who asked, in their language;
    `field` names the choice it is about. A class states its own, an instance brings what only it knows.
    """

    code = "refused"
    message: Text = _("This is not possible.")
    next_step: Text = ""
    field = ""

    def __init__(self, code: str = "", message: Text = "", *, field: str = "") -> None:
        super().__init__(code or self.code)
        self.code = code or self.code
        self.message = message or self.message
        self.field = field or self.field

    def __str__(self) -> str:
        return str(self.message)
