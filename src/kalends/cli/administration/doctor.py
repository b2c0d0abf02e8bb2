"""``kalends admin doctor``: check a store file, or the batch systems of a site."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kalends.cli import _output
from kalends.cli._server_parts import server_parts
from kalends.cli._settings import LocalCommand, Settings, pass_settings
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.backends.check_up import CheckUp
    from kalends.serving.configuration import SiteConfiguration

CONFIGURATION: Final = ".toml"


@click.command(
    "doctor",
    cls=LocalCommand,
    examples=(
        "kalends admin doctor site.sqlite",
        "kalends admin doctor site.toml",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_settings
def command(settings: Settings, file: Path) -> int:
    """Check a store file, or the batch systems of a site.

    FILE is a store, or a site's configuration (.toml). Of a batch system that is named there, the version,
    the clock, the nodes and the users are looked at; and for each user a reservation of a minute, 300 days
    ahead, is made and deleted at once.

    Prints one line for each problem. The exit code is 1 if there are any.
    """
    if file.suffix == CONFIGURATION:
        return _check_systems(settings, file)
    with server_parts():
        from kalends.stores.sqlite.maintenance import doctor
    findings = doctor(file)
    report = {"store": str(file), "problems": findings}
    _output.answer(settings, "doctor", report, lambda: findings or [f"{file} is sound"])
    return 1 if findings else 0


def _check_systems(settings: Settings, file: Path) -> int:
    with server_parts():
        from kalends.cli._server import read_configuration
    site = read_configuration(file).site
    if site is None or not site.batch_systems:
        raise InvalidInput(
            "it names no batch systems",
            where=str(file),
            remedy="describe one under [[site.batch_systems]]; docs/batch-systems.md says how",
        )
    found = asyncio.run(_checked(site))
    report = {
        "site": site.name,
        "batch_systems": [
            {"name": name, "facts": each.facts, "problems": each.problems}
            for name, each in found.items()
        ],
    }
    _output.answer(settings, "doctor", report, lambda: _lines(found))
    return 1 if any(each.problems for each in found.values()) else 0


async def _checked(site: SiteConfiguration) -> dict[str, CheckUp]:
    with server_parts():
        from kalends.backends.check_up import check_up
        from kalends.resource_servers.configured_backends import adapters_of, backends_of
    adapters = adapters_of(site)
    backends = backends_of(site, adapters).values()
    found = {}
    for system in site.batch_systems:
        nodes = [node for each in backends if each.system == system.name for node in each.nodes]
        found[system.name] = await check_up(
            adapters[system.name], site.name, nodes, system.users, int(time.time())
        )
    return found


def _lines(found: dict[str, CheckUp]) -> list[str]:
    lines = []
    for name, each in found.items():
        lines += [f"{name}: {fact}" for fact in each.facts]
        lines += [f"{name}: PROBLEM: {problem}" for problem in each.problems]
        if not each.problems:
            lines.append(f"{name}: the site can rely on it")
    return lines
