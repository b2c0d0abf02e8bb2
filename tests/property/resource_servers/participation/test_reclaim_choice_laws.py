"""Who has to go for units that an owner takes back, against a twin that tries every choice."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.protocol_support import DAY, HERE, T0, Site, commit, lock, rid, visit, vote, want

from kalends.contract import messages as m
from kalends.contract import owner_calls

POOL = f"{HERE}/pool"
CAPACITY = 3
HOURS = 10
Rectangle = tuple[int, int, int]

rectangles = st.tuples(st.integers(0, HOURS - 1), st.integers(1, 4), st.integers(1, CAPACITY)).map(
    lambda drawn: (drawn[0], min(drawn[0] + drawn[1], HOURS), drawn[2])
)


def used(standing: dict[int, Rectangle], at: int) -> int:
    return sum(units for start, end, units in standing.values() if start <= at < end)


def enough_gone(
    standing: dict[int, Rectangle], gone: set[int], start: int, end: int, units: int
) -> bool:
    left = {number: each for number, each in standing.items() if number not in gone}
    return all(used(left, at) + units <= CAPACITY for at in range(start, end))


def reclaim(site: Site, start: int, end: int, units: int) -> owner_calls.ReclaimView:
    body = owner_calls.Reclaim(
        key=f"reclaim-{start}-{end}-{units}", resource=POOL, start=T0 + DAY + start,
        end=T0 + DAY + end, units=units,
    )  # fmt: skip
    return site.call(lambda participant, now: site.reminders.reclaim(body, now))


def booked(site: Site, wanted: list[Rectangle]) -> dict[int, Rectangle]:
    """Lock those of them that have room, in order."""
    standing: dict[int, Rectangle] = {}
    for number, (start, end, units) in enumerate(wanted, 1):
        if all(used(standing, at) + units <= CAPACITY for at in range(start, end)):
            lock(site, number, want("pool", start, end, units))
            standing[number] = (start, end, units)
    return standing


@given(st.lists(rectangles, max_size=14), rectangles.filter(lambda each: each[2] < CAPACITY))
@settings(max_examples=effort.examples(60), deadline=None)
def test_as_few_go_as_can_and_what_they_leave_is_enough(
    wanted: list[Rectangle], taken: Rectangle
) -> None:
    site = Site()
    standing = booked(site, wanted)
    view = reclaim(site, *taken)
    number_of = {rid(number): number for number in standing}
    going = {number_of[each] for each in view.waiting}
    assert view.exact
    assert enough_gone(standing, going, *taken)
    fewest = next(
        count
        for count in range(len(standing) + 1)
        if any(enough_gone(standing, set(some), *taken) for some in combinations(standing, count))
    )
    assert len(going) == fewest
    effort.steps["choices of who goes"] += 1


@given(
    st.lists(rectangles, max_size=12),
    st.lists(rectangles.filter(lambda each: each[2] < CAPACITY), min_size=1, max_size=2),
    st.lists(st.tuples(st.booleans(), st.integers(1, 12), rectangles), max_size=12),
)
@settings(max_examples=effort.examples(60), deadline=None)
def test_the_owner_has_all_that_is_not_reserved_whatever_comes_and_goes_and_after_a_restart(
    wanted: list[Rectangle],
    taken: list[Rectangle],
    steps: list[tuple[bool, int, Rectangle]],
) -> None:
    """Cancelled room is the owner's first; who comes gets no more than what is left."""
    site = Site()
    standing = booked(site, wanted)
    for each in taken:
        reclaim(site, *each)
    for number, (comes, which, (start, end, units)) in enumerate(steps, 100):
        if comes:
            asked = site.answer(vote(number, want("pool", start, end, units)))
            assert isinstance(asked, m.Visited)
            fits = all(
                used(standing, at) + units + owned(taken, at) <= CAPACITY
                for at in range(start, end)
            )
            assert (asked.vote == "yes") == fits
            if fits:
                site.receive(commit(number, *(slot.hold_id for slot in asked.held)))
                standing[number] = (start, end, units)
        elif which in standing:
            del standing[which]
            cancel = m.Cancel(rid=rid(which), att=1, warrant="")
            site.receive(cancel)
        check(site, standing, taken)
    site.restart()
    check(site, standing, taken)


def owned(taken: list[Rectangle], at: int) -> int:
    keys = dict.fromkeys(taken)  # The same twice is one: it has the same key.
    return sum(units for start, end, units in keys if start <= at < end)


def check(site: Site, standing: dict[int, Rectangle], taken: list[Rectangle]) -> None:
    for at in range(HOURS):
        left = CAPACITY - used(standing, at) - owned(taken, at)
        assert site.free("pool", at, at + 1) == max(left, 0)
    effort.steps["hours of what owners took back"] += HOURS


def test_a_hold_that_ends_gives_its_room_to_the_owner_first() -> None:
    site = Site()
    site.receive(visit(1, want("pool", 0, 60, 3)))
    view = reclaim(site, 0, 60, 2)
    assert view.lacking == ((T0 + DAY, T0 + DAY + 60, 2),)
    site.advance(31_000)
    assert site.free("pool", 0, 60) == 1


def test_a_restored_site_takes_nothing_for_its_owner_before_what_was_locked_is_locked_again() -> (
    None
):
    site = Site()
    reclaim(site, 0, 60, 2)
    site.recovering = True
    site.restart(come_back=False)
    assert site.free("pool", 0, 60) == 3
    site.call(lambda participant, now: participant.recovery.go_on())
    site.advance(1_000)
    assert site.free("pool", 0, 60) == 1
