"""``kalends check-schedule``, its independence, its page, and the page on workloads."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kalends.cli import cli
from kalends.core.errors import InvalidInput
from kalends.simulation.checking import POLICIES, check
from kalends.simulation.experiment import simulate
from kalends.simulation.job import SimulatedJob
from kalends.simulation.workloads.reservations_file import read_reservations

ROOT = Path(__file__).parents[3]
DATA = ROOT / "examples" / "data"
CHECKING = ROOT / "src" / "kalends" / "simulation" / "checking"
REST = "-1 1 1 1 1 1 1 -1 -1"
LOG = f"1 0 -1 100 6 -1 -1 6 100 {REST}\n2 1 -1 50 8 -1 -1 8 50 {REST}\n3 2 -1 200 2 -1 -1 2 200 {REST}\n"
WRONG = f"1 0 0 100 6 -1 -1 6 100 {REST}\n2 1 201 50 8 -1 -1 8 50 {REST}\n3 2 0 200 2 -1 -1 2 200 {REST}\n"
RIGHT = f"1 0 0 100 6 -1 -1 6 100 {REST}\n2 1 99 50 8 -1 -1 8 50 {REST}\n3 2 148 200 2 -1 -1 2 200 {REST}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.swf").write_text(LOG)
    (tmp_path / "result.swf").write_text(WRONG)
    (tmp_path / "right.swf").write_text(RIGHT)
    return tmp_path


def test_the_page_shows_what_the_command_prints(folder: Path) -> None:
    page = (ROOT / "docs" / "check-schedule.md").read_text()
    shown = re.search(r"```console\n\$ (kalends [^\n]*)\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    done = CliRunner().invoke(cli, shown[1].split()[1:])
    assert (done.stdout, done.exit_code) == (shown[2], 1)


def test_a_right_schedule_is_told_so_and_ends_with_zero(folder: Path) -> None:
    words = ["check-schedule", "log.swf", "right.swf", "--policy", "easy", "--nodes", "8"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    assert done.stdout.endswith("nothing is wrong\n")


def test_a_job_without_a_start_is_missing_and_no_other_finding_follows_from_it(
    folder: Path,
) -> None:
    for unknown in ("1 0 -1 100", "1 0 0 -1"):
        (folder / "result.swf").write_text(RIGHT.replace("1 0 0 100", unknown, 1))
        report = check("log.swf", "result.swf", "any", 8)
        assert [(each.kind, each.job) for each in report.findings] == [("missing", 1)]


def test_promises_are_counted_where_the_policy_makes_some(folder: Path) -> None:
    def second_line(policy: str) -> str:
        words = ["check-schedule", "log.swf", "right.swf", "--policy", policy, "--nodes", "8"]
        return CliRunner().invoke(cli, words).stdout.splitlines()[1]

    assert second_line("easy") == "2 jobs waited at the head of the queue; promises broken: 0"
    assert "got a promise of a later start; promises broken" in second_line("conservative")
    assert "promise" not in second_line("fcfs")


def test_json_has_every_finding(folder: Path) -> None:
    words = [
        "check-schedule",
        "log.swf",
        "result.swf",
        "--policy",
        "easy",
        "--nodes",
        "8",
        "--json",
    ]
    done = CliRunner().invoke(cli, words)
    data = json.loads(done.stdout)["data"]
    assert (done.exit_code, data["kinds"]) == (1, {"delayed": 1, "promise": 1})
    assert data["findings"][1]["by"] == 102


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("", "has no job"),
        ("1 2 3", "3 fields"),
        (WRONG.replace(" 201 ", " x "), "line 2: 'x' is not a valid number"),
        ("job_id,starting_time\n1,2,3\n", "line 2: 3 values for 2 columns"),
        ("job,begin\n1,2\n", "line 2: no start"),
        ("job_id,starting_time\nfirst,2\n", "line 2: no number of a job"),
        (
            "job_id,starting_time,allocated_resources\n1,2,a-b\n",
            "line 2: 'a-b' is not a valid number",
        ),
        ("job_id,starting_time\n1,1e99\n", "line 2: '1e99' is not a valid number"),
        ("\0\1", "is not text"),
    ],
)
def test_a_result_that_cannot_be_read_is_refused_with_its_line(
    folder: Path, result: str, said: str
) -> None:
    (folder / "result").write_text(result)
    with pytest.raises(InvalidInput) as caught:
        check("log.swf", "result", "any", 8)
    assert said in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("row", ["0,500,-6", "0,500,0", "90,90,1", "90,80,1"])
def test_a_reservation_that_is_none_is_refused_with_its_line(folder: Path, row: str) -> None:
    """Fewer than no nodes would make room for jobs that have more than there are."""
    (folder / "kept.csv").write_text(f"start,end,nodes\n5,9,1\n{row}\n")
    with pytest.raises(InvalidInput, match="give 1 node or more") as caught:
        check("log.swf", "result.swf", "any", 8, reservations="kept.csv")
    assert caught.value.where == "kept.csv, line 3"


def test_a_log_with_one_number_for_two_jobs_is_refused_with_its_line(folder: Path) -> None:
    (folder / "log.swf").write_text(f"{LOG}2 9 -1 50 8 -1 -1 8 50 {REST}\n")
    with pytest.raises(InvalidInput, match="job 2 occurs twice") as caught:
        check("log.swf", "right.swf", "any", 8)
    assert caught.value.where == "log.swf, line 4"


def test_unknown_policies_and_absurd_numbers_are_refused(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown policy 'best'"):
        check("log.swf", "result.swf", "best", 8)
    with pytest.raises(InvalidInput, match="nodes"):
        check("log.swf", "result.swf", "any", 0)
    with pytest.raises(InvalidInput, match="estimates"):
        check("log.swf", "result.swf", "any", 8, estimates="guessed")
    with pytest.raises(InvalidInput, match="No such file"):
        check("none.swf", "result.swf", "any", 8)


def test_the_checker_uses_nothing_of_the_simulator_or_the_policies() -> None:
    allowed = ("kalends.core.errors", "kalends.core.limits", "kalends.simulation.checking")
    for path in CHECKING.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert all(not name.startswith("kalends") or name.startswith(allowed) for name in names)


def test_the_page_explains_every_kind_and_every_policy() -> None:
    page = (ROOT / "docs" / "check-schedule.md").read_text()
    kinds: set[str] = set()
    for path in CHECKING.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                assert isinstance(node.args[0], ast.Constant)
                kinds.add(str(node.args[0].value))
    assert len(kinds) == 19
    for word in kinds:
        assert "`" + word + "`" in page
    assert all(policy.split("-")[0] in page for policy in POLICIES if policy != "any")


def test_the_examples_on_the_page_of_workloads_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "workloads.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/workloads.md", "exec"), {})
    assert capsys.readouterr().out.startswith("128 ")
    [table] = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    (tmp_path / "reservations.csv").write_text(table)
    assert len(read_reservations(tmp_path / "reservations.csv", unix_start_s=893_466_664)) == 2


@pytest.mark.parametrize(
    ("nodes_of_2", "kind"), [("2-5", "shared"), ("20-23", "outside"), ("4-7", None), ("5-8", None)]
)
def test_a_node_that_two_jobs_have_and_one_that_is_not_there_are_found(
    tmp_path: Path, nodes_of_2: str, kind: str | None
) -> None:
    log, result = tmp_path / "log.swf", tmp_path / "result.csv"
    log.write_text(
        "; MaxProcs: 8\n"
        + "".join(f"{job} 0 -1 10 4 -1 -1 4 10 -1 1 1 -1 -1 -1 -1 -1 -1\n" for job in (1, 2))
    )
    nodes_of_1 = "1-4" if nodes_of_2 == "5-8" else "0-3"
    result.write_text(
        "job_id,starting_time,finish_time,allocated_resources\n"
        f"1,0,10,{nodes_of_1}\n2,0,10,{nodes_of_2}\n"
    )
    report = check(log, result, "any")
    assert [(finding.kind, finding.job) for finding in report.findings] == (
        [(kind, 2)] if kind else []
    )
    assert report.nodes == 8


@pytest.mark.parametrize(
    ("policy", "options", "resized"),
    [
        ("easy", ("--machine", "mesh2d:8x16:2x2"), 0),
        ("easy", ("--machine", "grid:64+32,32@0.5", "--crossing", "once:0.2"), 0),
        ("easy", ("--speedups", str(DATA / "speedups.json")), 0),
        ("adaptive", ("--speedups", str(DATA / "speedups.json")), 0),
        ("reconfigurable", ("--speedups", str(DATA / "speedups.json")), 30),
    ],
)
def test_jobs_that_run_otherwise_than_the_log_says_are_checked_as_they_ran(
    policy: str, options: tuple[str, ...], resized: int, tmp_path: Path
) -> None:
    log, result = DATA / "sdsc-sp2-excerpt.swf", tmp_path / "result.csv"
    words = ["simulate", str(log), "--policy", policy, *options, "--out", str(result)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert set(check(log, result, "any").kinds) & {"nodes", "run-time"}
    report = check(log, result, "any", as_run=True)
    assert (report.findings, report.resized) == ([], resized)
    if options[0] == "--speedups":
        at_once = re.sub(
            r"(?m)^(([^,]*,){8})\d+,\d+,\d+", r"\g<1>48900000,100,48900100", result.read_text()
        )
        result.write_text(at_once)
        assert set(check(log, result, "any", as_run=True).kinds) >= {"capacity", "shared"}


@pytest.mark.parametrize(
    ("change", "by"),
    [((3, 8, "50"), {"request": [-150]}), ((2, 7, "4"), {"request": [-4]}), ((2, 8, "-1"), {})],
)
@pytest.mark.parametrize("as_csv", [False, True])
def test_a_job_that_asks_for_other_than_in_the_log_is_found(
    folder: Path, change: tuple[int, int, str], by: dict[str, list[int]], as_csv: bool
) -> None:
    job, field, value = change
    lines = [line.split() for line in RIGHT.splitlines()]
    lines[job - 1][field] = value
    text = "".join(" ".join(words) + "\n" for words in lines)
    if as_csv:
        text = "job,start,end,nodes,requested_number_of_resources,requested_time\n" + "".join(
            f"{words[0]},{int(words[1]) + int(words[2])},{int(words[1]) + int(words[2]) + int(words[3])},"
            f"{words[4]},{words[7]},{words[8]}\n"
            for words in lines
        )
    (folder / "changed").write_text(text)
    report = check("log.swf", "changed", "any", 8)
    assert {each.kind: [each.by] for each in report.findings} == by


def test_a_capped_limit_is_checked_as_it_was_decided(folder: Path) -> None:
    """Job 3 is capped to 98 s: now it can go before the head, and has to; it is ended at its limit."""
    capped = RIGHT.replace("3 2 148 200 2 -1 -1 2 200", "3 2 0 98 2 -1 -1 2 98")
    (folder / "capped.swf").write_text(capped)
    words = ["check-schedule", "log.swf", "capped.swf", "--nodes", "8", "--policy", "easy"]
    assert set(check("log.swf", "capped.swf", "easy", 8).kinds) >= {"request", "run-time"}
    assert "add --as-decided" in CliRunner().invoke(cli, words).stderr
    done = CliRunner().invoke(cli, [*words, "--as-decided"])
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "nothing is wrong")
    (folder / "capped.swf").write_text(capped.replace("3 2 0 98 2", "3 2 0 99 2"))
    assert check("log.swf", "capped.swf", "easy", 8, as_decided=True).kinds["run-time"] == 1
    (folder / "capped.swf").write_text(capped.replace("3 2 0 98 2", "3 2 148 98 2"))
    assert check("log.swf", "capped.swf", "easy", 8, as_decided=True).kinds == {"held-back": 1}
    done = CliRunner().invoke(cli, [*words, "--as-decided", "--as-run"])
    assert done.exit_code == 2


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_sizes_that_are_chosen_at_submission_are_checked_as_decided(
    policy: str, tmp_path: Path
) -> None:
    log, result = DATA / "sdsc-sp2-excerpt.swf", tmp_path / "result.csv"
    words = ["simulate", str(log), "--speedups", str(DATA / "speedups.json"), "--out", str(result)]
    assert CliRunner().invoke(cli, [*words, "--policy", policy]).exit_code == 0
    assert check(log, result, policy).findings
    assert check(log, result, policy, as_decided=True).findings == []
    resized = CliRunner().invoke(cli, [*words, "--policy", "reconfigurable", "--force"])
    assert resized.exit_code == 0
    with pytest.raises(InvalidInput, match="changed size while they ran"):
        check(log, result, policy, as_decided=True)


def test_the_rules_of_a_policy_are_for_jobs_as_the_log_has_them(folder: Path) -> None:
    words = ["check-schedule", "log.swf", "right.swf", "--nodes", "8", "--as-run"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    done = CliRunner().invoke(cli, [*words, "--policy", "easy"])
    assert (done.exit_code, "as they are in the log" in done.stderr) == (2, True)


def test_reservations_may_be_dates_and_nodes_may_come_from_the_header(tmp_path: Path) -> None:
    log, result, kept = (tmp_path / name for name in ("log.swf", "result.csv", "kept.csv"))
    log.write_text(
        "; MaxProcs: 8\n; UnixStartTime: 843480031\n"
        "1 0 -1 10 4 -1 -1 4 10 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    )
    result.write_text("job_id,starting_time,finish_time\n1,0,10\n")
    # From 5 s to 10 s of the log.
    kept.write_text("start,end,nodes\n1996-09-23T12:00:36,1996-09-23T14:00:41+02:00,5\n")
    report = check(log, result, "any", reservations=kept)
    assert [(each.kind, each.at_s, each.by) for each in report.findings] == [("reservation", 5, 1)]
    log.write_text(log.read_text().replace("MaxProcs: 8", f"MaxProcs: {10**19}"))
    with pytest.raises(InvalidInput, match=f"MaxProcs: {10**19} is too large"):
        check(log, result, "any")
    log.write_text(log.read_text().replace(f"{10**19}", "some\n; MaxNodes: 8"))
    with pytest.raises(InvalidInput, match="MaxProcs: some is not a whole number"):
        check(log, result, "any")
    log.write_text(log.read_text().replace("Max", "Comment"))
    with pytest.raises(InvalidInput, match="--nodes"):
        check(log, result, "any")


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_check_tells_how_far_it_is_until_all_starts_are_looked_at(
    folder: Path, policy: str
) -> None:
    told: list[tuple[int, int]] = []
    check("log.swf", "right.swf", policy, 8, progress=lambda *each: told.append(each))
    assert told == sorted(told)
    assert {expected for _, expected in told} == {3}
    assert (told[0], told[-1]) == ((1, 3), (3, 3))


DECIMAL_LOG = """\
; MaxProcs: 2
1 0.25 -1 10.5 2 -1 -1 2 20.5 -1 1 1 1 1 1 1 -1 -1
2 1.75 -1 3.25 2 -1 -1 2 5 -1 1 1 1 1 1 1 -1 -1
"""


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_right_schedule_of_a_log_with_decimals_is_right_in_fractions_and_in_seconds(
    tmp_path: Path, policy: str
) -> None:
    log, exact, rounded = (tmp_path / name for name in ("log.swf", "exact.swf", "rounded.csv"))
    log.write_text(DECIMAL_LOG)
    exact.write_text(
        "1 0.25 0 10.5 2 -1 -1 2 20.5 -1 1 1 1 1 1 1 -1 -1\n"
        "2 1.75 9 3.25 2 -1 -1 2 5 -1 1 1 1 1 1 1 -1 -1\n"
    )
    assert check(log, exact, policy).findings == []
    results: list[SimulatedJob] = []
    simulate(log, policy=policy, watchers=[results.append])
    rows = [f"{job.id},{job.submit_s},{job.start_s},{job.end_s},0.5\n" for job in results]
    rounded.write_text("job_id,submission_time,starting_time,finish_time,stretch\n" + "".join(rows))
    assert check(log, rounded, policy).findings == []


def test_findings_in_a_log_with_decimals_are_told_in_seconds(tmp_path: Path) -> None:
    log, result = tmp_path / "log.swf", tmp_path / "result.csv"
    log.write_text(DECIMAL_LOG)
    result.write_text(
        "job_id,submission_time,starting_time,finish_time\n1,0.25,0.25,10.75\n2,1.75,11.25,14.75\n"
    )
    report = check(log, result, "fcfs")
    assert [(each.kind, each.at_s, each.by, each.detail) for each in report.findings] == [
        ("run-time", 11.25, 0.25, "runs 3.5 s, not 3.25 s"),
        ("idle", 10.75, 0.5, "is first, fits, and does not start"),
    ]


def test_wait_and_run_times_with_decimals_are_rounded_after_they_are_added(tmp_path: Path) -> None:
    log, result = tmp_path / "log.swf", tmp_path / "result.swf"
    log.write_text("; MaxProcs: 2\n1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n")
    result.write_text("1 0 0.4 9.6 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n")
    assert check(log, result, "fcfs").findings == []
