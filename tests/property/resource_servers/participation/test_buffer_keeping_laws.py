"""Buffers at a site: what it promises leaves them, whatever is changed, cancelled, or restarted.

A slow twin books the same, and gives each booking units by name.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.property.calendars.test_buffer_laws import Slot, Twin, buffers
from tests.protocol_support import (
    DAY,
    HERE,
    T0,
    Site,
    abort,
    commit,
    lock,
    prepare,
    rid,
    visit,
    want,
)

from kalends.calendars import Buffer
from kalends.calendars.profiles import at_least
from kalends.calendars.resource import BUFFER
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import decode_stake

MINUTE = 60
ANN = Principal("ann")

asks = st.tuples(
    st.sampled_from(("book", "hold", "change", "change", "cancel", "restart")),
    st.sampled_from(("one", "pool")), st.integers(0, 30), st.integers(1, 6), st.integers(1, 3),
    st.integers(0, 30),
)  # fmt: skip


def asked_of(local: str, slot: Slot) -> m.Want:
    return want(local, slot.start * MINUTE, slot.end * MINUTE, slot.units)


@given(buffers, st.lists(asks, min_size=5, max_size=18))
@settings(max_examples=effort.examples(100), deadline=None)
def test_a_site_promises_what_a_twin_with_named_units_would_and_shows_it_before(
    buffer: Buffer, steps: list[tuple[Any, ...]]
) -> None:
    site = Site(buffer=buffer)
    twins = {local: Twin(site.capacities[local], buffer) for local in ("one", "pool")}
    standing: dict[int, tuple[str, Slot]] = {}
    for number, (what, local, start, length, units, which) in enumerate(steps, 1):
        old = None
        if what in ("change", "cancel"):
            if not standing:
                continue
            old = sorted(standing)[which % len(standing)]
        if what == "restart":
            site.restart()
        elif what == "cancel":
            assert old is not None
            site.receive(m.Cancel(rid=rid(old), att=1))
            _, slot = standing.pop(old)
            twins[_].slots.remove(slot)
        else:
            local = standing[old][0] if old is not None else local
            twin = twins[local]
            slot = Slot(start, start + length, min(units, twin.capacity))
            if old is not None:
                twin.slots.remove(standing[old][1])
            fits = twin.fits(slot)
            if old is None:
                assert shown(site, local, slot) == fits
            promised = booked(site, number, what, local, slot, old)
            assert promised == fits
            if promised:
                twin.slots.append(slot)
                standing[number] = (local, slot)
            if old is not None:
                if promised:
                    del standing[old]
                else:
                    twin.slots.append(standing[old][1])
        effort.steps["buffers at a site"] += 1


def shown(site: Site, local: str, slot: Slot) -> bool:
    calendar = site.participant.book.calendars[f"{HERE}/{local}"]
    asked = asked_of(local, slot)
    steps, _ = calendar.free_steps(ANN, T0 + DAY, T0 + DAY + 60 * MINUTE, site.now.wall_s, 1_000)
    return any(
        window.start <= asked.start and asked.end <= window.end
        for window in at_least(steps, slot.units)
    )


def booked(site: Site, number: int, what: str, local: str, slot: Slot, old: int | None) -> bool:
    if what == "hold":
        visited = site.answer(visit(number, asked_of(local, slot)))
        assert isinstance(visited, m.Visited)
        if not visited.held:
            return False
        ids = [each.hold_id for each in visited.held]
        voted = site.answer(prepare(number, *ids))
        assert isinstance(voted, m.Voted)
        assert voted.vote == "yes"
    else:
        visited = site.answer(visit(number, asked_of(local, slot), mode="vote", replaces=old))
        assert isinstance(visited, m.Visited)
        if visited.vote != "yes":
            assert {each.code for each in visited.refusals} <= {RefusalCode.BUSY}
            return False
        ids = [each.hold_id for each in visited.held]
    site.receive(commit(number, *ids))
    return True


changes = st.lists(
    st.one_of(st.tuples(st.integers(0, 40), st.integers(1, 6)), buffers, st.just("restart")),
    min_size=4,
    max_size=16,
)


@given(buffers, changes)
@settings(max_examples=effort.examples(100), deadline=None)
def test_what_stands_when_an_owner_changes_a_buffer_stays_and_what_follows_leaves_the_new_one(
    buffer: Buffer, steps: list[Any]
) -> None:
    site = Site(buffer=buffer)
    taken: list[tuple[int, int, int]] = []
    """Start and end of bookings, and the seconds between bookings when they were taken."""
    for number, step in enumerate(steps, 1):
        if isinstance(step, Buffer):
            change_buffer(site, step)
        elif step == "restart":
            site.restart()
        else:
            start, length = step
            slot = Slot(start, start + length, 1)
            gap_s = site.buffer.between_s if site.buffer is not None else 0
            if booked(site, number, "book", "one", slot, None):
                for begin, end, _ in taken:
                    if begin > start:
                        assert (begin - slot.end) * MINUTE >= gap_s
                    elif any(end <= b < start for b, _, _ in taken):
                        pass
                    else:
                        assert end <= start
                        assert (start - end) * MINUTE >= gap_s or short(site, end)
                taken.append((start, slot.end, gap_s))
        there = site.participant.book.calendars[f"{HERE}/one"].slots(
            ANN, T0 + DAY, T0 + 2 * DAY, 100
        )
        assert sorted((each.start, each.end) for each in there) == sorted(
            (T0 + DAY + begin * MINUTE, T0 + DAY + end * MINUTE) for begin, end, _ in taken
        )


def short(site: Site, end: int) -> bool:
    """Whether the buffer of the booking that ends then is shown as shorter than the owner wants."""
    calendar = site.participant.book.calendars[f"{HERE}/one"]
    at = T0 + DAY + end * MINUTE
    return any(
        each.end - each.gap_s == at and each.gap_s < calendar.gap_s
        for each in calendar.calendar.listing(at - 1, at)
    )


def change_buffer(site: Site, buffer: Buffer) -> None:
    site.buffer = buffer
    changed = Site(buffer=buffer).participant.book.calendars
    own = site.participant.book.calendars
    site.call(
        lambda participant, now: participant.take_rules(
            {name: changed[name] for name in own}, site.limits, now
        )
    )


def test_a_slot_that_is_given_back_in_part_needs_no_room_for_a_longer_buffer() -> None:
    site = Site(buffer=Buffer(after_s=MINUTE))
    lock(site, 1, want("one", 0, 600))
    lock(site, 2, want("one", 660, 1_200))
    change_buffer(site, Buffer(after_s=10 * MINUTE))
    lock(site, 3, want("one", 0, 480), replaces=1)
    site.restart()
    slots = site.participant.book.calendars[f"{HERE}/one"].slots(ANN, T0 + DAY, T0 + 2 * DAY, 9)
    assert [(each.end - each.start, each.after_s) for each in slots] == [(480, 180), (540, 600)]


def test_parts_of_one_request_that_are_too_near_are_refused_by_the_rule_and_not_as_busy() -> None:
    site = Site(buffer=Buffer(gap_s=MINUTE))
    near = (want("one", 0, 60), want("one", 90, 200))
    refused = site.answer(visit(1, *near, mode="vote"))
    assert isinstance(refused, m.Visited)
    assert [(each.code, each.rule) for each in refused.refusals] == [(RefusalCode.TOO_MUCH, BUFFER)]
    lock(site, 2, want("one", 0, 60), want("one", 120, 200))


def test_a_refusal_says_which_buffer_is_in_the_way_until_when_and_where_there_is_room() -> None:
    site = Site(buffer=Buffer(before_s=5 * MINUTE, after_s=10 * MINUTE))
    lock(site, 1, want("one", 3_600, 7_200))
    behind = site.answer(visit(2, want("one", 7_260, 7_800), mode="vote"))
    ahead = site.answer(visit(3, want("one", 2_400, 3_000), mode="vote"))
    assert isinstance(behind, m.Visited)
    assert isinstance(ahead, m.Visited)
    for answer, words in ((behind, ("ends at", "ready at", "room from")), (ahead, ("so end by",))):
        (refusal,) = answer.refusals
        assert (refusal.code, refusal.rule) == (RefusalCode.BUSY, BUFFER)
        assert all(word in refusal.detail for word in ("15m free between bookings", *words))


def test_what_is_stored_has_its_buffer() -> None:
    site = Site(buffer=Buffer(after_s=90))
    lock(site, 1, want("one", 0, 60))
    (claim,) = decode_stake(site.stored[rid(1)]).claims
    assert (claim.end - claim.start, claim.gap_s) == (60, 90)
    site.buffer = None
    site.restart()
    assert site.participant.book.calendars[f"{HERE}/one"].free(T0 + DAY + 60, T0 + DAY + 61) == 1


def test_bookings_of_owners_without_buffers_touch() -> None:
    site = Site()
    ends = [0, 60, 120, 180]
    for number, (start, end) in enumerate(pairwise(ends), 1):
        lock(site, number, want("one", start, end))


def test_units_that_come_new_to_a_booking_need_all_of_a_longer_buffer() -> None:
    site = Site()
    pool = site.capacities["pool"]
    lock(site, 1, want("pool", 0, 600))
    lock(site, 2, want("pool", 600, 1_200, pool))
    change_buffer(site, Buffer(after_s=10 * MINUTE))
    more = site.answer(visit(3, want("pool", 0, 600, pool), mode="vote", replaces=1))
    assert isinstance(more, m.Visited)
    assert [each.code for each in more.refusals] == [RefusalCode.BUSY]
    lock(site, 4, want("pool", 0, 480), replaces=1)


def test_a_buffer_grows_once_the_booking_in_its_way_is_cancelled() -> None:
    site = Site()
    lock(site, 1, want("one", 0, 600))
    lock(site, 2, want("one", 600, 1_200))
    change_buffer(site, Buffer(after_s=10 * MINUTE))
    site.receive(m.Cancel(rid=rid(2), att=1))
    near = site.answer(visit(3, want("one", 660, 1_200), mode="vote"))
    assert isinstance(near, m.Visited)
    assert [(each.code, each.rule) for each in near.refusals] == [(RefusalCode.BUSY, BUFFER)]
    lock(site, 4, want("one", 1_200, 1_800))


def test_a_buffer_grows_once_a_change_that_kept_it_short_is_given_up() -> None:
    site = Site()
    lock(site, 1, want("one", 0, 600))
    lock(site, 2, want("one", 600, 1_200))
    change_buffer(site, Buffer(after_s=10 * MINUTE))
    changed = site.answer(visit(3, want("one", 0, 300), mode="vote", replaces=1))
    assert isinstance(changed, m.Visited)
    assert changed.vote == "yes"
    site.receive(m.Cancel(rid=rid(2), att=1))
    site.receive(abort(3))
    near = site.answer(visit(4, want("one", 660, 1_200), mode="vote"))
    assert isinstance(near, m.Visited)
    assert [each.rule for each in near.refusals] == [BUFFER]


def test_a_promise_has_after_a_restart_the_buffer_that_is_booked() -> None:
    site = Site(buffer=Buffer(after_s=10 * MINUTE))
    promised = site.answer(visit(1, want("one", 0, 600), mode="vote"))
    assert isinstance(promised, m.Visited)
    change_buffer(site, Buffer())
    lock(site, 2, want("one", 600, 1_200))
    site.restart()
    stake = site.stake(1)
    assert stake is not None
    assert [claim.gap_s for claim in stake.claims] == [0]
    site.receive(commit(1, *(each.hold_id for each in promised.held)))
