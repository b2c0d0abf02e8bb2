"""``kalends admin doctor``: check a store file."""

from __future__ import annotations

from pathlib import Path

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings


@click.command(
    "doctor",
    cls=LocalCommand,
    examples=(
        "kalends admin doctor site.sqlite",
        "kalends admin doctor broker.sqlite --json",
    ),
)
@click.argument("store", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_settings
def command(settings: Settings, store: Path) -> int:
    """Check a store file.

    Prints one line for each problem. The exit code is 1 if there are any.
    """
    with server_parts():
        from kalends.stores.sqlite.maintenance import doctor
    findings = doctor(store)
    report = {"store": str(store), "problems": findings}
    _output.answer(settings, "doctor", report, lambda: findings or [f"{store} is sound"])
    return 1 if findings else 0
