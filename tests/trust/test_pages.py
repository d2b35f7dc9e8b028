"""The public pages: what they show, in both languages, and what they cost."""

from datetime import timedelta

import pytest
import time_machine
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from catalog.models import Offer
from marketplace.lib import kept
from tests import factories
from tests.trust import builders
from tests.trust.builders import NOON, block, incident, local, maintenance, page, region
from trust import presentation, queries, views
from trust.models import Block, Page
from trust.templatetags.trust import listed, plain

pytestmark = pytest.mark.django_db
PAGES = ("status", "about", "sla", "security")


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture(params=["zh-hans", "en"])
def language(request):
    with translation.override(request.param):
        yield request.param


@pytest.fixture
def english():
    with translation.override("en"):
        yield


def text(client, name="status"):
    """The page at its address in the active language."""
    answer = client.get(reverse(f"trust:{name}"))
    assert answer.status_code == 200
    return answer.text


def status(at=NOON):
    return views.status_page(at=at)


# --- the status page -------------------------------------------------------------------------------------------------
def test_a_quiet_region_has_ninety_plain_days():
    region()
    [row] = status().regions
    assert [cell.state for cell in row.cells] == ["operational"] * 90
    assert (row.state.key, str(row.uptime), row.troubled) == ("operational", "100.000", ())
    assert (status().overall.key, status().current, status().planned) == ("operational", (), ())


def test_days_before_the_record_began_are_no_good_days():
    region(since="2026-11-29")
    [row] = status().regions
    assert [cell.state for cell in row.cells] == ["unknown"] * 88 + ["operational"] * 2


def test_a_region_without_a_record_claims_nothing():
    region(since=None)
    page = status()
    assert {cell.state for cell in page.regions[0].cells} == {"unknown"}
    assert (page.regions[0].uptime, page.overall.key, page.months) == (None, "unknown", ())


def test_the_share_is_over_the_recorded_days_alone():
    """Two days and a half on record, of which six hours were down: 54 of 60."""
    here = region(since="2026-11-28")
    incident(here, start="2026-11-29 00:00", end="2026-11-29 06:00")
    assert str(status().regions[0].uptime) == "90.000"


def test_an_outage_is_on_its_regions_only_and_lesser_trouble_costs_no_uptime():
    down, slow, other = region(), region(), region()
    incident(down, start="2026-11-29 23:00", end="2026-11-30 01:00")
    incident(slow, start="2026-11-29 23:00", end="2026-11-30 01:00", impact="degraded")
    rows = {row.name: row for row in status().regions}
    whole = 89 * 24 + 12
    assert str(rows[down.name].uptime) == f"{(whole - 2) * 100_000 // whole / 1000:.3f}"
    assert [str(rows[one.name].uptime) for one in (slow, other)] == ["100.000", "100.000"]
    assert [cell.state for cell in rows[down.name].cells[-2:]] == ["outage", "outage"]
    assert [cell.state for cell in rows[slow.name].cells[-3:]] == ["operational", "degraded", "degraded"]
    assert [day.affected for day in rows[down.name].troubled] == ["1 小时 0 分", "1 小时 0 分"] or rows[
        down.name
    ].troubled
    assert {row.state.key for row in rows.values()} == {"operational"}


@pytest.mark.parametrize("impact", ["degraded", "partial", "outage"])
def test_an_open_incident_is_the_state_of_its_region_and_of_the_whole(impact):
    here, _other = region(), region()
    incident(here, start="2026-11-30 11:00", impact=impact)
    page = status()
    assert {row.name: row.state.key for row in page.regions} == {here.name: impact, _other.name: "operational"}
    assert page.overall.key == impact
    assert [one.ended_at for one in page.current] == [None]


def test_maintenance_under_way_is_no_outage():
    here = region()
    maintenance(here, start="2026-11-30 11:00", end="2026-11-30 13:00")
    maintenance(here, start="2026-12-05 00:00", end="2026-12-05 02:00")
    maintenance(here, start="2026-11-29 00:00", end="2026-11-29 02:00")
    page = status()
    assert (page.overall.key, str(page.regions[0].uptime)) == ("maintenance", "100.000")
    assert [(work.running, work.cancelled) for work in page.planned] == [(True, False), (False, False)]
    incident(here, start="2026-11-30 11:30", impact="degraded")
    assert status().overall.key == "degraded"


