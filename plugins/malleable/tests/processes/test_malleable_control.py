"""A program and who may change its size, over a real socket: asked, answered, broken off, confused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from test_malleable_programs import environment as environment
from tests.processes import malleable_programs

CORES = sorted(os.sched_getaffinity(0))


class Shepherd:
    """Listens where a job's shepherd does, and says what a test wants it to."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "control")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.settimeout(60)
        self._lines: IO[bytes] | None = None
        self.program: socket.socket | None = None

    def welcome(self) -> None:
        self.program, _ = self._listener.accept()
        self.program.settimeout(60)
        self._lines = self.program.makefile("rb")

    def hear(self) -> dict[str, Any]:
        """Return what the program says; whatever it wants to begin with, it may."""
        said = self.hear_all()
        while "taking" in said:
            self.say({"go": said["taking"]})
            said = self.hear_all()
        return said

    def hear_all(self) -> dict[str, Any]:
        assert self._lines is not None
        said: dict[str, Any] = json.loads(self._lines.readline())
        return said

    def say(self, line: bytes | dict[str, Any]) -> None:
        assert self.program is not None
        self.program.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def break_off(self) -> None:
        assert self.program is not None
        assert self._lines is not None
        self._lines.close()
        self.program.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def shepherd(tmp_path: Path) -> Iterator[Shepherd]:
    found = Shepherd(tmp_path)
    yield found
    found.close()


class Started:
    """The program `telling`, which makes SOPs until it is told to end."""

    def __init__(self, folder: Path, environment: dict[str, str], control: str, *more: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "kalends_malleable", malleable_programs.__file__]
        self.process = subprocess.Popen(
            [*command, "telling", str(folder), *more],
            env={**environment, "KALENDS_CONTROL": control},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> str:
        """Have it end by itself; return what else it prints."""
        (self.folder / "stop").touch()
        printed, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return printed


def test_a_program_does_what_its_control_asks_and_says_what_it_cost(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    assert shepherd.hear() == {"sizes": [1, 2, 4]}
    for number, to in enumerate([2, 4, 1, 4], 1):
        shepherd.say({"change": number, "to": to, "cores": CORES[:1]})
        answer = shepherd.hear()
        assert (answer["changed"], answer["ranks"]) == (number, to)
        assert answer["took_s"] >= answer["moving_s"] >= 0
    shepherd.say({"change": 4, "to": 4})
    assert shepherd.hear() == answer, "repeated: the same answer, and no other change"
    shepherd.say({"change": 5, "to": 3})
    assert "not eligible" in shepherd.hear()["why"]
    shepherd.say({"change": 6, "to": 4})
    assert shepherd.hear()["changed"] == 6, "as many as there are"
    printed = program.end().split()
    assert "".join(printed) == "enteredwith".join(["", "1", "2", "4", "1", "4"]) + "endedwith2"
    assert shepherd.hear() == {"sizes": [1, 2]}, "the next stage"
    assert shepherd.hear()["changed"] == 0, "which shrinks by itself"
    for rank in range(4):
        assert json.loads((tmp_path / f"4.{rank}").read_text()) == CORES[:1]


def test_cores_that_are_not_there_are_refused(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    shepherd.hear()
    for number, to in enumerate([1, 2], 1):
        shepherd.say({"change": number, "to": to, "cores": [CORES[0], 4_000]})
        assert shepherd.hear() == {
            "refused": number, "why": f"the cores {CORES[0]}, 4000 are not all usable"
        }  # fmt: skip
    assert program.end() == "entered with 1\nended with 1\n"


def test_a_program_does_not_begin_with_a_change_that_was_taken_back(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    shepherd.hear()
    shepherd.say({"change": 1, "to": 4})
    assert shepherd.hear_all() == {"taking": 1}
    shepherd.say({"withdrawn": 7})
    shepherd.say({"withdrawn": 1})
    shepherd.say({"change": 2, "to": 2})
    assert shepherd.hear()["changed"] == 2
    assert program.end() == "entered with 1\nentered with 2\nended with 2\n"


def test_a_program_that_is_not_told_whether_it_may_begin_does_not_and_asks_again(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    shepherd.hear()
    shepherd.say({"change": 1, "to": 4})
    assert shepherd.hear_all() == {"taking": 1}
    shepherd.say({"denied": 4, "why": "of something else"})
    shepherd.welcome()
    assert shepherd.hear() == {"sizes": [1, 2, 4]}, "it has let that line go, and gone on"
    shepherd.say({"change": 1, "to": 4})
    assert shepherd.hear()["changed"] == 1
    assert program.end() == "entered with 1\nentered with 4\nended with 2\n"


def test_nonsense_and_half_lines_do_nothing(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    shepherd.hear()
    shepherd.say(b'null\n{}\n\xff\n{"change": 1}\n{"change": -1, "to": 2}\n' + b"x" * 200_000)
    shepherd.say(b'\n{"change": 2, "t')
    shepherd.say(b'o": 2}\n')
    assert shepherd.hear()["changed"] == 2
    assert program.end() == "entered with 1\nentered with 2\nended with 2\n"


def test_a_program_whose_control_breaks_off_goes_on_and_comes_back(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path)
    shepherd.welcome()
    shepherd.hear()
    shepherd.say({"change": 1, "to": 2})
    answer = shepherd.hear()
    shepherd.break_off()
    shepherd.welcome()
    assert shepherd.hear() == {"sizes": [1, 2, 4]}
    assert shepherd.hear() == answer
    shepherd.say({"change": 2, "to": 1})
    assert shepherd.hear()["changed"] == 2
    assert program.end() == "entered with 1\nentered with 2\nentered with 1\nended with 1\n"


def test_a_program_without_its_control_runs_at_its_first_size(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, str(tmp_path / "nobody"))
    assert program.end() == "entered with 1\nended with 1\n"


def test_a_program_asks_for_ranks_itself(
    shepherd: Shepherd, environment: dict[str, str], tmp_path: Path
) -> None:
    program = Started(tmp_path, environment, shepherd.path, "4")
    shepherd.welcome()
    shepherd.hear()
    assert shepherd.hear() == {"want": 4}
    shepherd.say({"change": 1, "to": 4})
    assert shepherd.hear()["ranks"] == 4
    assert program.end() == "entered with 1\nentered with 4\nended with 2\n"


def test_a_job_begins_with_the_nodes_and_cores_that_it_has(
    environment: dict[str, str], tmp_path: Path
) -> None:
    job = {"KALENDS_NODES": "3,7", "KALENDS_CORES": str(CORES[-1])}
    program = Started(tmp_path, {**environment, **job}, "")
    assert program.end() == "entered with 2\nended with 2\n"
    assert [json.loads((tmp_path / f"2.{rank}").read_text()) for rank in (0, 1)] == [CORES[-1:]] * 2
