"""The figures of Konuru, Moreira and Naik come out in shape from few jobs; the full run is a command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from transcripts import EXAMPLES, ROOT, environment

PAPERS = EXAMPLES / "papers"
SCRIPT = PAPERS / "drms_policies.py"


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        env=environment({"PYTHONPATH": str(ROOT / "src")}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reconfigurable_is_best_and_category_one_gains_most() -> None:
    rows = json.loads(run("--quick", "--json"))
    assert [(row["workload"], row["utilization"]) for row in rows] == [
        (mix, at) for mix in ("05:25:70", "25:25:50", "55:25:20") for at in (0.3, 0.6)
    ]
    for row in rows:
        assert row["LS/RS"] > 1
        assert row["AS/RS"] > 1
        for result in row["policies"].values():
            assert result["jobs"] == 3000
            assert not result["saturated"]
    for row in rows[:4]:
        gains = [row["of_category"][name][0] for name in ("I", "II", "III")]
        assert gains[0] == max(gains) > 1.5
    assert (
        rows[0]["policies"]["AS"]["changes_per_job"]
        == 0
        < rows[0]["policies"]["RS"]["changes_per_job"]
    )


def test_ours_stands_beside_the_papers_words() -> None:
    told = run("--quick", "--processes", "1")
    assert "a factor of two in several instances" in told
    (shown,) = [line.split() for line in told.splitlines() if line.startswith("25:25:50    0.60")]
    assert 1 < float(shown[2]) < 4


def test_fewer_sizes_cost_most_of_the_four_experiments() -> None:
    rows = json.loads(run("--sensitivity", "--quick", "--json"))
    against = {row["label"]: row["against_plain"] for row in rows if row["utilization"] == 0.6}
    assert against["as in Fig. 2"] == 0
    assert against["fewer sizes"] == max(against.values()) > 0.05
    assert len(against) == 7


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
