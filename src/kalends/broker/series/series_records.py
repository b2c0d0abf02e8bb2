"""A series, as its requests describe it, and how each of its occurrences stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record, SeriesPart
from kalends.broker.planning.near_starts import fixed, near
from kalends.broker.register.contract import WholeReservation
from kalends.contract import calls
from kalends.core.requests import Request, span_of
from kalends.core.series import Occurrence, occurrences
from kalends.core.times import zone_named


class Series(NamedTuple):
    """`request` is that of any of its requests, at its own time, which begins at `begins`."""

    user: str
    key: str
    digest: str
    part: SeriesPart
    request: Request
    begins: int

    @property
    def zone(self) -> ZoneInfo:
        return zone_named(self.part.zone)

    @property
    def length_s(self) -> int:
        return self.request.not_after - self.request.not_before

    def occurrences(self) -> tuple[Occurrence, ...]:
        part = self.part
        first = datetime.fromisoformat(part.first)
        return occurrences(part.rule, first, self.zone, self.length_s, part.skip, part.give_s)

    def request_at(self, occurrence: Occurrence) -> Request:
        moved_s = occurrence.start - self.begins
        there = structs.replace(
            self.request,
            not_before=self.request.not_before + moved_s,
            not_after=self.request.not_after + moved_s,
        )
        return near(there, occurrence.start, self.part.give_s) if self.part.give_s else there

    def key_of(self, occurrence: Occurrence, number: int, tried: int) -> str:
        """Return the key of a try; the series' own is that of its first request, so it is used once."""
        if number == 1:
            return self.key
        again = f"/{tried}" if tried else ""
        return f"{self.key}/{occurrence.name}{again}"


def series_in(tries: Sequence[WholeReservation]) -> Series:
    """Return the series as the first of its requests describes it."""
    record = tries[0].rows[0]
    assert isinstance(record, Record)
    part = record.spec.series
    assert part is not None
    request = fixed(record.spec.request, part.give_s) if part.give_s else record.spec.request
    begin_s, _ = span_of(request, request.alternatives[0])
    begins = request.not_before - begin_s
    return Series(record.user, record.key.partition("/")[0], record.digest, part, request, begins)


def is_of_series(whole: WholeReservation) -> bool:
    first = whole.rows[0]
    return isinstance(first, Record) and first.spec.series is not None


def by_name(tries: Sequence[WholeReservation]) -> dict[str, list[WholeReservation]]:
    """Return what was tried for each occurrence, oldest first."""
    found: dict[str, list[WholeReservation]] = {}
    for whole in tries:
        first = whole.rows[0]
        if isinstance(first, Record) and first.spec.series is not None:
            found.setdefault(first.spec.series.name, []).append(whole)
    return found


def occurrence_view(
    occurrence: Occurrence, tries: Sequence[WholeReservation]
) -> calls.OccurrenceView:
    """Return how an occurrence stands: the try that was not refused, or the newest one."""
    if not tries:
        return calls.OccurrenceView(name=occurrence.name, nominal=occurrence.start)
    standing = [whole for whole in tries if whole.current.public_state != "failed"]
    whole = (standing or tries)[-1]
    current = whole.current
    if current.user != whole.rows[0].user:
        current = whole.rows[0]  # It was handed over: what becomes of it is for its holder to see.
    wants = current.wants or current.spec.wants if isinstance(current, Record) else ()
    waiting = current.waiting if isinstance(current, Record) else None
    return calls.OccurrenceView(
        name=occurrence.name,
        nominal=occurrence.start,
        id=whole.id,
        state=current.public_state,
        start=min((want.start for want in wants), default=0),
        end=max((want.end for want in wants), default=0),
        problem=current.problem if isinstance(current, Record) else current.error().to_problem(),
        opens=waiting.opens if waiting is not None and current.public_state == "open" else 0,
        changing=whole.changing if current.state == "commit" else "",
    )
