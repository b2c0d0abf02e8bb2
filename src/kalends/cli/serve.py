"""``kalends serve``: run a site, a broker, a virtual site, or several."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings


@local_command("serve", "kalends serve broker.toml", "kalends serve --check site-sdsc.toml")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Check the configuration, keys, store and port, report what would be served, and exit.",
)
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def serve(settings: Settings, config: Path, only_check: bool) -> int:
    """Run a site, a broker, a virtual site, or several.

    CONFIG is a TOML file; `kalends admin init` makes one, and `kalends admin config` prints a commented
    one. Prints the server's address and runs until Ctrl-C or SIGTERM. SIGHUP reads keys, certificates and
    rules again; the log says what needs a restart. With --check the exit code is 1 if there is a problem.
    """
    if only_check:
        return _check(settings, config)
    with server_parts():
        from kalends.cli.servers.server import main
    return main(config)


def _check(settings: Settings, config: Path) -> int:
    with server_parts():
        from kalends.cli.servers.server_check import check_configuration_file
    found = check_configuration_file(config, settings.time_zone(), int(time.time()))
    lines = [
        *found.serves,
        *(f"soon: {each}" for each in found.warnings),
        *(f"RISK: {each}" for each in found.risks),
        *(f"PROBLEM: {each}" for each in found.problems),
    ]
    output.answer(settings, "check", msgspec.to_builtins(found), lambda: lines)
    return 1 if found.problems else 0
