"""The figures of Konuru, Moreira and Naik come out in shape from few jobs; the full run is a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transcripts import PAPERS, run_paper

SCRIPT = "drms_policies.py"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """What to ask for the figures of a quick run, which is made once."""
    arguments = ("--quick", "--save", str(tmp_path_factory.mktemp("drms") / "runs"))
    run_paper(SCRIPT, *arguments)
    return arguments


def test_reconfigurable_is_best_and_category_one_gains_most(quick: tuple[str, ...]) -> None:
    rows = json.loads(run_paper(SCRIPT, *quick, "--json", "--processes", "1"))
    assert [(row["workload"], row["utilization"]) for row in rows] == [
        (mix, at) for mix in ("05:25:70", "25:25:50", "55:25:20") for at in (0.3, 0.6)
    ]
    for row in rows:
        assert (row["jobs"], row["saturated"]) == (2992, "")
        assert row["of"]["LS"]["ratio"]["value"] > 1
        assert row["of"]["AS"]["ratio"]["value"] > 1
        assert row["of"]["RS"]["ratio"] == {"value": 1, "error": 0}
        # So few jobs say little; how little is told.
        assert 0.015 < row["largest_error"] < 0.25
    for row in rows[:4]:
        gains = [row["of"]["LS"]["ratio_of_category"][name]["value"] for name in ("I", "II", "III")]
        assert gains[0] == max(gains) > 1.5
    changes = [rows[0]["of"][label]["changes_per_job"] for label in ("LS", "AS", "RS")]
    assert changes[:2] == [0, 0] < changes[1:]


def test_ours_stands_beside_the_papers_words(quick: tuple[str, ...]) -> None:
    told = run_paper(SCRIPT, *quick, "--processes", "1")
    assert "a factor of two in several instances" in told
    (shown,) = [line.split() for line in told.splitlines() if line.startswith("25:25:50    0.60")]
    assert 1 < float(shown[2]) < 4


def test_fewer_sizes_cost_most_of_the_four_experiments() -> None:
    row = json.loads(run_paper(SCRIPT, "--sensitivity", "--quick", "--json"))[1]
    ratios = {label: of["ratio"]["value"] for label, of in row["of"].items()}
    assert row["utilization"] == 0.6
    assert ratios["as in Fig. 2"] == 1
    assert ratios["fewer sizes"] == max(ratios.values()) > 1.05
    assert len(ratios) == 7


def test_a_run_goes_on_where_it_was_stopped_and_comes_to_the_same(tmp_path: Path) -> None:
    points = ("--utilizations", "0.3", "--processes", "1", "--json")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    sizes = ("--limit", "1700", "--save")
    told = run_paper(SCRIPT, *points, *sizes, str(whole))
    lines = whole.read_text().splitlines(keepends=True)
    assert len(lines) == 6
    parts.write_text("".join(lines[2:5]))
    assert json.loads(run_paper(SCRIPT, *points, *sizes, str(parts), "--minutes", "0"))[0].keys() == {
        "workload", "utilization", "contenders", "batch", "jobs", "saturated",
    }  # fmt: skip
    assert run_paper(SCRIPT, *points, *sizes, str(parts)) == told
    assert len(parts.read_text().splitlines()) == 6


def test_a_queue_that_grows_without_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    from drms_policies import lines, policies
    from drms_runs import Known
    from drms_simulation import Point, run

    known = Known(Point(policies((25, 25, 50)), "RS", 1.6, 400), share=0.01, limit=100_000)
    known.take(run(known.point, known.begin()))
    assert known.missing == 0
    assert list(lines([known.row()]))[-1].endswith("1.60  the queue of LS grows without end")


def test_points_are_run_until_they_are_known_and_the_nearest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    from drms_applications import Mix
    from drms_runs import Known, next_of
    from drms_simulation import Contender, Point, run

    contenders = (Contender("LS", "LS", Mix((5, 25, 70))), Contender("AS", "AS", Mix((5, 25, 70))))
    points = [Point(contenders, "AS", at, 30) for at in (0.5, 0.2)]
    far, near = (Known(each, share=0.08, limit=510 * 40) for each in points)
    begun: list[Known] = []
    while (one := next_of([far, near])) is not None:
        begun.append(one)
        # The order is not to hang on how busy this computer is.
        one.take(run(one.point, one.begin()) | {"seconds": 1.0 if one is near else 100.0})
    assert begun[:2] == [far, near]
    assert begun[2:] == [near] * (len(near.runs) - 1) + [far] * (len(far.runs) - 1)
    assert 2 <= len(near.runs) < len(far.runs) < 40
    for each in (far, near):
        assert each.error <= 0.08
        assert sorted(each.runs) == list(range(1996, 1996 + len(each.runs)))
    assert Known(points[0], share=0.08, limit=1000).missing == 1


def test_the_workloads_are_those_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    from drms_applications import CATEGORIES, PROCESSORS, SIZES, TABLE_1, Mix, amdahl_errors

    assert len(TABLE_1) == 21
    for each in TABLE_1:
        course = each.course(SIZES[each.category], free_changes=False)
        assert course.total_s(0) == 1000 * each.slowest_s
        assert course.total_s(len(course.sizes) - 1) == 1000 * each.fastest_s
        assert list(course.solution_s) == sorted(course.solution_s, reverse=True)
    rates = Mix((25, 25, 50)).rates(0.6)
    work = dict.fromkeys(CATEGORIES, 0.0)
    for each, rate in zip(TABLE_1, rates, strict=True):
        work[each.category] += rate * 1000 * each.time_s(1) / PROCESSORS
    assert work == pytest.approx({"I": 0.15, "II": 0.15, "III": 0.3})
    errors = amdahl_errors()
    to_one = [error for name, error in errors.items() if " on 1, " in name]
    assert len(to_one) == 8
    assert max(abs(error) for error in to_one) < 0.13


def test_a_lazy_policy_that_skips_nobody_is_worse_than_one_that_does() -> None:
    rows = json.loads(run_paper("drms_readings.py", "--quick", "--json"))
    plain, in_order = rows[:4], rows[4:]
    for skips, skips_nobody in zip(plain, in_order, strict=True):
        assert skips["workload"] == skips_nobody["workload"]
        assert (
            skips_nobody["ratios"]["all jobs"]["value"] > skips["ratios"]["all jobs"]["value"] > 1
        )
