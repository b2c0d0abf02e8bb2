"""Stores, and what a server runs on: ``kalends admin backup`` and ``doctor``."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import kalends
from kalends.cli.admin._store_arguments import (
    CONFIGURATION,
    AnyStoreArgument,
    StoreArgument,
    address_of,
)
from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings
from kalends.contract.versions import KNOWN
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.backends.check_up import CheckUp
    from kalends.resource_servers.setup.configured_allocations import MachineThrough
    from kalends.serving.configuration import (
        AgentsConfiguration,
        BrokerConfiguration,
        SiteConfiguration,
    )

SCRIPTS: Final = "scripts of users"

VERSION: Final = "version"


@local_command(
    "backup",
    "kalends admin backup site.sqlite site-copy.sqlite",
    "kalends admin backup broker.sqlite broker-copy.sqlite --json",
)
@click.argument("store", type=StoreArgument())
@click.argument("destination", type=click.Path(path_type=Path))
def backup(settings: Settings, store: Path, destination: Path) -> None:
    """Copy a store while its server runs.

    The copy has the state of one moment and is checked before the command ends. A store on PostgreSQL is
    backed up with the tools of PostgreSQL.
    """
    with server_parts():
        from kalends.cli.admin._store_kinds import KINDS
        from kalends.stores.sqlite import maintenance
    maintenance.backup(store, destination, KINDS)
    made = {"store": str(store), "destination": str(destination)}
    output.answer(settings, "backup", made, lambda: [f"copied {store} to {destination}"])


@local_command("doctor", "kalends admin doctor site.sqlite", "kalends admin doctor site.toml")
@click.argument("file", type=AnyStoreArgument())
def doctor(settings: Settings, file: Path | str) -> int:
    """Check a store, or the host and batch systems of a server.

    FILE is a store, the URL of a PostgreSQL database, or a configuration (.toml). For a database, checks its
    settings; a configuration that has a database as store keeps its password out of the list of processes.
    For a configuration, checks each batch system in it: version,
    clock, nodes and users. Makes a reservation of a minute for each user, 300 days ahead, and deletes it at
    once. If jobs of a machine run through the batch system, also checks the commands and Unix users that this
    host needs. Asks nothing of a batch system that PSI/J reaches. If this host runs jobs and you are root,
    also checks that their Unix users can run the site's Python and read the folder with the scripts of jobs.

    If users' scripts may run here, lists the walls between them and this host: the more, the better.
    Shows the version of this kalends, and the features that its messages have beyond the base version. Prints
    one line for each problem. The exit code is 1 if there are any.
    """
    if isinstance(file, str):
        return _check_database(settings, file)
    if file.suffix == CONFIGURATION:
        return _check_configured(settings, file)
    with server_parts():
        from kalends.cli.admin._store_kinds import KINDS
        from kalends.stores.sqlite import maintenance
    findings = maintenance.doctor(file, KINDS)
    report = {"store": str(file), "problems": findings}
    output.answer(settings, "doctor", report, lambda: findings or [f"{file} is sound"])
    return 1 if findings else 0


def _check_database(settings: Settings, url: str) -> int:
    address = address_of(url)
    # Imported here because of the driver, which other stores do not need.
    from kalends.stores.postgres.settings import doctor as examined

    findings = examined(address)
    report = {"store": address.shown, "problems": findings}
    output.answer(settings, "doctor", report, lambda: findings or [f"{address.shown} is sound"])
    return 1 if findings else 0


def _check_configured(settings: Settings, file: Path) -> int:
    with server_parts():
        from kalends.backends.check_up import CheckUp
        from kalends.batch.host_check import not_writable
        from kalends.cli.servers.server import read_configuration
        from kalends.resource_servers.setup.machine_check import check_machines_here
    configuration = read_configuration(file)
    site, server = configuration.site, configuration.site or configuration.broker
    if server is None:
        raise InvalidInput(
            "a virtual site runs nothing here",
            where=str(file),
            remedy="give the configuration of a site or a broker, or a store",
        )
    systems = asyncio.run(_checked(site)) if site else {}
    checked = check_machines_here(site) if site else {}
    machines = {
        name: CheckUp(each.facts, [*not_writable(each.folder), *each.problems, *each.warnings])
        for name, each in checked.items()
    }
    database = _checked_database(server)
    scripts = {SCRIPTS: asyncio.run(_checked_scripts(server.agents))}
    report = {
        "site" if site else "broker": server.name,
        "batch_systems": _rows(systems),
        "machines": _rows(machines),
        "databases": _rows(database),
        "scripts": _rows(scripts)[0],
        "version": kalends.__version__,
        "features": sorted(KNOWN),
    }
    found = {**systems, **machines, **database, **scripts, VERSION: _version()}
    output.answer(settings, "doctor", report, lambda: _lines(found))
    return 1 if any(each.problems for each in found.values()) else 0


def _checked_database(server: SiteConfiguration | BrokerConfiguration) -> dict[str, CheckUp]:
    """Check the settings of the database that is the server's store, if there is one."""
    if not server.store.url:
        return {}
    address = address_of(server.store.url)
    from kalends.backends.check_up import CheckUp
    from kalends.servers.database_address import check_folder
    from kalends.servers.database_schemas import schema_of
    from kalends.servers.site_folder import folder_problem
    from kalends.serving.configuration import SiteConfiguration
    from kalends.stores.postgres.settings import doctor as examined

    check_folder(server)
    problems = examined(address, schema_of(server), server.name)
    if isinstance(server, SiteConfiguration) and (problem := folder_problem(server)):
        problems.append(problem)
    return {address.shown: CheckUp([], problems)}


