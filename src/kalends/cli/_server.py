"""The servers of ``kalends serve``: a site, a broker or a virtual site, or several in one process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from aiohttp import web

from kalends import __version__
from kalends.core.errors import InvalidInput, KalendsError
from kalends.resource_servers.server import build_site
from kalends.serving.configuration import (
    CONFIGURATION_BYTES_MAX,
    BrokerConfiguration,
    Configuration,
    SiteConfiguration,
    VirtualConfiguration,
    load_configuration,
)
from kalends.serving.http.runner import Service, run, tls_context
from kalends.serving.logs import configure_logging


def main(config_path: Path, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Run the servers of `config_path` until a signal comes; return the exit code of the process.

    The code is 2 for an invalid configuration, 1 for a refused store, 75 if the disk or the port is not
    available; a line on `err` (standard error) says what to do.
    """
    try:
        configuration = read_configuration(config_path)
        configure_logging(configuration.log.level, configuration.log.form, err)
    except KalendsError as error:
        print(f"kalends: {error}", file=err or sys.stderr)
        return error.exit_code

    async def services() -> Sequence[Service]:
        made = services_of(configuration)
        _spare_the_collector()
        return made

    return run(services, out=out, err=err)


def _spare_the_collector() -> None:
    """Collect garbage rarely: the many objects of a server are long-lived and free of cycles.

    A tenth of a busy server's time otherwise goes into walking bookings that are not garbage.
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


def services_of(configuration: Configuration) -> list[Service]:
    """Build the servers of `configuration`, a site first; raises `InvalidInput`."""
    services = []
    if (site := configuration.site) is not None:
        application = build_site(site, version=__version__)
        services.append(_service("site", site, application))
    if (broker := configuration.broker) is not None:
        # Imported here because a site does not need it.
        from kalends.broker.server import build_broker

        services.append(_service("broker", broker, build_broker(broker, version=__version__)))
    if (virtual := configuration.virtual) is not None:
        from kalends.virtual_sites.server import build_virtual

        services.append(_service("virtual", virtual, build_virtual(virtual, version=__version__)))
    return services


def _service(
    role: str,
    server: SiteConfiguration | BrokerConfiguration | VirtualConfiguration,
    application: web.Application,
) -> Service:
    files = server.tls
    tls = tls_context(files.certificate, files.key, files.clients) if files else None
    each = 2 if role == "virtual" else 1
    return Service(f"{role} {server.name}", application, server.listen, tls, each)
