"""The verdicts that `make bench` prints."""

import pytest

from benchmarks import __main__, table
from benchmarks.rounds import Sample, compare
from benchmarks.table import Row


def row(ratio, target=0.5, **facts):
    return Row("order", "10 orders/s", "20 orders/s", ratio, target, **facts)


@pytest.mark.parametrize(("ratio", "ok"), [(0.4999, False), (0.5, True), (3.0, True), (0.0, False)])
def test_a_figure_is_ok_from_its_target_on(ratio, ok):
    assert row(ratio).ok is ok


@pytest.mark.parametrize(("sold", "ok"), [(99, False), (100, True), (106, False)])
def test_an_exact_figure_is_ok_at_its_target_only(sold, ok):
    assert row(sold / 100, target=1.0, exact=True).ok is ok


def test_a_ratio_is_never_rounded_up_to_its_target():
    assert row(0.49999).cells()[3:6] == ("0.499", "0.50", "short")
    assert row(1.0, target=1.0, exact=True).cells()[3:6] == ("1.000", "= 1.00", "ok")


def test_a_failed_content_check_is_short_and_says_why():
    wrong = table.failed("rush", "101 sold")

    assert not wrong.ok
    assert table.line(wrong.cells()).split() == ["rush", "wrong", "–", "0.000", "1.00", "short", "–", "101", "sold"]


def test_the_last_line_counts_the_verdicts():
    assert table.summary([row(0.6), row(0.4), row(0.5)]) == "bench: 2 ok, 1 short"
    assert table.summary([]) == "bench: 0 ok, 0 short"


@pytest.mark.parametrize(("ratio", "status"), [(0.5, 0), (0.4, 1)])
def test_the_exit_status_tells(monkeypatch, capsys, ratio, status):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "order"])
    monkeypatch.setattr(__main__, "_measure", lambda names: [row(ratio)] if names == ["order"] else [])

    assert __main__.main() == status
    assert capsys.readouterr().out.splitlines()[-1] == f"bench: {1 - status} ok, {status} short"


def test_rounds_are_interleaved_and_the_ratio_is_the_median_of_their_own_ratios():
    order = []
    rates = iter([99.0, 10.0, 20.0, 1000.0])
    others = iter([1.0, 20.0, 10.0, 1000.0])

    def ours():
        order.append("ours")
        return Sample(next(rates), 2.0)

    def reference():
        order.append("reference")
        return Sample(next(others), 4.0)

    result = compare(ours, reference, rounds=3)

    assert order == ["ours", "reference"] * 2 + ["reference", "ours"] + ["ours", "reference"]
    assert (result.ratio, result.ours, result.reference) == (1.0, Sample(20.0, 2.0), Sample(20.0, 4.0))
    assert result.cpu == "2.0 / 4.0"


def test_a_ratio_of_times_is_ok_up_to_its_target_and_never_shown_below_itself():
    assert row(1.3, 1.3, at_most=True).ok
    assert not row(1.3001, 1.3, at_most=True).ok
    assert row(1.3001, 1.3, at_most=True).cells()[3:6] == ("1.301", "≤ 1.30", "short")
