"""Whoever gives an option something else than a number is told what is accepted: in all commands."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from test_cli_empty_values import ALL

from kalends.cli import cli

NUMBERS = [
    pytest.param(path, option.opts[-1], id=" ".join((*path, option.opts[-1])))
    for path, command in ALL
    for option in command.params
    if isinstance(option, click.Option)
    and isinstance(option.type, click.IntRange | click.types.FloatParamType | type(click.INT))
    and not option.count
]


def test_options_with_numbers_are_found() -> None:
    assert len(NUMBERS) > 15


@pytest.mark.parametrize(("path", "option"), NUMBERS)
@pytest.mark.parametrize("word", ["1e2", "1_0", "１２", "1.5", "9" * 2_000])  # noqa: RUF001
def test_a_word_that_is_no_number_is_refused_with_what_is_accepted(
    path: tuple[str, ...], option: str, word: str
) -> None:
    refused = CliRunner().invoke(cli, [*path, option, word])
    assert refused.exit_code == 2
    assert option in refused.output
    assert "is not a whole number" in refused.output
    assert "in digits" in refused.output
    assert len(refused.output) < 600


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (["find", "a/b", "--for", "1h", "--count", "101"], "from 1 to 100"),
        (["log", "a/b/1", "--attempt", "0"], "of at least 1"),
        (["book", "a/b", "--for", "1h", "--priority", "-101"], "from -100 to 100"),
    ],
)
def test_a_number_outside_its_limits_is_refused_with_them(words: list[str], limits: str) -> None:
    refused = CliRunner().invoke(cli, words)
    assert f"is not a whole number {limits}, in digits" in refused.output
