"""``kalends serve --check``: the servers of a configuration, and problems that would stop them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from kalends.broker.register.sqlite import broker_store
from kalends.cli.servers.server import part_of, read_configuration
from kalends.core.errors import KalendsError
from kalends.core.times import format_time
from kalends.resource_servers.journal.sqlite import site_store
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.bookable import is_bookable
from kalends.resource_servers.setup.machine_check import check_machines_here
from kalends.servers.database_address import address_at
from kalends.servers.registers import replica_name
from kalends.servers.site_folder import folder_problem
from kalends.serving.auth.callers import split_listen
from kalends.serving.configuration import (
    ANY_HOST,
    BrokerConfiguration,
    Configuration,
    KeyConfiguration,
    NoticeRules,
    SiteConfiguration,
)
from kalends.serving.configuration.token_risks import token_risks
from kalends.serving.http.reload import Section, ServerPart
from kalends.stores.sqlite.sqlite_file import StoreKind, check, is_open


class ConfigurationCheck(msgspec.Struct):
    """Findings, a line each: servers and resources, warnings of near dates, risks, and problems."""

    serves: list[str] = []
    warnings: list[str] = []
    risks: list[str] = []
    problems: list[str] = []


def check_configuration_file(path: Path, zone: ZoneInfo, now_s: int) -> ConfigurationCheck:
    """Check the file `path` and all that it names, at `now_s`; starts nothing and writes nothing."""
    found = ConfigurationCheck()
    try:
        configuration = read_configuration(path)
    except KalendsError as error:
        found.problems.append(str(error))
        return found
    for role in ("site", "broker", "virtual"):
        section: Section | None = getattr(configuration, role)
        if section is not None:
            _check_server(found, configuration, role, section, zone, now_s)
    return found


def _check_server(
    found: ConfigurationCheck,
    configuration: Configuration,
    role: str,
    section: Section,
    zone: ZoneInfo,
    now_s: int,
) -> None:
    try:
        part = part_of(role, configuration)
    except KalendsError as error:
        found.problems.append(str(error))
        return
    scheme = "https" if section.tls is not None else "http"
    found.serves.append(f"{role} {section.name} at {scheme}://{section.listen}")
    found.serves += [f"  {each}" for each in _contents(section)]
    found.risks += token_risks(section)
    found.warnings += _unbookable(section)
    if isinstance(section, SiteConfiguration):
        found.warnings += _closed(section, zone, now_s)
    _check_certificate(found, part, zone)
    runs = False
    if isinstance(section, SiteConfiguration | BrokerConfiguration):
        runs = _check_store(found, section)
    if isinstance(section, SiteConfiguration):
        _check_machines(found, section)
    _check_port(found, section.listen, runs)


def _contents(section: Section) -> list[str]:
    lines = []
    if isinstance(section, SiteConfiguration):
        jobs = {machine.resource for machine in section.machines}
        for each in section.resources:
            queue = ", with a queue of jobs" if each.name in jobs else ""
            units = "1 unit" if each.capacity == 1 else f"{each.capacity} units"
            lines.append(f"resource {section.name}/{each.name}: {units}{queue}")
    elif isinstance(section, BrokerConfiguration):
        lines += [f"books at {each.name}: {each.url}" for each in section.sites]
    else:
        lines += [f"leads to {each.name}: {each.url}" for each in section.members]
    lines += map(_key_line, section.keys)
    if not section.keys:
        lines.append("no keys: every user of this machine is accepted without a token")
    if isinstance(section, SiteConfiguration | BrokerConfiguration) and section.notices is not None:
        lines.append(f"notices by {_ways(section.notices)}")
    log = section.audit_file
    return [*lines, f"audit log {log}" if log else "no audit log"]


def _unbookable(section: Section) -> Iterator[str]:
    """Return why no user can book at an otherwise sound server, or one of its resources."""
    scopes = {scope for key in section.keys for scope in key.scopes}
    if isinstance(section, SiteConfiguration):
        if section.keys and "broker" not in scopes:
            yield (
                f"no user can book at {section.name}: no broker has a key here; list one with the scope "
                "broker ([[site.keys]])"
            )
        for each in section.resources:
            if each.access and not any(rule.may == "lock" for rule in each.access):
                yield (
                    f"no user can book {section.name}/{each.name}: "
                    'none of its access rules has may = "lock"'
                )
    elif section.keys and "use" not in scopes:
        yield f"no user can book at {section.name}: none of its keys has the scope use"
    elif isinstance(section, BrokerConfiguration) and not section.sites:
        yield (
            f"no user can book at {section.name}: it has no sites ([[broker.sites]]) until some join"
            " (kalends admin sites add)"
        )


def _closed(site: SiteConfiguration, zone: ZoneInfo, now_s: int) -> Iterator[str]:
    """Yield the resources at which the rules leave no time to book, as far ahead as bookings are accepted."""
    given = {f"{site.name}/{each.name}": each for each in site.resources}
    for name, calendar in calendars_of(site).items():
        info, access = calendar.info, given[name].access
        locked = not access or any(rule.may == "lock" for rule in access)
        if locked and not info.advisory and not is_bookable(calendar, now_s):
            until = format_time(now_s + info.horizon_s, zone)
            yield (
                f"no user can book {name} until {until}, the horizon: its hours, blackouts, limits "
                "and access rules leave no time"
            )


def _key_line(key: KeyConfiguration) -> str:
    whose = f" of {key.issuer}" if key.issuer and key.file else ""
    named = ", ".join("anybody" if each == "*" else each for each in key.users)
    speaks = f", in the name of {named}" if "broker" in key.scopes else ""
    return f"trusts {key.place}{whose} for {', '.join(key.scopes)}{speaks}"


def _ways(notices: NoticeRules) -> str:
    mail = f"mail from {notices.sender} through {notices.smtp}" if notices.smtp else ""
    hosts = ("any public host" if host == ANY_HOST else host for host in notices.webhook_hosts)
    hooks = f"webhooks at {', '.join(hosts)}" if notices.webhook_hosts else ""
    return " and ".join(way for way in (mail, hooks) if way)


def _check_certificate(found: ConfigurationCheck, part: ServerPart, zone: ZoneInfo) -> None:
    shown = part.certificate
    if shown is None:
        return
    found.serves.append(f"  certificate until {format_time(shown.ends_at, zone)}")
    if problem := shown.problem():
        (found.problems if "expired" in problem else found.warnings).append(problem)


def _check_store(
    found: ConfigurationCheck, section: SiteConfiguration | BrokerConfiguration
) -> bool:
    """Return whether a server has the store open."""
    if section.store.path is None:
        return _check_database(found, section)
    kind = site_store.KIND if isinstance(section, SiteConfiguration) else broker_store.KIND
    return _check_file(found, section.store.path, kind, section.name)


def _check_file(found: ConfigurationCheck, path: Path, kind: StoreKind, owner: str) -> bool:
    try:
        if path.exists():
            check(path, kind, owner)
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            found.problems.append(
                f"{path} cannot be made: its directory does not exist, or is not yours"
            )
        runs = is_open(path)
    except KalendsError as error:
        found.problems.append(str(error))
        return False
    state = "a server runs on it" if runs else "ready" if path.exists() else "to be made"
    found.serves.append(f"  store {path}: {state}")
    return runs


def _check_database(
    found: ConfigurationCheck, section: SiteConfiguration | BrokerConfiguration
) -> bool:
    # Imported here because of the driver, which other stores do not need.
    from kalends.broker.register.postgres.postgres_register import is_served
    from kalends.servers.database_schemas import schema_of
    from kalends.stores.postgres import migrations, settings
    from kalends.stores.postgres.sole_owner import owner_of

    is_site = isinstance(section, SiteConfiguration)
    try:
        address = address_at(section.store.url, "site" if is_site else "broker")
        faults = settings.examined(address)
        problems = migrations.problems_of(address, schema_of(section), section.name)
        if problems:
            found.problems += problems
            return False
        if isinstance(section, SiteConfiguration):
            runs = owner_of(address) is not None
            if problem := folder_problem(section):
                found.problems.append(problem)
        else:
            runs = is_served(address, replica_name(section))
    except KalendsError as error:
        found.problems.append(str(error))
        return False
    for fault in faults:
        (found.problems if fault.refused else found.warnings).append(f"{address.shown}: {fault}")
    running = "this site runs on it" if is_site else "this replica runs on it"
    state = running if runs else "ready"
    found.serves.append(f"  store {address.shown}: {state}")
    return runs


def _check_machines(found: ConfigurationCheck, section: SiteConfiguration) -> None:
    try:
        checked = check_machines_here(section)
    except KalendsError as error:
        found.problems.append(str(error))
        return
    for name, each in checked.items():
        found.problems += [f"{name}: {problem}" for problem in each.problems]
        found.warnings += [f"{name}: {warning}" for warning in each.warnings]


def _check_port(found: ConfigurationCheck, listen: str, runs: bool) -> None:
    host, port = split_listen(listen)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            found.problems.append(f"cannot listen on {listen}: {error.strerror or error}")
        elif not runs:
            found.problems.append(f"{listen} is taken: another program listens there")
