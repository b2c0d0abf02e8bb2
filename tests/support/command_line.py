"""The program on the command line in tests: its answers, and every command of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.testing import Result

from kalends.cli import cli
from kalends.cli.console.groups import LazyGroup

Run = Callable[..., Result]
WIDTH = 80


def data(result: Result, kind: str = "") -> Any:
    """Return what a command printed with ``--json``, an answer of this `kind` if it is given."""
    envelope = json.loads(result.stdout)
    assert (envelope["version"], envelope["kind"]) == (1, kind or envelope["kind"])
    return envelope["data"]


def every_command(
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
            yield from every_command(found, ctx)
