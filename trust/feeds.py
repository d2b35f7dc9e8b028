"""The status page as an Atom feed."""

from __future__ import annotations

from datetime import datetime

from django.contrib.syndication.views import Feed
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from trust import queries
from trust.models import Incident
from trust.queries import Trouble


class Atom(Atom1Feed):
    """Without incidents it says since when there were none, not the time of the answer."""

    def latest_post_date(self) -> datetime:
        return super().latest_post_date() if self.items else queries.recorded_since()


class StatusFeed(Feed):
    """The newest incidents, each with its updates; an update makes its entry new again."""

    feed_type = Atom

    def title(self) -> str:
        return _("Status of our regions")

    def subtitle(self) -> str:
        return _("Incidents with everything we told of them.")

    def link(self) -> str:
        return reverse("trust:status")

    def feed_url(self) -> str:
        return reverse("trust:feed")

    def items(self) -> list[Trouble]:
        return queries.latest_incidents()

    def item_title(self, item: Trouble) -> str:
        return f"{item.title} · {Incident.Status(item.status).label}"

    def item_description(self, item: Trouble) -> str:
        return format_html_join(
            "",
            "<p><strong>{}</strong> {}: {}</p>",
            ((Incident.Status(one.status).label, f"{one.at:%Y-%m-%d %H:%M} UTC", one.body) for one in item.updates),
        )

    def item_link(self, item: Trouble) -> str:
        return format_html("{}#incident-{}", reverse("trust:status"), item.id)

    def item_pubdate(self, item: Trouble) -> datetime:
        return item.updates[-1].at if item.updates else item.started_at

    def item_updateddate(self, item: Trouble) -> datetime:
        return item.updates[0].at if item.updates else item.started_at
