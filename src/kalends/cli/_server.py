"""``kalends serve``: a site, a broker or both in one process, from a configuration file."""

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
    load_configuration,
)
from kalends.serving.http.runner import Service, run, tls_context
from kalends.serving.logs import configure_logging


def main(config_path: Path, *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Serve what `config_path` describes until a signal comes; the exit code of the process.

    2 for a configuration that cannot be, 1 for a store that is refused, 75 when the disk or the port
    is not available now; each with one line on `err` (standard error) saying what to do.
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
    """Look for garbage cycles rarely: what servers keep is many, long-lived and free of cycles.

    A tenth of a busy server's time otherwise goes into walking bookings that are not garbage.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)


def read_configuration(path: Path) -> Configuration:
    """The configuration in the file `path`; raises `InvalidInput` when it cannot be read or meant."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIGURATION_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise InvalidInput(
            f"the configuration cannot be read: {error.strerror}",
            where=str(path),
            remedy="name a file; `kalends admin config` prints one to begin with",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the configuration is not UTF-8: {error.reason} at byte {error.start}",
            where=str(path),
            remedy="save it as UTF-8",
        ) from error
    return load_configuration(text, path.parent)


def services_of(configuration: Configuration) -> list[Service]:
    """The servers of `configuration`, the site first; raises `InvalidInput`."""
    services = []
    if (site := configuration.site) is not None:
        application = build_site(site, version=__version__)
        services.append(_service("site", site, application))
    if (broker := configuration.broker) is not None:
        # Only those who run a broker wait for its parts to be imported.
        from kalends.broker.server import build_broker

        services.append(_service("broker", broker, build_broker(broker, version=__version__)))
    return services


def _service(
    role: str, server: SiteConfiguration | BrokerConfiguration, application: web.Application
) -> Service:
    tls = tls_context(server.tls.certificate, server.tls.key) if server.tls else None
    return Service(f"{role} {server.name}", application, server.listen, tls)
