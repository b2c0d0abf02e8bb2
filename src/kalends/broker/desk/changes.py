"""Move, extend and shrink: from the reserved slots to the wanted ones."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.planning.local_days import local_times
from kalends.contract.calls import Change
from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput
from kalends.core.grains import grain_of
from kalends.core.requests import Alternative, Request, span_of
from kalends.core.resources import ResourceInfo


def changed(
    record: Record, change: Change, now_s: int, infos: Mapping[str, ResourceInfo]
) -> tuple[tuple[Want, ...], Request]:
    """The slots and the request of `record` after `change`; raises as `changed_wants` does."""
    asked = _in_local_time(record, change, infos)
    wants = changed_wants(record, asked, now_s, infos)
    return wants, changed_request(record, wants, asked)


def changed_wants(
    record: Record, change: Change, now_s: int, infos: Mapping[str, ResourceInfo]
) -> tuple[Want, ...]:
    """The slots that `record` has after `change`: the same resources, moved or resized.

    `start` is the new common start: where a stage without an offset begins. `duration_s` is the new
    length of the stages that follow the request's duration, by the local clock. Whole days stay
    whole days, over clock changes too. A slot that is over at `now_s` stays as it is.

    Raises `InvalidInput` for a change that changes nothing, names a resource that is not part of it, or ends
    up outside of all time; and `Conflict` for another start when some stages have begun, and others not.
    """
    for resource, units in change.units.items():
        if all(want.resource != resource for want in record.wants):
            raise InvalidInput(
                f"{resource} is not part of this reservation",
                where=f"units.{resource}",
                remedy="see `kalends show` for its resources; book further resources separately",
            )
        if not 1 <= units <= limits.UNITS_MAX:
            raise InvalidInput(
                f"{units} is not a number of units to keep",
                where=f"units.{resource}",
                remedy="keep at least one; to give up a whole resource, cancel and book again",
            )
    moved_s = change.start - common_start(record) if change.start else 0
    begun = [want.start <= now_s for want in record.wants]
    if moved_s and any(begun) and not all(begun):
        raise Conflict(
            "its first stage has begun, so its start cannot be moved",
            remedy="cancel it (time that has passed stays booked), and book the remaining stages",
            request_id=record.reservation,
        )
    wants = _all_changed(record, change, now_s, infos)
    for want in wants:
        if not 0 <= want.start < want.end <= limits.TIME_S_MAX:
            raise InvalidInput(
                f"{want.resource} would start or end outside the years 1970 to 3000",
                where="start",
                remedy="give a start in seconds UTC, before the year 3000",
            )
    if wants == record.wants:
        raise InvalidInput(
            "nothing would change",
            where="start" if change.start else "duration_s",
            remedy="give another start, duration or number of units",
        )
    return wants


def _all_changed(
    record: Record, change: Change, now_s: int, infos: Mapping[str, ResourceInfo]
) -> tuple[Want, ...]:
    """Return all slots after the change: by local time where a clock change disturbs a grain."""
    clocks = local_times(infos, sorted({want.resource for want in record.wants}))
    clock = clocks[0] if clocks else None
    old = clock.wants(record.wants) if clock is not None else record.wants
    common, start = common_start(record), change.start
    if clock is not None:
        common, start = clock.of(common), clock.of(start)
    moved_s = start - common if change.start else 0
    new = tuple(_changed(want, record.spec.request, change, moved_s) for want in old)
    told = clock.in_utc(new) if clock is not None else new
    return tuple(
        was if was.end <= now_s or after == before else want
        for was, before, after, want in zip(record.wants, old, new, told, strict=True)
    )


def _in_local_time(record: Record, change: Change, infos: Mapping[str, ResourceInfo]) -> Change:
    """Return `change` with its length by the local clock, as a request has it: a day more than 23 h is 2 d.

    It stays as it is if no clock change disturbs a grain of `record`, or if it is a whole number of grains.
    Otherwise it was counted from the time that the slot really lasts now.
    """
    clocks = local_times(infos, sorted({want.resource for want in record.wants}))
    grains = [grain_of(infos[want.resource]) for want in record.wants if want.resource in infos]
    if not clocks or all(change.duration_s % grain.seconds == 0 for grain in grains):
        return change
    drifts = [
        (was.end - was.start) - (here.end - here.start)
        for was, here in zip(record.wants, clocks[0].wants(record.wants), strict=True)
        if here.end - here.start == record.spec.request.duration_s
    ]
    return msgspec.structs.replace(
        change, duration_s=change.duration_s - (drifts[0] if drifts else 0)
    )


def changed_request(record: Record, wants: tuple[Want, ...], change: Change) -> Request:
    """The request of `record` as if it had been made for `wants`: the ground of further changes.

    Without its agent and its windows, and with the alternative alone that was reserved: nothing is left to
    choose.
    """
    request = record.spec.request
    return msgspec.structs.replace(
        request,
        alternatives=(resized(request.alternatives[record.alternative], change.units),),
        duration_s=change.duration_s or request.duration_s,
        not_before=min(want.start for want in wants),
        not_after=max(want.end for want in wants),
        agent="",
        arguments={},
        agent_must_run=False,
    )


def resized(alternative: Alternative, units: Mapping[str, int]) -> Alternative:
    """Return an alternative with these amounts of its resources, and nothing left to choose."""
    terms = tuple(
        msgspec.structs.replace(
            term,
            units=units[term.resource],
            units_max=0,
            units_weight=1.0,
            windows=(),
            preferences=(),
        )
        if term.resource in units
        else msgspec.structs.replace(term, windows=(), preferences=())
        for term in alternative.terms
    )
    return msgspec.structs.replace(alternative, terms=terms, windows=(), preferences=())


def common_start(record: Record) -> int:
    """Return where a stage without an offset begins (seconds UTC); `record` has slots."""
    request = record.spec.request
    begin_s, _ = span_of(request, request.alternatives[record.alternative])
    return min(want.start for want in record.wants) - begin_s


def _changed(want: Want, request: Request, change: Change, moved_s: int) -> Want:
    start = want.start + moved_s
    length_s = want.end - want.start
    if change.duration_s and length_s == request.duration_s:
        length_s = change.duration_s
    units = change.units.get(want.resource, want.units)
    return Want(want.resource, start, start + length_s, units)
