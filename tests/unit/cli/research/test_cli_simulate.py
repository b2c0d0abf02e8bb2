"""``kalends simulate``: what it prints and writes, and how it refuses; each in the program itself."""

from __future__ import annotations

import csv
import gzip
import hashlib
import html
import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import command_line
import pytest
from click.testing import CliRunner, Result
from command_line import Run

import kalends
from kalends.cli import cli
from kalends.simulation.experiment import simulate

EXCERPT = Path(__file__).parents[4] / "examples" / "data" / "sdsc-sp2-excerpt.swf"

LOG = """; MaxProcs: 4
1 0 -1 100 4 -1 -1 4 100 -1 1 7 -1 -1 -1 -1 -1 -1
2 10 -1 50 2 -1 -1 2 60 -1 1 7 -1 -1 -1 -1 -1 -1
3 20 -1 5 1 -1 -1 1 30 -1 1 8 -1 -1 -1 -1 -1 -1
"""
METRICS = {
    "policy", "jobs", "nodes", "mean_wait_s", "median_wait_s", "p95_wait_s", "mean_response_s",
    "mean_bounded_slowdown", "utilization", "makespan_s", "mean_queue_depth", "max_queue_depth",
    "throughput_per_s", "predictions", "by", "seconds", "jobs_per_second", "dropped", "cut", "damaged",
    "rounded", "parts", "partitions", "provenance",
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.swf"
    path.write_text(LOG)
    return path


@pytest.fixture
def run(log: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(log.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return lambda *words: CliRunner().invoke(cli, ["simulate", *words])


def data(result: Result, kind: str = "simulated") -> Any:
    return command_line.data(result, kind)


def test_a_log_is_replayed_on_the_machine_that_its_header_names(run: Run) -> None:
    result = run("tiny.swf")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "3 jobs on 4 nodes; times in seconds",
        "POLICY  WAIT  MEDIAN  P95  SLOWDOWN    UTIL  MAKESPAN  QUEUE  MAX",
        "easy      57      80   90      4.10  84.17%       150    1.1    2",
    ]


def test_the_best_value_of_each_column_is_marked(run: Run) -> None:
    lines = run("tiny.swf", "--nodes", "4", "--policy", "fcfs,easy,easy").stdout.splitlines()
    assert len(lines) == 4
    assert "*" not in "".join(lines)
    result = run(str(EXCERPT), "--policy", "easy,fcfs")
    assert result.stdout.splitlines()[1:] == [
        "POLICY    WAIT   MEDIAN      P95   SLOWDOWN     UTIL   MAKESPAN   QUEUE   MAX",
        "easy     4,526*       0*  26,469*     20.97*  58.11%    686,922     2.2*   34*",
        "fcfs    16,124   15,188   37,107     130.29   58.35%*   684,176*    7.8    83",
    ]


def test_json_has_every_metric_and_is_the_same_but_for_its_times(run: Run) -> None:
    first, second = (data(run("tiny.swf", "--policy", "easy,fcfs", "--json")) for _ in range(2))
    assert [each["policy"] for each in first] == ["easy", "fcfs"]
    for one, other in zip(first, second, strict=True):
        assert set(one) >= METRICS
        for name in ("seconds", "jobs_per_second"):
            del one[name], other[name]
        assert one == other


def test_jobs_that_are_left_out_are_counted_and_named(run: Run, log: Path) -> None:
    log.write_text(LOG + "9 30 -1 0 1 -1 -1 1 30 -1 1 8 -1 -1 -1 -1 -1 -1\n")
    result = run("tiny.swf", "--nodes", "3")
    assert result.stderr.splitlines() == [
        "kalends: 1 job dropped, more processors than the machine has (line 2: job 1 with 4)",
        "kalends: 1 job dropped, no run time (line 5: job 9)",
    ]
    (each,) = data(run("tiny.swf", "--nodes", "3", "--json"))
    assert {reason: tally["count"] for reason, tally in each["dropped"].items()} == {
        "more processors than the machine has": 1, "no run time": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiny.swf", "--policy", "eesy"], "did you mean easy"),
        (["tiny.swf", "--policy", "mine:Mine"], "cannot be loaded"),
        (["tiny.swf", "--nodes", "0"], "give 1 to"),
        (["nothing.swf"], "No such file"),
        (["."], "is not a regular file"),
        ([], "kalends simulate LOG"),
        (["tiny.swf", "--generate", "poisson", "--nodes", "4"], "both a log and --generate"),
        (["--generate", "poisson"], "--nodes N"),
        (["--generate", "poisoned", "--nodes", "4"], "unknown workload"),
        (["tiny.swf", "--estimates", "good"], "'good' is not one of"),
        (["tiny.swf", "--out", "tiny.swf"], "or --force to replace it"),
        (["tiny.swf", "--out", "tiny.swf", "--force"], "this is the log itself"),
        (["tiny.swf", "--force"], "give --out or --plot"),
        (["tiny.swf", "--out", "nowhere/out.csv", "--force"], "cannot be made"),
        (["tiny.swf", "--loads", "1", "--out", "nowhere/out.json"], "cannot be made"),
        (["tiny.swf", "--out", "nowhere/out.csv"], "cannot be made"),
        (["tiny.swf", "--out", "out.txt"], "ends in .swf, .csv, .json"),
        (["tiny.swf", "--plot", "out.gif"], "ends in .png, .svg, .pdf"),
        (["tiny.swf", "--machine", "grid:4+x"], "is not a number of nodes"),
        (["tiny.swf", "--machine", "grid:2+2", "--nodes", "5"], "the machine has 4"),
        (["tiny.swf", "--components", "total:2"], "requires --machine grid"),
        (["tiny.swf", "--machine", "grid:2+2", "--components", "total"], "KIND:LARGEST"),
        (["tiny.swf", "--reservations", "nothing.csv"], "No such file"),
        (["tiny.swf", "--speedups", "nothing.json"], "No such file"),
        (["tiny.swf", "--speedups", "tiny.swf"], "JSON is malformed"),
        (["tiny.swf", "--loads", "1,x"], "is not a list of numbers"),
        (["tiny.swf", "--loads", "0", "--cores", "1"], "a number above 0"),
        (["tiny.swf", "--loads", ""], "--loads: the value is empty"),
        (["tiny.swf", "--loads", "1e-300", "--cores", "1"], "after the year 3000"),
        (["tiny.swf", "--loads", "1e-308", "--cores", "1"], "after the year 3000"),
        (["--generate", "uniform", "--nodes", "4"], "e.g. uniform:nodes=uniform(1,4)"),
        (["tiny.swf", "--by", "nodes,"], "unknown job class ''"),
        (["tiny.swf", "--by", ""], "--by: the value is empty"),
        ([""], "the value is empty"),
        (["tiny.swf", "--out", ""], "--out: the value is empty"),
        (["tiny.swf", "--repeat", "3"], "shake the submissions"),
        (["tiny.swf", "--shake", "5"], "has no unit"),
        (["tiny.swf", "--cores", "2"], "requires a sweep"),
        (["tiny.swf", "--dask", "tcp://127.0.0.1:1"], "requires a sweep"),
        (["tiny.swf", "--nodes", "9" * 20], "give 1 to"),
        (["tiny.swf", "--policy", ","], "unknown policy ''"),
        (["tiny.swf", "--policy", "easy-slack:²"], "is not a whole number"),
        (["tiny.swf", "--policy", "easy-slack"], "easy-slack needs a number"),
        (["tiny.swf", "--policy", "EASY-SJBF"], "did you mean easy-sjbf"),
        (["tiny.swf", "--policy", "os:system"], "os:system: is not a class"),
        (["tiny.swf", "--machine", "gridlock"], "is not a grid"),
        (["tiny.swf", "--machine", "mesh2d:99999x99999"], "are more than"),
        (["tiny.swf", "--loads", "nan", "--cores", "1"], "a number above 0"),
        (["tiny.swf", "--out", "/proc/out.swf"], "cannot be made"),
        (["/dev/zero", "--nodes", "4"], "is not a regular file"),
        (["tiny.swf", "--loads", "1", "--out", "out.csv"], "ends in .json"),
        (["tiny.swf", "--loads", "1", "--plot", "out.gif"], "ends in .png, .svg, .pdf"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words_and_writes_nothing(
    run: Run, log: Path, words: list[str], said: str
) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert [path.name for path in log.parent.iterdir()] == ["tiny.swf"]
    assert log.read_text() == LOG


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no job"),
        ("; MaxProcs: 4\n", "has no job"),
        (LOG.replace("100 -1 1 7", "1x0 -1 1 7", 1), "line 2"),
        (LOG + "4 5 -1 5 1 -1 -1 1 30 -1 1 8 -1 -1 -1 -1 -1 -1\n", "line 5"),
        (LOG[:-20], "line 4"),
        (LOG.replace("MaxProcs: 4", "No machine"), "--nodes N"),
        (LOG.replace("4", "some\n; MaxNodes: 4", 1), "MaxProcs: 'some' is not a whole number"),
        (LOG.replace("MaxProcs: 4", f"MaxProcs: {10**19}"), f"MaxProcs: {10**19} is more nodes"),
    ],
)
def test_a_log_that_is_wrong_is_refused_with_the_line(
    run: Run, log: Path, content: str, said: str
) -> None:
    log.write_text(content)
    result = run("tiny.swf", "--out", "out.csv")
    assert (result.exit_code, "try: " in result.stderr) == (2, True)
    assert said in result.stderr
    assert [path.name for path in log.parent.iterdir()] == ["tiny.swf"]


def test_what_unpacks_to_a_gigabyte_is_refused_before_it_has_been_unpacked(
    run: Run, log: Path
) -> None:
    for content in (b"\0", b"\n", b" "):
        packed = gzip.compress(content * (1 << 22), 1) * 250
        log.write_bytes(gzip.compress(b"; MaxProcs: 4\n") + packed)
        result = run("tiny.swf")
        assert (result.exit_code, "try: " in result.stderr) == (2, True)


def test_speed_ups_that_are_no_numbers_are_refused(run: Run, log: Path) -> None:
    for value in ("NaN", "1e400", "-1", "0", "[" * 100_000):
        file = log.parent / "bad.json"
        file.write_text(f'{{"classes": [{{"sizes": [1, 2], "times": [{value}, 3]}}]}}')
        result = run("tiny.swf", "--speedups", "bad.json")
        assert (result.exit_code, "bad.json" in result.stderr) == (2, True)


def test_damaged_and_unsorted_logs_are_replayed_on_request(run: Run, log: Path) -> None:
    log.write_text(LOG + "broken\n4 5 -1 5 1 -1 -1 1 30 -1 1 8 -1 -1 -1 -1 -1 -1\n")
    result = run("tiny.swf", "--damaged", "skip", "--sort")
    assert result.stdout.startswith("4 jobs on 4 nodes")
    assert "1 damaged line" in result.stderr


def test_each_policy_has_a_file_of_its_jobs(run: Run, log: Path) -> None:
    assert run("tiny.swf", "--policy", "easy,fcfs", "--out", "out.swf").exit_code == 0
    assert run("tiny.swf", "--out", "out.csv").exit_code == 0
    assert run("tiny.swf", "--out", "out.json").exit_code == 0
    directory = log.parent
    for policy in ("easy", "fcfs"):
        lines = (directory / f"out-{policy}.swf").read_text().splitlines()
        assert [line.split()[:5] for line in lines if not line.startswith(";")] == [
            ["1", "0", "0", "100", "4"], ["2", "10", "90", "50", "2"], ["3", "20", "80", "5", "1"],
        ]  # fmt: skip
        assert any(f'"policy":"{policy}"' in line for line in lines)
    assert (directory / "out.csv").read_text().count("\n") == 4
    envelope = json.loads((directory / "out.json").read_text())
    assert (envelope["kind"], envelope["data"][0]["jobs"]) == ("simulated", 3)


def test_results_written_as_a_log_are_a_log_with_the_same_jobs(run: Run, log: Path) -> None:
    assert run(str(EXCERPT), "--out", "out.swf").exit_code == 0
    again = simulate(log.parent / "out.swf", policy="easy", nodes=128)
    assert again.mean_wait_s == simulate(EXCERPT, policy="easy").mean_wait_s


def test_speed_ups_make_jobs_of_a_log_moldable_under_every_policy(run: Run) -> None:
    words = (str(EXCERPT), "--speedups", str(EXCERPT.parent / "speedups.json"))
    names = "lazy,adaptive,reconfigurable,easy,fcfs"
    results = data(run(*words, "--policy", names, "--json"))
    assert [each["policy"] for each in results] == names.split(",")
    assert [each["reconfigurations"] > 0 for each in results] == [False, False, True, False, False]
    rigid = data(run(str(EXCERPT), "--policy", "easy", "--json"))
    assert rigid[0]["mean_response_s"] != results[3]["mean_response_s"]
    heading, *rows = run(*words, "--policy", "lazy,reconfigurable").stdout.splitlines()[1:]
    assert heading.split()[-1] == "CHANGES"
    assert [row.split()[-1] for row in rows] == ["0", str(results[2]["reconfigurations"])]


def test_in_a_grid_a_reservation_of_a_part_delays_its_jobs_and_nodes_are_those_of_the_part(
    run: Run, log: Path
) -> None:
    (log.parent / "kept.csv").write_text("start,end,nodes,part\n0,1000,2,1\n")
    words = ("tiny.swf", "--machine", "grid:4+2", "--out", "out.csv")
    assert run(*words).exit_code == 0
    rows = [row.split(",") for row in (log.parent / "out.csv").read_text().splitlines()[1:]]
    assert [(row[8], row[14]) for row in rows] == [("0", "0-3"), ("10", "4-5"), ("60", "4")]
    (log.parent / "out.csv").unlink()
    assert run(*words, "--reservations", "kept.csv").exit_code == 0
    rows = [row.split(",") for row in (log.parent / "out.csv").read_text().splitlines()[1:]]
    assert [(row[8], row[14]) for row in rows] == [("0", "0-3"), ("100", "0-1"), ("100", "2")]
    refused = run("tiny.swf", "--reservations", "kept.csv")
    assert (refused.exit_code, "has no parts" in refused.stderr) == (2, True)


def test_results_are_replaced_only_where_that_is_wanted(run: Run, log: Path) -> None:
    names = ("out-easy.csv", "out-fcfs.csv")
    words = ("tiny.swf", "--policy", "easy,fcfs", "--out", "out.csv")
    assert run(*words).exit_code == 0
    made = [(log.parent / name).read_bytes() for name in names]
    (log.parent / names[1]).write_text("mine")
    assert run(*words).exit_code == 2
    assert (log.parent / names[1]).read_text() == "mine"
    assert run(*words, "--force").exit_code == 0
    assert [(log.parent / name).read_bytes() for name in names] == made
    for suffix in ("json", "swf"):
        (log.parent / f"out.{suffix}").write_text("old")
        assert run("tiny.swf", "--out", f"out.{suffix}", "--force").exit_code == 0
        assert (log.parent / f"out.{suffix}").read_text() != "old"
    (log.parent / "sweep.json").write_text("old")
    swept = ("tiny.swf", "--loads", "1", "--cores", "1", "--out", "sweep.json")
    assert (run(*swept).exit_code, run(*swept, "--force").exit_code) == (2, 0)
    assert not [path for path in log.parent.iterdir() if path.name.startswith(".")]


def test_a_failed_replay_leaves_the_old_result(run: Run, log: Path) -> None:
    (log.parent / "out.csv").write_text("old")
    (log.parent / "torn.swf").write_text(LOG + "4 30 -1 x\n")
    assert run("torn.swf", "--out", "out.csv", "--force").exit_code == 2
    assert (log.parent / "out.csv").read_text() == "old"
    (log.parent / "folder.csv").mkdir()
    refused = run("tiny.swf", "--out", "folder.csv", "--force")
    assert (refused.exit_code, "not a regular file" in refused.stderr) == (2, True)


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_full_disk_is_told_before_the_run(run: Run, log: Path, force: list[str]) -> None:
    """A log that cannot be read would be refused, if it were read first."""
    (log.parent / "torn.swf").write_text(LOG + "4 30 -1 x\n")
    if force:
        (log.parent / "out.csv").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        told = run("torn.swf", "--out", "out.csv", *force)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.exit_code == 1
    assert "free some space there" in told.stderr
    left = sorted(path.name for path in log.parent.iterdir())
    assert left == sorted(["tiny.swf", "torn.swf", *(["out.csv"] if force else [])])


def test_a_users_own_policy_is_found_in_the_current_directory(run: Run, log: Path) -> None:
    (log.parent / "my_rules.py").write_text(
        "from kalends.scheduling.policies.ordered.fcfs import Fcfs\n"
        "class Mine(Fcfs):\n    pass\n"
        "class Broken(Fcfs):\n    def schedule(self, now):\n        return 1 / 0\n"
        "class Idle(Fcfs):\n    def schedule(self, now):\n        pass\n"
        "class Late(Fcfs):\n    def __init__(self, cluster, from_s: int = 0):\n"
        "        super().__init__(cluster)\n        self.from_s = from_s\n"
        "    def schedule(self, now):\n"
        "        if now >= self.from_s:\n            super().schedule(now)\n"
        "    def wake_at(self, now):\n"
        "        return self.from_s if now < self.from_s else None\n"
    )
    mine, fcfs = data(run("tiny.swf", "--policy", "my_rules:Mine,fcfs", "--json"))
    assert mine["mean_wait_s"] == fcfs["mean_wait_s"]
    names = "my_rules:Late,my_rules:Late:from_s=9000"
    soon, late = data(run("tiny.swf", "--policy", names, "--json"))
    assert soon["mean_wait_s"] == fcfs["mean_wait_s"]
    assert late["max_wait_s"] >= 8_000
    taught = run("tiny.swf", "--policy", "my_rules:Late:two", "--out", "not.csv")
    assert (taught.exit_code, "from_s: int = 0" in taught.stderr) == (2, True)
    broken = run("tiny.swf", "--policy", "my_rules:Broken")
    assert broken.exit_code in (1, 2)
    assert "my_rules" in broken.stderr
    assert "division by zero" in broken.stderr
    idle = run("tiny.swf", "--policy", "my_rules:Idle")
    assert idle.exit_code in (1, 2)
    assert "3 jobs were never started" in idle.stderr


def test_a_generated_workload_is_the_same_for_the_same_seed(run: Run) -> None:
    words = ("--generate", "poisson", "--nodes", "16", "--jobs", "500", "--json")
    waits = [data(run(*words, "--seed", seed))[0]["mean_wait_s"] for seed in ("1", "1", "2")]
    assert waits[0] == waits[1] != waits[2]


def test_reservations_keep_nodes_free(run: Run, log: Path) -> None:
    (log.parent / "kept.csv").write_text("start,end,nodes\n0,1000,1\n")
    result = run("tiny.swf", "--reservations", "kept.csv", "--json")
    (each,) = data(result)
    assert each["makespan_s"] > 1000


def test_a_sweep_gives_means_and_how_sure_they_are(run: Run, log: Path) -> None:
    words = (
        "tiny.swf",
        "--policy",
        "easy,fcfs",
        "--loads",
        "1,2",
        "--repeat",
        "3",
        "--shake",
        "30s",
    )
    result = run(*words, "--cores", "1", "--out", "out.json")
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "means of 3 shaken replays, with 95 % confidence intervals; times in seconds"
    )
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["easy", "1"], ["easy", "2"], ["fcfs", "1"], ["fcfs", "2"],
    ]  # fmt: skip
    assert lines[7] == "differences from easy on the same submissions, replay by replay"
    assert [line.split()[:2] for line in lines[9:]] == [["fcfs", "1"], ["fcfs", "2"]]
    cells = data(run(*words, "--cores", "2", "--json"), "swept")
    written = json.loads((log.parent / "out.json").read_text())["data"]
    for cell in (*cells, *written):
        for each in cell["results"]:
            del each["seconds"], each["jobs_per_second"], each["provenance"]["command"]
    assert cells == written
    waits, others = ([each["mean_wait_s"] for each in cells[at]["results"]] for at in (0, 2))
    assert cells[0]["estimates"]["mean_wait_s"]["mean"] == pytest.approx(sum(waits) / 3)
    assert cells[0]["differences"]["mean_wait_s"] == {"mean": 0, "half_width": 0}
    difference = cells[2]["differences"]["mean_wait_s"]["mean"]
    assert difference == pytest.approx((sum(others) - sum(waits)) / 3)


