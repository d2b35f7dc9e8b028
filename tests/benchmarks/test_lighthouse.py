"""Reading Lighthouse's reports, judging a page, and what `make lighthouse` says when something is missing."""

import pytest

from benchmarks.lighthouse import __main__ as command
from benchmarks.lighthouse import pages, reports, tool
from benchmarks.lighthouse.reports import Figures, Targets
from marketplace.local.preflight import Problem

PAGE = "http://127.0.0.1:8000/gpus/"
GOOD = Figures(98, 100, 100, 100, 999.9, 0, 149_999)


def report(*, urls=(PAGE,), broken=(), scores=None, **changes):
    """What of Lighthouse's JSON is read."""
    scores = {"performance": 0.985, "accessibility": 1, "best-practices": 1, "seo": 1} | (scores or {})
    audits = {
        "largest-contentful-paint": {"numericValue": 812.25},
        "cumulative-layout-shift": {"numericValue": 0.0125},
        "total-byte-weight": {"numericValue": 54_813},
        "network-requests": {"details": {"items": [{"url": url} for url in urls]}},
        "alt": {"title": "Images have alt", "score": int("alt" not in broken), "scoreDisplayMode": "binary"},
        "unweighted": {"title": "A hint", "score": 0, "scoreDisplayMode": "binary"},
        "manual": {"title": "Look yourself", "score": None, "scoreDisplayMode": "manual"},
    }  # fmt: skip
    references = [{"id": "alt", "weight": 7}, {"id": "unweighted", "weight": 0}, {"id": "manual", "weight": 1}]
    categories = {
        name: {"score": score, "auditRefs": references if name == "accessibility" else []}
        for name, score in scores.items()
    }
    return {"finalDisplayedUrl": PAGE, "audits": audits, "categories": categories} | changes


def test_a_report_is_read():
    assert reports.read(report()) == Figures(98, 100, 100, 100, 812.25, 0.0125, 54_813)


def test_requests_to_other_hosts_are_seen_and_data_addresses_are_not():
    urls = (PAGE, "data:image/svg+xml,x", "http://127.0.0.1:8001/a.js", "https://cdn.example.com/b.js", PAGE + "x")
    assert reports.read(report(urls=urls)).strange_hosts == ("127.0.0.1:8001", "cdn.example.com")


def test_an_audit_that_costs_points_is_named():
    assert reports.read(report(broken={"alt"}, scores={"accessibility": 0.9})).faults == ("Images have alt",)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"runtimeError": {"code": "NO_FCP", "message": "Nothing was painted."}}, "Nothing was painted"),
        ({"scores": {"seo": None}}, "a score is missing"),
        ({"urls": ()}, "a score is missing"),
    ],
)
def test_a_failed_run_has_no_figures(broken, message):
    with pytest.raises(reports.Unusable, match=message):
        reports.read(report(**broken))


def test_the_median_of_each_figure_counts_and_every_strange_host():
    runs = [
        Figures(98, 100, 100, 100, 900, 0, 50, ("b.example",), ("x",)),
        Figures(90, 100, 100, 92, 1500, 0.2, 52),
        Figures(99, 100, 96, 100, 950, 0, 51, ("a.example",), ("y", "x")),
    ]
    assert reports.middle(runs) == Figures(98, 100, 100, 100, 950, 0, 51, ("a.example", "b.example"), ("x", "y"))


def test_targets_that_are_just_reached_are_not_missed():
    assert Targets(bytes_below=150_000).missed(GOOD) == []


def test_every_missed_target_is_named_with_its_value():
    bad = Figures(97, 99, 92, 90, 1000, 0.004, 150_000, ("cdn.example.com",))
    assert Targets(bytes_below=150_000).missed(bad) == [
        "performance 97, not 98",
        "accessibility 99, not 100",
        "best practices 92, not 100",
        "seo 90, not 100",
        "LCP 1000 ms, not below 1000",
        "CLS 0.004, not 0",
        "150.0 kB, not below 150",
        "requests to cdn.example.com",
    ]
    assert "seo 90, not 100" not in Targets(seo=None).missed(bad)


def test_the_table_shows_what_was_measured():
    assert command.line(command.HEADINGS).split("  ")[0] == "page"
    assert command.line(command.cells("catalogue", GOOD)).split() == [
        *("catalogue", "98", "100", "100", "100", "1000", "0.000", "150.0", "none"),
    ]


def test_the_catalogue_has_a_limit_of_bytes_and_the_console_none_of_search_engines():
    targets = {page.name: page.targets for page in pages.PAGES}
    assert list(targets) == ["home", "catalogue", "offer", "guide", "compare", "console"]
    assert [name for name, one in targets.items() if one.bytes_below is not None] == ["catalogue"]
    assert [name for name, one in targets.items() if one.seo is None] == ["console"]


@pytest.mark.parametrize(
    ("missing", "message"),
    [("chromium", "Lighthouse needs Chromium"), ("node", "Lighthouse needs Node"), ("npm", "npm")],
)
def test_what_is_missing_is_named(monkeypatch, tmp_path, missing, message):
    names = {"chromium": tool.CHROMES, "node": ("node", "nodejs"), "npm": ("npm",)}[missing]
    monkeypatch.setattr(tool.shutil, "which", lambda name: None if name in names else f"/usr/bin/{name}")

    with pytest.raises(Problem, match=message):
        tool.Lighthouse(tmp_path)


@pytest.mark.parametrize("runs", ["0", "-1", "five"])
def test_a_number_of_runs_that_is_none_is_refused(monkeypatch, capsys, runs):
    monkeypatch.setenv("RUNS", runs)
    monkeypatch.setattr("sys.argv", ["lighthouse"])

    assert command.main() == 2
    assert f"RUNS must be a number from 1 on, not {runs}." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missed", "status", "last"),
    [([], 0, "lighthouse: every target reached"), (["home: LCP 1200 ms, not below 1000"], 1, "lighthouse: 1 missed")],
)
def test_the_exit_status_tells(monkeypatch, capsys, missed, status, last):
    monkeypatch.delenv("RUNS", raising=False)
    monkeypatch.setattr("sys.argv", ["lighthouse", "--only", "home"])
    monkeypatch.setattr(
        command,
        "_measure",
        lambda wanted, runs: missed if ([page.name for page in wanted], runs) == (["home"], 5) else 0,
    )

    assert command.main() == status
    assert capsys.readouterr().out.splitlines() == [*missed, last]
