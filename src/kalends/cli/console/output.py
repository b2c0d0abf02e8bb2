"""The form of answers: a versioned JSON envelope, or aligned rows of plain text."""

from __future__ import annotations

import codecs
import errno
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from kalends.cli.console import screen
from kalends.cli.console.json_times import with_iso_times
from kalends.cli.console.settings import Settings
from kalends.contract.plain_tables import padded

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from rich.console import Console

JSON_VERSION = 1

STATE = "STATE"
"""The column of states in every table."""

USUAL_COLUMNS = 80

_BELOW = 4 * " "


def answer(settings: Settings, kind: str, data: object, lines: Callable[[], Iterable[str]]) -> None:
    """Print `data` as JSON of this `kind` with ``--json``, otherwise the `lines`."""
    if settings.json:
        print_json(kind, data)
        return
    for line in lines():
        say(line)


def say(line: str, *, error: bool = False) -> None:
    """Print one line of text; of control characters, only those that colour its state remain."""
    if error:
        click.echo(plain_line(line), err=True)
    else:
        _echo(screen.painted(line, plain_line(line)))


def _echo(text: str | bytes, *, nl: bool = True) -> None:
    """Print on standard output; if that fails, e.g. on a full disk, report it and exit."""
    try:
        click.echo(text, nl=nl)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # The rest of the buffer would fail again when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(f"kalends: cannot write the answer: {error.strerror}", error=True)
        raise SystemExit(1) from error


def print_lines(
    lines: Iterable[Sequence[tuple[str, screen.DrawnState]]], terminal: Console
) -> None:
    """Print lines of styled pieces, in colours if the terminal has them."""
    from rich.text import Text

    with terminal.capture() as drawn:
        for line in lines:
            pieces = ((text, screen.STYLES[state]) for text, state in line)
            terminal.print(Text.assemble(*pieces), soft_wrap=True)
    _echo(drawn.get().removesuffix("\n"))


def say_loudly(line: str) -> None:
    """Print one line in bold on a terminal, for events that need an answer soon."""
    click.secho(plain_line(line), bold=True)


def plain_line(line: str) -> str:
    """Return `line` with blanks for characters that could steer a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in line)


def say_script(source: str) -> None:
    """Print a script: unchanged into a file or pipe, with control characters escaped on a terminal."""
    if not sys.stdout.isatty():
        click.echo(source, nl=False)
        return
    for line in source.expandtabs().splitlines():
        say(line)


def say_file(text: str) -> None:
    """Print the text of a file unchanged, with its own line ends."""
    _echo(text.encode(), nl=False)


class HarmlessBytes:
    """A filter for text by others, in pieces: escapes all that could control the terminal or hide text."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode

    def of(self, piece: bytes, *, last: bool = False) -> bytes:
        text = self._decode(piece, last)
        return "".join(
            sign if sign.isprintable() or sign in "\n\t" else ascii(sign)[1:-1] for sign in text
        ).encode()


def print_json(kind: str, data: object, *, one_line: bool = False) -> None:
    """Print ``{"version": 1, "kind": ..., "data": ...}`` with every field of `data`."""
    _echo(json_text(kind, data, one_line=one_line))


def json_text(kind: str, data: object, *, one_line: bool = False) -> str:
    """Return the text that `print_json` prints.

    Characters that could control a terminal, or reverse text on it, are escaped. The JSON value is the same.
    """
    envelope = {"version": JSON_VERSION, "kind": kind, "data": plain(data)}
    text = msgspec.json.format(msgspec.json.encode(envelope), indent=-1 if one_line else 2)
    return "".join(
        sign if sign.isprintable() or sign == "\n" else _escaped(sign) for sign in text.decode()
    )


def _escaped(sign: str) -> str:
    """Return `sign` as a JSON escape of one or two UTF-16 units."""
    units = sign.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def plain(value: object, *, ours: bool = True) -> object:
    """Return `value` as maps, lists and scalars, with fields at their default, and times in ISO 8601, too.

    Keys of maps that are not `ours` are names that others chose; they stay as they are.
    """
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        fields = {name: plain(getattr(value, name), ours=False) for name in names}
        return with_iso_times(fields, type(value).__name__)
    if isinstance(value, dict):
        items = {name: plain(item, ours=ours) for name, item in value.items()}
        return with_iso_times(items) if ours else items
    if isinstance(value, list | tuple):
        return [plain(item, ours=ours) for item in value]
    return value


def rows(
    header: Sequence[str], body: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> list[str]:
    """Align columns, two blanks apart; columns in `right` hold numbers, and that of states has colours.

    On a narrow terminal, the last columns are on separate lines below the others.
    """
    table = padded(header, body, right)
    widths = [len(cell) for cell in table[0]]
    state = list(header).index(STATE) if STATE in header else -1
    lines = []
    for number, cells in enumerate(table):
        for columns in _parts(widths, _room()):
            indent = "" if columns[0] == 0 else _BELOW
            line = (indent + "  ".join(cells[at] for at in columns)).rstrip()
            if number and state in columns:
                before = sum(widths[at] + 2 for at in columns if at < state)
                line = screen.stated(line, cells[state].rstrip(), len(indent) + before)
            lines.append(line)
    return lines


def _parts(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the columns of each line, for a row that needs several lines."""
    parts: list[list[int]] = []
    used = room + 1
    for column, width in enumerate(widths):
        if not parts or (room and used + 2 + width > room):
            used = len(_BELOW) if parts else 0
            parts.append([])
        else:
            used += 2
        parts[-1].append(column)
        used += width
    return parts


def _room() -> int:
    """Return the columns that a table may take; 0 without limit.

    That is the width of the terminal. A pipe has no width, so COLUMNS is used if it is narrower than usual.
    A wider COLUMNS does not fold the text, because another program may read it.
    """
    # Imported here because it loads all kinds of compression, and many commands print no table.
    import shutil

    width = shutil.get_terminal_size((0, 0)).columns
    if not sys.stdout.isatty():
        width = width if os.environ.get("COLUMNS") and width < USUAL_COLUMNS else 0
    # Some tables are indented below a line.
    return max(width - 2, 1) if width else 0


def short_time(time_s: int, zone: ZoneInfo) -> str:
    """Format as ``Tue 2026-07-14 08:00``, with seconds if any; the heading names the zone."""
    # Imported here because it loads tables of zones, and many answers have no times.
    from kalends.core import full_times

    return full_times.short_time(time_s, zone)
