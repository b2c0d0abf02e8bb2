"""``kalends policies``: list the scheduling policies."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Final

import click

from kalends.cli import _output
from kalends.cli._settings import LocalCommand, Settings, pass_settings

TEXT_COLUMNS_MIN: Final = 30
"""The fewest columns for wrapped text; below, lines that the terminal breaks read better."""


@click.command(
    "policies",
    cls=LocalCommand,
    examples=("kalends policies", "kalends policies --json"),
)
@pass_settings
def command(settings: Settings) -> None:
    """List the scheduling policies.

    Parts in brackets are optional. A policy of your own is named module:Class, with the module on
    PYTHONPATH; docs/policies.md has a template.
    """
    from kalends.scheduling.registry import POLICIES

    listed = [
        {
            "name": policy.name,
            "shown": policy.shown,
            "number": policy.number,
            "optional": policy.optional,
            "summary": policy.summary,
            "paper": policy.paper,
        }
        for policy in POLICIES
    ]
    names = ["POLICY", *(policy.shown for policy in POLICIES)]
    texts = ["WHAT IT DOES (FROM)", *(f"{each.summary} ({each.paper})" for each in POLICIES)]
    _output.answer(settings, "policies", listed, lambda: _listing(names, texts))


def _listing(names: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the names next to their texts, wrapped to the terminal or to 80 columns."""
    indent = max(map(len, names)) + 2
    width = max(get_terminal_size().columns, indent + TEXT_COLUMNS_MIN)
    return [
        line
        for name, text in zip(names, texts, strict=True)
        for line in textwrap.wrap(
            text,
            width,
            initial_indent=name.ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
