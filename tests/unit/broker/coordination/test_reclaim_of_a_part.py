"""An owner takes some units back: as few reservations as have them are moved, and the rest can be booked."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_support import rid as number_to_rid
from tests.protocol_support import visit, want
from tests.reclaim_world import HOUR, ReclaimWorld

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.core.errors import InvalidInput, KeyReused, RefusalCode


def states(world: ReclaimWorld, site: str = "here") -> dict[str, str]:
    (view,) = world.reclaims(site)
    return {each.id: each.state for each in view.reservations}


def test_nobody_moves_where_there_is_room_beside_what_was_taken_back(world: ReclaimWorld) -> None:
    rid = world.book("here/pool:2", at=4)
    view = world.reclaim("here/pool", 4, 5, units=1)
    assert (view.waiting, view.lacking, view.beside, view.units) == ((), (), 1, 1)
    assert world.hours(rid) == {"here/pool": 4}
    assert world.sites["here"].free("pool", 4 * HOUR, 5 * HOUR) == 0


def test_the_one_that_has_enough_moves_and_the_two_that_have_little_stay() -> None:
    world = ReclaimWorld()
    small = [world.book("here/pool", at=4)]
    large = world.book("here/pool:2", at=4)
    world.reclaim("here/pool", 4, 5, units=2)
    assert world.hours(large) == {"here/pool": 3}
    assert [world.hours(rid) for rid in small] == [{"here/pool": 4}]
    (view,) = world.reclaims("here")
    assert (view.waiting, view.gone, view.lacking) == ((), (large,), ())
    assert view.exact


def test_both_parts_of_what_moves_go_together_and_its_user_is_told_how_much_was_needed() -> None:
    world = ReclaimWorld()
    rid = world.book("here/pool:3 + there/one", at=4)
    world.reclaim("here/pool", 4, 5, units=2)
    assert world.hours(rid) == {"here/pool": 3, "there/one": 3}
    told = dict(world.story(rid))["reclaimed"]
    assert "here needs 2 units of here/pool from" in told
    assert "a new pump" in told


def test_the_room_that_it_leaves_is_the_owners_and_no_part_of_its_own_new_time() -> None:
    """By half an hour it would not be out of the way, though all that it leaves would be free for it."""
    world = ReclaimWorld()
    rid = world.book("here/pool:2", at=4)
    world.reclaim("here/pool", 4.5, 6, units=2)
    assert world.hours(rid) == {"here/pool": 3.5}
    assert world.reclaims("here")[0].lacking == ()


def test_owners_are_told_where_each_went_and_who_was_cancelled_also_after_a_restart() -> None:
    world = ReclaimWorld()
    moving = world.book("here/pool:2", at=4)
    bound = world.book("here/pool", window_h=(4, 6))
    world.reclaim("here/pool", 4, 6, units=3)
    world.wait(1)
    for _ in range(2):
        (view,) = world.reclaims("here")
        told = {each.id: each for each in view.reservations}
        assert told[moving].state == "moved"
        assert (told[moving].user, told[moving].units) == ("ann", 2)
        assert told[moving].to_start == world.standing(moving).claims[0].start
        assert told[bound].state == "cancelled"
        world.sites["here"].restart()


def test_where_one_went_is_found_though_the_site_stopped_before_it_was_noted() -> None:
    world = ReclaimWorld()
    rid = world.book("here/one", at=4)
    world.reclaim("here/one", 4, 5)
    assert world.hours(rid) == {"here/one": 3}
    world.sites["here"].restart()
    assert states(world) == {rid: "moved"}


def test_a_look_says_who_would_go_and_changes_nothing(world: ReclaimWorld) -> None:
    rid = world.book("here/pool:2", at=4)
    view = world.reclaim("here/pool", 4, 5, units=2, dry_run=True)
    assert (view.waiting, view.key) == ((rid,), "")
    (told,) = view.reservations
    assert told.state == "waiting"
    assert [units for _, _, units in view.lacking] == [1]
    assert world.reclaims("here") == []
    assert world.hours(rid) == {"here/pool": 4}
    assert world.sites["here"].free("pool", 4 * HOUR, 5 * HOUR) == 1


def test_what_comes_free_is_the_owners_before_anybody_elses(world: ReclaimWorld) -> None:
    rid = world.book("here/pool:3", at=4)
    world.lost = {m.Reclaim}
    world.reclaim("here/pool", 4, 5, units=2)
    site = world.sites["here"]
    ann = visit(1, want("pool", 4 * HOUR, 5 * HOUR, 3))
    (refused,) = site.answers(ann)
    assert isinstance(refused, m.Visited)
    assert refused.refusals
    assert site.free("pool", 4 * HOUR, 5 * HOUR) == 0
    world.lost = set()
    world.wait(30)
    assert world.hours(rid) == {"here/pool": 3}
    assert site.free("pool", 4 * HOUR, 5 * HOUR) == 1


def test_what_is_only_held_there_is_not_promised_and_nobody_moves_for_it() -> None:
    world = ReclaimWorld()
    rid = world.book("here/pool", at=4)
    site = world.sites["here"]
    (held,) = site.answers(visit(1, want("pool", 4 * HOUR, 5 * HOUR, 2)))
    assert isinstance(held, m.Visited)
    world.reclaim("here/pool", 4, 5, units=2)
    prepare = m.Prepare(
        rid=number_to_rid(1), att=1, hold_ids=site.ids(1), parts=(m.Part("here", "http://here"),),
        need=1,
    )  # fmt: skip
    (voted,) = site.answers(prepare)
    assert isinstance(voted, m.Voted)
    assert (voted.vote, [each.code for each in voted.refusals]) == ("no", [RefusalCode.BLACKOUT])
    assert "has taken 2 units back" in voted.refusals[0].detail
    world.wait(60)
    assert world.hours(rid) == {"here/pool": 4}
    assert world.reclaims("here")[0].lacking == ()


def test_who_was_asked_goes_on_to_be_asked_though_another_would_do_as_well() -> None:
    world = ReclaimWorld()
    rids = [world.book("here/pool", at=4) for _ in range(3)]
    world.lost = {m.Reclaim}
    view = world.reclaim("here/pool", 4, 5, units=1)
    (asked,) = view.waiting
    for _ in range(3):
        world.wait(40)
        assert world.reclaims("here")[0].waiting == (asked,)
    world.sites["here"].restart()
    assert world.reclaims("here")[0].waiting == (asked,)
    other = next(rid for rid in rids if rid != asked)
    world.broker.cancel(other, 1)
    world.deliver()
    assert world.reclaims("here")[0].waiting == ()
    world.lost = set()
    world.wait(60)
    assert world.hours(asked) == {"here/pool": 4}, "somebody else has made room"


def test_of_equals_the_one_that_begins_last_moves_for_it_has_most_time(world: ReclaimWorld) -> None:
    world.book("here/pool for 2h", at=4)
    late = world.book("here/pool", at=5)
    world.book("here/pool for 3h", at=3)
    assert world.reclaim("here/pool", 5, 6, units=1, dry_run=True).waiting == (late,)


def test_the_units_open_again_when_it_is_withdrawn_or_the_site_restarts_after_that() -> None:
    world = ReclaimWorld()
    view = world.reclaim("here/pool", 4, 5, units=2)
    site = world.sites["here"]
    site.restart()
    assert site.free("pool", 4 * HOUR, 5 * HOUR) == 1
    site.call(lambda participant, now: site.reminders.end(view.key, now))
    assert site.free("pool", 4 * HOUR, 5 * HOUR) == 3
    site.restart()
    assert site.free("pool", 4 * HOUR, 5 * HOUR) == 3


def test_all_units_can_be_named_and_no_more_than_all(world: ReclaimWorld) -> None:
    rid = world.book("here/pool", at=4)
    world.reclaim("here/pool", 4, 5, units=3)
    assert world.hours(rid) == {"here/pool": 3}
    assert world.sites["here"].free("pool", 4 * HOUR, 5 * HOUR) == 0
    with pytest.raises(InvalidInput, match="4 units, of which it has 3"):
        world.reclaim("here/pool", 4, 5, units=4)


def test_a_key_stands_for_as_many_units_as_it_was_first_used_with(world: ReclaimWorld) -> None:
    view = world.reclaim("here/pool", 4, 5, units=2)
    body = owner_calls.Reclaim(
        key=view.key, resource="here/pool", start=view.start, end=view.end, units=1,
        reason=view.reason,
    )  # fmt: skip
    site = world.sites["here"]
    with pytest.raises(KeyReused):
        site.call(lambda participant, now: site.reminders.reclaim(body, now))
    nowhere = structs.replace(body, resource="here/nothing", units=2)
    with pytest.raises(KeyReused):
        site.call(lambda participant, now: site.reminders.reclaim(nowhere, now))
    same = structs.replace(body, units=2)
    again = site.call(lambda participant, now: site.reminders.reclaim(same, now))
    assert again == view


def test_two_reclaims_of_the_same_time_take_both_their_units(world: ReclaimWorld) -> None:
    rid = world.book("here/pool:2", at=4)
    world.reclaim("here/pool", 4, 5, units=1)
    world.reclaim("here/pool", 4, 6, units=1)
    assert world.hours(rid) == {"here/pool": 3}
    assert world.sites["here"].free("pool", 4 * HOUR, 5 * HOUR) == 1
    assert [view.lacking for view in world.reclaims("here")] == [(), ()]


def test_who_may_see_it_is_shown_that_the_room_is_the_owners(world: ReclaimWorld) -> None:
    view = world.reclaim("here/pool", 4, 5, units=2)
    calendar = world.sites["here"].participant.book.calendars["here/pool"]
    (slot,) = calendar.calendar.listing(view.start, view.end)
    assert (slot.units, slot.state, slot.holder, slot.reservation) == (2, "locked", "", "reclaim")
