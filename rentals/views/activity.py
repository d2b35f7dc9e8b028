"""The activity feed: what happened to orders, machines and invoices, by whom; and the same as a file."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.generic import View

from accounts.access import OrganizationRequired
from accounts.models import Organization
from accounts.permissions import can
from billing.activity import activity as of_invoices
from billing.exports.chunks import Chunks
from billing.exports.to_csv import BOM, IN_MEMORY, harmless
from marketplace.lib import clock
from marketplace.lib.feed import Cursor, Line, merge
from orders.activity import activity as of_orders
from rentals.activity import activity as of_rentals

PAGE = 50
# Lines of the export read at a time.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """A line as it is read: the sentence with its link, and who did it."""

    line: Line
    html: SafeString
    address: str
    who: str


def lines_of(organization: Organization, *, sees_bills: bool, before: Cursor | None, limit: int) -> list[Line]:
    """The newest lines below the cursor; invoices only for those who may see them."""
    sources = [of_orders, of_rentals, *([of_invoices] if sees_bills else [])]
    return merge([source(organization, before, limit) for source in sources], limit)


def told(organization: Organization, lines: list[Line]) -> list[Told]:
    """The lines in the reader's language. One query for who of the actors is a member."""
    members = set(organization.memberships.values_list("user_id", flat=True)) if lines else set()
    return [_told(line, members) for line in lines]


def _told(line: Line, members: set[int]) -> Told:
    address = reverse(line.page, args=[line.key])
    return Told(line, line.html(address), address, who(line, members))


def who(line: Line, members: set[int]) -> str:
    """A member by name; people of the provider are not named to customers."""
    if line.actor_id is None:
        return _("System")
    if line.by_staff and line.actor_id not in members:
        return _("Support staff")
    return line.actor


def recent(organization: Organization, *, sees_bills: bool, limit: int) -> list[Told]:
    """The newest lines of the feed, ready to be shown."""
    return told(organization, lines_of(organization, sees_bills=sees_bills, before=None, limit=limit))


class Activity(OrganizationRequired, View):
    """Everything that happened, newest first; `before` continues below the line that it names."""

    def get(self, request: HttpRequest) -> HttpResponse:
        before = Cursor.read(request.GET.get("before", ""))
        sees_bills = can(self.membership, "bills")
        found = lines_of(self.organization, sees_bills=sees_bills, before=before, limit=PAGE + 1)
        shown = found[:PAGE]
        context = {
            "lines": told(self.organization, shown),
            "older": str(shown[-1].cursor) if len(found) > PAGE else "",
            "is_first": before is None,
        }
        return render(request, "rentals/activity.html", context)


class ActivityExport(OrganizationRequired, View):
    """The whole feed as CSV, newest first: an audit trail in the reader's language."""

    def get(self, request: HttpRequest) -> HttpResponseBase:
        name = f"activity-{clock.local_date(clock.now(), self.organization.zone):%Y%m%d}.csv"
        return StreamingHttpResponse(
            self._file(),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": content_disposition_header(as_attachment=True, filename=name) or ""},
        )

    def _file(self) -> Chunks:
        """Written before the first byte goes out, so that an error is an error page and not half a file."""
        file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed by its reader
        try:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            text.write(BOM)
            sheet = csv.writer(text, lineterminator="\n")
            sheet.writerow([_("Time (%(zone)s)") % {"zone": self.organization.zone}, _("Time (UTC)"), _("What"),
                            _("Object"), _("By"), _("Address")])  # fmt: skip
            sheet.writerows(self._rows())
            text.detach()
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return Chunks(file)

    def _rows(self) -> Iterator[list[str]]:
        zone = ZoneInfo(self.organization.zone)
        members = set(self.organization.memberships.values_list("user_id", flat=True))
        sees_bills, before = can(self.membership, "bills"), None
        while found := lines_of(self.organization, sees_bills=sees_bills, before=before, limit=BATCH):
            for line in found:
                address = settings.SITE_URL + reverse(line.page, args=[line.key])
                times = [line.at.astimezone(place).strftime("%Y-%m-%d %H:%M:%S") for place in (zone, UTC)]
                yield [*times, *map(harmless, (line.text, line.name, who(line, members), address))]
            before = found[-1].cursor
