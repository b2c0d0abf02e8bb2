"""Changes of a series: what each occurrence is to be afterwards, and the keys of the requests for that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, SeriesChange, Spec
from kalends.broker.desk.changes import common_start, resized
from kalends.broker.planning.near_starts import fixed, near
from kalends.broker.register.contract import WholeReservation
from kalends.broker.series.series_records import Series, by_name
from kalends.contract import calls
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, InvalidInput, NotFound, Problem
from kalends.core.full_times import instants, shown
from kalends.core.requests import Request, span, span_of
from kalends.core.series import name_of, occurrences

CHANGES_MAX: Final = 64
"""The changes of one occurrence that are known when a call is repeated, as long as it waits."""


class StandingOccurrence(NamedTuple):
    """An occurrence that is reserved, or still to be decided; `record` is the current one of `whole`."""

    name: str
    record: Record
    whole: WholeReservation

    @property
    def waits(self) -> bool:
        """Whether it waits for an owner's horizon, so that there are no slots to change yet."""
        return self.record.state == "open" and self.record.spec.waits_for_horizon

    @property
    def start(self) -> int:
        """The common start of its stages, reserved or wanted (seconds UTC)."""
        if self.record.wants and not self.waits:
            return common_start(self.record)
        part = self.record.spec.series
        request = fixed_request(self.record, part.give_s if part is not None else 0)
        begin_s, _ = span(request)
        return request.not_before - begin_s


def check(body: calls.ChangeSeries) -> None:
    """Raise `InvalidInput` for a call whose fields do not go together."""
    lengths = bool(body.by_s) + bool(body.duration_s)
    if body.following and not body.occurrence:
        raise InvalidInput(
            "the first of the following occurrences is missing",
            where="occurrence",
            remedy="name it",
        )
    if body.what == "move":
        if bool(body.start) == bool(body.by_s) or body.duration_s or body.units:
            raise InvalidInput(
                "a move needs a start, or a time to move by, and nothing else",
                where="start",
                remedy="give one of start and by_s",
            )
        if body.start and not body.occurrence:
            raise InvalidInput(
                "a start is that of one occurrence", where="start", remedy="name it, or give by_s"
            )
    elif body.start or body.by_s < 0 or lengths > 1 or (body.units and body.what == "extend"):
        raise InvalidInput(
            f"the new length to {body.what} to is ambiguous",
            where="duration_s",
            remedy="give one of by_s and duration_s",
        )
    elif not lengths and not body.units:
        raise InvalidInput(
            "the new length is missing", where="duration_s", remedy="give by_s or duration_s"
        )


def in_scope(
    series: Series, tries: Sequence[WholeReservation], body: calls.ChangeSeries, now_s: int
) -> list[StandingOccurrence]:
    """Return the occurrences that `body` is about, in order: those that stand and have not begun.

    The one that it names is among them if it has begun, too. Raises `NotFound` for a name that is none.
    """
    names = [each.name for each in series.occurrences()]
    if body.occurrence and body.occurrence not in names:
        raise no_such(body.occurrence)
    if body.occurrence:
        place = names.index(body.occurrence)
        names = names[place:] if body.following else [body.occurrence]
    tried, found = by_name(tries), []
    for name in names:
        for whole in tried.get(name, ()):
            record = whole.current
            if not isinstance(record, Record) or record.user != series.user:
                continue
            if record.public_state not in ("open", "reserved"):
                continue
            each = StandingOccurrence(name, record, whole)
            begins = min((want.start for want in record.wants), default=each.start)
            if begins > now_s or name == body.occurrence:
                found.append(each)
    return found


def check_left(found: Sequence[StandingOccurrence], body: calls.ChangeSeries) -> None:
    """Raise `Conflict` if none is left to be changed, or if the one that must be among `found` is not.

    That is the one that `body` names, unless it is about the following ones, too, and moves by some time.
    """
    named = any(each.name == body.occurrence for each in found)
    if body.occurrence and not named and (body.start or not body.following):
        raise Conflict(
            f"there is no reservation for the occurrence {body.occurrence}",
            remedy="see `kalends show SERIES`; name one that is reserved, or open",
        )
    if not found:
        raise Conflict(
            "no occurrence is left to be changed",
            remedy="see `kalends show SERIES`; name an occurrence that has begun to change it",
        )


