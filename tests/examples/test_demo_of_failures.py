"""`kalends demo --postgres`: a database, a broker and a site are killed, and users lose nothing they have."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_demo import END_S_MAX, assert_all_stopped, commands, started
from transcripts import environment

from kalends.demo.failover.load import USERS
from kalends.demo.failover.story import BOOKED_AFTER, BOOKED_BEFORE

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

SERVERS = ["caltech", "npaci-1", "npaci-2", "sdsc-1", "sdsc-2"]
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo puts its temporary folders; in memory, as no test outlives a loss of power."""
    with tempfile.TemporaryDirectory(prefix="kalends-", dir=_MEMORY) as folder:
        # The server's user passes through it.
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def demo(temporary: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kalends", "demo", "--postgres", *options]
    with subprocess.Popen(
        command, env=environment({"TMPDIR": str(temporary)}), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=END_S_MAX)


def assert_nothing_left(temporary: Path) -> None:
    assert list(temporary.iterdir()) == []
    assert [line for line in commands() if str(temporary) in line] == []


def test_whichever_host_fails_users_lose_no_booking_and_every_host_comes_back(
    tmp_path: Path, temporary: Path
) -> None:
    directory = tmp_path / "demo"
    with demo(temporary, "--json", "--directory", str(directory)) as process:
        printed, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, told
    assert started(directory) == SERVERS
    assert_all_stopped(directory)
    assert_nothing_left(temporary)
    document = json.loads(printed)
    assert (document["version"], document["kind"]) == (1, "failover_demo")
    report = document["data"]
    database, broker, site = (seen["failure"] for seen in report["failures"])
    assert (database, broker) == ("the primary database db1", "the broker's process npaci-1")
    assert site in ("the site's process sdsc-1", "the site's process sdsc-2")
    for seen in report["failures"]:
        assert (seen["lost"], seen["undecided"]) == (0, 0), seen
        assert seen["before"] >= BOOKED_BEFORE * USERS
        assert seen["after"] >= BOOKED_AFTER * USERS
    assert (report["lost"], report["undecided"], report["stray"]) == (0, 0, 0)
    assert report["booked"] == sum(seen["before"] + seen["after"] for seen in report["failures"])
    assert (report["primary"], report["standby"]) == ("db2", "db1")


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "starting two PostgreSQL servers"),
        (signal.SIGTERM, "killing the primary database"),
    ],
)
def test_a_signal_leaves_no_server_no_database_and_no_folder(
    number: signal.Signals, moment: str, temporary: Path
) -> None:
    with demo(temporary) as process:
        assert process.stderr is not None
        while moment not in (line := process.stderr.readline()):
            assert line, "it ended before the signal"
        process.send_signal(number)
        process.communicate(timeout=END_S_MAX)
    assert process.returncode == 130
    assert_nothing_left(temporary)
