"""The terminal: its width, the signs that it can show, and its colours, which only repeat the words.

``--color`` decides. Without it, NO_COLOR (no-color.org) and FORCE_COLOR decide, and TERM=dumb means no
colours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console


When = Literal["auto", "always", "never"]

STATE_COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("reserved", "running", "up", "available"), "green"),
    **dict.fromkeys(("held", "stopped", "changing", "stopping", "ending"), "yellow"),
    **dict.fromkeys(("open", "queued", "kept", "starting"), "cyan"),
    **dict.fromkeys(("failed", "locked", "down", "lost"), "red"),
    **dict.fromkeys(("cancelled", "replaced", "ended", "withdrawn"), "bright_black"),
}
"""Colours by the first word of a state, for all kinds of objects."""

SlotState = Literal["locked", "held", "available", "closed", "past", "unknown"]
NodeState = Literal["running", "planned", "reserved", "free", "out"]
DrawnState = Literal[SlotState, NodeState, ""]
"""What drawn units and drawn nodes are in; "" for plain text."""

STYLES: Final[Mapping[DrawnState, str]] = {
    "locked": "red", "held": "yellow", "available": "green", "closed": "bright_black",
    "past": "bright_black", "unknown": "bright_black", "running": "red", "planned": "yellow",
    "reserved": "magenta", "free": "green", "out": "bright_black", "": "",
}  # fmt: skip


class StatedLine(str):
    """A line of text that has a state, of `length` characters, at `start`."""

    start: int
    length: int


def stated(line: str, state: str, start: int = 0) -> str:
    """Return `line` with `state`, which begins at `start`, marked for its colour."""
    found = StatedLine(line)
    found.start, found.length = start, len(state)
    return found


def painted(line: str, text: str) -> str:
    """Return `text`, the printable form of `line`, with its state in colour."""
    if not isinstance(line, StatedLine):
        return text
    end = line.start + line.length
    state = text[line.start : end]
    colour = STATE_COLOURS.get(state.replace(":", " ").split(" ")[0])
    return text[: line.start] + click.style(state, fg=colour) + text[end:] if colour else text


def choice(when: When, environ: Mapping[str, str]) -> bool | None:
    """Return whether to use colours; None for: if standard output is a terminal."""
    if when != "auto":
        return when == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return False if environ.get("TERM") == "dumb" else None


def choose(ctx: click.Context, parameter: click.Parameter, value: When | None) -> None:
    """Apply the option to its command and all commands below it."""
    if value is not None or ctx.parent is None:
        ctx.color = choice(value or "auto", os.environ)


def console() -> Console:
    """Return a rich console with the width of the terminal, and with colours if `choose` allows them."""
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


def can_print(text: str) -> bool:
    """Return whether standard output can show every sign of `text`."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