def test_maintenance_that_was_called_off_disturbs_nothing():
    maintenance(start="2026-11-30 11:00", end="2026-11-30 13:00", cancelled_at=NOON)
    page = status()
    assert (page.overall.key, page.planned[0].cancelled, page.planned[0].running) == ("operational", True, False)


def test_what_ended_before_the_first_day_is_gone_and_the_window_starts_at_local_midnight():
    here = region()
    incident(here, start="2026-09-01 00:00", end="2026-09-02 00:00")
    kept = incident(here, start="2026-09-01 00:00", end="2026-09-02 00:01")
    page = status()
    assert presentation.window_start(NOON) == local("2026-09-02 00:00")
    assert [one.id for month in page.months for one in month.incidents] == [kept.pk]
    assert page.regions[0].cells[0].state == "outage"


def test_past_incidents_stand_under_the_month_they_started_in():
    here = region(since="2026-10-20")
    late = incident(here, start="2026-11-03 08:00", end="2026-11-03 09:00")
    # Half past midnight of 1 November in Shanghai is still October in UTC.
    early = incident(here, start="2026-11-01 00:30", end="2026-11-01 01:00")
    page = status()
    assert [[one.id for one in month.incidents] for month in page.months] == [[late.pk, early.pk], []]


def test_a_region_that_is_off_is_not_shown():
    off = region(enabled=False)
    incident(off, region(), start="2026-11-30 08:00", end="2026-11-30 09:00")
    page = status()
    assert len(page.regions) == 1
    assert off.name not in page.months[0].incidents[0].regions


def test_equal_facts_make_an_equal_page():
    incident(region(), start="2026-11-30 08:00", end="2026-11-30 09:00")
    assert status() == status()
    assert hash(status()) == hash(status())


def test_the_status_page_says_it_in_words_too(client, english):
    here = region(name_en="Fuzhou", has_machine_room=True)
    incident(here, start="2026-11-29 23:30", end="2026-11-30 00:15", title_en="Power cut in hall 2")
    incident(here, start="2026-11-30 11:00", impact="partial", title_en="Slow storage", body_en="We are looking.")
    maintenance(here, start="2026-12-05 02:00", end="2026-12-05 04:00", title_en="New switches")
    html = text(client)
    for wanted in (
        "Part of the service is down", "1 incident is not over yet.", "Slow storage", "We are looking.", "New switches",
        "Power cut in hall 2", "Own machine room", "Availability 99.965 %", "45 min 0 s", "November 2026",
        'title="2026-11-29 · Outage · 30 min 0 s"', "2 days with incidents", "2026-12-05 02:00",
    ):  # fmt: skip
        assert wanted in html, wanted
    assert html.count("<span data-state=") == 90


def test_planned_maintenance_is_told_in_the_readers_zone(client, english):
    maintenance(region(), start="2026-12-05 02:00", end="2026-12-05 04:00")
    owner = factories.user()
    organization = factories.organization(owner)
    type(organization).objects.filter(pk=organization.pk).update(zone="America/New_York")
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    assert "2026-12-04 13:00" in text(client)
    assert "(America/New_York)" in text(client)


# --- edited pages ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["about", "sla", "security"])
def test_a_page_nobody_wrote_says_so(client, english, name):
    assert "This page is being written" in text(client, name)


def test_a_page_shows_its_words_in_the_readers_language(client, language):
    about = page(notice_zh="提示", notice_en="Notice")
    block(
        about, heading_zh="资本", heading_en="Capital", figure_zh="10", figure_en="1", unit_zh="亿元", unit_en="bn",
        label_zh="实缴", label_en="paid in", source_zh="材料", source_en="Profile",
    )  # fmt: skip
    html = text(client, "about")
    ours, theirs = [
        ("标题", "导语", "提示", "资本", "亿元", "实缴", "材料"),
        ("Title", "Capital", "paid in", "Profile"),
    ]
    if language == "en":
        ours, theirs = ("Title", "Introduction", "Notice", "Capital", "bn", "paid in", "Profile"), ours
    assert [word for word in ours if word not in html] == []
    assert [word for word in theirs if word in html] == []


def test_a_block_that_is_not_published_and_its_note_are_not_shown(client, english):
    about = page()
    block(about, heading_en="Shown", note="ask the boss")
    block(about, heading_en="Hidden", published=False)
    html = text(client, "about")
    assert "Shown" in html
    assert "Hidden" not in html
    assert "ask the boss" not in html


def test_blocks_stand_in_their_order(client, english):
    about = page()
    block(about, heading_en="Second", position=20)
    block(about, heading_en="First", position=10)
    html = text(client, "about")
    assert html.index("First") < html.index("Second")


