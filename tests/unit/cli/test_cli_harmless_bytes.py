"""The output of others' jobs on a terminal: it reads the same, and steers nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.cli.console.output import HarmlessBytes


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_only_what_prints_gets_through_however_it_is_divided(pieces: list[bytes]) -> None:
    harmless, whole = HarmlessBytes(), HarmlessBytes()
    got = b"".join(harmless.of(each) for each in pieces) + harmless.of(b"", last=True)
    assert got == whole.of(b"".join(pieces), last=True)
    assert all(sign.isprintable() or sign in "\n\t" for sign in got.decode())


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain\ttext\nand more\n", "plain\ttext\nand more\n"),
        ("grüße: 日本".encode(), "grüße: 日本"),
        (b"\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"),
        (b"all is well\rall is lost", "all is well\\rall is lost"),
        ("\x9b31m".encode(), "\\x9b31m"),
        ("\u202eevil".encode(), "\\u202eevil"),
        (b"\x9b31m\xff", "\\x9b31m\\xff"),
        (b"\x08\x7f\x00", "\\x08\\x7f\\x00"),
    ],
)
def test_what_steers_a_terminal_is_escaped(written: bytes, shown: str) -> None:
    assert HarmlessBytes().of(written, last=True).decode() == shown
