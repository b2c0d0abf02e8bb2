"""Closures of a site: one period, taken back of many resources at once, and given back at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from kalends.contract import owner_calls
from kalends.core.errors import InvalidInput, KeyReused, NotFound
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.reclaims.reclaims import Reclaimed


def close(
    reclaims: ReclaimReminders, body: owner_calls.CloseSite, now: Moment
) -> owner_calls.ClosureView:
    """Close the resources; for a closure that stands, change what becomes of its reservations.

    Raises `InvalidInput` for resources or a time that there are not, `KeyReused` for a key that stands for
    another closure, and `LimitExceeded`; then nothing has happened.
    """
    parts = reclaims.parts_of(body.key)
    if parts:
        _check_same(body, parts)
        changed = {"standing": body.standing, "reason": body.reason, "made_s": now.wall_s}
        parts = [structs.replace(each, **changed) for each in parts]
    else:
        parts = _new(reclaims, body, now)
    if body.dry_run:
        return _view(body.key, map(reclaims.foreseen, parts))
    for part in parts:
        reclaims.take(part, now)
    reclaims.settle(now)
    return _view(body.key, map(reclaims.view, reclaims.parts_of(body.key)))


def reopen(reclaims: ReclaimReminders, key: str, now: Moment) -> owner_calls.Closures:
    """Open what the closure of `key` has closed, or what all have; moved reservations stay moved.

    Raises `NotFound` for a key that stands for none.
    """
    parts = reclaims.parts_of(key)
    if key and not parts:
        raise NotFound(
            "no such closure", where="key", remedy="`kalends admin reclaims` lists what is closed"
        )
    views: dict[str, list[owner_calls.ReclaimView]] = {}
    for part in parts:
        views.setdefault(part.closure, []).append(reclaims.give_back(part))
    reclaims.settle(now)
    return owner_calls.Closures(closures=tuple(_view(*each) for each in views.items()))


def _new(reclaims: ReclaimReminders, body: owner_calls.CloseSite, now: Moment) -> list[Reclaimed]:
    calendars = reclaims.book.calendars
    own = [n for n, each in calendars.items() if not (machine_of(n) or each.is_retired)]
    names = sorted(set(body.resources)) or own
    if not names:
        raise InvalidInput("this site has no resource", where="resources")
    parts = []
    for number, name in enumerate(names):
        asked = owner_calls.Reclaim(
            key=f"{body.key}:{number}", resource=name, start=body.start, end=body.end,
            reason=body.reason,
        )  # fmt: skip
        reclaims.check(asked, now, more=len(names))
        parts.append(
            Reclaimed(
                asked.key, name, body.start, body.end, 0, now.wall_s, body.reason,
                of=calendars[name].info.capacity, closure=body.key, standing=body.standing,
            )
        )  # fmt: skip
    return parts


def _check_same(body: owner_calls.CloseSite, parts: Sequence[Reclaimed]) -> None:
    times = {(each.start, each.end) for each in parts}
    names = {each.resource for each in parts}
    if (body.start, body.end) not in {*times, (0, 0)} or {*body.resources} not in (set(), names):
        raise KeyReused(
            "this key stands for a closure of another time, or of other resources",
            where="key",
            remedy="make a new key; `kalends admin reclaims` shows the old closure",
        )


def _view(key: str, views: Iterable[owner_calls.ReclaimView]) -> owner_calls.ClosureView:
    parts = tuple(views)
    first = parts[0]
    return owner_calls.ClosureView(
        key=key, start=first.start, end=first.end, standing=first.standing, parts=parts,
        reason=first.reason,
    )  # fmt: skip
