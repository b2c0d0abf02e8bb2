"""One bookable resource: its calendar, and everything its owner says about who may book what.

`refusal` decides by rules alone and never by occupancy, `book` by occupancy alone, so that a
request can be told "never" apart from "not now".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice, product
from typing import Final, NamedTuple

import msgspec

from kalends.calendars import profiles
from kalends.calendars.bookings import Booking, State, check_window
from kalends.calendars.engine import new_calendar
from kalends.calendars.profiles import Change, Step
from kalends.calendars.recurrence import phrases
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.windows import CHUNK_S, Windows
from kalends.calendars.rules.access import AccessList
from kalends.calendars.rules.owner_rules import OwnerRules
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, InvalidInput, Refusal, RefusalCode
from kalends.core.grains import grain_of
from kalends.core.intervals import Interval, align_up, joined
from kalends.core.money import Pieces
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo, Slot, job_of_slot
from kalends.core.times import format_time, zone_named

REACH_S: Final = 7 * 86_400
"""Seconds after a free start that the first search under rules covers; each further one doubles it."""

OPENING_HOURS: Final = "opening-hours"
"""The rule that a refusal outside opening hours names."""

BUFFER: Final = "buffer"
"""The rule that a refusal names when only the owner's buffer is in the way."""

NEXT_FIT_S: Final = 28 * 86_400
"""Seconds that a refusal for lack of room searches for room, so that answers stay quick."""


class KeptSlots(NamedTuple):
    """The part that a changed slot keeps: its `slots` on the resource; and the time of which it needs `more`.

    `more` is empty for a slot that lies within them, whatever else it gives back.
    """

    slots: frozenset[Interval]
    more: tuple[Interval, ...]


def unknown_resource(name: str) -> Refusal:
    """Return the refusal for a resource that does not exist, and for one that the asker may not see.

    One text for both: an answer must not tell that a hidden resource exists.
    """
    return Refusal(
        where=name,
        code=RefusalCode.UNKNOWN_RESOURCE,
        detail=f"no such resource {name}, or you may not see it",
    )


