"""Words for requests that wait: in wait queues, on waiting lists, for sites and for owners."""

from __future__ import annotations

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows
from kalends.cli.console.short_time import short_time
from kalends.cli.requests.approval_words import approval_words, waits_how
from kalends.contract.calls import RequestView
from kalends.core.identifiers import short_id


def waiting_words(view: RequestView, zone: ZoneInfo) -> str:
    """Describe the wait of an open request: slots, requests ahead, start tried, deadline."""
    waiting = view.waiting
    if waiting is None:
        return "being decided"
    if waiting.approval:
        return approval_words(waiting, zone)
    awaited = " and ".join(waiting.awaited) or "its turn"
    told = f"on the waiting list of {awaited}" if waiting.listed else f"waiting for {awaited}"
    ahead = f", {waiting.ahead} ahead" if waiting.ahead else ", next in line"
    if waiting.awaited and all(_is_site(each) for each in waiting.awaited):
        sites = "site" if len(waiting.awaited) == 1 else "sites"
        told, ahead = f"waiting for {sites} {awaited} to answer", ""
    tried = f"; trying {short_time(waiting.earliest, zone)}" if waiting.earliest else ""
    until = f"; gives up {short_time(waiting.until, zone)}" if waiting.until else ""
    return f"{told}{ahead}{tried}{until} ({zone.key})"


def _is_site(awaited: str) -> bool:
    """Return whether `name` is a site, not a resource or the attributes of a term."""
    return awaited.replace("-", "").isalnum()


def waiting_listing(views: Iterable[RequestView], zone: ZoneInfo) -> list[str]:
    """Return a row for each request in a wait queue or on a waiting list."""
    return rows(
        ("ID", "AHEAD", "WAITS FOR", "REQUEST", f"TRYING ({zone.key})", "GIVES UP"),
        [
            (
                short_id(view.id),
                view.waiting.ahead,
                ", ".join(view.waiting.awaited) + waits_how(view.waiting),
                view.text,
                short_time(view.waiting.earliest, zone) if view.waiting.earliest else "-",
                short_time(view.waiting.until, zone) if view.waiting.until else "-",
            )
            for view in views
            if view.waiting is not None
        ],
        right=("AHEAD",),
    )
