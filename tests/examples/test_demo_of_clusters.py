"""`kalends demo --slurm`: three owners, two of them with a real Slurm, and one program on both machines."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from transcripts import CLOCK, ROOT, comparable, environment

from kalends.demo.clusters import rod

END_S_MAX = 300
SHOWN = re.compile(
    r"<!-- transcript: tests/examples/test_demo_of_clusters\.py compares it -->\n```text\n(.*?)```\n",
    re.DOTALL,
)
DIFFERS = [
    (rf"[A-Z][a-z]{{2}} YYYY-MM-DD {CLOCK}|YYYY-MM-DDT[0-9:]{{8}}", "THEN"),
    (r"SHORT-ID(-[0-9]+)?", "ID"),
    (rf"{CLOCK} UTC", "THEN"),
    (r"rod\.py [0-9]+", "rod.py PORT"),
    (r" {2,}", "  "),
]

pytestmark = pytest.mark.needs_slurm


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo makes its folders: short, as its sockets need it, and open to who runs jobs."""
    top = Path(tempfile.mkdtemp(prefix="kal-", dir="/tmp"))
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


@contextmanager
def demo(temporary: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "kalends", "demo", "--slurm", *options],
        env=environment({"TMPDIR": str(temporary)}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=END_S_MAX)


def left(temporary: Path) -> list[str]:
    """The processes that name a folder of the demo."""
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            said = Path(f"/proc/{each}/cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(temporary) in said:
            found.append(said.replace(b"\0", b" ").decode(errors="replace"))
    return found


def without_times(printed: str) -> str:
    printed = comparable(printed, "/no such folder")
    for pattern, replacement in DIFFERS:
        printed = re.sub(pattern, replacement, printed)
    return printed


def test_the_page_shows_what_it_prints(temporary: Path) -> None:
    with demo(temporary) as process:
        printed, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, told
    (shown,) = SHOWN.findall((ROOT / "docs" / "batch-systems.md").read_text())
    assert without_times(printed.partition("\nEverything is stopped")[0].strip()) == without_times(
        shown
    )
    assert left(temporary) == []
    assert list(temporary.iterdir()) == []


def test_both_machines_run_one_program_whose_ranks_begin_in_the_same_second(
    temporary: Path,
) -> None:
    with demo(temporary, "--json") as process:
        printed, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, told
    report = json.loads(printed)["data"]
    outputs = report["outputs"]
    lines = [line for out in outputs.values() for line in out.splitlines()]
    assert len(outputs) == 2
    assert len({line.partition(" from ")[2] for line in lines if " from " in line}) == 1
    assert {line.partition(" on ")[0] for line in lines if " on " in line} == {
        f"rank {number}" for number in range(4)
    }
    assert f"the whole rod is {rod.alone(4)}" in lines
    reserved = report["reservation"]
    assert len({(each["start"], each["end"]) for each in reserved["claims"]}) == 1
    assert reserved["start"] < report["ended"]["parts_ended_at"] < reserved["end"]
    assert all("ReservationName=kal." in said for said in report["reservations_of_slurm"].values())


@pytest.mark.parametrize("moment", ["starting two Slurms", "npaci listens", "waits for its slot"])
def test_a_signal_at_any_moment_stops_everything(moment: str, temporary: Path) -> None:
    with demo(temporary) as process:
        assert process.stderr is not None
        while moment not in (line := process.stderr.readline()):
            assert line, "it ended before the signal"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S_MAX)
    assert process.returncode == 130
    assert left(temporary) == []
    assert list(temporary.iterdir()) == []
