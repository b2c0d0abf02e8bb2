"""Stakes at rest are bytes until somebody names them; the site behaves as if they were not."""

from __future__ import annotations

import msgspec
from store_support import rid, stake

from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.claims_at_rest import Restored, Stakes
from kalends.resource_servers.participation.claims.endings import Endings


def restored(*states: str) -> tuple[Stakes, list[str]]:
    woken: list[str] = []
    stakes = Stakes(lambda each: woken.append(each.rid))
    stakes.restore(Restored(stake(number, state) for number, state in enumerate(states)))
    return stakes, woken


def test_what_is_promised_is_at_work_and_what_is_locked_rests() -> None:
    stakes, woken = restored("prepared", "locked", "cancelled")
    assert [each.rid for each in stakes.awake()] == [rid(0)]
    assert [each.rid for each in stakes.resting()] == [rid(1), rid(2)]
    assert set(stakes) == {rid(0), rid(1), rid(2)}
    assert woken == []


def test_getting_a_stake_wakes_it_once_and_it_is_the_same_ever_after() -> None:
    stakes, woken = restored("locked")
    one = stakes[rid(0)]
    assert one == stake(0, "locked")
    assert stakes.get(rid(0)) is one
    assert stakes.peek(rid(0)) is one
    assert woken == [rid(0)]
    assert list(stakes.resting()) == []


def test_peeking_lets_it_rest() -> None:
    stakes, woken = restored("locked")
    assert stakes.peek(rid(0)) == stake(0, "locked")
    assert stakes.peek(rid(7)) is None
    assert stakes.is_resting(rid(0))
    assert woken == []


def test_a_stake_that_is_put_in_the_place_of_one_at_rest_is_the_only_one() -> None:
    stakes, _ = restored("locked")
    stakes[rid(0)] = other = stake(0, "prepared")
    assert stakes[rid(0)] is other
    assert len(stakes) == len(list(stakes)) == 1
    del stakes[rid(0)]
    assert not stakes
    assert rid(0) not in stakes
    assert stakes.get(rid(0)) is None


def test_those_of_a_register_are_found_whether_they_rest_or_not() -> None:
    states = ("locked", "prepared", "cancelled", "locked", "prepared")
    owners = ("mine", "mine", "mine", "other", "")
    stakes = Stakes(lambda _: None)
    stakes.restore(
        Restored(
            stake(number, state, register=owner)
            for number, (state, owner) in enumerate(zip(states, owners, strict=True))
        )
    )
    assert sorted(stakes.perhaps_of("mine")) == [rid(0), rid(1), rid(2)]
    assert stakes.perhaps_of("other") == [rid(3)]
    assert stakes.perhaps_of("") == [rid(4)]


def test_registers_are_counted_for_what_rests() -> None:
    stakes = Stakes(lambda _: None)
    stakes.restore(Restored([stake(0, "locked", register="r"), stake(1, "locked", register="r")]))
    assert stakes.registers_at_rest()["r"] == 2
    assert stakes[rid(0)].register == "r"
    assert stakes.registers_at_rest()["r"] == 1


def test_restored_ones_have_their_bookings_and_all_that_was_stored() -> None:
    both = [stake(0, "locked"), stake(1, "prepared")]
    taken = Restored(both)
    assert sorted(map(msgspec.msgpack.encode, taken)) == sorted(map(msgspec.msgpack.encode, both))
    (booking,) = taken.bookings["sdsc/sp2"].values()
    assert (booking.reservation, booking.id, booking.state) == (rid(0), 1, "locked")


def ids(endings: Endings, limit_s: int, count_max: int = 100) -> list[str]:
    return sorted(endings.take_due(limit_s, count_max))


def test_what_is_over_is_taken_once_and_not_before() -> None:
    endings = Endings()
    endings.load("a", 60)
    endings.add("b", 120)
    endings.add("c", 121)
    assert not endings.is_due(59)
    assert ids(endings, 59) == []
    assert ids(endings, 120) == ["a", "b"]
    assert ids(endings, 179) == []
    assert ids(endings, 180) == ["c"]
    assert not endings.is_due(10**9)


def test_no_more_is_taken_at_a_time_than_was_asked_for() -> None:
    endings = Endings()
    for number in range(5):
        endings.load(f"a{number}", 60)
        endings.add(f"b{number}", 60)
    taken = [endings.take_due(60, 3) for _ in range(5)]
    assert [len(each) for each in taken] == [3, 3, 3, 1, 0]
    assert len({rid for each in taken for rid in each}) == 10


def test_what_was_taken_back_is_not_found_and_leaves_nothing_behind() -> None:
    endings = Endings()
    endings.add("a", 60)
    endings.remove("a", 60)
    endings.remove("a", 60)
    assert not endings.is_due(10**9)


def test_a_stake_that_is_stored_anew_is_over_at_its_new_end() -> None:
    stakes, _ = restored()
    one: Stake = stake(0, "locked")
    stakes[one.rid] = one
    stakes[one.rid] = msgspec.structs.replace(one, ends_at=600)
    assert stakes.endings.take_due(599, 10) == []
    assert stakes.endings.take_due(600, 10) == [one.rid]
