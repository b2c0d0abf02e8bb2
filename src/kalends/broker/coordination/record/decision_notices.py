"""Notices that are stored with a decision: changes of requests by others, and slots that users waited for.

Each notice is stored by the operation that decides what it tells, or not at all.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kalends.broker.coordination.record.decision_record import NodesLack, Record
from kalends.contract.calls import PlacedJob
from kalends.contract.fields import Want
from kalends.contract.notice_calls import ChangeByOthers, Made
from kalends.core.intervals import Moment
from kalends.notices.request_notice import Occasion, RequestNotice


def change_of_slots(
    was: tuple[Want, ...], slots: tuple[Want, ...], by: str, reason: str, now: Moment
) -> ChangeByOthers:
    """Return the change from `was` to `slots`: shortened if it only ends sooner, or has fewer units."""
    made: Made = "moved"
    places = {(want.resource, want.start) for want in was}
    if slots != was and {(want.resource, want.start) for want in slots} <= places:
        made = "shortened"
    return ChangeByOthers(made=made, by=by, at=now.wall_s, reason=reason, was=was)


def on_commit(record: Record, now: Moment) -> tuple[RequestNotice, ...]:
    """Return what its user is told once `record` is committed as it is."""
    if (made := record.spec.by_others) is not None:
        return (_by_others(record, made, made.made),)
    news = (_taken(record, now),) if record.spec.heir_of else ()
    if record.spec.deputy and not record.replaces:
        news = (_notice(record, "booked", now, by=record.spec.deputy),)
    if record.owners.asked_at and record.listed:
        return (*news, _notice(record, "approved", now, reason="; ".join(record.owners.words)))
    if news:
        return news
    return (_notice(record, "came", now),) if record.listed else ()


def on_hold(record: Record, now: Moment) -> tuple[RequestNotice, ...]:
    """Return the notice for its user once all slots that it waited for are held."""
    if not record.listed:
        return ()
    return (_notice(record, "came", now, until=record.held_until_ms // 1000),)


def on_recall(record: Record, now: Moment) -> tuple[RequestNotice, ...]:
    """Return the notice for its user when an older request wants the held slots."""
    return (_notice(record, "recalled", now, until=record.recalled_until),)


def on_cancel(record: Record) -> tuple[RequestNotice, ...]:
    """Return the notice for its user when another cancels or releases it."""
    made = record.ended_by
    return (_by_others(record, made, "cancelled"),) if made is not None else ()


def on_close(record: Record, now: Moment, *, released: bool) -> tuple[RequestNotice, ...]:
    """Return what its user is told when it is given up: `released` is what its user, or another, wanted."""
    if released:
        return on_cancel(record)
    place = record.spec.placement
    if place is not None and (place.running == "not-started" or place.sooner_than):
        # Its site has told how it ended, and that stands; or it keeps the better place.
        return ()
    if (made := record.spec.by_others) is not None and made.made == "placed-elsewhere":
        # It is about the place that the job keeps, and said once, however often another one is looked for.
        return (structs.replace(_by_others(record, made, "not-placed"), id=not_placed(record)),)
    if record.listed and record.owners.approve:
        refusals = record.problem.refusals if record.problem is not None else ()
        reason = "; ".join(f"{each.where}: {each.detail}" for each in refusals)
        return (_notice(record, "not-approved", now, reason=reason),)
    if record.listed:
        reason = record.problem.detail if record.problem is not None else ""
        return (_notice(record, "gave-up", now, reason=reason),)
    return ()


def on_nodes(record: Record, resource: str, lack: NodesLack) -> RequestNotice:
    """Return the notice that units of its slots on `resource` cannot be used, or can again."""
    if lack.nodes:
        units = sum(want.units for want in record.wants if want.resource == resource)
        reason = f"{lack.nodes} of {units} units on {resource} cannot be used"
        reason += f": {lack.detail}" if lack.detail else ""
    else:
        reason = f"all units on {resource} can be used again"
    return RequestNotice(
        id=f"{record.rid}-nodes-{resource}-{lack.number}", at_s=lack.at, reason=reason, slots=record.wants,
        occasion="nodes-out" if lack.nodes else "nodes-back", **_of(record),
    )  # fmt: skip


def reminder(record: Record, due_s: int, to: str) -> RequestNotice:
    """Return the notice for the address `to` that its slots begin soon, due at `due_s` (seconds UTC)."""
    return RequestNotice(
        id=f"{record.rid}-begins-{due_s}", occasion="begins", at_s=due_s, slots=record.wants, to=to,
        **_of(record),
    )  # fmt: skip


def not_placed(record: Record) -> str:
    """Return the id of the notice that the job that `record` was to place elsewhere stays where it is."""
    return f"{record.replaces}-not-placed"


def _taken(record: Record, now: Moment) -> RequestNotice:
    """Return the notice for its former holder that `record` has taken it over."""
    about = {**_of(record), "user": record.spec.heir_of}
    return RequestNotice(
        id=f"{record.rid}-taken", occasion="taken", at_s=now.wall_s, by=record.user, was=record.wants,
        **about,
    )  # fmt: skip


def _by_others(record: Record, made: ChangeByOthers, occasion: Occasion) -> RequestNotice:
    slots = () if occasion in ("cancelled", "not-placed") else record.wants
    return RequestNotice(
        id=f"{record.rid}-{occasion}", occasion=occasion, at_s=made.at, by=made.by, reason=made.reason,
        slots=slots, was=made.was, place=_place(record.job.placed), **_of(record),
    )  # fmt: skip


def _notice(
    record: Record,
    occasion: Occasion,
    now: Moment,
    *,
    until: int = 0,
    reason: str = "",
    by: str = "",
) -> RequestNotice:
    slots = () if occasion == "gave-up" else record.wants
    return RequestNotice(
        id=f"{record.rid}-{occasion}-{record.att}", occasion=occasion, at_s=now.wall_s, slots=slots,
        until=until, reason=reason, by=by, **_of(record),
    )  # fmt: skip


def _of(record: Record) -> dict[str, Any]:
    spec = record.spec
    return {
        "user": record.user, "request": record.reservation, "asked": spec.text, "note": spec.request.note,
        "changes": record.changes,
    }  # fmt: skip


def _place(placed: PlacedJob | None) -> str:
    return f"{placed.machine}/{placed.number}" if placed is not None else ""
