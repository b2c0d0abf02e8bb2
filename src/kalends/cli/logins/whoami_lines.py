"""Whom a server takes a caller for, and how long that holds, as lines of text."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from kalends.cli.console.settings import Settings
from kalends.contract.calls import CallerView
from kalends.core.durations import format_duration
from kalends.core.times import format_time


def who(view: CallerView) -> str:
    """Return the caller and the server in a few words."""
    return f"{view.user} at {view.server} ({view.role})"


def life_words(view: CallerView, zone: ZoneInfo, *, renewed: bool) -> str:
    """Say until when the token is good, by the server's clock; "" where there is no end."""
    if not view.expires_at:
        return ""
    left = format_duration(max(0, view.expires_at - view.now) // 60 * 60) or "0s"
    by_itself = "; then it is renewed" if renewed else ""
    return f"until {format_time(view.expires_at, zone)}, for {left}{by_itself}"


def for_whom(view: CallerView, address: str) -> str:
    """Say who takes the token, and so where else than at the server at `address` it could be used.

    "" where the server does not say for whom it is.
    """
    own = {view.server, address.rstrip("/")}
    others = [each for each in view.audiences if each.rstrip("/") not in own]
    named = ", ".join(view.audiences)
    if not others:
        return named and f"{named} alone"
    if len(others) < len(view.audiences):
        return f"{named}: each could use it at the others; one for each would be safer"
    return f"{named}: whoever gets it could use it at every server that takes such tokens"


def lines(view: CallerView, settings: Settings, config: str) -> list[str]:
    """Describe the caller in full, and by what each was said."""
    renewed = settings.login is not None and settings.login.can_renew()
    token = settings.sources.get("token") or settings.sources.get("token_file", "")
    facts = [
        ("server", f"{settings.broker} (by {settings.sources.get('broker', 'default')})"),
        ("realm", view.realm),
        ("groups", ", ".join(view.groups)),
        ("may", ", ".join(view.scopes)),
        ("for", for_whom(view, settings.broker)),
        ("token", f"by {token}" if token and view.key != "open" else "none is asked for"),
        ("good", life_words(view, settings.time_zone(), renewed=renewed)),
        ("profile", f"{settings.profile}, of {config}" if settings.profile else ""),
    ]
    return [who(view), *(f"  {name:8} {text}" for name, text in facts if text)]
