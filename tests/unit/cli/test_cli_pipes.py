"""The reader of an answer may leave early, as ``head`` does: nothing is said about that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("policies",), ("policies", "--json"), ("--help",), ("calendar", "--help"), ("show", "x", "--json"),
        ("admin", "config", "--json", "nothing"), ("frobnicate", "--json"),
    ],
)  # fmt: skip
def test_a_reader_that_has_left_makes_no_traceback(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "kalends", *words],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert b"Broken" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert done.returncode in (1, 2)
