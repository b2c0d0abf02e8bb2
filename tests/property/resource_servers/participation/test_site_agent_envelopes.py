"""Alternatives of one request on calendars that others use: second by second, the larger of them is taken."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.protocol_support import ANN, resource

from kalends.calendars import Booking
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable

CAPACITY = {"here/one": 1, "here/pool": 3}
END = 16

Row = tuple[str, int, int, int, int]
"""Resource, start, length, units, common start."""

rows = st.lists(
    st.tuples(
        st.sampled_from(sorted(CAPACITY)), st.integers(0, 8), st.integers(1, 6),
        st.integers(1, 3), st.sampled_from([5, 6, 7]),
    ),
    max_size=8,
)  # fmt: skip
strangers = st.lists(
    st.tuples(st.sampled_from(sorted(CAPACITY)), st.integers(0, 10), st.integers(1, 5)), max_size=3
)


def used(claims: list[Claim], name: str, at: int) -> int:
    return max(
        sum(
            claim.units
            for claim in claims
            if claim.common == common and claim.resource == name and claim.start <= at < claim.end
        )
        for common in (5, 6, 7)
    )


def fits(claims: list[Claim], free: dict[str, list[int]]) -> bool:
    return all(used(claims, name, at) <= free[name][at] for name in free for at in range(END))


@settings(max_examples=examples(150))
@given(rows, strangers, st.data())
def test_one_claim_after_the_other_is_held_where_the_larger_of_all_still_fits(
    wanted: list[Row], others: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    calendars = {name: resource(name, capacity) for name, capacity in CAPACITY.items()}
    ids = iter(range(1, 10_000))
    book = ClaimTable(calendars, lambda: next(ids))
    free = {name: [capacity] * END for name, capacity in CAPACITY.items()}
    for name, start, length in others:
        if min(free[name][start : start + length]) > 0:
            calendars[name].calendar.book(
                Booking(id=next(ids), start=start, end=start + length, units=1, state="locked",
                        holder="bob", reservation="other")
            )  # fmt: skip
            for at in range(start, start + length):
                free[name][at] -= 1
    stake = Stake("r", 1, ANN, "a secret", 1, (), (), [])
    for name, start, length, units, common in wanted:
        claim = Claim(next(ids), name, start, start + length, units, common=common)
        room = book.has_room_for(stake, claim)
        assert room == fits([*stake.claims, claim], free)
        if room:
            stake.claims.append(claim)
    if not stake.claims:
        return
    book.stakes["r"] = stake
    assert book.occupy(stake, "held", 10) == ""
    for claim in stake.claims:
        claim.state = "held"

    def check() -> None:
        for name in free:
            for at in range(END):
                left = free[name][at] - used(stake.claims, name, at)
                assert calendars[name].free(at, at + 1) == left

    check()
    kept = data.draw(
        st.sets(st.sampled_from([claim.hold_id for claim in stake.claims]), min_size=1)
    )
    book.keep_only(stake, kept)
    assert {claim.hold_id for claim in stake.claims} == kept
    check()
    book.restate(stake, "held", 20)
    check()
    if data.draw(st.booleans()):
        (ended,) = book.expire(20)
        assert ended is stake
    else:
        book.vacate(stake)
    stake.claims = []
    assert all(
        calendars[name].free(at, at + 1) == free[name][at] for name in free for at in range(END)
    )
