"""An empty value, of a shell variable that is not set, is refused by name: in all options of all commands."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from command_line import every_command

from kalends.cli import cli

ALL = [(tuple(path.split()[1:]), command) for path, command, _ in every_command()]
OPTIONS = [
    pytest.param(path, option, id=" ".join((*path, option.opts[-1])))
    for path, command in ALL
    for option in command.params
    if isinstance(option, click.Option) and not option.is_flag and not option.count
]
ARGUMENTS = [
    pytest.param(
        path, place, argument.human_readable_name.upper(), id=" ".join((*path, str(place)))
    )
    for path, command in ALL
    for place, argument in enumerate(
        each for each in command.params if isinstance(each, click.Argument)
    )
    if argument.nargs != -1
]


def test_all_commands_are_walked() -> None:
    assert len(OPTIONS) > 400
    assert len(ARGUMENTS) > 40


@pytest.mark.parametrize(("path", "option"), OPTIONS)
def test_an_empty_value_of_an_option_is_refused_by_the_name_of_the_option(
    path: tuple[str, ...], option: click.Option
) -> None:
    for name in option.opts:
        forms = [[name, ""], [name, " "]] + ([[f"{name}="]] if name.startswith("--") else [])
        for words in forms:
            refused = CliRunner().invoke(cli, [*path, *words])
            assert refused.exit_code == 2, words
            longest = max(option.opts, key=len)
            assert f"kalends: {longest}: the value is empty" in refused.stderr


@pytest.mark.parametrize(("path", "place", "name"), ARGUMENTS)
def test_an_empty_argument_is_refused_by_its_name(
    path: tuple[str, ...], place: int, name: str
) -> None:
    refused = CliRunner().invoke(cli, [*path, *["x"] * place, ""])
    assert refused.exit_code == 2
    assert f"kalends: {name}: the value is empty" in refused.stderr


def test_the_words_of_a_program_may_be_empty() -> None:
    done = CliRunner().invoke(
        cli,
        ["--broker", "http://127.0.0.1:9", "submit", "sdsc/sp2", "--limit", "1m", "--", "echo", ""],
    )
    assert "empty" not in done.stderr
