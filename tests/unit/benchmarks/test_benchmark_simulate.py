"""The benchmark of replays: the logs that it makes, and that all of its parts run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import simulate as command
from benchmarks.simulating import logs
from benchmarks.simulating.processes import Child

from kalends.simulation.workloads.swf import open_log

LINE = "{} {} -1 60 2 -1 -1 2 100 -1 1 1 1 1 1 1 -1 -1\n"


@pytest.fixture
def small_log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text("".join(LINE.format(number, 1_000 + 7 * number) for number in range(1, 31)))
    return path


def test_a_repeated_log_has_as_many_jobs_as_asked_for_one_copy_after_the_other(
    small_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.swf"
    logs.write_repeated(small_log, out, nodes=4, jobs=70)
    jobs = list(open_log(out, nodes=4))
    assert [job.id for job in jobs] == list(range(1, 71))
    assert [job.submit_s for job in jobs[:3]] == [0, 7, 14]
    assert jobs[30].submit_s == jobs[29].submit_s == 7 * 29
    assert jobs[69].submit_s == 2 * 7 * 29 + 7 * 9


def test_as_many_jobs_wait_in_a_queue_log_as_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "queue.swf"
    logs.write_queue(out, waiting=40, jobs=20)
    jobs = list(open_log(out, nodes=logs.QUEUE_NODES))
    assert len(jobs) == 60
    assert [job.submit_s for job in jobs[:40]] == [0] * 40
    assert jobs[40].submit_s > 0


def test_a_child_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        Child(tmp_path).run([sys.executable, "-c", "raise SystemExit(3)"])


def test_every_part_of_the_benchmark_runs(
    small_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(
        [f"{small_log}:4", "--policies", "easy", "--runs", "1", "--queues", "5", "--jobs", "50",
         "--many-policies", "easy", "--json"]
    )  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert [row["jobs"] for row in result["whole"]] == [30, 50]
    assert result["layers"][0]["whole_s"] > 0
    assert result["queues"][0]["us"] > 0
    assert result["beside"] == []


@pytest.mark.parametrize(
    "arguments", [["nothing.swf:4"], ["--jobs", "5"], ["--queues", "0"], ["--runs", "0"]]
)
def test_options_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.options_of(arguments)
