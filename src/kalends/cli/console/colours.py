"""Colours of states on a terminal. They only repeat the words.

``--color`` decides. Without it, NO_COLOR (no-color.org) and FORCE_COLOR decide, and TERM=dumb means no
colours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal

import click

When = Literal["auto", "always", "never"]

STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("reserved", "running", "up", "available"), "green"),
    **dict.fromkeys(("held", "stopped", "changing", "stopping", "ending"), "yellow"),
    **dict.fromkeys(("open", "queued", "kept", "starting"), "cyan"),
    **dict.fromkeys(("failed", "locked", "down", "lost"), "red"),
    **dict.fromkeys(("cancelled", "replaced", "ended", "withdrawn"), "bright_black"),
}
"""Colours by the first word of a state, for all kinds of objects."""


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
    colour = STYLES.get(state.replace(":", " ").split(" ")[0])
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
