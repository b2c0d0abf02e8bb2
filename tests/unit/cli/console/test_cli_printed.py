"""What is printed fits a narrow terminal, loses nothing, and steers none, whoever wrote it."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.cli.console.output import HarmlessBytes, plain_line, rows
from kalends.cli.console.screen import StatedLine, painted

HEADER = ("ID", "STATE", "START (Europe/Berlin)", "UNITS", "REQUEST", "NOTE")
BODY = [
    ("51709732", "reserved", "Tue 2026-12-01 13:30", 1, "ncsa/cave", ""),
    (
        "58219078",
        "cancelled",
        "Mon 2026-11-30 16:00",
        64,
        "sdsc/sp2:64 + caltech/beamline",
        "the demo",
    ),
]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def test_a_table_that_is_too_wide_is_folded_between_its_columns(narrow: None) -> None:
    lines = rows(HEADER, BODY, right=("UNITS",))
    assert max(map(len, lines)) <= 60
    assert lines == [
        "ID        STATE      START (Europe/Berlin)  UNITS",
        "    REQUEST                         NOTE",
        "51709732  reserved   Tue 2026-12-01 13:30       1",
        "    ncsa/cave",
        "58219078  cancelled  Mon 2026-11-30 16:00      64",
        "    sdsc/sp2:64 + caltech/beamline  the demo",
    ]


def test_without_a_terminal_a_row_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(rows(HEADER, BODY)) == 3


@given(
    st.integers(1, 79),
    st.lists(st.lists(st.text("ab ", max_size=30), min_size=4, max_size=4), max_size=4),
)
def test_no_cell_is_lost_and_no_line_is_too_long_unless_a_single_cell_is(
    width: int, body: list[list[str]]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(width))
        header = ("ONE", "STATE", "THREE", "FOUR")
        folded = rows(header, body)
    longest = max((len(cell) for line in (header, *body) for cell in line), default=0)
    assert max(map(len, folded)) <= max(width, longest + 4)
    together = "".join(map(plain_line, folded)).replace(" ", "")
    assert together == "".join("".join(line) for line in (header, *body)).replace(" ", "")


def test_the_state_is_found_in_a_folded_row(narrow: None) -> None:
    lines = rows(
        ("A COLUMN THAT TAKES ALMOST THE WHOLE WIDTH OF IT ALL", "B", "STATE"), [("x", "y", "held")]
    )
    shown = [line for line in lines if isinstance(line, StatedLine)]
    assert [click.unstyle(painted(line, plain_line(line))).strip() for line in shown] == ["held"]
    assert painted(shown[0], plain_line(shown[0])) != shown[0]


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