def no_such(occurrence: str) -> NotFound:
    return NotFound(
        f"the series has no occurrence {occurrence}",
        where="occurrence",
        remedy="see `kalends show SERIES` for their names",
    )


def later_s(body: calls.ChangeSeries, series: Series, found: Iterable[StandingOccurrence]) -> int:
    """Return by how much of the local clock occurrences are moved; 0 if they keep their starts."""
    if body.what != "move" or body.by_s:
        return body.by_s if body.what == "move" else 0
    named = next((each for each in found if each.name == body.occurrence), None)
    if named is None:
        return 0
    apart = shown(body.start, series.zone) - shown(named.start, series.zone)
    return round(apart.total_seconds())


def moved(start: int, later: int, zone: ZoneInfo) -> int:
    """Return `start` (seconds UTC) moved by `later` seconds of the local clock.

    If that shows an hour twice, the first is meant. Raises `InvalidInput` for an hour that the clocks skip,
    and for one outside of all time.
    """
    try:
        local = shown(start, zone) + timedelta(seconds=later)
        found = instants(local, zone)
    except (OverflowError, ValueError):
        raise InvalidInput(
            "the new start is outside the years 1970 to 3000",
            where="by_s",
            remedy="move it by less",
        ) from None
    if not found:
        raise InvalidInput(
            f"the clocks of {zone.key} skip {name_of(local)}",
            where="by_s",
            remedy="move it by another time, or by itself",
        )
    return found[0]


def _new_start(
    each: StandingOccurrence, body: calls.ChangeSeries, later: int, zone: ZoneInfo
) -> int:
    """Return the start after the change: the very one that is given for the named one. Raises as `moved`."""
    if body.start and each.name == body.occurrence:
        return body.start
    return moved(each.start, later, zone) if later else each.start


def change_of(
    each: StandingOccurrence, body: calls.ChangeSeries, later: int, zone: ZoneInfo
) -> calls.Change | None:
    """Return the change of a reserved occurrence; None if it is as it is to be. Raises `InvalidInput`."""
    request = each.record.spec.request
    has = {want.resource: want.units for want in each.record.wants}
    units = {name: count for name, count in body.units.items() if has.get(name) != count}
    more = [name for name, count in units.items() if count > has.get(name, count)]
    if more:
        raise InvalidInput(
            f"the occurrence has only {has[more[0]]} units of {more[0]}",
            where=f"units.{more[0]}",
            remedy="keep fewer; to get more, book them separately",
        )
    length_s = new_length_s(request.duration_s, body)
    start = _new_start(each, body, later, zone)
    if start == each.start and length_s == request.duration_s and not units:
        return None
    return calls.Change(
        id=each.record.reservation,
        key=body.key,
        start=start if start != each.start else 0,
        duration_s=length_s if length_s != request.duration_s else 0,
        units=units,
    )


def new_length_s(present_s: int, body: calls.ChangeSeries) -> int:
    """Return the length that `body` gives to what lasts `present_s`. Raises `InvalidInput`."""
    if body.what == "move" or not (body.by_s or body.duration_s):
        return present_s
    sign = 1 if body.what == "extend" else -1
    wanted_s = body.duration_s or present_s + sign * body.by_s
    if wanted_s < 1 or sign * (wanted_s - present_s) < 0:
        raise InvalidInput(
            f"the occurrence lasts {format_duration(present_s)} and cannot be"
            f" {'extended' if sign > 0 else 'shrunk'} to {format_duration(max(wanted_s, 0))}",
            where="duration_s",
            remedy="use shrink to shorten, extend to lengthen, cancel to give it up",
        )
    return wanted_s


