"""What all checks for processes left behind stand on: the walk through the processes of the system."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.process_tree import descendants

WALKS: Final = 50

CHILD: Final = "exec 3<&0; cat <&3 & echo $!; "
"""A child of the shell that ends when the shell's input does, and its process id."""

HATCHERY: Final = "while :; do true & true & wait $!; done"


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_children_and_their_children_are_found_with_their_parents() -> None:
    with running("sh", "-c", CHILD + "wait") as shell:
        assert shell.stdout is not None
        cat = int(shell.stdout.readline())
        assert descendants(shell.pid) == {cat: shell.pid}
        found = descendants(os.getpid())
        assert (found[shell.pid], found[cat]) == (os.getpid(), shell.pid)


def test_processes_that_end_during_the_walk_do_not_stop_it() -> None:
    with running("sh", "-c", CHILD + HATCHERY) as hatchery:
        assert hatchery.stdout is not None
        kept = int(hatchery.stdout.readline())
        for _ in range(WALKS):
            assert kept in descendants(hatchery.pid)


def test_a_process_that_has_ended_has_none_below_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert descendants(ended.pid) == {}
