"""The calendar benchmark as a command: small work, all engines, traces out and answers in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import calendar as command
from benchmarks.calendars import measure, peers, report, trace, workload
from benchmarks.calendars.engines import Kalends
from benchmarks.calendars.workload import Recipe

from kalends.core.errors import InvalidInput

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["--sizes", "60", "--nodes", "64", "--operations", "12", "--no-progress"]


def recipe(kind: workload.Kind = "capacity", bookings: int = 60) -> Recipe:
    return Recipe(kind, 1, 64 if kind != "unit" else 1, bookings, 12)


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture
def answers_file(tmp_path: Path) -> Path:
    """What the plainest planner answers to a small trace."""
    work, answers = tmp_path / "work.txt", tmp_path / "answers.txt"
    assert command.main(["--only", "capacity", *SMALL, "--write-trace", str(work)]) == 0
    done = run_script("benchmarks/replay_trace.py", str(work))
    assert done.returncode == 0, done.stderr
    answers.write_text(done.stdout)
    return answers


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert command.main([*arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_as_a_script_it_leaves_the_standard_librarys_calendar_alone() -> None:
    script = "benchmarks/calendar.py"
    done = run_script(script, "--only", "unit", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mismatches"] == []
    shown = run_script(script, "--help")
    assert shown.returncode == 0, shown.stderr
    assert "--write-trace" in shown.stdout
    started = f"import runpy; runpy.run_path({script!r}); import calendar; calendar.timegm"
    assert run_script("-c", started).returncode == 0
    for other in ("booking", "startup"):
        shown = run_script(f"benchmarks/{other}.py", "--help")
        assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("kind", workload.KINDS)
def test_all_engines_give_the_same_answers(kind: workload.Kind) -> None:
    work = workload.make(recipe(kind, 0 if kind == "queue" else 60))
    there, missing = peers.installed(kind)
    runs = measure.replay(
        work, [each(work.recipe.nodes) for each in there], 3, measure.Budget(5, 5)
    )
    assert len(there) + len(missing) == len(peers.ENGINES[kind])
    assert all(not run.stopped for run in runs)
    assert all(run.answers.keys() <= runs[0].answers.keys() for run in runs)
    assert len(runs[0].answers) == len(work.operations)
    assert measure.mismatches(work, runs) == []


def test_the_same_recipe_gives_the_same_work_and_another_seed_other_work() -> None:
    first, again = (list(trace.lines(workload.make(recipe()))) for _ in range(2))
    assert first == again
    assert first != list(trace.lines(workload.make(recipe()._replace(seed=2))))
    assert len(first) == 1 + 60 + 11 * 12


@pytest.mark.parametrize("nodes", [1, 2, 64, 1_024])
def test_the_bookings_fit_whatever_the_nodes(nodes: int) -> None:
    work = workload.make(Recipe("capacity", 3, nodes, 400, 5))
    engine = Kalends(nodes)
    engine.prepare_load(work)()
    assert len(work.loaded) == 400


def test_a_wrong_answer_is_printed_and_fails_the_command(
    answers_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = answers_file.read_text().splitlines()
    number, answer, elapsed = lines[-1].split()
    at = next(at for at, line in enumerate(lines) if at > 70 and line.split()[1] not in ("0", "-"))
    number, answer, elapsed = lines[at].split()
    lines[at] = f"{number} {int(answer) + 1} {elapsed}"
    answers_file.write_text("\n".join(lines) + "\n")
    arguments = ["--only", "capacity", *SMALL, "--answers", str(answers_file)]
    assert command.main(arguments) == 1
    shown = capsys.readouterr().out
    assert f"list-of-bookings answered {int(answer) + 1}, kalends {answer}" in shown
    assert "different: 1" in shown


def test_another_planners_answers_stand_among_the_others(
    answers_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = figures(capsys, "--only", "capacity", *SMALL, "--answers", str(answers_file))
    theirs = {row["group"]: row for row in result["rows"] if row["engine"] == "list-of-bookings"}
    assert theirs["fit-wide"]["count"] == 12
    assert theirs["fit-wide"]["p50_us"] > 0
    assert result["mismatches"] == []
    assert {"load", "copy", "state"}.isdisjoint(theirs)


DAMAGE = {
    "an empty file": (None, "", "ends too early"),
    "no header": (1, "hello", ":1"),
    "an unknown version": (1, "kalends-trace 2 kind=capacity", ":1"),
    "a huge trace": (
        1,
        "kalends-trace 1 kind=unit seed=1 nodes=1 bookings=99999999 operations=1 digest="
        + "0" * 16,
        "bookings=99999999 is more than",
    ),
    "no engine": (2, "engine", ":2"),
    "a word for a number": (9, "9 soon 7", ":9"),
    "a negative time": (9, "9 0 -7", ":9"),
    "a huge number": (9, "9 " + "9" * 400 + " 7", ":9"),
    "not a number": (9, "9 nan 7", ":9"),
    "a line twice": (9, "3 0 7", ":9"),
    "other letters": (9, "9 \u0663 7", ":9"),
    "a line beyond the trace": (-1, "99999 0 7", "line 99999"),
    "other work": (1, None, "digest"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_answers_are_refused_with_their_line(
    damage: str, answers_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, text, said = DAMAGE[damage]
    lines = answers_file.read_text().splitlines()
    if at is None:
        lines = []
    elif text is None:
        lines[0] = lines[0].replace("seed=1", "seed=2")
    else:
        lines[at - 1 if at > 0 else at] = text
    answers_file.write_text("\n".join(lines), encoding="utf-8")
    arguments = ["--only", "capacity", *SMALL, "--answers", str(answers_file)]
    assert command.main(arguments) == 2
    refused = capsys.readouterr()
    assert said in refused.err
    assert answers_file.name in refused.err
    assert refused.out == ""


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    endless = tmp_path / "endless.txt"
    endless.write_text("k" * 1_000_000)
    with pytest.raises(InvalidInput, match=r"endless\.txt:1"):
        command.read_answers(str(endless))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "calendars"], "choose from"),
        (["--sizes", "many"], "not a size"),
        (["--sizes", "0"], "not a size"),
        (["--sizes", "nan"], "not a size"),
        (["--sizes", "1e99"], "not a size"),
        (["--rounds", "0"], "rounds"),
        (["--budget-s", "nan"], "budget"),
        (["--only", "unit,queue", "--write-trace", "x"], "a trace holds one"),
        (["--answers", "no-such-file"], "no-such-file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    refused = capsys.readouterr()
    assert said in refused.err
    assert refused.out == ""


def test_an_engine_over_its_budget_is_stopped_and_named() -> None:
    work = workload.make(recipe("unit"))
    runs = measure.replay(work, [Kalends(1)], 2, measure.Budget(group_s=1e-9, load_s=5))
    rows = report.rows(work.recipe, runs)
    stopped = {row["group"]: row["stopped"] for row in rows if row["stopped"]}
    assert "all" in stopped
    assert "after 1 operations" in stopped["all"]
    shown = report.table(
        {"rows": rows, "growth": [], "targets": [], "missing": ["thing"], "compared": 0,
         "mismatches": []}
    )  # fmt: skip
    assert "kalends, unit 1 x 60" in shown
    assert "not installed, so not measured: thing" in shown


def test_targets_are_judged_by_our_figures_only() -> None:
    place = {"kind": "capacity", "nodes": 1_024, "group": "add", "count": 9, "stopped": ""}
    rows = [
        {**place, "bookings": size, "engine": engine, "p50_us": p50, "p99_us": p50}
        for engine, times in (("kalends", (10, 30, 20)), ("SortedDict", (1, 1, 1)))
        for size, p50 in zip((1_000, 100_000, 1_000_000), times, strict=True)
    ]
    verdicts = report.judged(rows, report.growth(rows))
    assert [(each["figure"], each["reached"], each["met"]) for each in verdicts] == [
        ("p50_us", 30, False),
        ("growth", 2.0, True),
    ]
