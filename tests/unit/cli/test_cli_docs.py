"""docs/cli.md is the program's own help, and misses no command.

After a change of the help, record it again: KALENDS_RECORD=1 pytest tests/unit/cli/test_cli_docs.py
"""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import WIDTH, every_command

import kalends.cli
from kalends.cli import cli
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.groups import LazyGroup
from kalends.cli.console.settings import Settings

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"
FILES = (".toml", ".sqlite", ".token", ".pub", ".card", ".csv", ".ics")

BEGIN = "<!-- help: recorded by tests/unit/cli/test_cli_docs.py, do not edit below -->\n"


def rendered() -> str:
    parts = [BEGIN]
    for path, command, ctx in every_command():
        parts.append(f"\n## {path}\n\n```\n{command.get_help(ctx)}\n```\n")
    return "".join(parts)


def test_the_documentation_has_the_help_of_every_command_as_it_is() -> None:
    intro, _, recorded = DOCUMENT.read_text().partition(BEGIN)
    if os.environ.get("KALENDS_RECORD"):
        DOCUMENT.write_text(intro + rendered())
        recorded = rendered().removeprefix(BEGIN)
    assert BEGIN + recorded == rendered()


def test_the_table_of_kinds_has_all_that_is_printed_as_json() -> None:
    """The kinds are the constants in the calls that print JSON."""
    table = DOCUMENT.read_text().partition("| kind |")[2].partition("\n\n")[0]
    listed = {kind for row in table.splitlines()[2:] for kind in row.split("|")[1].split("`")[1::2]}
    printed = set()
    for path in Path(kalends.cli.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            place = {"answer": 1, "print_json": 0}.get(call.func.attr, len(call.args))
            printed |= {
                each.value
                for argument in call.args[place : place + 1]
                for each in ast.walk(argument)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
    assert printed - listed == set()


def test_every_command_has_a_group_and_begins_with_the_sentence_that_is_shown_there() -> None:
    for path, command, ctx in every_command():
        first = (command.help or "").splitlines()[0]
        assert first.endswith("."), path
        if isinstance(command, LazyGroup):
            for rows in command.listed.values():
                for name, (_, summary) in rows.items():
                    found = command.get_command(ctx, name)
                    assert found is not None
                    assert (found.name, (found.help or "").splitlines()[0]) == (name, summary)


def test_every_command_that_a_module_makes_is_in_a_group() -> None:
    names = [module.name for module in pkgutil.walk_packages(kalends.cli.__path__, "kalends.cli.")]
    made = {
        id(value): f"{name}: {value.name}"
        for name in ("kalends.cli", *names)
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, click.Command)
    }
    assert made.keys() == {id(command) for _, command, _ in every_command()}, made


def examples() -> Iterator[tuple[str, str]]:
    for path, command, _ in every_command():
        assert isinstance(command, LazyGroup | LocalCommand), path
        yield from ((path, example) for example in command.examples)


def test_every_help_ends_with_two_examples_each_on_one_line() -> None:
    for path, command, ctx in every_command():
        last = [example for of, example in examples() if of == path]
        assert len(last) == 2, path
        assert command.get_help(ctx).endswith("\n  ".join(["Examples:", *last])), path
        assert max(map(len, last)) <= WIDTH - 2, path


@pytest.mark.parametrize(("path", "example"), list(examples()))
def test_the_examples_parse(
    path: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    monkeypatch.setattr(click.Command, "invoke", lambda _, ctx: parsed.append(ctx.command_path))
    monkeypatch.chdir(tmp_path)
    command_line, _, _ = example.partition(" > ")
    program, *words = shlex.split(command_line)
    for word in words:
        if word == "people" or Path(word).suffix in FILES:
            Path(word).touch()
        if Path(word).suffix == ".sh":
            Path(word).write_text("#!/bin/sh\n#KALENDS --for 1h\n")
    assert program == "kalends"
    assert cli.run(Settings(), words) == 0
    assert parsed[-1].startswith(path)


def test_every_command_takes_json() -> None:
    for path, command, ctx in every_command():
        if not isinstance(command, LazyGroup) or ctx.parent is None:
            assert "--json" in [name for option in command.params for name in option.opts], path