def _version() -> CheckUp:
    """Return the version, and the features that a server here reports to others."""
    with server_parts():
        from kalends.backends.check_up import CheckUp
    more = f", and since then {', '.join(sorted(KNOWN))}" if KNOWN else ""
    said = f"kalends {kalends.__version__} knows the messages of the base version{more}"
    return CheckUp([said], [])


def _rows(found: dict[str, CheckUp]) -> list[dict[str, object]]:
    return [
        {"name": name, "facts": each.facts, "problems": each.problems}
        for name, each in found.items()
    ]


async def _checked_scripts(settings: AgentsConfiguration) -> CheckUp:
    """Start the script runner as the server does, and report the walls around it."""
    with server_parts():
        from kalends.agents.sandbox import NoEngine, Sandbox, engine_for
        from kalends.backends.check_up import CheckUp
    if not settings.enabled:
        return CheckUp(["none run here"], [])
    engine = await engine_for(settings)
    try:
        if isinstance(engine, NoEngine):
            return CheckUp([], [f"none can run here: {engine.detail}"])
        if isinstance(engine, Sandbox):
            return CheckUp([f"they run behind {', '.join(engine.walls)}"], [])
        return CheckUp([], ["they run inside the server, restricted only by their language"])
    finally:
        await engine.close()


async def _checked(site: SiteConfiguration) -> dict[str, CheckUp]:
    with server_parts():
        from kalends.backends.check_up import check_launching, check_up
        from kalends.backends.desks.check_up import check_handing_over
        from kalends.backends.slurm.allocations import missing_commands
        from kalends.resource_servers.setup.configured_allocations import machines_through
        from kalends.resource_servers.setup.configured_backends import (
            adapters_of,
            backends_of,
            check_files,
        )
        from kalends.resource_servers.setup.configured_hand_over import handed_over_of
    check_files(site)
    adapters, machines = adapters_of(site), machines_through(site)
    backends = backends_of(site, adapters)
    found = {
        each.system.name: await check_handing_over(each.access, each.system.users, each.environment)
        for each in handed_over_of(site)
    }
    for system in site.batch_systems:
        if system.name not in adapters:
            continue
        rooms: dict[str, dict[str, int]] = {"nodes": {}, "cores": {}, "licences": {}}
        for backend in backends.values():
            if backend.system == system.name:
                rooms[backend.unit].update(backend.room)
        own_queue = found.get(system.name)
        through = [each for each in machines if each.system == system]
        lent = [node for each in through if not each.reserved_only for node in each.nodes]
        check = await check_up(
            adapters[system.name], site.name, rooms["nodes"], system.users, int(time.time()), lent,
            rooms["cores"], rooms["licences"],
        )  # fmt: skip
        if through:
            check.facts.extend(map(_runs_jobs, through))
            check.problems.extend(check_launching(system.users, missing_commands()))
        if own_queue is not None:
            check.facts.extend(own_queue.facts)
            check.problems.extend(each for each in own_queue.problems if each not in check.problems)
        found[system.name] = check
    return found


def _runs_jobs(machine: MachineThrough) -> str:
    where = "in reservations" if machine.reserved_only else f"on {', '.join(machine.nodes[:5])}"
    more = ", ..." if not machine.reserved_only and len(machine.nodes) > 5 else ""
    return f"jobs of {machine.resource} run {where}{more}"


def _lines(found: dict[str, CheckUp]) -> list[str]:
    lines = []
    for name, each in found.items():
        lines += [f"{name}: {fact}" for fact in each.facts]
        lines += [f"{name}: PROBLEM: {problem}" for problem in each.problems]
        if not each.problems and name not in (SCRIPTS, VERSION):
            lines.append(f"{name}: no problems found")
    return lines
