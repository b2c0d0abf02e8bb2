"""The servers of ``kalends serve``: a site, a broker or a virtual site, or several in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from aiohttp import web

from kalends import __version__
from kalends.core.errors import InvalidInput, KalendsError
from kalends.rim.proxies import check_proxies
from kalends.servers.site import build_site
from kalends.serving.configuration import (
    CONFIGURATION_BYTES_MAX,
    Configuration,
    check_configuration,
    load_configuration,
)
from kalends.serving.http.certificates import ServerCertificate
from kalends.serving.http.reload import (
    Apply,
    Section,
    ServerPart,
    prepared,
    watch_certificate,
)
from kalends.serving.http.runner import Service, run
from kalends.serving.logs import configure_logging, get_logger
from kalends.serving.settings_in_force import check_same_server, in_force, left_alone

NOBODY_ELSE = 0o077
"""File mask of a server: other users can read no file, whatever mask the server was started with."""


def main(config_path: Path, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Run the servers of `config_path` until a signal comes; return the exit code of the process.

    The code is 2 for an invalid configuration, 1 for a refused store, 75 if the disk or the port is not
    available; a line on `err` (standard error) says what to do.
    """
    os.umask(NOBODY_ELSE)
    try:
        check_proxies()
        configuration = read_configuration(config_path)
        configure_logging(configuration.log.level, configuration.log.form, err)
    except KalendsError as error:
        print(f"kalends: {_of_file(error, config_path)}", file=err or sys.stderr)
        return error.exit_code
    running = RunningServers(config_path, configuration)
    return run(running.services, reload=running.reload, out=out, err=err)


class RunningServers:
    """The servers of one configuration file, which may change while they serve."""

    def __init__(self, path: Path, configuration: Configuration) -> None:
        self._path = path
        self._configuration = configuration
        self._parts: list[ServerPart] = []

    async def services(self) -> Sequence[Service]:
        """Build the servers; raises `InvalidInput`."""
        try:
            self._parts = parts_of(self._configuration)
        except KalendsError as error:
            raise _of_file(error, self._path) from error
        _spare_the_collector()
        return [_service(part, section_of(part, self._configuration)) for part in self._parts]

    async def reload(self) -> None:
        """Apply the file's keys, certificates and rules; an invalid file changes nothing. Logs the result."""
        logger = get_logger(role="server", name=str(self._path))
        try:
            steps, force, left = await asyncio.to_thread(self._prepared)
            for step in steps:
                step()
        except (KalendsError, OSError) as error:
            logger.error("reload_refused", detail=str(error))
            return
        self._configuration = force
        configure_logging(force.log.level, force.log.form)
        logger.info("reloaded", needs_restart=left)

    def _prepared(self) -> tuple[list[Apply], Configuration, list[str]]:
        wanted = read_configuration(self._path)
        check_same_server(self._configuration, wanted)
        force = in_force(self._configuration, wanted)
        check_configuration(force)
        found = [prepared(part, section_of(part, force)) for part in self._parts]
        # Apply nothing before all parts have been checked.
        steps = [check for checks, _ in found for check in checks]
        steps += [step for _, of_one in found for step in of_one]
        return steps, force, list(left_alone(force, wanted))


def _of_file(error: KalendsError, path: Path) -> KalendsError:
    """Return `error` with the file in its place, because an operator may run several servers."""
    if str(path) not in error.where:
        error.where = f"{path}: {error.where}" if error.where else str(path)
    return error


def _spare_the_collector() -> None:
    """Collect garbage rarely: the many objects of a server are long-lived and free of cycles.

    Otherwise a tenth of a busy server's time goes into visiting bookings that are not garbage.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in the file `path`; raises `InvalidInput` if it is unreadable or invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIGURATION_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise InvalidInput(
            f"cannot read the configuration: {error.strerror}",
            where=str(path),
            remedy="give a configuration file; `kalends admin config` prints one",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the configuration is not UTF-8: {error.reason} at byte {error.start}",
            where=str(path),
            remedy="save it as UTF-8",
        ) from error
    return load_configuration(text, path.parent)


def parts_of(configuration: Configuration) -> list[ServerPart]:
    """Build the servers of `configuration`, a site first; raises `InvalidInput`."""
    roles = ("site", "broker", "virtual")
    return [part_of(role, configuration) for role in roles if getattr(configuration, role)]


def part_of(role: str, configuration: Configuration) -> ServerPart:
    """Build the server of `role`, which is configured; raises `InvalidInput`."""
    # Imported here because a site does not need the broker's code.
    if (site := configuration.site) is not None and role == "site":
        return _part(role, site, build_site(site, version=__version__))
    if (broker := configuration.broker) is not None and role == "broker":
        from kalends.servers.broker import build_broker

        return _part(role, broker, build_broker(broker, version=__version__))
    from kalends.servers.virtual import build_virtual

    assert configuration.virtual is not None
    virtual = configuration.virtual
    return _part(role, virtual, build_virtual(virtual, version=__version__))


def section_of(part: ServerPart, configuration: Configuration) -> Section:
    section: Section = getattr(configuration, part.role)
    return section


def _part(role: str, section: Section, application: web.Application) -> ServerPart:
    certificate = ServerCertificate(section.tls) if section.tls is not None else None
    if certificate is not None:
        watch_certificate(application, certificate)
    return ServerPart(role, application, certificate)


def _service(part: ServerPart, section: Section) -> Service:
    tls = part.certificate.context if part.certificate is not None else None
    each = 2 if part.role == "virtual" else 1
    return Service(f"{part.role} {section.name}", part.application, section.listen, tls, each)
