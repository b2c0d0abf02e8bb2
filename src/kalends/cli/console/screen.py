"""The terminal that drawings appear on: its width, its colours, and the signs that it can show."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kalends.cli.requests import timeline

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "locked": "red", "held": "yellow", "available": "green", "closed": "bright_black",
    "unknown": "bright_black", "running": "red", "planned": "yellow", "reserved": "magenta",
    "free": "green", "out": "bright_black", "": "",
}  # fmt: skip


def console() -> Console:
    """Return a rich console with the width of the terminal, and with colours if `colours` allows them."""
    from rich.console import Console

    context = click.get_current_context(silent=True)
    colour = context.color if context is not None else None
    return Console(
        highlight=False,
        file=sys.stdout,
        force_terminal=True if colour else None,
        no_color=False if colour else None,
        color_system="auto" if colour is None else "standard" if colour else None,
    )


def glyphs() -> dict[timeline.State, str]:
    """Return the signs to draw with: plain ones if standard output cannot show the others."""
    return timeline.UNICODE if can_print("█▒·") else timeline.ASCII


def print_lines(lines: Iterable[Sequence[tuple[str, str]]], terminal: Console) -> None:
    """Print lines of styled pieces, in colours if the terminal has them."""
    from rich.text import Text

    for line in lines:
        drawn = Text.assemble(*((text, STYLES[state]) for text, state in line))
        terminal.print(drawn, soft_wrap=True)


def can_print(text: str) -> bool:
    """Return whether standard output can show every sign of `text`."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
