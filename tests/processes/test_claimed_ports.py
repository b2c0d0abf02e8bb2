"""A port that a test has claimed is given to no other test, and free for the test's own servers."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports

ROOT = Path(__file__).parents[2]


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> int:
    """The one port that there is."""
    (port,) = ports.free_ports(1)
    for each in ports._claims.pop():
        each.close()
    monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
    return port


def test_no_port_is_given_twice(only: int) -> None:
    assert ports.free_ports(1) == [only]
    with pytest.raises(AssertionError, match="are free"):
        ports.free_ports(1)


def test_no_port_is_given_to_two_processes(only: int) -> None:
    ports.free_ports(1)
    program = (
        "from tests.support import ports; "
        f"ports.PORTS = range({only}, {only + 1}); ports.free_ports(1)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "AssertionError: no 1 ports" in other.stderr


async def test_servers_listen_on_a_claimed_port_one_life_after_the_other(only: int) -> None:
    ports.free_ports(1)
    for _ in range(2):
        async with await asyncio.start_server(lambda *_: None, "127.0.0.1", only):
            socket.create_connection(("127.0.0.1", only)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", only))


def test_programs_that_share_no_port_cannot_take_it(only: int) -> None:
    ports.free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", only))


def test_a_process_does_not_keep_all_that_it_was_ever_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "CLAIMS_MAX", len(ports._claims) + 1)
    ports.free_ports(3)
    assert len(ports._claims) == ports.CLAIMS_MAX