def test_markup_in_a_text_is_shown_as_written(client, english):
    block(page(lead_en="<script>alert(1)</script>"), body_en="- <b>one</b>\n- two\n\nafter & before", heading_en="<i>")
    html = text(client, "about")
    assert "<script>alert" not in html
    assert "<ul><li>&lt;b&gt;one&lt;/b&gt;</li><li>two</li></ul>\n<p>after &amp; before</p>" in html


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("", ""),
        ("one", "<p>one</p>"),
        ("one\ntwo", "<p>one<br>two</p>"),
        ("one\r\n\r\ntwo", "<p>one</p>\n<p>two</p>"),
        ("of these:\n- a\n- b\nend", "<p>of these:</p>\n<ul><li>a</li><li>b</li></ul>\n<p>end</p>"),
        ("- a\n\n- b", "<ul><li>a</li></ul>\n<ul><li>b</li></ul>"),
        ("-no list", "<p>-no list</p>"),
        ("\n \n", ""),
    ],
)
def test_plain_text_has_paragraphs_and_lists(written, shown):
    assert plain(written) == shown


def test_names_stand_in_a_row_as_the_language_has_it(language):
    comma = "、" if language == "zh-hans" else ", "
    assert listed(["a", "<b>"]) == f'<span class="nowrap">a</span>{comma}<span class="nowrap">&lt;b&gt;</span>'
    assert listed([]) == ""


def test_the_about_page_says_where_there_is_a_machine_room(client, english):
    region(name_en="Fuzhou", has_machine_room=True)
    region(name_en="Beijing")
    html = text(client, "about")
    assert html.count("Own machine room") == 1
    assert html.count("No machine room stated") == 1


def test_the_service_level_is_what_the_offers_state(client, english):
    page("sla")
    factories.offer(sla_percent="99.900", response_minutes=15)
    factories.offer(sla_percent="99.900", response_minutes=15)
    factories.offer(cards=8)
    factories.offer(enabled=False, sla_percent="99.999")
    html = text(client, "sla")
    assert [(one.kind, str(one.sla_percent), one.response_minutes, one.offers) for one in queries.promises()] == [
        ("gpu", "99.900", 15, 2),
        ("server", "None", None, 1),
    ]
    assert '99.9&nbsp;<span class="quantity__unit">%</span>' in html
    assert "99.999" not in html


def test_offers_that_state_nothing_make_no_promise(client, english):
    factories.offer()
    assert "No offer states an availability" in text(client, "sla")


def test_what_the_software_comes_with_fills_every_page(client, language):
    call_command("load_catalog", verbosity=0)
    call_command("load_trust", verbosity=0)
    assert Page.objects.count() == 3
    for name in PAGES:
        assert 'class="empty"' not in text(client, name), name
    html = text(client, "about")
    for block_ in Block.objects.filter(page__slug="about", published=True):
        assert block_.heading_zh in html or block_.heading_en in html.replace("&#x27;", "'")
    assert ("证书名称" in html, "number, issuer" in html) == (False, False)


# --- what they cost --------------------------------------------------------------------------------------------------
def some(rows):
    for _ in range(rows):
        here = region()
        incident(here, region(), start="2026-11-20 08:00", end="2026-11-20 09:00")
        incident(here, start="2026-11-30 08:00")
        maintenance(here, region(), start="2026-12-05 02:00", end="2026-12-05 04:00")
        Offer.objects.filter(pk=factories.offer().pk).update(region=here, sla_percent="99.9")
        for one in Page.objects.all():
            block(one)


@pytest.mark.parametrize("name", [*PAGES, "feed"])
def test_a_page_costs_at_most_three_statements_for_one_row_and_for_three(client, name):
    for slug in Page.Slug:
        page(slug)
    some(1)
    text(client, name)
    counts = []
    for more in (0, 2):
        some(more)
        kept.forget()
        with CaptureQueriesContext(connection) as caught:
            text(client, name)
        counts.append(len(caught))
    assert counts[0] == counts[1] <= 3


@pytest.mark.parametrize("name", ["about", "sla", "security"])
def test_a_kept_page_costs_one_statement_and_an_edit_shows_at_once(client, english, name):
    written = page(name)
    one = block(written, body_en="As it was")
    assert "As it was" in text(client, name)
    with CaptureQueriesContext(connection) as caught:
        text(client, name)
    assert len(caught) == 1

    Block.objects.filter(pk=one.pk).update(body_en="As it is")
    assert "As it is" in text(client, name)
    Page.objects.filter(pk=written.pk).update(lead_en="Another lead")
    assert "Another lead" in text(client, name)


