"""An owner's day: what the site knows of it, read in one bounded look, and never changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from kalends.calendars.bookings import Booking
from kalends.contract.day_calls import (
    DAY_ROWS_MAX,
    DayChange,
    DaySlot,
    DayUse,
    DayView,
    ShowDay,
)
from kalends.core import limits
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Interval, Moment
from kalends.core.local_clocks import instant
from kalends.core.times import parse_time
from kalends.core.zone_names import given_zone
from kalends.notices.address_book import contacts_of
from kalends.resource_servers.operations import Site, SiteOperations
from kalends.resource_servers.participation.claims.buffers import unbuffered
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.serving.auth.callers import Caller
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.http.dispatch import Handler

DAY_S: Final = 86_400

LOOKS_MAX: Final = 5_000
"""Records that one look reads for what has changed: some tens of milliseconds."""


class Bookings(NamedTuple):
    """Bookings of a day, and of the week so far, by resource; `more` if a calendar has too many."""

    of_day: list[tuple[str, Booking]]
    of_week: dict[str, list[Booking]]
    more: bool


class OwnersDay:
    """The operation of an owner's morning; it uses the other `operations` of the site."""

    def __init__(
        self,
        site: Site,
        configuration: SiteConfiguration,
        operations: SiteOperations,
        moment: Callable[[], Moment],
    ) -> None:
        self.operations = operations
        self._site, self._name, self._moment = site, configuration.name, moment
        self._contact_of = contacts_of(configuration.notices)

    def handlers(self) -> dict[str, Handler]:
        return {"today": self.today}

    def today(self, caller: Caller, body: ShowDay) -> DayView:
        return self.view(body)

    def view(self, body: ShowDay = ShowDay()) -> DayView:  # noqa: B008  # It is frozen.
        """Return the day that `body` asks for; raises `InvalidInput` and `Unavailable`."""
        participant = self._site.engine().participant
        now_s = self._moment().wall_s
        zone = given_zone(body.zone) if body.zone else _zone_of(participant)
        day = _day(body.day, now_s, zone)
        asked = Interval(_begin(day, zone), _begin(day + timedelta(days=1), zone))
        week = _week_so_far(participant, now_s, zone)
        found = _bookings(participant, asked, week)
        gone = _Gone(participant, min(asked.start, week.start))
        comes = sorted(self._comes(participant, found.of_day), key=_by_start)
        changed = sorted(self._changed(gone, asked), key=_by_start)
        reminders = participant.wing(ReclaimReminders)
        reclaims, absences = reminders.views(), reminders.absences()
        return DayView(
            site=self._name, zone=zone.key, day=day.isoformat(), start=asked.start, end=asked.end,
            now=now_s,
            comes=tuple(comes[:DAY_ROWS_MAX]),
            waiting=self.operations.pending()[:DAY_ROWS_MAX],
            changed=tuple(changed[:DAY_ROWS_MAX]),
            reclaims=tuple(e for e in reclaims if e.start < asked.end and asked.start < e.end),
            absent=tuple(e for e in absences if e.start < asked.end and asked.start < e.end),
            no_shows=dict(Counter(one.user for each in absences for one in each.reservations)),
            problems=tuple(self._site.alarms.problems),
            used=tuple(_uses(participant, found.of_week, gone, week)),
            week_since=week.start,
            more=found.more or gone.more or max(len(comes), len(changed)) > DAY_ROWS_MAX,
        )  # fmt: skip

    def now_s(self) -> int:
        return self._moment().wall_s

    def zone(self) -> ZoneInfo:
        """Return the zone of the site's days; raises `Unavailable`."""
        return _zone_of(self._site.engine().participant)

    def _comes(
        self, participant: Participant, bookings: Iterable[tuple[str, Booking]]
    ) -> Iterator[DaySlot]:
        stakes = participant.book.stakes
        for resource, booking in bookings:
            stake = stakes.peek(booking.reservation)
            petition = stake.petition if stake is not None else None
            yield DaySlot(
                id=stakes.reservation_of(booking.reservation), user=booking.holder,
                resource=resource, start=booking.start, end=booking.end, units=booking.units,
                state="locked" if booking.state == "locked" else "held",
                groups=stake.principal.groups if stake is not None else (),
                note=petition.note if petition is not None else "",
                contact=self._contact_of(booking.holder),
                came_at=stake.came_at if stake is not None else 0,
            )  # fmt: skip

    def _changed(self, gone: _Gone, day: Interval) -> Iterator[DayChange]:
        for stake, last, claims in gone.of_day(day):
            now_at = last.claims_in("locked") if last is not None else []
            cancelled = not now_at and (last or stake).has("cancelled")
            for claim in claims:
                here = [each for each in now_at if each.resource == claim.resource]
                to = next(iter(here or now_at), None)
                yield DayChange(
                    id=gone.id_of(stake), user=stake.principal.user, resource=claim.resource,
                    start=claim.start, end=claim.end, units=claim.units,
                    made="cancelled" if cancelled else "moved",
                    to_resource=to.resource if to is not None else "",
                    to_start=to.start if to is not None else 0,
                    to_end=to.end if to is not None else 0,
                    contact=self._contact_of(stake.principal.user),
                )  # fmt: skip


