"""What has passed counts in its week for good, and what lies within a reservation is never refused."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.protocol_support import DAY, HERE, T0, Site, commit, lock, rid, vote, want

from kalends.calendars import Blackout, Limit, Recurrence, UsageShare
from kalends.contract import messages as m
from kalends.resource_servers.participation.memory.retention import Retention

MINUTE = 60
POOL = f"{HERE}/pool"
BEGIN = T0 + DAY
FAIR = Limit("fair", "everyone", share=UsageShare(0.0, 10**9))
FULL = Limit("fair", "everyone", share=UsageShare(0.0, 1))

Slots = tuple[tuple[int, int, int], ...]
"""Start and end in minutes, and units."""


def wants_of(slots: Slots) -> list[m.Want]:
    return [want("pool", start * MINUTE, end * MINUTE, units) for start, end, units in slots]


def cancelled(site: Site, number: int) -> None:
    assert isinstance(site.answer(m.Cancel(rid=rid(number), att=1, secret="")), m.Done)


def weeks_used(site: Site) -> int:
    """Return the unit-minutes that count against shares."""
    return sum(site.participant.book.usage.accounts().values()) // MINUTE


slots = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 60), st.integers(1, 2)), min_size=1, max_size=3
)


class Step(NamedTuple):
    """`what` is done: to the reservation `which`, or for so many minutes `by`."""

    what: str
    which: int
    by: int
    slots: list[tuple[int, int, int]]


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ("book", "book", "cancel", "move", "shrink", "pass", "pass", "restart", "reload")
        ),
        st.integers(0, 9),
        st.integers(1, 60),
        slots,
    ),
    max_size=20,
)


@given(steps)
@settings(max_examples=effort.examples(60), deadline=None)
def test_what_was_used_and_what_is_still_to_come_counts_minute_by_minute(steps: list[Step]) -> None:
    site = Site(owners_limits=(FAIR,))
    site.capacities["pool"] = 1_000
    site.ms = DAY * 1_000
    site.restart()
    live: dict[int, Slots] = {}
    used = now = 0
    for number, (what, which, by, asked) in enumerate(steps, 1):
        old = sorted(live)[which % len(live)] if live else 0
        if what == "book":
            live[number] = tuple(
                (now + at, now + at + length, units) for at, length, units in asked
            )
            lock(site, number, *wants_of(live[number]))
        elif what == "pass":
            for minute in range(now, now + by):
                running = (s for mine in live.values() for s in mine if s[0] <= minute < s[1])
                used += sum(units for _, _, units in running)
            now += by
            site.advance(by * MINUTE * 1_000)
        elif what == "restart":
            site.restart()
        elif what == "reload":
            again = Site(owners_limits=(FAIR,))
            again.capacities["pool"] = 1_000
            again.restart()
            site.participant.book.take_rules(again.participant.book.calendars)
        elif old:
            mine = live.pop(old)
            if what == "cancel":
                cancelled(site, old)
            else:
                live[number] = tuple(_changed(slot, what, by, now) for slot in mine)
                lock(site, number, *wants_of(live[number]), replaces=old)
        coming = sum(
            units * max(0, end - max(start, now))
            for mine in live.values()
            for start, end, units in mine
        )
        assert weeks_used(site) == used + coming
        effort.steps["minutes that were used"] += 1


def _changed(slot: tuple[int, int, int], how: str, by: int, now: int) -> tuple[int, int, int]:
    """Move what is not over to the time after now, or let it end sooner, or begin later."""
    start, end, units = slot
    if end <= now:
        return slot
    if how == "move":
        return max(start, now) + by, max(start, now) + by + end - start, units
    return start, max(end - by, now + 1, start + 1), units


@given(
    slots=slots,
    cut=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 1)),
    passed=st.integers(0, 100),
)
@settings(max_examples=effort.examples(60), deadline=None)
def test_what_lies_within_a_reservation_is_refused_by_no_rule_that_came_later(
    slots: list[tuple[int, int, int]], cut: tuple[int, int, int], passed: int
) -> None:
    site = Site()
    site.capacities["pool"] = 100
    site.ms = DAY * 1_000
    site.restart()
    mine = tuple((at + 1, at + 1 + length, units) for at, length, units in slots)
    lock(site, 1, *wants_of(mine))
    site.advance(passed * MINUTE * 1_000)
    book = site.participant.book
    strict = Site(
        owners_limits=(
            Limit("notice", "everyone", lead_s=DAY),
            Limit("short", "everyone", longest_s=MINUTE),
            Limit("near", "everyone", ahead_s=MINUTE),
            Limit("few", "everyone", locked_max=1, held_max=1),
            FULL,
        ),
        rules={"pool": ()},
    )
    strict.capacities["pool"] = 100
    strict.restart()
    calendar = strict.participant.book.calendars[POOL]
    closed = Recurrence("FREQ=DAILY", "00:00", DAY, "UTC")
    calendar.rules.blackouts.reclaim("owner", BEGIN, BEGIN + DAY, "a new pump")
    calendar.rules.blackouts.planned = (Blackout("always", (closed,)),)
    book.take_rules(strict.participant.book.calendars)
    later, sooner, fewer = cut
    smaller = tuple(_within(slot, later, sooner, fewer, passed) for slot in mine)
    asked = vote(2, *wants_of(smaller), replaces=1)
    answer = site.answer(asked)
    assert isinstance(answer, m.Visited)
    assert answer.vote == "yes", answer
    assert isinstance(site.answer(commit(2, *site.ids(2))), m.Done)
    longer = tuple((start, end + 1, units) for start, end, units in smaller)
    refused = site.answer(vote(3, *wants_of(longer), replaces=2))
    assert isinstance(refused, m.Visited)
    assert refused.refusals


def _within(
    slot: tuple[int, int, int], later: int, sooner: int, fewer: int, now: int
) -> tuple[int, int, int]:
    start, end, units = slot
    if end <= now:
        return slot
    if start > now:
        start = min(start + later, end - 1)
    return start, max(end - sooner, start + 1, now + 1), max(units - fewer, 1)


def test_what_was_used_is_known_until_its_week_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reservation is of a Saturday; without a limit on weeks, its record goes a day later."""
    monkeypatch.setattr(Retention, "sure_window_ms", 1_000)
    known = []
    for limits in ((FAIR,), ()):
        site = Site(owners_limits=limits)
        lock(site, 1, want("pool", 0, 3_600))
        lock(site, 2, want("pool", 7_200, 10_800))
        site.advance((DAY + 1_800) * 1_000)
        cancelled(site, 1)
        for number in (1, 2):
            site.receive(m.Forget(rid=rid(number), att=1, secret=""))
        hours = []
        for _ in range(5 * 24):
            site.advance(3_600_000)
            hours.append((weeks_used(site), site.stake(1) is not None, site.stake(2) is not None))
        known.append(hours)
    counted, free = known
    sunday_evening, wednesday = 36, 100
    assert free[sunday_evening] == (0, False, False)
    assert counted[sunday_evening] == (90, True, True)
    assert counted[wednesday] == (0, False, False)
