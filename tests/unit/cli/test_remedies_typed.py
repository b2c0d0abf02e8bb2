"""What an error tells its reader to type can be typed: commands in remedies exist, with their options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import every_command

import kalends
from kalends.cli import cli
from kalends.cli.console.groups import LazyGroup

SOURCE = Path(kalends.__file__).parent
STANDS_FOR = "X1"
"""What is filled in when the error occurs."""

_COMMAND = re.compile(r"kalends ((?:[a-z-]+ ?)+(?:[^;,()`]*))")
_NAMED = re.compile("remedy|mend", re.IGNORECASE)
_OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


def remedies() -> Iterator[tuple[str, str]]:
    """Every text that is handed to `remedy`, or stands in a table of remedies, with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        if path.name != "refusals.py" and not _NAMED.search(source):
            continue  # To parse all modules would take each worker of the tests seconds.
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                told: ast.expr | None = node.value
            elif isinstance(node, ast.Assign) and any(_is_remedy(each) for each in node.targets):
                told = node.value
            else:
                continue
            for part in ast.walk(told) if told is not None else ():
                if isinstance(part, ast.Constant | ast.JoinedStr) and (text := _text(part)):
                    yield f"{path.relative_to(SOURCE)}:{part.lineno}", text
        if path.name == "refusals.py":
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", node.value


def _is_remedy(target: ast.expr) -> bool:
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return "remedy" in name.lower() or "mend" in name.lower()


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    assert isinstance(node, ast.JoinedStr)
    return "".join(
        str(each.value) if isinstance(each, ast.Constant) else STANDS_FOR for each in node.values
    )


def commands_in(text: str) -> Iterator[tuple[click.Command, str]]:
    """The commands that `text` names, each with what stands behind it up to the end of the clause."""
    for match in _COMMAND.finditer(text):
        command: click.Command = cli
        words = match[1].split(" ")
        while words and isinstance(command, LazyGroup):
            found = command.get_command(click.Context(command), words[0])
            if found is None:
                break
            command = found
            words.pop(0)
        if command is not cli:
            yield command, " ".join(words)
        elif f"`kalends {words[0]}" in text:
            raise AssertionError(f"there is no command kalends {words[0]}")


ALL = sorted(set(remedies()))
NAMED = [(place, text) for place, text in ALL if "kalends " in text]


def test_remedies_are_found() -> None:
    assert len(ALL) > 700
    assert len(NAMED) > 60


@pytest.mark.parametrize(("place", "text"), NAMED)
def test_a_command_in_a_remedy_exists_with_its_options(place: str, text: str) -> None:
    for command, rest in commands_in(text):
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        known.add("--help")
        for option in _OPTION.findall(rest):
            assert option in known, f"{command.name} has no {option}"
        try:
            words = shlex.split(rest)
        except ValueError:
            continue
        # A sentence may go on behind the command: what is typed ends with its last option and value.
        last = max((at for at, word in enumerate(words) if word.startswith("--")), default=-1)
        # A command keeps the help option of the program that it is first called in, for all later tests.
        context = click.Context(command, resilient_parsing=True, **cli.context_settings)
        command.make_parser(context).parse_args(args=words[: last + 2])


@pytest.mark.parametrize(("place", "text"), ALL)
def test_an_option_in_a_remedy_is_one_of_some_command(place: str, text: str) -> None:
    for option in _OPTION.findall(text):
        assert option in EVERY_OPTION, option


EVERY_OPTION = {
    *(opt for _, command, _ in every_command() for each in command.params
      for opt in (*each.opts, *each.secondary_opts)), "--help",
    # Of a user's own program, in an example.
    "--fast",
}  # fmt: skip
