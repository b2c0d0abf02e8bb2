"""`kalends demo --bids`: four sites bid for jobs, and each job runs where the demo says, once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from test_demo import END_S_MAX, assert_all_stopped, started
from transcripts import environment

from kalends.demo.clusters import loopback_slurm

SERVERS = ["ctc", "ncsa", "northeast", "npaci", "sdsc", "uva"]


def demo(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kalends", "demo", "--bids", "--directory", str(directory), *options],
        env=environment({}), capture_output=True, text=True, timeout=END_S_MAX, check=False,
    )  # fmt: skip


def site_of(view: dict[str, dict[str, str]]) -> str:
    return view["placed"]["machine"].partition("/")[0]


def test_jobs_go_where_they_end_first_start_once_and_leave_a_site_that_is_lost(
    tmp_path: Path,
) -> None:
    done = demo(tmp_path / "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert started(tmp_path / "demo") == SERVERS
    assert_all_stopped(tmp_path / "demo")
    report = json.loads(done.stdout)["data"]
    assert report["slurm"] == (not loopback_slurm.why_not())
    assert site_of(report["first"]) == "ctc", "the only one with free nodes"
    # On a busy machine a bid may come too late.
    assert re.search(r"[2-4] of 4 sites have bid", json.dumps(report["bids"]))
    assert "ctc/cluster through northeast" in json.dumps(report["bids"])
    (also,) = report["redundant"]["placed"]["also"]
    assert site_of(report["started"]) == also["machine"].partition("/")[0]
    assert report["left"]["machine"] == report["redundant"]["placed"]["machine"]
    assert report["left"]["end"] == report["come_back"]["end"] == "withdrawn"
    assert site_of(report["lost"]) == "ncsa", "where its user wants it"
    assert site_of(report["elsewhere"]) != "ncsa"


def test_two_demos_at_once_are_refused_in_words() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kalends", "demo", "--bids", "--slurm"],
        env=environment({}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "Give one of --slurm, --bids and --postgres." in done.stderr) == (
        2,
        True,
    )
