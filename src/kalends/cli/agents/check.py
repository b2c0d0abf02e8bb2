"""``kalends agent check``: check a script and measure its cost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli.console import output
from kalends.cli.console.commands import LocalCommand
from kalends.cli.console.server_parts import agent_parts
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.requests import agent_options, agent_words
from kalends.client.inputs.scripts import read_script
from kalends.core.errors import InvalidInput
from kalends.core.scripts import script_hash

if TYPE_CHECKING:
    from kalends.client.trials.script_check import TrialCheck

EXIT_FAILED = 1


@click.command(
    "check",
    cls=LocalCommand,
    examples=(
        "kalends agent check mornings.py",
        "kalends agent check mornings.py --argument at=09:30",
    ),
)
@click.argument("file", type=click.Path(path_type=Path))
@agent_options.argument_option
@pass_settings
def command(settings: Settings, file: Path, argument: tuple[str, ...]) -> int:
    """Check a script and measure its cost.

    Lists every violation of the language with its place and remedy; the exit code is then 2. A valid
    script runs on sample calendars of 100 and 1,000 slots, pick(bids) on sample bids; if a run fails,
    the exit code is 1.
    """
    source = read_script(file)
    arguments = agent_options.argument_values(argument)
    with agent_parts():
        from kalends.client.trials.script_check import check
    checked = asyncio.run(check(source, arguments))
    output.answer(settings, "checked", checked, lambda: _lines(str(file), source, checked))
    if checked.code == "rejected":
        return InvalidInput.exit_code
    fine = all(sample.code == "ok" for sample in checked.samples)
    return 0 if checked.code == "ok" and fine else EXIT_FAILED


def _lines(file: str, source: str, checked: TrialCheck) -> list[str]:
    if checked.violations:
        broken = len(checked.violations)
        told = agent_words.violation_lines(file, source, checked.violations)
        return [*told, f"{broken} rule{'' if broken == 1 else 's'} broken"]
    if checked.code != "ok":
        return [f"{file} could not be checked: {checked.code}: {checked.detail}"]
    return [
        f"{file} follows the rules",
        f"  script   {script_hash(source)}",
        f"  size     {len(source.encode())} bytes",
        f"  defines  {', '.join(checked.functions)}",
        f"  runs in  {checked.place}",
        *(f"  {line}" for line in _sample_rows(checked)),
    ]


def _sample_rows(checked: TrialCheck) -> list[str]:
    return output.rows(
        ("CALL", "SLOTS", "ENDED", "CHOSEN", "STEPS", "CPU MS", "WALL MS", "DETAIL"),
        [
            (
                sample.function,
                sample.slots,
                sample.code,
                sample.chosen,
                sample.steps,
                f"{sample.cpu_us / 1000:.1f}",
                f"{sample.wall_us / 1000:.1f}",
                f"line {sample.line}: {sample.detail}" if sample.line else sample.detail,
            )
            for sample in checked.samples
        ],
        right=("SLOTS", "CHOSEN", "STEPS", "CPU MS", "WALL MS"),
    )
