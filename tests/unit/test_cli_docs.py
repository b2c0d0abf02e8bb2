"""docs/cli.md is the program's own help, and misses no command.

After a change of the help, record it again: KALENDS_RECORD=1 pytest tests/unit/test_cli_docs.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from kalends.cli import cli
from kalends.cli._groups import LazyGroup

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
BEGIN = "<!-- help: recorded by tests/unit/test_cli_docs.py, do not edit below -->\n"
WIDTH = 80


def commands(
    command: click.Command = cli, above: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """The program, its commands and theirs, depth first, with their full names."""
    name = "kalends" if above is None else command.name
    ctx = click.Context(
        command, parent=above, info_name=name, terminal_width=WIDTH, **command.context_settings
    )
    yield ctx.command_path, command, ctx
    if isinstance(command, LazyGroup):
        for sub in command.list_commands(ctx):
            found = command.get_command(ctx, sub)
            assert found is not None
            yield from commands(found, ctx)


def rendered() -> str:
    parts = [BEGIN]
    for path, command, ctx in commands():
        parts.append(f"\n## {path}\n\n```\n{command.get_help(ctx)}\n```\n")
    return "".join(parts)


def test_the_documentation_has_the_help_of_every_command_as_it_is() -> None:
    intro, _, recorded = DOCUMENT.read_text().partition(BEGIN)
    if os.environ.get("KALENDS_RECORD"):
        DOCUMENT.write_text(intro + rendered())
        recorded = rendered().removeprefix(BEGIN)
    assert BEGIN + recorded == rendered()


def test_the_summaries_in_the_table_are_those_of_the_commands() -> None:
    for _, command, ctx in commands():
        if isinstance(command, LazyGroup):
            for name, summary in command._summaries.items():
                found = command.get_command(ctx, name)
                assert found is not None
                assert found.name == name
                assert (found.help or "").splitlines()[0] == summary


def test_every_command_takes_json() -> None:
    for path, command, ctx in commands():
        if not isinstance(command, LazyGroup) or ctx.parent is None:
            assert "--json" in [name for option in command.params for name in option.opts], path
