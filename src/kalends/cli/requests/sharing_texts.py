"""Words about participants, offers and links of a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zoneinfo import ZoneInfo

from kalends.contract.request_views import RequestView
from kalends.core.identifiers import short_id
from kalends.core.times import format_time

_ACTS: Final = {"look": "look at it", "change": "change it"}


def sharing_facts(view: RequestView, zone: ZoneInfo) -> Iterator[tuple[str, str]]:
    """Yield the lines that `kalends show` has about it."""
    if view.booked_by:
        yield "booked", f"by {view.booked_by}, in the name of {view.user}"
    if view.given_by:
        yield "given", f"by {view.given_by}"
    sharing = view.sharing
    if sharing is None:
        return
    if sharing.may == "take":
        yield "offered", f"to you by {view.user}: kalends accept {short_id(view.id)}"
    elif sharing.may:
        yield "shared", f"by {view.user}: you may {_ACTS[sharing.may]}"
    for each in sharing.parties:
        kind, _, name = each.party.partition(":")
        yield (
            "shared",
            f"with {'group ' if kind == 'group' else ''}{name}, who may {_ACTS[each.may]}",
        )
    if sharing.offered_to:
        yield "offered", f"to {sharing.offered_to} until {format_time(sharing.offered_until, zone)}"
    if sharing.link:
        yield "shared", "with guests, by a link"


def sharing_words(view: RequestView) -> list[str]:
    """Return what `kalends list` adds to its state."""
    sharing = view.sharing
    if sharing is None:
        return []
    if sharing.may:
        offered = sharing.may == "take" or sharing.offered_to
        return [f"{'offered' if offered else 'shared'} by {view.user}"]
    words = [f"offered to {sharing.offered_to}"] if sharing.offered_to else []
    return [*words, "shared"] if sharing.parties or sharing.link else words