class _Gone:
    """Records that end after `since`, and what took the place of those that were replaced."""

    def __init__(self, participant: Participant, since: int) -> None:
        self._stakes = participant.book.stakes
        rids = list(islice(self._stakes.endings.after(since), LOOKS_MAX + 1))
        self.more = len(rids) > LOOKS_MAX
        looked = (self._stakes.peek(rid) for rid in dict.fromkeys(rids[:LOOKS_MAX]))
        self.stakes = [stake for stake in looked if stake is not None]
        self._heirs = {each.replaces: each for each in self.stakes if each.replaces}

    def id_of(self, stake: Stake) -> str:
        return self._stakes.reservation_of(stake.rid)

    def of_day(self, day: Interval) -> Iterator[tuple[Stake, Stake | None, list[Claim]]]:
        """Yield who had something that day, the last change of it if there is one, and what it was.

        What several changes have moved within the day is told once, of the last place before the present.
        """
        for stake in self.stakes:
            left = [each for each in stake.claims if each.state in ("cancelled", "replaced")]
            claims = [each for each in left if each.start < day.end and day.start < each.end]
            heir = self._heirs.get(stake.rid) if stake.has("replaced") else None
            if not claims or (heir is not None and _had(heir, day) and not heir.has("locked")):
                continue
            seen = {stake.rid}
            while heir is not None and heir.has("replaced") and heir.rid not in seen:
                seen.add(heir.rid)
                heir = self._heirs.get(heir.rid)
            yield stake, heir, claims


def _had(stake: Stake, day: Interval) -> bool:
    return any(
        each.state in ("cancelled", "replaced") and each.start < day.end and day.start < each.end
        for each in stake.claims
    )


def _bookings(participant: Participant, day: Interval, week: Interval) -> Bookings:
    """Return what users have on resources; what owners keep, and jobs in queues, are not among it."""
    found = Bookings([], {}, more=False)
    left = limits.LISTING_MAX
    for name, calendar in participant.book.calendars.items():
        if machine_of(name):
            continue
        there = unbuffered(calendar.calendar.listing(*day, left + 1))
        so_far = unbuffered(calendar.calendar.listing(*week, left + 1))
        found = found._replace(more=found.more or max(len(there), len(so_far)) > left)
        found.of_day.extend(
            (name, each) for each in there[:left] if each.holder and each.end > day.start
        )
        found.of_week[name] = [e for e in so_far[:left] if e.holder and e.state == "locked"]
        left = max(0, left - max(len(there), len(so_far)))
    return found


def _uses(
    participant: Participant, of_week: dict[str, list[Booking]], gone: _Gone, week: Interval
) -> Iterator[DayUse]:
    """Yield what was used of each resource, by those who have it, and by those who gave back the rest."""
    unit_s: Counter[str] = Counter()
    users: Counter[str] = Counter()
    for resource, bookings in of_week.items():
        for each in bookings:
            unit_s[resource] += each.units * _within(each.start, each.end, week)
            users[resource] += 1
    for stake in gone.stakes:
        for want in stake.used:
            unit_s[want.resource] += want.units * _within(want.start, want.end, week)
            users[want.resource] += 1
    for resource in of_week:
        if users[resource]:
            capacity = participant.book.calendars[resource].info.capacity
            yield DayUse(
                resource=resource, capacity=capacity, unit_s=unit_s[resource],
                reservations=users[resource],
            )  # fmt: skip


def _within(start: int, end: int, week: Interval) -> int:
    return max(0, min(end, week.end) - max(start, week.start))


def _by_start(row: DaySlot | DayChange) -> tuple[int, str, str]:
    return row.start, row.resource, row.id


def _zone_of(participant: Participant) -> ZoneInfo:
    """Return the zone of most resources, of equals the one that is configured first."""
    zones = Counter(
        each.info.zone for name, each in participant.book.calendars.items() if not machine_of(name)
    )
    return given_zone(zones.most_common(1)[0][0] if zones else "UTC")


def _week_so_far(participant: Participant, now_s: int, zone: ZoneInfo) -> Interval:
    """Return the part of the present week of which the site has all records."""
    present = datetime.fromtimestamp(now_s, zone).date()
    monday = _begin(present - timedelta(days=present.weekday()), zone)
    since = max(monday, min(participant.retention.horizon_s, now_s))
    return Interval(since, max(now_s, since + 1))


def _day(text: str, now_s: int, zone: ZoneInfo) -> date:
    at_s = parse_time(text, now_s, zone, where="day") if text else now_s
    return datetime.fromtimestamp(min(at_s, limits.TIME_S_MAX - 2 * DAY_S), zone).date()


def _begin(day: date, zone: ZoneInfo) -> int:
    return instant(datetime.combine(day, time()), zone)