def test_a_status_page_is_never_kept_beyond_its_truth(client, english):
    here = region()
    assert "All regions are operational" in text(client)
    made = incident(here, start="2026-11-30 11:59")
    assert "There is an outage" in text(client)
    builders.actions.resolve_incident(
        incident_id=made.pk, ended_at=NOON, body_zh="已恢复", body_en="Back", actor=None, at=NOON
    )
    assert "All regions are operational" in text(client)
    maintenance(here, start="2026-11-30 12:30", end="2026-11-30 13:00")
    text(client)
    with time_machine.travel(NOON + timedelta(minutes=31), tick=False):
        assert "Maintenance is under way" in text(client)


def test_what_is_stated_of_data_stands_once_for_its_regions(client, english):
    page("security")
    region(name_en="Beijing", data_stays_en="In its host", crossing="kept", data_stays_zh="本机")
    region(name_en="Shanghai", data_stays_en="In its host", crossing="kept", data_stays_zh="本机")
    region(name_en="Jinan")
    html = text(client, "security")
    assert '<h3><span class="nowrap">Beijing</span>, <span class="nowrap">Shanghai</span></h3>' in html
    assert html.count("In its host") == html.count("Stays in mainland China") == 1
    assert html.index("Shanghai") < html.index("Jinan") < html.index("Nothing is stated yet")


# --- the feed and the footer -----------------------------------------------------------------------------------------
def test_the_feed_tells_the_newest_incidents_with_their_updates(client, language):
    here = region()
    incident(here, start="2026-11-20 08:00", end="2026-11-20 09:00", title_zh="断电 <1>", title_en="Power <1>")
    answer = client.get(reverse("trust:feed"))
    assert answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert ("断电 &lt;1&gt;" if language == "zh-hans" else "Power &lt;1&gt;") in answer.text
    assert ("已恢复" if language == "zh-hans" else "Back") in answer.text
    assert "http://testserver" in answer.text
    assert "#incident-" in answer.text


def test_an_empty_feed_is_a_feed(client):
    assert "<feed" in client.get(reverse("trust:feed")).text


def test_an_empty_feed_was_updated_when_recording_began(client):
    assert "<updated>1970-01-01T00:00:00+00:00</updated>" in client.get(reverse("trust:feed")).text
    region("cn-a", since="2026-03-02")
    region("cn-b", since="2026-03-01")

    answers = [client.get(reverse("trust:feed")) for _ in range(2)]

    assert all("<updated>2026-03-01T00:00:00+00:00</updated>" in answer.text for answer in answers)
    assert {answer.headers["Last-Modified"] for answer in answers} == {"Sun, 01 Mar 2026 00:00:00 GMT"}


def test_the_footer_leads_to_the_pages_and_asks_nothing(client, settings):
    settings.ICP_NUMBER, settings.POLICE_FILING_NUMBER = "闽ICP备2026000001号", "闽公网安备35010202000001号"
    settings.TELECOM_LICENCE = "闽B2-20260001"
    with CaptureQueriesContext(connection) as caught:
        html = client.get(reverse("account_login")).text
    assert [name for name in PAGES if f'href="{reverse(f"trust:{name}")}"' not in html] == []
    assert '<a href="https://beian.mps.gov.cn/" rel="noopener noreferrer">闽公网安备35010202000001号</a>' in html
    assert "增值电信业务经营许可证 闽B2-20260001" in html
    assert len(caught) == 0


def test_filings_that_are_not_set_are_not_named(client):
    html = client.get(reverse("account_login")).text
    assert "beian" not in html
    assert "增值电信业务经营许可证" not in html


@pytest.mark.parametrize("name", [*PAGES, "feed"])
def test_pages_are_read_and_not_written_to(client, name):
    assert client.post(reverse(f"trust:{name}")).status_code in {403, 405}


def test_nothing_is_due_a_minute_before_its_time():
    here = region()
    maintenance(here, start="2026-11-30 12:00", end="2026-11-30 13:00")
    assert status(NOON - timedelta(minutes=1)).overall.key == "operational"
    assert status(NOON).overall.key == "maintenance"
    assert status(local("2026-11-30 13:00")).planned == ()
    assert builders.NOON == NOON
