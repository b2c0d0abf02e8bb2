"""The contention benchmark: its figures from known runs, its command, and that it repeats."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import contention as command
from benchmarks.contenders import figure_two, report
from benchmarks.contenders.customers import Served
from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.figure_two import Use
from benchmarks.contenders.measures import SCHEMES, Length, jain, overtaken, percentile, run
from benchmarks.contenders.network import Costs
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
SHORT = Length(warm_up_s=0.1, seconds=0.3, seconds_max=20.0, bookings_each=1, bookings=10)
HOUR_US = figure_two.HOUR_US


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "benchmarks/contention.py", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def figures(printed: str) -> dict[str, Any]:
    """What was printed, without what depends on the machine."""
    result: dict[str, Any] = json.loads(printed)
    for row in result["rows"]:
        assert row.pop("processor_us") >= 0
    return result


def test_a_quick_run_has_every_scheme_in_every_scenario_and_repeats_exactly() -> None:
    done = run_command("--quick", "--clients", "4")
    assert done.returncode == 0, done.stderr
    again = run_command("--quick", "--clients", "4", "--workers", "2")
    assert again.returncode == 0, again.stderr
    result = figures(done.stdout)
    assert result == figures(again.stdout)
    cells = {(row["scheme"], row["spread"], row["wish"]) for row in result["rows"]}
    assert cells == {(s, p, w) for s in SCHEMES for p in command.SPREADS for w in command.WISHES}
    for row in result["rows"]:
        assert row["bookings"] >= 10
        assert row["messages"] == pytest.approx(
            row["client_messages"] + row["site_messages"], abs=0.02
        )
        assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["longest_ms"]
        assert 0 < row["jain"] <= 1
        assert row["of_disjoint"] == 1 or row["spread"] != "disjoint"
    assert "Figure 2" in done.stderr
    assert "4 clients, 10 resources, Zipf, the first hour" in done.stderr


def test_the_papers_case_leaves_an_hour_idle_with_locks_and_none_with_calendars() -> None:
    rows = {
        name: figure_two.measure(name, figure_two.THE_PAPERS, Costs(), 1)
        for name in ("whole resources", *SCHEMES)
    }
    locked = rows.pop("whole resources")
    assert locked["start_hours"] == [0.0, 1.0, 2.0]
    assert locked["idle_hours"] == pytest.approx(1.0, abs=0.01)
    for row in rows.values():
        assert row["start_hours"] == [0.0, 1.0, 0.0]
        assert row["idle_hours"] == 0


def test_many_jobs_leave_nothing_idle_with_calendars_and_much_with_locks() -> None:
    jobs = figure_two.many_jobs(20, 5, 3)
    locked = figure_two.measure("whole resources", jobs, Costs(), 1)
    booked = figure_two.measure("ours", jobs, Costs(), 1)
    assert booked["idle_hours"] == 0 < locked["idle_hours"]
    assert booked["end_hours"] < locked["end_hours"]


def test_a_job_that_could_have_begun_makes_its_resources_idle_and_one_that_could_not_does_not() -> (
    None
):
    first = Use((0,), 0, 2 * HOUR_US)
    could_not = Use((0, 1), 2 * HOUR_US, 3 * HOUR_US)
    assert figure_two.idle_while_wanted([first, could_not], 0) == 0
    could = Use((1, 2), HOUR_US, 2 * HOUR_US)
    assert figure_two.idle_while_wanted([first, could_not, could], 0) == 2 * HOUR_US
    both_want = Use((1,), HOUR_US, 2 * HOUR_US)
    assert figure_two.idle_while_wanted([both_want, could], 0) == HOUR_US


SEEDS = (1, 2)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_other_seeds_are_other_runs_and_counts_fit_together(scheme: str) -> None:
    rows = [run(scheme, Scenario(6, 5, "zipf"), Costs(), SHORT, seed) for seed in SEEDS]
    for row in rows:
        del row["processor_us"]
        assert row["tries"] >= 1
        assert row["bookings_per_s"] == pytest.approx(row["bookings"] / row["seconds"], rel=0.01)
        kinds = row["by_kind"]
        total = sum(number for kind, number in kinds.items() if not kind.startswith("back"))
        assert total == pytest.approx(row["messages"], abs=0.05)
    assert rows[0] != rows[1]


def served(*spans: tuple[int, int, tuple[int, ...]]) -> list[Served]:
    return [
        Served(Order(n, n, parts), asked_us, told_us, 1, 0)
        for n, (asked_us, told_us, parts) in enumerate(spans)
    ]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 30), st.sets(st.integers(0, 4), min_size=1)),
        max_size=12,
    )
)
def test_overtaking_counts_those_that_came_later_went_earlier_and_wanted_the_same(
    asked: list[tuple[int, int, set[int]]],
) -> None:
    spans = sorted((start + length, start, tuple(parts)) for start, length, parts in asked)
    each = served(*((start, end, parts) for end, start, parts in spans))
    slow = [
        sum(
            1
            for other in each[:at]
            if other.asked_us > mine.asked_us
            and set(other.order.resources) & set(mine.order.resources)
        )
        for at, mine in enumerate(each)
    ]
    assert overtaken(each) == slow


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=9), st.integers(2, 9))
def test_jains_index_is_one_for_equals_and_one_nth_for_one_who_has_all(
    amounts: list[int], factor: int
) -> None:
    index = jain(amounts)
    assert 0 <= index <= 1
    assert jain([amount * factor for amount in amounts]) == index
    assert jain([7] * len(amounts)) == 1
    assert jain([7] + [0] * (factor - 1)) == pytest.approx(1 / factor, abs=1e-4)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_is_not_exceeded_by_its_share(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    below = sum(1 for value in values if value <= found + 0.005)
    assert below >= math.floor(share * len(values))
    assert min(values) - 0.005 <= found <= max(values) + 0.005


def test_the_share_is_of_as_many_clients_of_the_same_scheme_and_wish() -> None:
    def row(spread: str, rate: float, **fields: Any) -> dict[str, Any]:
        return {"scheme": "ours", "clients": 8, "wish": "earliest", "spread": spread,
                "bookings_per_s": rate, **fields}  # fmt: skip

    rows = [row("disjoint", 50.0), row("uniform", 30.0), row("uniform", 30.0, clients=9)]
    report.share_of_disjoint(rows)
    assert [each["of_disjoint"] for each in rows] == [1.0, 0.6, None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--schemes", "luck"], "there is no scheme luck"),
        (["--spreads", "wide"], "there is no spread wide"),
        (["--wishes", "none"], "there is no wish none"),
        (["--clients", "0"], "not a list of positive numbers"),
        (["--resources", "2"], "there are 2"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert said in capsys.readouterr().err


def test_scenarios_without_competition_come_once_and_large_ones_have_several_resources_a_site() -> (
    None
):
    found = list(command.scenarios([4], [10, 1_000], command.SPREADS, ["earliest"]))
    assert [(each.spread, each.resources, each.per_site) for each in found] == [
        ("disjoint", 10, 1),
        ("uniform", 10, 1), ("uniform", 1_000, 5),
        ("zipf", 10, 1), ("zipf", 1_000, 5),
    ]  # fmt: skip
