"""`kalends demo`: it does what it says, and however it ends, nothing is left running."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from transcripts import environment

import kalends
from kalends.core.errors import Unavailable
from kalends.demo.facility import (
    TOKEN_LIFETIME_S,
    facility,
    make_keys,
    make_tokens,
    servers,
    write_configurations,
)

END_S_MAX = 600
UNITS = {"sdsc/sp2": 64, "caltech/beamline": 1, "ncsa/cave": 1}
SERVERS = ["caltech", "ncsa", "npaci", "sdsc"]


@contextmanager
def demo(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kalends", "demo", "--directory", str(directory), *options]
    with subprocess.Popen(
        command, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=END_S_MAX)


def assert_all_stopped(directory: Path) -> None:
    for path in directory.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.read_text()), 0)


def started(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.pid"))


def commands() -> list[str]:
    """What runs on this host."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
    return found


def test_it_reserves_all_three_for_the_same_time_and_gives_them_back(tmp_path: Path) -> None:
    with demo(tmp_path / "demo", "--json") as process:
        printed, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, told
    assert started(tmp_path / "demo") == SERVERS
    assert_all_stopped(tmp_path / "demo")
    document = json.loads(printed)
    assert (document["version"], document["kind"]) == (1, "demo")
    report = document["data"]
    assert report["jobs_booked"] > 100
    reserved = report["reservation"]
    assert {claim["resource"]: claim["units"] for claim in reserved["claims"]} == UNITS
    times = {(claim["start"], claim["end"]) for claim in reserved["claims"]}
    assert times == {(reserved["start"], reserved["start"] + 7_200)}
    assert reserved["start"] == report["found"]["start"]

    def has_it(view: dict[str, list[dict[str, str]]]) -> bool:
        return any(slot["reservation"] == reserved["id"] for slot in view["slots"])

    assert [has_it(view) for view in report["before"]] == [False] * 3
    assert [has_it(view) for view in report["after"]] == [True] * 3
    job = report["job"]
    assert (job["machine"], job["phase"], len(job["node_numbers"])) == ("sdsc/sp2", "running", 4)
    assert report["cancelled"]["state"] == "cancelled"
    assert all(report["free_again"][name] >= units for name, units in UNITS.items())


def test_in_text_it_shows_each_step_and_what_to_try_next(tmp_path: Path) -> None:
    with demo(tmp_path / "demo") as process:
        printed, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 0, told
    steps = [line for line in printed.splitlines() if line.startswith("== ")]
    assert steps == [
        "== When could all three start?",
        "== Their calendars now (the command lists the slots, too)",
        "== Book all three, or none",
        "== Their calendars with the reservation",
        "== The machine runs jobs, too, on what nobody has reserved",
        "== What it has written",
        "== End it",
        "== What happened to it",
        "== Cancel it",
    ]
    assert printed.count("▲ yours") == 3
    assert "\njob 1 has nodes 0,1,2,3\n" in printed
    assert "demo --keep" in printed


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "starting the sites"),
        (signal.SIGTERM, "sdsc listens"),
        (signal.SIGHUP, "npaci listens"),
        (signal.SIGTERM, "booking the jobs"),
    ],
)
def test_a_signal_at_any_moment_stops_everything(
    number: signal.Signals, moment: str, tmp_path: Path
) -> None:
    with demo(tmp_path / "demo") as process:
        assert process.stderr is not None
        while moment not in (line := process.stderr.readline()):
            assert line, "it ended before the signal"
        process.send_signal(number)
        process.communicate(timeout=END_S_MAX)
    assert process.returncode == 130
    assert_all_stopped(tmp_path / "demo")


def tried(process: subprocess.Popen[str]) -> None:
    """Wait until it may be tried."""
    assert process.stdout is not None
    while "Ctrl-C stops everything" not in (line := process.stdout.readline()):
        assert line, "it ended before it could be tried"


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kalends-") as short:
        yield Path(short)


