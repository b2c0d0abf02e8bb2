"""Ctrl-C during a call: only what may change something may still be carried out."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kalends
from kalends.cli import cli
from kalends.cli.console.groups import EXIT_INTERRUPTED

ID = "01234567-89ab-7def-8123-456789abcdef"


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that answers nothing: as soon as it is asked, somebody types Ctrl-C."""
    listening = socket.create_server(("127.0.0.1", 0))

    def interrupt() -> None:
        caller, _ = listening.accept()
        with caller:
            caller.recv(1)
            os.kill(os.getpid(), signal.SIGINT)
            while caller.recv(1024):
                pass

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join()
    listening.close()


@pytest.mark.parametrize(
    "words",
    [
        ("list",), ("show", ID), ("why", ID), ("resources",), ("calendar", "sdsc/sp2"),
        ("find", "sdsc/sp2", "--for", "1h"), ("watch",), ("whoami",), ("sites",), ("admin", "audit"),
    ],
)  # fmt: skip
def test_a_command_that_only_looks_is_interrupted_and_no_more(
    silent: str, words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(cli, ["--broker", silent, "--user", "ann", *words])
    assert done.exit_code == EXIT_INTERRUPTED
    assert done.stderr.splitlines()[-1] == "kalends: interrupted"


@pytest.mark.parametrize(
    "words",
    [
        ("cancel", ID, "--wait", "1s"), ("lock", ID), ("admin", "drain"), ("move", ID, "--to", "now+1h"),
    ],
)  # fmt: skip
def test_a_command_that_changes_something_says_that_it_may_still_be_carried_out(
    silent: str, words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(cli, ["--broker", silent, "--user", "ann", *words])
    assert done.exit_code == EXIT_INTERRUPTED
    assert "may still be carried out" in done.stderr


INSIDE = {
    "a class is made": "class Made: field = Sends()",
    "an object is gone": "Sends()",
}
"""Moments at which Python raises another error for an interrupt, or none."""


@pytest.mark.parametrize("moment", INSIDE)
def test_an_interrupt_while_the_program_is_loaded_is_neither_lost_nor_another_error(
    moment: str,
) -> None:
    sends = (
        "import os, signal, sys\nclass Sends:\n"
        " def __set_name__(self, *_): os.kill(os.getpid(), signal.SIGINT); sum(range(9))\n"
        " def __del__(self): os.kill(os.getpid(), signal.SIGINT); sum(range(9))\n"
    )
    hook = "class Hook:\n def find_spec(self, name, *_):\n" + (
        f"  if name == 'click': exec({INSIDE[moment]!r})\nsys.meta_path.insert(0, Hook())\n"
    )
    start = (
        "sys.argv = ['kalends', 'policies']\nfrom kalends.__main__ import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", sends + hook + start], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (EXIT_INTERRUPTED, "")
    assert done.stderr.strip() == "kalends: interrupted"


def test_nothing_is_loaded_before_the_program_can_be_interrupted() -> None:
    listing = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); before = {*sys.modules};"
        " import kalends.__main__; print(*sorted({*sys.modules} - before))"
    )
    source = Path(kalends.__file__).parents[1]
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", listing, source],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert loaded.stdout.split() == [
        "__future__",
        "gc",
        "kalends",
        "kalends.__main__",
        "kalends.version",
    ]


@pytest.mark.parametrize("module", ["kalends.cli", "click", "kalends.cli.research.policies"])
def test_an_interrupt_while_the_program_is_loaded_is_told_as_later(module: str) -> None:
    hook = "import sys\nclass Hook:\n def find_spec(self, name, *_):\n" + (
        f"  if name == {module!r}: raise KeyboardInterrupt\nsys.meta_path.insert(0, Hook())\n"
    )
    start = (
        "sys.argv = ['kalends', 'policies']\nfrom kalends.__main__ import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", hook + start], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (EXIT_INTERRUPTED, "")
    assert done.stderr.strip() == "kalends: interrupted"
