"""A changed configuration for a running server: all of it is checked before any of it applies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web

from kalends.serving.auth.authenticator import authenticator_of
from kalends.serving.auth.callers import Authenticator
from kalends.serving.auth.claims import Revoked
from kalends.serving.configuration import (
    BrokerConfiguration,
    SiteConfiguration,
    TlsConfiguration,
    VirtualConfiguration,
)
from kalends.serving.http.application import metrics_of, report_of, trust
from kalends.serving.http.certificates import ServerCertificate

Section = SiteConfiguration | BrokerConfiguration | VirtualConfiguration
Apply = Callable[[], None]


class RulesChange(NamedTuple):
    """Changed rules: `check` raises, on the server's loop, if they cannot apply; `apply` applies them."""

    check: Apply
    apply: Apply


LOOK_EVERY_S: Final = 3_600.0
"""Interval between checks of a certificate, which ends in days."""

RULES: Final[web.AppKey[Callable[[Any, Authenticator], RulesChange]]] = web.AppKey("rules")
"""A function of an application with its own rules: checks a section, and returns its changed rules."""

REVOKED: Final[web.AppKey[Revoked]] = web.AppKey("revoked")
"""What an application knows to be revoked from elsewhere than a file."""


class ServerPart(NamedTuple):
    """One server of the process: its role, its application, and its certificate."""

    role: str
    application: web.Application
    certificate: ServerCertificate | None


def prepared(part: ServerPart, section: Section) -> tuple[Sequence[Apply], Sequence[Apply]]:
    """Check keys, certificate and rules of `section`; raises `InvalidInput`.

    Return a function with the remaining checks, to be called on the server's loop, and one that applies all.
    """
    authenticator = authenticator_of(
        section, report_of(part.application), part.application.get(REVOKED)
    )
    checks: list[Apply] = []
    steps: list[Apply] = []
    if part.certificate is not None and section.tls is not None:
        # First, because its files are read once more then, and may be missing.
        steps.append(_renewed(part, part.certificate, section.tls))
    steps.append(lambda: trust(part.application, authenticator))
    if RULES in part.application:
        rules = part.application[RULES](section, authenticator)
        checks.append(rules.check)
        steps.append(rules.apply)
    return checks, steps


def _renewed(part: ServerPart, shown: ServerCertificate, files: TlsConfiguration) -> Apply:
    newer = ServerCertificate(files)

    def apply() -> None:
        shown.take(newer, files)
        report_of(part.application)("certificate", shown.problem())

    return apply


def watch_certificate(application: web.Application, certificate: ServerCertificate) -> None:
    """Raise an alarm when `certificate` ends soon, and set the metric of its end."""
    metrics_of(application).gauge(
        "kalends_certificate_expires",
        "When the server's certificate expires, in seconds UTC.",
        value=lambda: certificate.ends_at,
    )

    async def look() -> None:
        while True:
            report_of(application)("certificate", certificate.problem())
            await asyncio.sleep(LOOK_EVERY_S)

    async def looking(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(look())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    application.cleanup_ctx.append(looking)