def test_what_runs_there_is_ended_before_its_site_and_all_else_is_there_at_the_next_start(
    tmp_path: Path, short_path: Path
) -> None:
    directory = short_path
    mark = f"sleep {600 + os.getpid()}"
    with demo(directory, "--keep") as process:
        tried(process)
        lines = [
            (directory / "environment").read_text(),
            f"kalends submit sdsc/sp2 --for 2m --directory / -- {mark}",
            "until kalends job sdsc/sp2/2 | grep 'state *running'; do sleep 0.1; done",
        ]
        subprocess.run(
            ["sh", "-c", "\n".join(lines)], env=environment({}), capture_output=True, check=True,
            timeout=END_S_MAX,
        )  # fmt: skip
        assert mark in commands()
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\n#KALENDS --for 1m --directory /\necho ran\n")
        lines[1:] = [
            f"kalends submit sdsc/sp2 --script {script}",
            "kalends log -f sdsc/sp2/3; kalends job sdsc/sp2/3 | grep ended",
            "kalends submit sdsc/sp2 --held --for 2m --directory / -- true",
        ]
        ran = subprocess.run(
            ["sh", "-c", "\n".join(lines)], env=environment({}), capture_output=True, check=True,
            timeout=END_S_MAX, text=True,
        )  # fmt: skip
        assert "\nran\n" in ran.stdout, "the folder of its script was closed to its Unix user"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_S_MAX)
    assert_all_stopped(directory)
    assert mark not in commands()
    with demo(directory, "--keep") as process:
        tried(process)
        lines[0] = (directory / "environment").read_text()
        lines[1:] = ["kalends log sdsc/sp2/3; kalends job sdsc/sp2/4"]
        again = subprocess.run(
            ["sh", "-c", "\n".join(lines)], env=environment({}), capture_output=True, check=True,
            timeout=END_S_MAX, text=True,
        )  # fmt: skip
    assert again.stdout.startswith("ran\n")
    assert "cancelled" not in again.stdout
    assert "held" in again.stdout


def test_a_server_that_does_not_start_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    write_configurations(tmp_path)
    make_keys(tmp_path)
    make_tokens(tmp_path, int(time.time()))
    broken = tmp_path / "site-caltech.toml"
    broken.write_text(broken.read_text().replace('grain = "30m"', 'grain = "30"'))

    async def start() -> None:
        async with servers(tmp_path):
            raise AssertionError("it started")

    with pytest.raises(Unavailable) as caught:
        asyncio.run(start())
    first, *log = caught.value.detail.splitlines()
    assert first == "the server caltech did not start: it ended with exit code 2"
    assert "'30' has no unit" in "\n".join(log)
    assert_all_stopped(tmp_path)


def test_a_demo_that_was_kept_can_be_started_again_with_new_tokens_and_all_that_was_booked(
    tmp_path: Path,
) -> None:
    now_s = int(time.time())

    async def booked_on_friday() -> str:
        async with (
            facility(tmp_path, now_s) as running,
            kalends.connect(running.broker_url, token=running.token("ada")) as client,
        ):
            view = await client.book("ncsa/cave", duration="1h", window=("now+2d", None))
        # It has run out since.
        running.token_file("ada").write_text("an old token")
        return view.id

    async def seen_on_monday(id: str) -> str:
        async with (
            facility(tmp_path, now_s) as running,
            kalends.connect(running.broker_url, token=running.token("ada")) as client,
        ):
            return (await client.show(id)).state

    assert asyncio.run(seen_on_monday(asyncio.run(booked_on_friday()))) == "reserved"
    assert_all_stopped(tmp_path)


OPEN_TO_ALL = {".toml", ".log", ".pid", ".pub"}
"""Files that say nothing secret; so does ``environment``, which has the paths of tokens."""


def test_who_may_pass_through_the_folder_of_a_kept_demo_can_read_no_secret(tmp_path: Path) -> None:
    """Jobs of other users lie below it: for root, everybody may pass, and could guess names."""
    directory = tmp_path / "demo"
    with demo(directory, "--json") as process:
        process.communicate(timeout=END_S_MAX)
    files = [path for path in directory.rglob("*") if path.is_file()]
    readable = [path for path in files if path.stat().st_mode & 0o077]
    named = {path.relative_to(directory) for path in readable if path.suffix not in OPEN_TO_ALL}
    assert named == {Path("environment")}
    secrets = [path.read_bytes().strip() for path in files if path.parent.name == "tokens"]
    secrets += [
        path.read_bytes() for path in files if path.parent.name == "keys" and path.suffix == ""
    ]
    assert len(secrets) >= 4
    for path in readable:
        text = path.read_bytes()
        assert not any(secret in text for secret in secrets), path


def test_tokens_of_a_demo_live_longer_than_a_weekend() -> None:
    friday_evening_to_monday_noon_s = 3 * 86_400
    assert friday_evening_to_monday_noon_s < TOKEN_LIFETIME_S


def test_a_directory_with_something_in_it_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with demo(tmp_path) as process:
        _, told = process.communicate(timeout=END_S_MAX)
    assert process.returncode == 1
    assert "the directory is not empty" in told
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