def fixed_request(record: Record, give_s: int) -> Request:
    """Return the request of an occurrence at its own hour, without the time by which it may give way."""
    return fixed(record.spec.request, give_s) if give_s else record.spec.request


def later_request(
    each: StandingOccurrence, series: Series, body: calls.ChangeSeries, later: int
) -> tuple[Request, int] | None:
    """Return the request of an occurrence that waits for a horizon after the change, and its start.

    None if it is as it is to be. Raises `InvalidInput`.
    """
    part = series.part
    old = fixed_request(each.record, part.give_s)
    named = {term.resource for alternative in old.alternatives for term in alternative.terms}
    if strange := sorted(body.units.keys() - named):
        raise InvalidInput(
            f"{strange[0]} is not part of this occurrence",
            where=f"units.{strange[0]}",
            remedy="see `kalends show` for its resources",
        )
    length_s = new_length_s(old.duration_s, body)
    if length_s > old.duration_s:
        first = shown(series.occurrences()[0].start, series.zone)
        longer_s = series.length_s + length_s - old.duration_s
        occurrences(part.rule, first, series.zone, longer_s, part.skip, part.give_s)
    start = _new_start(each, body, later, series.zone)
    alternatives = old.alternatives
    if body.units:
        alternatives = tuple(resized(alternative, body.units) for alternative in alternatives)
    there = structs.replace(old, alternatives=alternatives, duration_s=length_s)
    begin_s, end_s = span_of(there, there.alternatives[0])
    there = structs.replace(there, not_before=start + begin_s, not_after=start + end_s)
    if there == old:
        return None
    return (near(there, start, part.give_s) if part.give_s else there), start


def waiting_changed(record: Record, spec: Spec, start: int, change: SeriesChange) -> Record:
    """Return the record of an occurrence that waits for a horizon, as it is to be: to begin at `start`."""
    waiting = record.waiting
    if waiting is not None and waiting.opens:
        opens = waiting.opens + spec.request.not_after - record.spec.request.not_after
        waiting = structs.replace(waiting, until=start, opens=opens)
    return structs.replace(
        record,
        spec=structs.replace(spec, patience="held", give_up_at=start, series=record.spec.series),
        wants=spec.wants,
        waiting=waiting,
        changed_by=(*record.changed_by[-CHANGES_MAX + 1 :], change),
    )


def key_of(key: str, anchor: str, name: str) -> str:
    """Return the key of the change of the occurrence `name`; that of the call is for `anchor`, once."""
    return key if name == anchor else f"{key}/{name}"


def made_by(tries: Sequence[WholeReservation], user: str, key: str) -> SeriesChange | None:
    """Return what was begun by an earlier call of this key, on any replica."""
    for row in (row for whole in tries for row in whole.rows):
        if not isinstance(row, Record) or row.user != user:
            continue
        for change in (*row.changed_by, row.spec.change):
            if change is not None and change.key == key:
                return change
    return None


def anchor_of(tries: Sequence[WholeReservation], user: str, key: str) -> str:
    """Return the name of the occurrence whose change has the key of the call itself; "" for none."""
    for whole in tries:
        row = whole.of_key(user, key)
        if isinstance(row, Record) and row.spec.series is not None:
            return row.spec.series.name
    return ""


def refusals_of(tries: Sequence[WholeReservation], user: str, key: str) -> Mapping[str, Problem]:
    """Return by name why changes that were made by this key were refused."""
    return {
        row.spec.series.name: row.problem
        for whole in tries
        for row in whole.rows
        if isinstance(row, Record) and row.user == user and row.problem is not None
        and row.spec.change is not None and row.spec.change.key == key
        if row.spec.series is not None
    }  # fmt: skip


def in_turn(found: Sequence[StandingOccurrence], later: int) -> list[StandingOccurrence]:
    """Return those that are moved later from the last on: each goes to where the next one has left."""
    return [*found][:: -1 if later > 0 else 1]