class ResourceCalendar:
    """A resource with its `calendar`, access list, opening `hours` (empty: always open) and `rules`.

    Raises `InvalidInput` for an `info` whose zone or capacity cannot be.
    """

    def __init__(
        self,
        info: ResourceInfo,
        access: AccessList,
        hours: tuple[Recurrence, ...] = (),
        rules: OwnerRules | None = None,
    ) -> None:
        zone_named(info.zone)
        self.info, self.grain = info, grain_of(info)
        self.access = access
        self.rules = rules or OwnerRules()
        self.gap_s = self.rules.buffer.between_s
        """Seconds that the owner keeps free between two bookings of one unit."""
        self.calendar = new_calendar(info.capacity)
        self._hours = Windows(hours) if hours else None

    def resize(self, capacity: int, now_s: int) -> list[Booking]:
        """Have `capacity` units from now on, which are enough for all bookings that are not over.

        Return what is over by `now_s` and was taken off the calendar, if some of it had no room. Raises
        `Conflict` where they are not enough; then nothing has changed.
        """
        there = self.calendar.listing(0, limits.TIME_S_MAX)
        resized, over = new_calendar(capacity), list[Booking]()
        try:
            resized.load(there)
        except (Conflict, InvalidInput):
            over = [each for each in there if each.end <= now_s]
            resized = new_calendar(capacity)
            resized.load(each for each in there if each.end > now_s)
        self.calendar = resized
        self.info = msgspec.structs.replace(self.info, capacity=capacity)
        return over

    def retire(self) -> None:
        """Hide the resource from all users and close it for bookings; existing bookings stay."""
        self.access = AccessList([])

    @property
    def is_retired(self) -> bool:
        """Whether it is closed to all users."""
        return not self.access.rules

    def take_rules(self, changed: ResourceCalendar) -> None:
        """Let the description, access list, hours and rules of `changed` hold; bookings and reclaims stay."""
        assert changed.info.capacity == self.info.capacity
        changed.rules.blackouts.keep_reclaimed(self.rules.blackouts)
        self.info, self.grain, self.access = changed.info, changed.grain, changed.access
        self.rules, self._hours, self.gap_s = changed.rules, changed._hours, changed.gap_s

    def visible_to(self, principal: Principal) -> bool:
        return self.access.sees(principal)

    def refusal(
        self,
        principal: Principal,
        actions: tuple[str, ...],
        start: int,
        end: int,
        units: int,
        wall_s: int,
        kept: KeptSlots | None = None,
    ) -> Refusal | None:
        """Return why the rules refuse `actions` of `principal` here, or None; bookings are ignored.

        A slot that takes the place of others keeps what is `kept` of them. Rules are for new bookings, so
        they judge only what it needs beyond that. What lies within may give back time or units whatever
        the rules say now. Its borders that are new are on the grain, and do not lie in the past.

        The first that holds: not visible, advisory, empty, past, beyond the horizon, off the grain, too many
        units, the access list, opening hours, limits, blackouts. How long before a slot must be booked
        counts for holds alone: a slot held in time may be locked later. Raises `InvalidInput` for
        what is not whole numbers.
        """
        _check_numbers(start, end, units)
        parts = kept.more if kept is not None else (Interval(start, end),)
        if parts and not self.access.sees(principal):
            return unknown_resource(self.info.name)
        refusal = self._advisory() if parts else None
        refusal = refusal or self._refusal_of_time(start, end, wall_s, kept)
        if refusal is not None or not parts:
            return refusal
        if not 1 <= units <= self.info.capacity:
            return self._refuse(
                RefusalCode.TOO_MUCH,
                f"{units} units, of which it has {self.info.capacity}: ask for 1 or more, up to that",
            )
        for action, (first, last) in product(actions, parts):
            refusal = self.access.refusal(principal, action, self.info.name, first, last, units)
            if refusal is not None:
                return refusal
        if self._hours is not None and not all(self._hours.cover(*part) for part in parts):
            hours = self.info.hours or self._hours.describe()
            return self._refuse(RefusalCode.CLOSED_HOURS, f"open only {hours}", OPENING_HOURS)
        longer = kept is None or any(
            joined((*kept.slots, part)) != joined(kept.slots) for part in parts
        )
        refusal = self._too_long(principal, end - start) if longer else None
        if self.rules.limits.shortest and (
            kept is None or all(end - start < slot.length_s for slot in kept.slots)
        ):
            refusal = refusal or self.too_short(principal, end - start)
        refusal = refusal or self._refusal_of_limits(principal, actions, parts, wall_s)
        return refusal if refusal is not None else self._refusal_of_blackouts(parts)

    def busy(self, principal: Principal, start: int, end: int, units: int, wall_s: int) -> Refusal:
        """Return the refusal for `units` that are not free during ``[start, end)``.

        It names the next possible start, if there is one within about `NEXT_FIT_S`.
        """
        free = self.calendar.free(start, end + self.gap_s)
        window = f"between {self._shown(start)} and {self._shown(end)}"
        rule = ""
        if self.gap_s and (buffered := self._only_buffered(start, end, units)):
            detail, rule = buffered, BUFFER
        elif self.info.capacity == 1:
            detail = f"taken for some time {window}"
        elif free >= units:
            # Jobs have nodes that no booking has; or several claims of one request do not fit together.
            detail = f"jobs, or other parts of the request, leave too few units free {window}"
        else:
            detail = (
                f"{free} of {self.info.capacity} units are free throughout {window}, not {units}"
            )
        later = self._later_start(principal, units, start, end, wall_s)
        if later is not None and later > start:
            detail += f"; there is room from {self._shown(later)} on"
        return self._refuse(RefusalCode.BUSY, detail, rule)

    def _only_buffered(self, start: int, end: int, units: int) -> str:
        """Return which buffer is in the way of ``[start, end)``, in words; "" if a booking is."""
        near = self.calendar.listing(start, end + self.gap_s)
        spans = [(each.start, each.end - each.gap_s, each.units) for each in near]
        taken = max((each[2] for each in profiles.total(spans, start, end)), default=0)
        if taken + units > self.info.capacity:
            return ""
        kept = f"the owner keeps {format_duration(self.gap_s)} free between bookings"
        before = [each for each in near if each.end - each.gap_s <= start]
        if before:
            last = max(before, key=lambda each: each.end)
            ended, ready = self._shown(last.end - last.gap_s), self._shown(last.end)
            return f"{kept}: a booking ends at {ended}, and it is ready at {ready}"
        after = min((each.start for each in near if each.start >= end), default=0)
        if not after:
            return ""
        latest = self._shown(after - self.gap_s)
        return f"{kept}: a booking starts at {self._shown(after)}, so end by {latest}"

    def _later_start(
        self, principal: Principal, units: int, start: int, end: int, wall_s: int
    ) -> int | None:
        """Return the next start of a slot like ``[start, end)`` within about `NEXT_FIT_S`, or None."""
        grain = self.grain
        if grain.zone is None:
            last = grain.ceil(end + NEXT_FIT_S)
            return self.earliest_fit(principal, units, end - start, start, last, wall_s)
        # Lengths differ from start to start, of which there are few.
        length_s, at = grain.length_s(start, end), grain.ceil(start)
        while at <= start + NEXT_FIT_S:
            until = grain.end_of(at, length_s)
            if self.free(at, until + self.gap_s) >= units and (
                self.refusal(principal, ("hold",), at, until, units, wall_s) is None
            ):
                return at
            at = grain.ceil(at + 1)
        return None

    def free(self, start: int, end: int) -> int:
        """Return the smallest number of free units over ``[start, end)``; rules are not looked at."""
        return self.calendar.free(start, end)

    def book(self, booking: Booking) -> None:
        """Book without checking rules, see `Calendar.book`."""
        self.calendar.book(booking)

    def load(self, bookings: Iterable[Booking]) -> None:
        """Load bookings without checking rules, see `Calendar.load`."""
        self.calendar.load(bookings)

    def release(self, booking_id: int) -> Booking:
        """Release a booking, see `Calendar.release`."""
        return self.calendar.release(booking_id)

    def change_state(self, booking_id: int, state: State) -> Booking:
        """Change the state of a booking, see `Calendar.change_state`."""
        return self.calendar.change_state(booking_id, state)

    def free_steps(
        self,
        principal: Principal,
        start: int,
        end: int,
        wall_s: int,
        steps_max: int,
        changes: Sequence[Change] = (),
        caps: Iterable[Sequence[Step]] = (),
        *,
        booked: bool = True,
    ) -> tuple[list[Step], int]:
        """Return what `principal` could book in ``[start, end)``: steps of at least one unit, and `until`.

        Clipped to now, the horizon, opening hours, blackouts, how early and late the principal may
        book, and the access list's windows and amounts; where
        they may lock at times, both holding and locking must be allowed. At most `steps_max` steps,
        complete up to `until`. Borders that hours make may lie off the grain. A principal who may
        not see the resource gets none. `changes` are units that count as free besides what is free
        (or, below 0, that do not); each of `caps` (steps in order) bounds the units at its times. If not
        `booked`, as if there were no bookings.
        """
        check_window(start, end)
        first = max(start, self.earliest_start(principal, wall_s))
        last = min(end, self._latest_end_for(principal, wall_s))
        if first >= last or not self.access.sees(principal) or self.info.advisory:
            return [], end
        capacity = self.info.capacity
        beyond = last + self.gap_s if booked else last
        free: Iterator[Step] = (
            self.calendar.walk(first, beyond) if booked else iter([(first, last, capacity)])
        )
        if changes:
            free = profiles.changed(free, changes, first, beyond)
        if beyond > last:
            free = profiles.ending_at(profiles.eroded(free, self.gap_s), last)
        bounds = (profiles.capped(each, first, last, capacity) for each in caps)
        for limit in chain(self._limits(principal, first, last), bounds):
            free = profiles.combine(free, limit, min)
        bookable = (step for step in profiles.join(free) if step[2] > 0)
        steps = list(islice(bookable, max(steps_max, 0) + 1))
        if len(steps) <= steps_max:
            return steps, end
        until, _, _ = steps.pop()
        return steps, until

    def earliest_fit(
        self,
        principal: Principal,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        wall_s: int,
    ) -> int | None:
        """Return the first start at which `principal` could book `units` for `length_s`, or None.

        The slot lies in ``[not_before, not_after)``; its units are free, and `refusal` has nothing
        against holding it, nor against locking it where they may lock at times. None for who may not
        see the resource. Raises `InvalidInput` for numbers that are off the grain or not positive.
        """
        self._check_search(units, length_s, not_before, not_after, wall_s)
        grain = self.grain
        at = max(not_before, self.earliest_start(principal, wall_s), 0)
        last = min(not_after, self._latest_end_for(principal, wall_s))
        longest = self.rules.limits.deciding(principal, "longest_s")
        if not self.access.sees(principal) or (longest and length_s > longest.longest_s):
            return None
        if self.info.advisory or (
            self.rules.limits.shortest and self.too_short(principal, length_s)
        ):
            return None
        reach_s = REACH_S
        while (found := self._first_room(units, length_s, at, last)) is not None:
            # Rules are expanded around what is free only, and ever further from it.
            border = min(last, found + length_s + reach_s)
            reach_s = min(2 * reach_s, CHUNK_S)
            windows = self._bookable_windows(principal, units, length_s, found, border)
            fit = self._first_room(units, length_s, found, border, windows)
            while fit is not None and not grain.has(fit):
                at = grain.ceil(fit)
                fit = self._first_room(units, length_s, at, border, windows)
            if fit is not None:
                return fit
            at = grain.ceil(border - length_s + 1)
        return None

    def _first_room(
        self,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        windows: Sequence[Interval] | None = None,
    ) -> int | None:
        """Return as `Calendar.earliest_fit`, with room for the buffer, which may lie outside `windows`."""
        gap_s = self.gap_s
        if not gap_s:
            return self.calendar.earliest_fit(units, length_s, not_before, not_after, windows)
        # One by one: windows that are longer by a buffer may meet.
        for start, end in [(not_before, not_after)] if windows is None else windows:
            first, last = max(start, not_before), min(end, not_after)
            if last - first < length_s:
                continue
            fit = self.calendar.earliest_fit(units, length_s + gap_s, first, last + gap_s)
            if fit is not None:
                return fit
        return None

    def slots_until(
        self, principal: Principal, start: int, end: int, count_max: int
    ) -> tuple[list[Slot], int]:
        """Return as `slots`, and until when they are complete: `end`, or where the next one begins."""
        found = self.slots(principal, start, end, count_max + 1)
        return (found, end) if len(found) <= count_max else (found, found.pop().start)

    def slots(self, principal: Principal, start: int, end: int, count_max: int) -> list[Slot]:
        """Return the first `count_max` taken slots in ``[start, end)`` that `principal` may see.

        A promise shows as held. Whose a slot is, is shown only to its holder and to those who may
        see details; that a job has it, to everybody. Empty for a principal who may not see the resource.
        """
        check_window(start, end)
        if not self.access.sees(principal):
            return []
        detail = self.access.sees_detail(principal)
        count_max = max(count_max, 0)
        # Those that are over by the start, but for their buffer, are no slots of that time.
        over = self.calendar.listing(start, start + 1)
        count_max += sum(each.end - each.gap_s <= start for each in over) if count_max else 0
        return [
            self._slot(booking, shown=detail or booking.holder == principal.user)
            for booking in self.calendar.listing(start, end, count_max)
            if booking.end - booking.gap_s > start
        ]

    def rules_for(self, principal: Principal) -> tuple[str, ...]:
        """Return every rule that holds for `principal` in words: what they may do, how much, when."""
        return (*self.access.describe_for(principal), *self.rules.describe_for(principal))

    def head_start_ms(self, principal: Principal) -> int:
        """Return the head start of `principal` in the wait queue of this resource."""
        return self.rules.head_start_ms(principal)

    def priced(
        self, principal: Principal, units: int, start: int, end: int, priority: str = ""
    ) -> Pieces | Refusal:
        """Return what `units` during ``[start, end)`` cost `principal` by today's prices; () if nothing.

        A claim that is too much for one sum, or has too many different prices, is refused. With a `priority`,
        for a job of that class.
        """
        try:
            return self.rules.prices.pieces(principal, units, start, end, priority)
        except InvalidInput as error:
            return self._refuse(RefusalCode.TOO_MUCH, f"{error.detail}; {error.remedy}")

    def needs_approval(self, principal: Principal) -> bool:
        """Whether what `principal` books here waits for the owner's approval."""
        return self.rules.limits.needs_approval(principal)

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours."""
        assert self.calendar.capacity == self.info.capacity
        self.calendar.check()

    def _refusal_of_time(
        self, start: int, end: int, wall_s: int, kept: KeptSlots | None
    ) -> Refusal | None:
        if end <= start:
            return self._refuse(RefusalCode.OFF_GRAIN, "a slot must end after it starts")
        slots, more = kept if kept is not None else (frozenset[Interval](), (Interval(start, end),))
        if (start, end) in slots and not more:
            return None
        begun = any(slot.start == start <= wall_s < slot.end for slot in slots)
        if begun and end <= wall_s:
            detail = f"it has begun, and it is already {self._shown(wall_s)}: it must end later"
            return self._refuse(RefusalCode.PAST, detail)
        if start < self._now_on_grain(wall_s) and not begun:
            detail = (
                f"it would start at {self._shown(start)}, and it is already {self._shown(wall_s)}"
            )
            return self._refuse(RefusalCode.PAST, detail)
        last = more[-1].end if more else 0
        if last > min(wall_s + self.info.horizon_s, limits.TIME_S_MAX):
            latest = self._shown(self._latest_end(wall_s))
            return self._refuse(RefusalCode.BEYOND_HORIZON, f"slots must end by {latest}")
        grain = self.grain
        old_starts, old_ends = {slot.start for slot in slots}, {slot.end for slot in slots}
        wanted = [("start", start)] if not grain.has(start) and start not in old_starts else []
        wanted += [("end", end)] if not grain.has(end) and end not in old_ends else []
        if wanted:
            nearest = "; ".join(
                f"{side} at {self._neighbours(at, start if side == 'end' else -1)}"
                for side, at in wanted
            )
            return self._refuse(
                RefusalCode.OFF_GRAIN,
                f"slots start and end on every whole {phrases.every(grain.seconds)} from midnight"
                f" ({self.info.zone}): {nearest}",
            )
        return None

    def too_late(self, length_s: int, end: int, wall_s: int) -> Refusal:
        """Return the refusal for a booking of `length_s` that no longer fits between `wall_s` and `end`."""
        detail = f"{format_duration(length_s)} no longer fit before {self._shown(end)}"
        return self._refuse(RefusalCode.PAST, f"{detail}: it is already {self._shown(wall_s)}")

    def never(self, principal: Principal, length_s: int) -> Refusal | None:
        """Return the refusal for a booking of `length_s` at any time; None where there may be one."""
        return self._advisory() or self._too_long(principal, length_s)

    def _advisory(self) -> Refusal | None:
        if not self.info.advisory:
            return None
        return self._refuse(
            RefusalCode.ADVISORY,
            f"advisory: its batch system ({self.info.advisory}) alone decides there; submit a job to it: "
            f"kalends submit {self.info.name}",
        )

    def _too_long(self, principal: Principal, length_s: int) -> Refusal | None:
        longest = self.rules.limits.deciding(principal, "longest_s")
        if longest is None or length_s <= longest.longest_s:
            return None
        length = format_duration(longest.longest_s)
        detail = f"rule {longest.name} lets you book at most {length} at a time"
        return self._refuse(RefusalCode.TOO_LONG, detail, longest.name)

    def too_short(self, principal: Principal, length_s: int) -> Refusal | None:
        """Return the refusal for a new booking of `length_s`, or None if it is long enough."""
        shortest = self.rules.limits.deciding(principal, "shortest_s")
        if shortest is None or length_s >= shortest.shortest_s:
            return None
        length = format_duration(shortest.shortest_s)
        detail = f"rule {shortest.name} lets you book at least {length} at a time"
        return self._refuse(RefusalCode.TOO_SHORT, detail, shortest.name)

    def _refusal_of_limits(
        self,
        principal: Principal,
        actions: tuple[str, ...],
        parts: Sequence[Interval],
        wall_s: int,
    ) -> Refusal | None:
        limits_here = self.rules.limits
        start, end = parts[0].start, parts[-1].end
        lead = limits_here.deciding(principal, "lead_s") if "hold" in actions else None
        if lead is not None and start < (first := self._now_on_grain(wall_s + lead.lead_s)):
            detail = (
                f"rule {lead.name} lets you book at least {format_duration(lead.lead_s)} before:"
                f" from {self._shown(first)} on"
            )
            return self._refuse(RefusalCode.LEAD_TIME, detail, lead.name)
        set_up_s = self.rules.buffer.before_s if "hold" in actions else 0
        if set_up_s and start < (first := self._now_on_grain(wall_s + set_up_s)):
            detail = f"set-up takes {format_duration(set_up_s)}: from {self._shown(first)} on"
            return self._refuse(RefusalCode.LEAD_TIME, detail, BUFFER)
        ahead = limits_here.deciding(principal, "ahead_s")
        if ahead is not None and end > wall_s + ahead.ahead_s:
            latest = self._shown(self._latest_end_for(principal, wall_s))
            detail = (
                f"rule {ahead.name} lets you book at most {format_duration(ahead.ahead_s)} ahead:"
                f" slots that end by {latest}"
            )
            return self._refuse(RefusalCode.BEYOND_HORIZON, detail, ahead.name)
        return None

    def _refusal_of_blackouts(self, parts: Iterable[Interval]) -> Refusal | None:
        met = (self.rules.blackouts.first_met(*part) for part in parts)
        first = next((each for each in met if each is not None), None)
        if first is None:
            return None
        reason = f": {first.reason}" if first.reason else ""
        window = f"between {self._shown(first.start)} and {self._shown(first.end)}"
        detail = f"the owner has closed it {window}{reason}"
        return self._refuse(RefusalCode.BLACKOUT, detail, first.rule)

    def _limits(self, principal: Principal, start: int, end: int) -> Iterator[Iterator[Step]]:
        """Yield profiles of what the rules allow; a booking must keep to all of them."""
        open_between = self.rules.blackouts.open_between(start, end)
        if open_between is not None:
            yield profiles.from_windows(open_between, start, end, self.info.capacity)
        if self._hours is not None:
            open_at = self._hours.between(start, end)
            yield profiles.from_windows(open_at, start, end, self.info.capacity)
        yield self.access.permitted(principal, "hold", start, end)
        if self.access.may_ever(principal, "lock"):
            yield self.access.permitted(principal, "lock", start, end)

    def _bookable_windows(
        self, principal: Principal, units: int, length_s: int, start: int, end: int
    ) -> list[Interval]:
        """Return where in ``[start, end)`` all limits allow `units` for at least `length_s`."""
        allowed = reduce(
            lambda one, other: profiles.combine(one, other, min),
            self._limits(principal, start, end),
        )
        windows = profiles.at_least(allowed, units)
        return [window for window in windows if window.length_s >= length_s]

    def _check_search(
        self, units: int, length_s: int, not_before: int, not_after: int, wall_s: int
    ) -> None:
        times = {"length_s": length_s, "not_before": not_before, "not_after": not_after}
        for where, value in {"units": units, "wall_s": wall_s, **times}.items():
            if type(value) is not int:
                raise InvalidInput(f"{value!r} is not a whole number", where=where)
        if units < 1 or length_s < 1:
            raise InvalidInput(
                f"{units} units for {length_s} seconds",
                where="units" if units < 1 else "length_s",
                remedy="ask for at least 1 unit and 1 second",
            )
        grain = self.grain
        near = {"length_s": align_up(length_s, grain.seconds)}
        near |= {where: grain.ceil(times[where]) for where in ("not_before", "not_after")}
        for where, value in times.items():
            if value != near[where]:
                raise InvalidInput(
                    f"{value} is not on the grain of {self.info.name}, {grain.seconds} seconds",
                    where=where,
                    remedy=f"use {near[where]}",
                )

    def _now_on_grain(self, wall_s: int) -> int:
        return self.grain.floor(wall_s)

    def _latest_end(self, wall_s: int) -> int:
        return self._now_on_grain(min(wall_s + self.info.horizon_s, limits.TIME_S_MAX))

    def earliest_start(self, principal: Principal, wall_s: int) -> int:
        """Return the first start that `principal` may book now: in time for the owner, and for the set-up."""
        lead = self.rules.limits.deciding(principal, "lead_s")
        lead_s = lead.lead_s if lead is not None else 0
        return self._now_on_grain(wall_s + max(lead_s, self.rules.buffer.before_s))

    def _latest_end_for(self, principal: Principal, wall_s: int) -> int:
        ahead = self.rules.limits.deciding(principal, "ahead_s")
        latest = self._latest_end(wall_s)
        if ahead is None:
            return latest
        return min(latest, self._now_on_grain(wall_s + ahead.ahead_s))

    def _neighbours(self, time_s: int, beyond_s: int) -> str:
        """Return the times of the grain on both sides of `time_s`, as far as they are after `beyond_s`."""
        both = (self.grain.floor(time_s), self.grain.ceil(time_s))
        return " or ".join(self._shown(each) for each in both if each > beyond_s)

    def _shown(self, time_s: int) -> str:
        return format_time(time_s, self.info.zone)

    def _slot(self, booking: Booking, *, shown: bool) -> Slot:
        buffer, gap_s = self.rules.buffer, booking.gap_s
        return Slot(
            booking.start,
            booking.end - gap_s,
            booking.units,
            "locked" if booking.state == "locked" else "held",
            booking.holder if shown else "",
            booking.reservation if shown else job_of_slot(booking.reservation),
            min(buffer.before_s, gap_s),
            min(buffer.after_s or gap_s, gap_s),
        )

    def _refuse(self, code: str, detail: str, rule: str = "") -> Refusal:
        return Refusal(where=self.info.name, code=code, detail=detail, rule=rule)


def _check_numbers(*numbers: int) -> None:
    for number in numbers:
        if type(number) is not int:
            raise InvalidInput(f"{number!r} is not a whole number", where="start")
