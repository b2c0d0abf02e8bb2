"""Behind the system call filter: what Landlock and namespaces alone keep from a process of this host.

Each is tried without the filter, as if somebody had got through it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.patience import PATIENCE_S

from kalends.agents.sandbox import Sandbox, SandboxLimits, landlock, lockdown, namespaces

FREE: Final = "done"


def told_by_child(step: Callable[[], object]) -> Any:
    """What a fresh process has to say after `step`: its result, or the number of its `OSError`."""
    told, telling = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = step()
        except OSError as error:
            said = error.errno
        except BaseException as error:
            said = repr(error)
        os.write(telling, json.dumps(said).encode())
        os._exit(0)
    os.close(telling)
    with os.fdopen(told, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def read_a_file() -> str:
    Path(__file__).read_bytes()
    return FREE


def call_a_server(port: int) -> str:
    socket.create_connection(("127.0.0.1", port)).close()
    return FREE


def signal_another(pid: int) -> str:
    os.kill(pid, 0)
    return FREE


@pytest.fixture
def neighbour_port() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.needs_landlock
def test_landlock_alone_shuts_off_files_servers_and_other_processes(neighbour_port: int) -> None:
    def behind(attempt: Callable[[], str]) -> Callable[[], str]:
        def step() -> str:
            assert landlock.shut()
            return attempt()

        return step

    parent = os.getpid()
    for attempt in (
        read_a_file,
        lambda: call_a_server(neighbour_port),
        lambda: signal_another(parent),
    ):
        assert told_by_child(attempt) == FREE
        assert told_by_child(behind(attempt)) in (errno.EACCES, errno.EPERM)


def allowed_here() -> bool:
    return bool(told_by_child(namespaces.enter))


def in_namespaces(attempt: Callable[[], object]) -> Any:
    """What a worker says of `attempt` whose zygote has nothing but namespaces of its own."""

    def step() -> Any:
        namespaces.enter()
        namespaces.keep()
        told_by_child(lambda: None)  # The namespace of processes outlives each of them.
        return told_by_child(attempt)

    return told_by_child(step)


@pytest.mark.needs_namespaces
def test_namespaces_alone_leave_no_file_no_server_and_no_other_process(
    neighbour_port: int,
) -> None:
    parent = os.getpid()
    assert in_namespaces(read_a_file) == errno.ENOENT
    assert in_namespaces(lambda: os.listdir("/")) == []
    assert in_namespaces(lambda: call_a_server(neighbour_port)) == errno.ENETUNREACH
    assert in_namespaces(lambda: signal_another(parent)) == errno.ESRCH
    assert in_namespaces(os.getppid) == 0


@pytest.mark.needs_namespaces
def test_a_process_without_files_still_knows_its_own_memory() -> None:
    def size() -> int:
        proc = lockdown.open_proc()
        namespaces.enter()
        namespaces.keep()
        return int(told_by_child(lambda: lockdown.address_space_bytes(proc)))

    assert told_by_child(size) > 1 << 20


@pytest.mark.needs_namespaces
def test_the_first_process_of_a_namespace_ends_with_the_zygote() -> None:
    ours, theirs = socket.socketpair()
    zygote = os.fork()
    if zygote == 0:
        namespaces.enter()
        theirs.send(namespaces.keep().to_bytes(4, "big"))
        theirs.recv(1)
        os._exit(0)
    first = os.pidfd_open(int.from_bytes(ours.recv(4), "big"))
    ours.send(b".")
    os.waitpid(zygote, 0)
    ended, _, _ = select.select([first], [], [], PATIENCE_S)
    os.close(first)
    assert ended


@pytest.mark.needs_namespaces
def test_the_first_process_ends_with_a_zygote_that_ended_before_it_was_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair()
    zygote = os.fork()
    if zygote == 0:

        def late(first: int, last: int) -> None:
            theirs.recv(1)
            lockdown.close_range(first, last)

        monkeypatch.setattr(namespaces, "close_range", late)
        namespaces.enter()
        theirs.send(namespaces.keep().to_bytes(4, "big"))
        os._exit(0)
    first = os.pidfd_open(int.from_bytes(ours.recv(4), "big"))
    os.waitpid(zygote, 0)
    ours.send(b".")
    ended, _, _ = select.select([first], [], [], PATIENCE_S)
    os.close(first)
    assert ended


def test_the_sandbox_says_which_walls_stand() -> None:
    async def walls() -> list[str]:
        sandbox = await Sandbox.start(SandboxLimits())
        try:
            return sandbox.walls
        finally:
            await sandbox.close()

    known = landlock.version()
    expected = ["seccomp", *([f"landlock {known}"] if known else [])]
    expected += ["namespaces"] if allowed_here() else []
    assert asyncio.run(walls()) == [*expected, "first to end without memory"]


def test_the_kernel_ends_agents_first_where_memory_runs_out() -> None:
    script = (
        "from kalends.agents.sandbox import zygote; zygote._die_first_of_all();"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "1000"
