"""Remedies that only the command line knows, added to errors of a server: logins, addresses, near names."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from shlex import quote
from typing import Final

from kalends.cli.console.settings import Settings
from kalends.cli.console.site_calls import RefusedBySite
from kalends.client.inputs.zones import error_in_zone
from kalends.client.logins.destinations import DEFAULT_BROKER
from kalends.client.logins.profiles import DEFAULT_PROFILE
from kalends.client.logins.token_lifetime import lifetime_of
from kalends.client.transports.retry import CLOSED
from kalends.core.durations import format_duration
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    NotAuthenticated,
    NotFound,
    OutcomeUnknown,
    RefusalCode,
    Unavailable,
)
from kalends.core.identifiers import RESOURCE_PATTERN
from kalends.core.near_names import near

_RESOURCE: Final = re.compile(RESOURCE_PATTERN)

SITES_SHOWN_MAX: Final = 5


def with_near_resources(settings: Settings, error: KalendsError) -> KalendsError:
    """Return `error`; if it is about unknown resources, its remedy suggests similar names."""
    if not isinstance(error, NotFound):
        return error
    unknown = {each.where for each in error.refusals if each.code == RefusalCode.UNKNOWN_RESOURCE}
    meant = _meant(
        settings, [name for name in unknown or {error.where} if _RESOURCE.fullmatch(name)]
    )
    if meant:
        error.remedy = "; ".join([*meant, error.remedy])
    return error


def _meant(settings: Settings, unknown: Collection[str]) -> list[str]:
    if not unknown:
        return []
    try:
        with settings.connect() as client:
            names = [each.name for each in client.resources().resources]
    except KalendsError:
        return []
    return list(dict.fromkeys(filter(None, (near(name, names) for name in unknown))))


def with_remedies(settings: Settings, error: KalendsError) -> KalendsError:
    """Return `error` with a remedy for this user, in the options and the time zone of the command line."""
    with suppress(InvalidInput):
        error = error_in_zone(error, settings.time_zone())
    if isinstance(error, NotAuthenticated):
        return _with_login(settings, error)
    if isinstance(error, Unavailable | OutcomeUnknown) and _takes_only_tls(error):
        return InvalidInput(
            "the server at that port uses TLS, and http:// does not",
            where=error.where,
            remedy=f"write https://{error.where.partition('://')[2]}",
        )
    if isinstance(error, Unavailable) and error.where == settings.broker == DEFAULT_BROKER:
        return _with_address(settings, error)
    if isinstance(error, NotFound) and error.remedy.startswith("ask a site"):
        return _with_sites(settings, error)
    return with_near_resources(settings, error)


def _with_sites(settings: Settings, error: NotFound) -> NotFound:
    """Add the addresses of the broker's sites, for a call that only sites take."""
    # Without the addresses the error stays as it is.
    with suppress(KalendsError), settings.connect() as client:
        sites = [f"--broker {quote(each.url)} ({each.site})" for each in client.resources().sites]
        if sites:
            error.remedy = f"ask a site: {', '.join(sites[:SITES_SHOWN_MAX])}"
    return error


def _takes_only_tls(error: KalendsError) -> bool:
    """Return whether there was no answer because the port uses TLS, by connecting with TLS."""
    plain = error.where.startswith("http://") and "," not in error.where
    if not (plain and CLOSED in error.detail):
        return False
    # Imported here because a wrong address is rare.
    from kalends.client.transports.tls_probe import speaks_tls

    return speaks_tls(error.where)


def login_command(profile: str) -> str:
    """Return the command that logs in again."""
    return "kalends login" + (f" --profile {quote(profile)}" if profile != DEFAULT_PROFILE else "")


def life_warning(settings: Settings, now_s: int) -> str:
    """Return a warning if the token is about to expire and is not renewed; "" otherwise."""
    if settings.login is not None and settings.login.can_renew():
        return ""
    life = lifetime_of(settings.token_text())
    if life is None or not life.is_ending(now_s) or not life.left_s(now_s):
        return ""
    left = format_duration(life.left_s(now_s) // 60 * 60 or 60)
    again = login_command(settings.profile) if settings.has_profile_token() else "get a new one"
    return f"kalends: your token expires in {left}; {again}"


def _with_address(settings: Settings, error: Unavailable) -> Unavailable:
    """Add how to name a server, if the user named none and the default did not answer."""
    if "broker" not in settings.sources:
        error.remedy = (
            "name your server: kalends login --broker https://HOST:PORT, or KALENDS_BROKER; "
            "`kalends demo` starts servers on this machine"
        )
    return error


def _with_login(settings: Settings, error: NotAuthenticated) -> NotAuthenticated:
    """Add how to log in, if the user has a profile, or no token."""
    if isinstance(error, RefusedBySite):
        return error
    if settings.has_profile_token():
        error.remedy = f"log in again: {login_command(settings.profile)}"
    elif error.where == "Authorization" and settings.sources.get("broker", "").startswith(
        "profile "
    ):
        error.remedy = f"log in: {login_command(settings.profile)}"
    elif error.where == "Authorization":
        error.remedy = f"log in: kalends login --broker {quote(settings.broker)}"
    return error
