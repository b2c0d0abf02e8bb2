"""The pages for people who come from other systems: their commands exist, their tables say what we do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from tests.unit.cli.test_remedies_typed import commands_in

from kalends.cli import cli
from kalends.cli.jobs.foreign_lines import foreign_lines

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "coming-from-slurm.md", DOCS / "coming-from-booking-systems.md"]
COMMANDS = [
    (page.stem, line)
    for page in PAGES
    for line in re.findall(r"`(kalends [^`]+)`", page.read_text())
]
LINES = re.findall(r"^\| `(-[^`]*)` \| `(-[^`]*)` \|$", PAGES[0].read_text(), re.MULTILINE)


def test_the_pages_have_commands_and_options() -> None:
    assert len(COMMANDS) > 40
    assert len(LINES) > 15


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_of_the_pages_can_be_typed(page: str, line: str) -> None:
    ((command, rest),) = commands_in(f"`{line}`")
    context = click.Context(command, resilient_parsing=True, **cli.context_settings)
    command.make_parser(context).parse_args(args=shlex.split(rest.rstrip("`")))


@pytest.mark.parametrize(("theirs", "ours"), LINES)
def test_a_line_of_slurm_becomes_the_one_that_the_page_says(theirs: str, ours: str) -> None:
    (found,) = foreign_lines(f"#SBATCH {theirs}\n")
    assert shlex.split(found.ours) == shlex.split(ours)
