"""Recurring series at random, and their clashes worked out from every window there is.

Shares nothing with the fast search but `instant`: each day of a thousand years is tested against the
words of RFC 5545 with NumPy, each window becomes two instants, and sorted windows are merged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from kalends.calendars import Recurrence
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.local_clocks import instant
from kalends.core.repeat import WEEKDAYS

Numbers = npt.NDArray[np.int64]
DAY_S = 86_400
FIRST = date(1968, 1, 1)
FIRST_S = -731 * DAY_S
COUNT = date(3001, 1, 1).toordinal() - FIRST.toordinal()

_DAYS = np.datetime64("1968-01-01") + np.arange(COUNT)
_YEARS, _MONTHS = _DAYS.astype("datetime64[Y]"), _DAYS.astype("datetime64[M]")
NUMBER = np.arange(COUNT)
YEAR = _YEARS.astype(np.int64) + 1970
MONTH = _MONTHS.astype(np.int64) % 12 + 1
OF_MONTH = (_DAYS - _MONTHS).astype(np.int64) + 1
MONTH_LENGTH = ((_MONTHS + 1).astype("datetime64[D]") - _MONTHS.astype("datetime64[D]")).astype(
    np.int64
)
OF_YEAR = (_DAYS - _YEARS).astype(np.int64) + 1
YEAR_LENGTH = ((_YEARS + 1).astype("datetime64[D]") - _YEARS.astype("datetime64[D]")).astype(
    np.int64
)
WEEKDAY = NUMBER % 7  # Day 0 was a Monday.

ZONES = (
    "UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Apia",
    "Africa/Casablanca", "Asia/Kolkata", "America/St_Johns", "Europe/Lisbon",
)  # fmt: skip


@dataclass
class Spec:
    """A rule as numbers, from which its text is made."""

    frequency: str
    interval: int
    parts: dict[str, list[int]]
    ranked: list[tuple[int, int]]
    week_start: int
    start: time
    duration_s: int
    zone: str
    first: date | None
    last: date | None
    count: int
    until: str

    @property
    def rrule(self) -> str:
        text = f"FREQ={self.frequency};WKST={WEEKDAYS[self.week_start]}"
        if self.interval > 1:
            text += f";INTERVAL={self.interval}"
        for name, values in self.parts.items():
            text += f";{name}={','.join(map(str, values))}"
        if self.ranked:
            text += ";BYDAY=" + ",".join(f"{nth or ''}{WEEKDAYS[day]}" for nth, day in self.ranked)
        return text + (f";COUNT={self.count}" if self.count else "") + self.until

    @cached_property
    def recurrence(self) -> Recurrence:
        return Recurrence(self.rrule, self.start, self.duration_s, self.zone, self.first, self.last)

    @cached_property
    def windows(self) -> tuple[Numbers, Numbers]:
        """When each window opens and closes, by when it opens; none is empty."""
        starts = self._local_starts()
        opens, closes = (_instants(self.zone, each) for each in (starts, starts + self.duration_s))
        kept = (opens < closes) & (closes > 0) & (opens < limits.TIME_S_MAX)
        return opens[kept], closes[kept]

    @cached_property
    def merged(self) -> tuple[Numbers, Numbers]:
        """The same as disjoint stretches that do not touch."""
        opens, closes = self.windows
        latest = np.maximum.accumulate(closes)
        begins = np.concatenate(([True], opens[1:] > latest[:-1]))[: len(opens)]
        return opens[begins], latest[np.concatenate((begins[1:], [True]))[: len(opens)]]

    def _local_starts(self) -> Numbers:
        days = NUMBER[self._matching() & self._in_taken_period()]
        times = sorted(
            (hour * 60 + minute) * 60 + self.start.second
            for hour in self.parts.get("BYHOUR", [self.start.hour])
            for minute in self.parts.get("BYMINUTE", [self.start.minute])
        )
        starts = (days[:, None] * DAY_S + np.array(times)).ravel()
        if positions := self.parts.get("BYSETPOS"):
            _, index, inverse, counts = np.unique(
                self._period()[starts // DAY_S],
                return_index=True,
                return_inverse=True,
                return_counts=True,
            )
            rank = np.arange(len(starts)) - index[inverse]
            kept = np.isin(rank + 1, positions) | np.isin(rank - counts[inverse], positions)
            starts = starts[kept]
        starts = starts[starts >= _number(self.first or FIRST) * DAY_S]
        if self.last:
            starts = starts[starts < (_number(self.last) + 1) * DAY_S]
        if self.until:
            starts = starts[starts <= self._until_s()]
        return starts[: self.count] if self.count else starts

    def _until_s(self) -> int:
        text = self.until.removeprefix(";UNTIL=")
        if "T" not in text:
            return (_number(datetime.strptime(text, "%Y%m%d").date()) + 1) * DAY_S - 1
        local = datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S")
        if text.endswith("Z"):
            local = local.replace(tzinfo=UTC).astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        return int((local - datetime.combine(FIRST, time())).total_seconds())

    def _period(self) -> Numbers:
        weeks = (NUMBER - self.week_start) // 7
        months = YEAR * 12 + MONTH
        return {"DAILY": NUMBER, "WEEKLY": weeks, "MONTHLY": months, "YEARLY": YEAR}[self.frequency]

    def _in_taken_period(self) -> npt.NDArray[np.bool_]:
        period = self._period()
        return (period - period[_number(self.first or FIRST)]) % self.interval == 0

    def _matching(self) -> npt.NDArray[np.bool_]:
        parts = self.parts
        found = np.ones(COUNT, dtype=bool)
        if "BYMONTH" in parts:
            found &= np.isin(MONTH, parts["BYMONTH"])
        if "BYMONTHDAY" in parts:
            found &= _counted(parts["BYMONTHDAY"], OF_MONTH, MONTH_LENGTH)
        if "BYYEARDAY" in parts:
            found &= _counted(parts["BYYEARDAY"], OF_YEAR, YEAR_LENGTH)
        if "BYWEEKNO" in parts:
            fourth = np.minimum(NUMBER + 3 - (WEEKDAY - self.week_start) % 7, COUNT - 1)
            number = (OF_YEAR[fourth] - 1) // 7 + 1
            weeks = number + (YEAR_LENGTH[fourth] - OF_YEAR[fourth]) // 7
            found &= _counted(parts["BYWEEKNO"], number, weeks)
        if self.ranked:
            in_year = self.frequency == "YEARLY" and "BYMONTH" not in parts
            at, length = (OF_YEAR, YEAR_LENGTH) if in_year else (OF_MONTH, MONTH_LENGTH)
            either = np.zeros(COUNT, dtype=bool)
            for nth, weekday in self.ranked:
                ranks = {0: 0}.get(nth, (at - 1) // 7 + 1 if nth > 0 else -((length - at) // 7 + 1))
                either |= (weekday == WEEKDAY) & (ranks == nth)
            found &= either
        if not (self.ranked or {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"} & set(parts)):
            anchor = self.first or FIRST
            if self.frequency == "WEEKLY":
                found &= anchor.weekday() == WEEKDAY
            if self.frequency in ("MONTHLY", "YEARLY"):
                found &= anchor.day == OF_MONTH
            if self.frequency == "YEARLY" and "BYMONTH" not in parts:
                found &= anchor.month == MONTH
        return found


def slow_first_clash(one: Spec, other: Spec, not_before: int) -> Interval | None:
    """The first second at which a window of each is open, and until when the longest of each are."""
    few, many = sorted((one, other), key=lambda spec: len(spec.merged[0]))
    opens, closes = few.merged
    others = many.merged
    at = int(np.searchsorted(closes, not_before, "right"))
    step = 2_000
    while at < len(opens):
        begins = np.maximum(opens[at : at + step], not_before)
        index = np.searchsorted(others[1], begins, "right")
        index, there = np.minimum(index, len(others[0]) - 1), index < len(others[0])
        meets = there & (others[0][index] < closes[at : at + step])
        if meets.any():
            which = int(meets.argmax())
            found = int(max(begins[which], others[0][index[which]]))
            if found >= limits.TIME_S_MAX:
                return None
            return Interval(found, min(_closes(one, found), _closes(other, found)))
        at, step = at + step, step * 8
    return None


def touch(one: Spec, other: Spec) -> bool:
    """Whether a window of one closes as one of the other opens."""
    pairs = ((one.merged[1], other.merged[0]), (other.merged[1], one.merged[0]))
    for few, many in (sorted(pair, key=len) for pair in pairs):
        index = np.minimum(np.searchsorted(many, few), len(many) - 1)
        if len(few) and (many[index] == few).any():
            return True
    return False


def _closes(spec: Spec, time_s: int) -> int:
    opens, closes = spec.windows
    is_open = (opens <= time_s) & (time_s < closes)
    return min(int(closes[is_open].max()), limits.TIME_S_MAX)


def _counted(wanted: list[int], at: Numbers, length: Numbers) -> npt.NDArray[np.bool_]:
    return np.isin(at, wanted) | np.isin(at - length - 1, wanted)


def _number(day: date) -> int:
    return day.toordinal() - FIRST.toordinal()


@lru_cache(maxsize=16)
def _noons(zone: str) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The offset at each local noon, and on which days it is not that of both neighbours."""
    info, noon = ZoneInfo(zone), datetime.combine(FIRST, time(12))
    offsets = [info.utcoffset(noon + timedelta(day)) for day in range(COUNT + 400)]
    seconds = np.array([each // timedelta(seconds=1) for each in offsets if each is not None])
    changes = np.zeros(len(seconds), dtype=bool)
    changed = np.flatnonzero(np.diff(seconds))
    for nearby in (-1, 0, 1, 2):
        changes[np.clip(changed + nearby, 0, len(seconds) - 1)] = True
    return seconds, changes


@lru_cache(maxsize=1_000_000)
def _instant(zone: str, local_s: int) -> int:
    return instant(datetime.combine(FIRST, time()) + timedelta(seconds=local_s), ZoneInfo(zone))


def _instants(zone: str, local: Numbers) -> Numbers:
    offsets, changes = _noons(zone)
    days = local // DAY_S
    found: Numbers = local + FIRST_S - offsets[days]
    for index in np.flatnonzero(changes[days]):
        found[index] = _instant(zone, int(local[index]))
    return found


class Maker:
    """Draws series that have much in common, so that pairs nearly meet as often as they meet."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self._zones = self.random.sample(ZONES, 2)
        self._interval = self.random.choice([2, 3, 4, 5, 7, 13, 14, 28, 52, 97, 365, 991])
        self._day = date(self.random.choice([1970, 1999, 2011, 2024, 2026, 2100, 2396, 2990]), 1, 1)
        self._day += timedelta(self.random.choice([0, 50, 59, 80, 85, 290, 295, 363]))

    def batch(self, count: int) -> list[Spec]:
        """`count` series that `Recurrence` takes."""
        found: list[Spec] = []
        while len(found) < count:
            spec = self._spec()
            try:
                _ = spec.recurrence
            except InvalidInput:
                continue
            found.append(spec)
        return found

    def _spec(self) -> Spec:
        draw = self.random
        frequency = draw.choice(["DAILY", "DAILY", "WEEKLY", "WEEKLY", "MONTHLY", "YEARLY"])
        interval = draw.choice([1, 1, 1, self._interval, self._interval, self._interval + 1])
        parts = self._parts(frequency)
        ranked = self._weekdays(frequency, 0.9 if "BYMONTHDAY" in parts else 0.5)
        first = self._day + timedelta(draw.choice([0, 0, 1, 2, 7, draw.randrange(400)]))
        last = (
            first + timedelta(draw.choice([0, 30, 400, 800, 800])) if draw.random() < 0.85 else None
        )
        if last is None and draw.random() < 0.3:
            first = None  # type: ignore[assignment]  # A rule without a first day.
        count, until = 0, ""
        if last and draw.random() < 0.3:
            count, last = draw.choice([1, 3, 10, 100]), None
        elif last and draw.random() < 0.5:
            ends = draw.choice(["", "T080000", "T235959Z", "T000000Z"])
            until, last = f";UNTIL={last - timedelta(draw.choice([0, 0, 900])):%Y%m%d}{ends}", None
        hour = draw.choice([0, 1, 2, 3, 8, 8, 9, 9, 10, 23])
        return Spec(
            frequency, interval, parts, ranked, draw.choice([0, 0, 0, 6, 2]),
            time(hour, draw.choice([0] * 9 + [30]), draw.choice([0] * 19 + [1])),
            self._duration_s(), draw.choice(self._zones), first, last, count, until,
        )  # fmt: skip

    def _duration_s(self) -> int:
        hours = self.random.choice([0.5, 1, 1, 1, 2, 7, 8, 14, 24])
        if self.random.random() < 0.2:
            hours = self.random.choice([25, 49, 24 * 6, 24 * 6, 24 * 20, 24 * 200, 24 * 366])
        return int(hours * 3600) + (self.random.random() < 0.05)

    def _parts(self, frequency: str) -> dict[str, list[int]]:
        choices = {
            "BYMONTH": [1, 2, 2, 3, 10, 11, 12],
            "BYHOUR": [1, 2, 8, 9, 23],
            "BYMINUTE": [0, 30],
        }
        chances = {"BYMONTH": 0.15, "BYHOUR": 0.1, "BYMINUTE": 0.05, "BYSETPOS": 0.15}
        if frequency != "WEEKLY":
            choices["BYMONTHDAY"] = [1, 13, 28, 29, 29, 30, 31, -1, -2]
            chances["BYMONTHDAY"] = 0.12 if frequency == "DAILY" else 0.4
        if frequency == "YEARLY":
            choices |= {
                "BYYEARDAY": [1, 60, 86, 300, 366, -1, -366],
                "BYWEEKNO": [1, 9, 13, 53, -1],
            }
            chances |= {"BYYEARDAY": 0.1, "BYWEEKNO": 0.1}
        choices["BYSETPOS"] = [1, 2, 3, -1, -2]
        return {
            name: sorted(set(self.random.choices(values, k=self.random.choice([1, 1, 2, 3]))))
            for name, values in choices.items()
            if self.random.random() < chances[name]
        }

    def _weekdays(self, frequency: str, chance_of_none: float) -> list[tuple[int, int]]:
        if self.random.random() < (0.2 if frequency == "WEEKLY" else chance_of_none):
            return []
        ranks = [0, 0, 1, 2, 5, -1] if frequency in ("MONTHLY", "YEARLY") else [0]
        ranked = [(self.random.choice(ranks), self.random.choice(range(7))) for _ in range(3)]
        return sorted(set(ranked[: self.random.choice([1, 1, 2, 3])]))
