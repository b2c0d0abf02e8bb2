"""``kalends whoami``: the caller's identity at a server, and the lifetime of the token."""

from __future__ import annotations

import os
from zoneinfo import ZoneInfo

from kalends.cli.console import output
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import plain
from kalends.cli.console.settings import Settings
from kalends.client.logins.profiles import config_path
from kalends.contract.calls import CallerView
from kalends.core.durations import format_duration
from kalends.core.times import format_time
from kalends.rim.web_addresses import addresses_in


@server_command("whoami", "kalends whoami", "kalends whoami --json")
def whoami(settings: Settings) -> None:
    """Show your identity at the server.

    Prints your name, realm and groups there, and the rights and the end of your token. Also shows where the
    token comes from: an option, an environment variable or a profile.
    """
    with settings.connect() as client:
        view = client.whoami()
    config = str(config_path(os.environ))
    told = {
        "address": settings.broker,
        "profile": settings.profile,
        "config": config if settings.profile else "",
        "sources": dict(settings.sources),
        "renewed": settings.login is not None and settings.login.can_renew(),
    }
    data = {**told, "caller": plain(view)}
    output.answer(settings, "caller", data, lambda: _lines(view, settings, config))


def who(view: CallerView) -> str:
    """Return the caller and the server in a few words."""
    return f"{view.user} at {view.server} ({view.role})"


def lifetime_text(view: CallerView, zone: ZoneInfo, *, renewed: bool) -> str:
    """Return the end of the token, by the server's clock; "" if it has none."""
    if not view.expires_at:
        return ""
    left = format_duration(max(0, view.expires_at - view.now) // 60 * 60) or "0s"
    by_itself = "; then it is renewed" if renewed else ""
    return f"until {format_time(view.expires_at, zone)}, for {left}{by_itself}"


def for_whom(view: CallerView, address: str) -> str:
    """Return the audiences of the token, and whether servers other than those at `address` could use it.

    "" if the server does not report audiences.
    """
    own = {view.server, *(each.rstrip("/") for each in addresses_in(address))}
    others = [each for each in view.audiences if each.rstrip("/") not in own]
    named = ", ".join(view.audiences)
    if not others:
        return named and f"only {named}"
    if len(others) < len(view.audiences):
        return f"{named}: each could use it at the others; one token per server is safer"
    return f"{named}: each server could use it at all others that accept such tokens"


def _lines(view: CallerView, settings: Settings, config: str) -> list[str]:
    """Describe the caller in full, with the source of each value."""
    renewed = settings.login is not None and settings.login.can_renew()
    token = settings.sources.get("token") or settings.sources.get("token_file", "")
    facts = [
        ("server", f"{settings.broker} (by {settings.sources.get('broker', 'default')})"),
        ("realm", view.realm),
        ("groups", ", ".join(view.groups)),
        ("may", ", ".join(view.scopes)),
        ("for", for_whom(view, settings.broker)),
        ("token", f"by {token}" if token and view.key != "open" else "not needed"),
        ("good", lifetime_text(view, settings.time_zone(), renewed=renewed)),
        ("profile", f"{settings.profile}, of {config}" if settings.profile else ""),
    ]
    return [who(view), *(f"  {name:8} {text}" for name, text in facts if text)]
