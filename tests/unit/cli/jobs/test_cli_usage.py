"""``kalends usage``: sums, and every job that is over as a table and as a log, from a real site."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from command_line import Run
from past_site import MACHINE, OCTOBER, past_job, past_site

import kalends
from kalends.batch.queue.facts import JobEnding
from kalends.cli import cli
from kalends.cli.jobs import usage as module
from kalends.core.errors import NotFound
from kalends.simulation.workloads.swf import open_log
from kalends.simulation.workloads.swf_fields import read_header, read_jobs

JOBS = [
    past_job(1, project="dna", credit_seconds=2_000),
    past_job(2, user="bob", nodes=4, priority="high", ending=JobEnding(kind="exit", status=3)),
    past_job(3, user="bob", phase="withdrawn", started=0, node_numbers=(), node_seconds=0,
             ending=None),
    past_job(4, over=OCTOBER + 9_000, node_seconds=17_500, stood_s=40,
             ending=JobEnding(kind="killed", status=-9)),
    past_job(5, phase="lost", node_seconds=0, ending=JobEnding(kind="lost")),
    past_job(6, nodes=1, node_numbers=(1, 2, 3), node_seconds=200, ending=JobEnding(kind="limit")),
]  # fmt: skip
"""The sixth had 2 nodes in the mean of its run, and 3 in the end."""
WHEN = ("--from", "2026-10-01", "--to", "2026-11-01")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with past_site(JOBS) as url:
        yield url


@pytest.fixture
def usage(site: str) -> Run:
    def run(*words: str, user: str = "ann") -> Result:
        settings = {"KALENDS_BROKER": site, "KALENDS_ZONE": "UTC", "KALENDS_USER": user}
        return CliRunner().invoke(cli, ["usage", MACHINE, *WHEN, *words], env=settings)

    return run


def test_every_job_that_is_over_is_a_row_of_the_table(usage: Run) -> None:
    done = usage("--everyone", "--csv", "-")
    assert done.exit_code == 0, done.output
    rows = {int(row["job"]): row for row in csv.DictReader(done.stdout.splitlines())}
    assert [*rows] == [1, 2, 3, 5, 6, 4], "in order of their ends"
    first = rows[1]
    assert (first["user"], first["project"], first["priority"]) == ("ann", "dna", "normal")
    assert (first["submitted"], first["over"]) == ("2026-10-01T00:01:00Z", "2026-10-01T00:02:50Z")
    assert (first["node_seconds"], first["cpu_s"], first["end"]) == ("200", "150.0", "exit")
    assert (rows[2]["priority"], rows[2]["status"]) == ("high", "3")
    assert (rows[3]["started"], rows[3]["end"], rows[3]["index"]) == ("", "withdrawn", "")
    assert (rows[5]["end"], rows[5]["node_seconds"]) == ("lost", "0")
    assert (rows[6]["nodes"], rows[6]["nodes_had"]) == ("1", "3")
    assert (rows[4]["stood_s"], rows[6]["stood_s"]) == ("40", "0")


def test_users_get_their_own_jobs(usage: Run) -> None:
    rows = csv.DictReader(usage("--csv", "-", user="bob").stdout.splitlines())
    assert [row["job"] for row in rows] == ["2", "3"]


def test_a_log_is_read_back_with_all_that_the_format_can_hold(usage: Run, tmp_path: Path) -> None:
    path = tmp_path / "october.swf"
    assert usage("--everyone", "--swf", str(path)).stdout == f"{path}: 6 jobs\n"
    text = path.read_text().splitlines()
    header = read_header(text)
    assert (header["Version"], header["MaxProcs"]) == ("2.2", "8")
    assert header["Preemption"] == "Yes", "of the fourth"
    assert header["UnixStartTime"] == str(OCTOBER + 60)
    assert header["StartTime"] == "Thu Oct 01 00:01:00 UTC 2026"
    assert header["User"].split("\n") == ["1 ann", "2 bob"]
    assert (header["Group"], header["Queue"].split("\n")) == (
        "1 dna",
        ["1 low", "2 normal", "3 high"],
    )
    read = [
        (job.job, job.submit_s, job.wait_s, job.run_s, job.processors_allocated, job.cpu_s,
         job.memory_kb, job.processors_requested, job.time_requested_s, job.status, job.user,
         job.group, job.queue)
        for job in read_jobs(text)
    ]  # fmt: skip
    assert read == [
        (1, 0, 10, 100, 2, 75.0, 4000, 2, 600, 1, 1, 1, 2),
        (2, 60, 10, 100, 4, None, None, 4, 600, 0, 2, None, 3),
        (3, 120, None, None, None, None, None, 2, 600, 5, 2, None, 2),
        (4, 180, 10, 8750, 2, None, None, 2, 600, 5, 1, None, 2),
        (5, 240, 10, 100, 2, None, None, 2, 600, 0, 1, None, 2),
        (6, 300, 10, 100, 2, None, None, 1, 600, 0, 1, None, 2),
    ]
    assert [job.id for job in open_log(path, nodes=8)] == [1, 2, 4, 5, 6]


def test_pages_are_small_and_together_hold_every_job_once(
    usage: Run, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_JOBS", 2)
    rows = list(csv.DictReader(usage("--everyone", "--csv", "-").stdout.splitlines()))
    assert [row["job"] for row in rows] == ["1", "2", "3", "5", "6", "4"]
    with kalends.connect_sync(site, user="ann") as client:
        when = {"start": OCTOBER + 120, "end": OCTOBER + 255, "everyone": True}
        submitted = client.job_history(MACHINE, by="submitted", **when)  # type: ignore[arg-type]
        assert [row.job for row in submitted.rows] == [2, 3, 4]
        ran = client.job_history(MACHINE, by="ran", **when)  # type: ignore[arg-type]
        assert [row.job for row in ran.rows] == [1, 2, 4]
        assert not ran.more
        with pytest.raises(NotFound):
            client.job_history("lab/other", start=0, end=1)


def test_files_are_new_and_not_the_same(usage: Run, tmp_path: Path) -> None:
    path = tmp_path / "jobs"
    assert usage("--csv", str(path), "--swf", str(path)).exit_code == 2
    path.write_text("mine")
    assert usage("--csv", str(path)).exit_code == 2
    assert path.read_text() == "mine"


def test_what_was_charged_is_told_to_the_hundredth(usage: Run) -> None:
    header, *rows = (line.split() for line in usage().stdout.splitlines())
    assert header[-1] == "CREDITS"
    assert [(row[1], row[-1]) for row in rows] == [("-", "0.00"), ("dna", "0.56")]
    (first, *_) = csv.DictReader(usage("--csv", "-").stdout.splitlines())
    assert first["credit_seconds"] == "2000"


def test_without_files_the_sums_are_told(usage: Run) -> None:
    rows = json.loads(usage("--json").stdout)["data"]["rows"]
    assert [(row["project"], row["jobs"], row["node_seconds"]) for row in rows] == [
        ("", 3, 17_700),
        ("dna", 1, 200),
    ]


def test_a_time_that_ends_before_it_begins_is_refused(usage: Run) -> None:
    done = usage("--from", "2026-11-01", "--to", "2026-10-01")
    assert done.exit_code == 2
    assert "--to: the end, Thu 2026-10-01" in done.stderr
    assert "is not after the start, Sun 2026-11-01" in done.stderr
