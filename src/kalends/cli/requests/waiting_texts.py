"""Requests that wait for slots, sites or owners, and what their users can do next, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from kalends.cli.console.output import rows, short_time
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from kalends.contract.calls import (
        RequestView,
        Waiting,
    )


def approval_text(waiting: Waiting, zone: ZoneInfo) -> str:
    """Return the owners whose approval is awaited, and the deadline."""
    until = short_time(waiting.until, zone)
    return f"waits for the approval of {_owners(waiting.awaited)} until {until} ({zone.key})"


def waits_how(waiting: Waiting) -> str:
    """Return in brackets how a request waits if it is not in a wait queue."""
    if waiting.approval:
        return " (approval)"
    if waiting.opens:
        return " (horizon)"
    return " (listed)" if waiting.listed else ""


def to_approve_lines(resources: Sequence[str], held: str = "") -> list[str]:
    """Return lines on the approvals that a booking of `resources`, or a lock of `held`, needs."""
    if not resources:
        return []
    if held:
        asks = f"kalends lock {held} asks for the approval of {_owners(resources)}"
        return [f"held: {asks}, kalends release {held} gives it up"]
    return [f"a booking needs the approval of {_owners(resources)}"]


def _owners(resources: Sequence[str]) -> str:
    return f"the owner of {' and of '.join(dict.fromkeys(resources))}"


def waiting_text(view: RequestView, zone: ZoneInfo) -> str:
    """Describe the wait of an open request: slots, requests ahead, start tried, deadline."""
    waiting = view.waiting
    if waiting is None:
        return "being decided"
    if waiting.approval:
        return approval_text(waiting, zone)
    awaited = " and ".join(waiting.awaited) or "its turn"
    if waiting.opens:
        opens = short_time(waiting.opens, zone)
        return f"beyond the horizon of {awaited}; is asked for {opens} ({zone.key})"
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
    """Return a row for each request, or change of one, that waits."""
    return rows(
        ("ID", "AHEAD", "WAITS FOR", "REQUEST", f"TRYING ({zone.key})", "GIVES UP"),
        [
            (
                id_to_type(view),
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


def recalled_text(view: RequestView, zone: ZoneInfo) -> str:
    """Describe what the holder of a recalled request must do, and by when if that is known."""
    by = "it now"
    if view.recalled_until:
        by = f"by {datetime.fromtimestamp(view.recalled_until, zone):%H:%M:%S}"
    return f"an older request wants it: lock {by} or lose it: kalends lock {short_id(view.id)}"


def id_to_ask_by(view: RequestView) -> str:
    """Return the id to type for `view`: for an open change the id of the change, not of its reservation."""
    return view.changing if view.state == "open" and view.changing else view.id


def id_to_type(view: RequestView) -> str:
    """Return `id_to_ask_by`, short."""
    return short_id(id_to_ask_by(view))


def what_next(view: RequestView, zone: ZoneInfo) -> list[str]:
    """Suggest next commands after a booking, a hold or a change."""
    named = id_to_type(view)
    if view.state == "open" and view.waiting is not None:
        how = "on waiting lists" if view.waiting.listed else "still waiting"
        if view.waiting.approval:
            how = approval_text(view.waiting, zone)
        what = "the change" if view.changing else "it"
        return [
            f"{how}: kalends show {named} --follow to wait on, kalends cancel {named} to give {what} up"
        ]
    if view.state == "open":
        return [f"still being decided: kalends show {named}, or kalends watch {named}"]
    if view.state == "held" and view.recalled_until:
        return [recalled_text(view, zone)]
    if view.state == "held" and view.needs_approval:
        return to_approve_lines(view.needs_approval, named)
    if view.state == "held":
        return [f"held: kalends lock {named} to keep it, kalends release {named} to give it up"]
    return []