def test_a_sweep_is_drawn_with_what_made_it(run: Run, log: Path) -> None:
    words = ("tiny.swf", "--policy", "easy,fcfs", "--repeat", "2", "--shake", "30s", "--cores", "1")
    run(*words, "--plot", "by-policy.svg")
    run(*words, "--loads", "1,2", "--plot", "by-load.png")
    drawn = (log.parent / "by-policy.svg").read_text()
    assert "mean bounded slowdown" in drawn
    command = (
        "kalends simulate tiny.swf --repeat 2 --shake 30s --plot by-policy.svg --policy easy,fcfs"
    )
    assert command in html.unescape(drawn)
    picture = (log.parent / "by-load.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert b'"workload":"tiny.swf"' in picture


def made(text: str) -> dict[str, Any]:
    provenance: dict[str, Any] = json.loads(text)
    assert provenance.pop("kalends") == kalends.__version__
    return provenance


def test_the_command_in_a_result_names_a_log_that_looks_like_an_option(run: Run, log: Path) -> None:
    (log.parent / "-n.swf").write_bytes(log.read_bytes())
    first = data(run("--json", "--", "-n.swf"))[0]["provenance"]
    command = shlex.split(first["command"])
    assert command[:2] == ["kalends", "simulate"]
    assert data(run(*command[2:], "--json"))[0]["provenance"] == first


def test_a_result_with_predictions_says_so(run: Run) -> None:
    words = ("tiny.swf", "--predict", "--json")
    provenance = data(run(*words))[0]["provenance"]
    assert provenance["options"]["predict"] is True
    assert "--predict" in provenance["command"]
    assert (
        data(run(*shlex.split(provenance["command"])[2:], "--json"))[0]["provenance"] == provenance
    )


def test_every_result_says_what_made_it(run: Run, log: Path) -> None:
    sha256 = hashlib.sha256(log.read_bytes()).hexdigest()
    words = ("tiny.swf", "--policy", "fcfs", "--estimates", "exact")
    expected = {
        "workload": "tiny.swf",
        "sha256": sha256,
        "policy": "fcfs",
        "options": {"estimates": "exact", "nodes": data(run(*words, "--json"))[0]["nodes"]},
    }
    command = "kalends simulate tiny.swf --estimates exact --out out.{} --policy fcfs"
    for name in ("out.swf", "out.csv", "out.json"):
        run(*words, "--out", name)
    swf, table, whole = (
        (log.parent / f"out.{kind}").read_text() for kind in ("swf", "csv", "json")
    )
    notes = [
        line for line in swf.splitlines() if line.startswith("; Note: simulated by kalends: {")
    ]
    rows = list(csv.DictReader(table.splitlines()))
    assert made(notes[0].partition(": simulated by kalends: ")[2]) == expected | {
        "command": command.format("swf")
    }
    assert made(rows[0]["metadata"]) == expected | {"command": command.format("csv")}
    assert {row["metadata"] for row in rows[1:]} == {""}
    assert made(json.dumps(json.loads(whole)["data"][0]["provenance"])) == expected | {
        "command": command.format("json")
    }


def test_the_command_in_a_result_writes_it_again_and_replaces_nothing_by_itself(
    run: Run, log: Path
) -> None:
    run("tiny.swf", "--policy", "easy,fcfs", "--out", "two results.csv")
    file = log.parent / "two results-fcfs.csv"
    first = file.read_text()
    words = shlex.split(
        json.loads(next(csv.DictReader(first.splitlines()))["metadata"])["command"]
    )[2:]
    file.write_text("changed")
    refused = run(*words)
    assert (refused.exit_code, file.read_text()) == (2, "changed")
    assert "--force to replace it" in refused.stderr
    run(*words, "--force")
    assert file.read_text() == first


def test_generated_jobs_are_named_by_their_rule_and_seed(run: Run) -> None:
    words = ("--generate", "lublin", "--jobs", "9", "--seed", "4", "--nodes", "64", "--json")
    provenance = data(run(*words))[0]["provenance"]
    assert provenance["workload"] == "generate(lublin, jobs=9, nodes=64, seed=4)"
    assert provenance["command"] == (
        "kalends simulate --generate lublin --jobs 9 --seed 4 --nodes 64 --policy easy"
    )


def test_a_result_as_a_log_copies_no_header_that_is_no_longer_true(run: Run, log: Path) -> None:
    header = "; Computer: SP2\n; MaxJobs: 9\n; EndTime: never\n; MaxProcs: 999\n; Queue: 1 night\n"
    log.write_text(header + log.read_text())
    run("tiny.swf", "--nodes", "4", "--out", "out.swf")
    written = (log.parent / "out.swf").read_text()
    lines = [line for line in written.splitlines() if line.startswith(";")]
    assert lines[:5] == [
        "; Version: 2.2", "; Computer: SP2", "; Queue: 1 night", "; MaxNodes: 4", "; MaxProcs: 4",
    ]  # fmt: skip
    assert all(line.startswith("; Note: simulated by kalends: ") for line in lines[5:])
    run("out.swf", "--out", "again.swf")
    again = (log.parent / "again.swf").read_text()
    assert again.count("; Note:") == written.count("; Note:") == 2


def test_two_policies_are_never_written_to_one_file(run: Run, log: Path) -> None:
    (log.parent / "own.py").write_text(
        "from kalends.scheduling import QueuePolicy\n"
        "class Own(QueuePolicy):\n"
        "    def __init__(self, cluster, hops: int = 1):\n"
        "        super().__init__(cluster)\n"
        "    def schedule(self, now):\n"
        "        while self.queue and self.cluster.start(next(iter(self.queue)), now):\n"
        "            self.queue.remove(next(iter(self.queue)))\n"
    )
    refused = run("tiny.swf", "--policy", "own:Own:3,own:Own:-3", "--out", "out.csv", "--force")
    assert refused.exit_code == 2
    assert "own:Own:3 and own:Own:-3 would both be written to out-own-Own-3.csv" in refused.stderr
    assert not list(log.parent.glob("out*"))


@pytest.mark.parametrize("words", [["tiny.swf"], ["tiny.swf", "--json"], ["none.swf", "--json"]])
def test_an_answer_that_cannot_be_written_is_told_and_ends_with_an_error(
    log: Path, words: list[str]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kalends", "simulate", *words], cwd=log.parent,
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "kalends: cannot write the answer: No space left on device\n"


def test_metrics_by_class_are_tables_and_in_the_json(run: Run) -> None:
    lines = run("tiny.swf", "--by", "nodes, user,nodes").stdout.splitlines()
    assert lines[3:] == [
        "",
        "BY NODES  JOBS  SHARE  WAIT  MEDIAN  P95  SLOWDOWN",
        "1            1   1.0%    80      80   80      8.50",
        "2            1  19.8%    90      90   90      2.80",
        "3-4          1  79.2%     0       0    0      1.00",
        "",
        "BY USER  JOBS  SHARE  WAIT  MEDIAN  P95  SLOWDOWN",
        "7           2  99.0%    45      45   90      1.90",
        "8           1   1.0%    80      80   80      8.50",
    ]
    found = data(run("tiny.swf", "--by", "queue", "--json"))[0]["by"]
    assert [(each["name"], each["jobs"]) for each in found["queue"]] == [("unknown", 3)]
    assert found["queue"][0]["node_seconds"] == 505


def test_policies_stand_side_by_side_in_each_class_and_the_best_is_marked(
    run: Run, log: Path
) -> None:
    (log.parent / "wide.swf").write_text(
        LOG.replace(" 2 -1 -1 2 ", " 4 -1 -1 4 ").replace(" 1 -1 -1 1 ", " 4 -1 -1 4 ")
    )
    lines = run("wide.swf", "--by", "user", "--policy", "ljf,sjf").stdout.splitlines()
    assert lines[5:] == [
        "BY USER  JOBS  SHARE  POLICY  WAIT   MEDIAN   P95   SLOWDOWN",
        "7           2  96.8%  ljf       45*      45*   90*      1.90*",
        "                      sjf       48       48    95       1.95",
        "8           1   3.2%  ljf      130      130   130      13.50",
        "                      sjf       80*      80*   80*      8.50*",
    ]


def test_of_many_users_those_that_had_the_most_are_shown(run: Run, log: Path) -> None:
    rest = "-1 -1 -1 -1 -1 -1"
    (log.parent / "many.swf").write_text(
        "".join(f"{n} {n} -1 {n} 1 -1 -1 1 99 -1 1 {n} {rest}\n" for n in range(1, 24))
    )
    lines = run("many.swf", "--nodes", "4", "--by", "user").stdout.splitlines()
    assert [line.split()[0] for line in lines[5:25]] == [str(n) for n in range(23, 3, -1)]
    assert lines[25:] == ["and 3 more with less: --json has them all"]


def test_a_replay_loads_nothing_of_servers_and_no_numpy(log: Path) -> None:
    program = (
        "import sys\nfrom kalends.cli import main\n"
        f"sys.argv = ['kalends', 'simulate', {str(log)!r}]\n"
        "assert main() == 0\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
        "assert 'kalends.broker' not in sys.modules\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.splitlines()[-1].split())
    assert not loaded & {"numpy", "aiohttp", "asyncio", "matplotlib", "rich", "random", "sqlite3"}


def test_a_log_without_a_header_or_requested_times_is_told_to_lack_a_number_of_nodes(
    tmp_path: Path,
) -> None:
    log = tmp_path / "bare.swf"
    log.write_text("1 0 -1 10 4 -1 -1 4 -1 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    run = CliRunner().invoke(cli, ["simulate", str(log), "--estimates", "filled"])
    assert run.exit_code == 2
    assert "--nodes N" in run.stderr


def test_predict_says_how_good_the_predicted_starts_were_and_changes_nothing(run: Run) -> None:
    [before] = data(run(str(EXCERPT), "--json"))
    [after] = data(run(str(EXCERPT), "--json", "--predict"))
    assert before["predictions"] == {}
    found = after["predictions"]
    assert found["jobs"] == after["jobs"]
    assert 0 < found["predicted"] < found["jobs"]
    assert 0 <= found["p50_coverage"] <= found["p90_coverage"] <= 1
    assert found["p90_late"] + found["p90_exact"] + found["p90_early"] == pytest.approx(1)
    for name in ("predictions", "seconds", "jobs_per_second"):
        del before[name], after[name]
    commands = [each["provenance"].pop("command") for each in (before, after)]
    assert ["--predict" in command for command in commands] == [False, True]
    assert after["provenance"]["options"].pop("predict") is True
    assert before == after
    shown = run("--predict", str(EXCERPT)).stdout
    assert f"easy: of {found['predicted']:,} jobs that had to wait, " in shown


def test_a_sweep_predicts_nothing_and_says_so(run: Run) -> None:
    refused = run("--predict", "--repeat", "2", str(EXCERPT))
    assert refused.exit_code != 0
    assert "a sweep predicts no starts" in refused.output
    refused = run("--by", "user", "--repeat", "2", str(EXCERPT))
    assert (refused.exit_code, "a sweep has no metrics by class of job" in refused.output) == (
        2,
        True,
    )
