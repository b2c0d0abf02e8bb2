"""The reader of an answer may leave early, as ``head`` does: nothing is said about that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from client_broker import Broker


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("policies",), 0), (("policies", "--json"), 0), (("--help",), 0), (("calendar", "--help"), 0),
        (("calendar", "sdsc/sp2"), 0), (("show", "x", "--json"), 2), (("frobnicate", "--json"), 2),
        (("admin", "config", "--json", "nothing"), 2),
    ],
)  # fmt: skip
def test_a_reader_that_has_left_makes_no_traceback(
    broker: Broker, words: tuple[str, ...], code: int
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "kalends", *words],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "KALENDS_BROKER": broker.url, "KALENDS_USER": "ann"},
        check=False,
    )
    os.close(writing)
    assert b"Broken" not in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert done.returncode == code
