"""What an owner takes back is moved whole to the best other time, or cancelled with a word why."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_broker import START, Broker
from tests.protocol_support import DAY, T0, visit, want
from tests.protocol_support import rid as number_to_rid
from tests.reclaim_world import HOUR, ReclaimWorld

from kalends.broker.coordination.owners.owner_reclaims import TRIES_MAX
from kalends.broker.coordination.record.decision_record import Record, decode_record
from kalends.broker.register.sqlite import request_reads
from kalends.calendars import Limit, Limits
from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.contract.costs import Pays
from kalends.core.errors import InvalidInput, KeyReused, NotFound, RefusalCode
from kalends.core.principals import Principal

LATE = 1 << 50
"""The stamp of whoever asks last."""

BOTH = "here/one + there/one"


def test_both_parts_move_together_to_the_nearest_time_after_what_was_reclaimed() -> None:
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    world.reclaim("here/one", 3.5, 4.5)
    assert world.hours(rid) == {"here/one": 4.5, "there/one": 4.5}
    assert world.locked("here") == [("here/one", 4.5)]
    assert world.locked("there") == [("there/one", 4.5)]
    (view,) = world.reclaims("here")
    assert (view.waiting, view.gone, view.spared) == ((), (rid,), ())


def test_of_two_times_as_near_the_earlier_is_taken(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    world.reclaim("here/one", 4, 5)
    assert world.hours(rid) == {"here/one": 3, "there/one": 3}


def test_parts_at_offsets_keep_them(world: ReclaimWorld) -> None:
    rid = world.book("here/one + there/one@+2h for 1h", at=4)
    world.reclaim("there/one", 6, 6.5)
    assert world.hours(rid) == {"here/one": 4.5, "there/one": 6.5}


def test_its_user_is_told_who_needed_it_and_why_and_where_it_is_now(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    world.reclaim("here/one", 4, 5)
    kinds = [kind for kind, _ in world.story(rid)]
    assert kinds == ["reserved", "reclaimed", "changed"]
    told = dict(world.story(rid))["reclaimed"]
    assert "here needs here/one" in told
    assert "a new pump" in told
    assert [kind for kind in world.broker.events if kind in kinds] == kinds


def test_a_window_of_the_request_is_kept_and_without_room_in_it_all_is_cancelled() -> None:
    world = ReclaimWorld()
    rid = world.book(BOTH, window_h=(4, 6))
    assert world.hours(rid)["here/one"] == 4
    world.reclaim("here/one", 4, 5)
    assert world.hours(rid) == {"here/one": 5, "there/one": 5}
    world.reclaim("there/one", 4.5, 5.5)
    view = world.standing(rid)
    assert view.state == "cancelled"
    assert view.problem is not None
    assert view.problem.detail.startswith("there needs there/one")
    assert "a new pump" in view.problem.detail
    (refusal,) = view.problem.refusals
    assert (refusal.where, refusal.code) == ("there/one", RefusalCode.BLACKOUT)
    assert [kind for kind, _ in world.story(rid)][-2:] == ["reclaimed", "cancelled"]
    assert world.locked("here") == []
    assert world.locked("there") == []


def test_nothing_new_is_taken_where_it_was_reclaimed_until_it_is_withdrawn() -> None:
    world = ReclaimWorld()
    view = world.reclaim("here/one", 4, 5)
    site = world.sites["here"]
    (refused,) = site.answers(visit(1, want("one", 4 * HOUR, 5 * HOUR)))
    assert isinstance(refused, m.Visited)
    assert [each.code for each in refused.refusals] == [RefusalCode.BLACKOUT]
    assert "a new pump" in refused.refusals[0].detail
    site.restart()
    (again,) = site.answers(visit(1, want("one", 4 * HOUR, 5 * HOUR)))
    assert isinstance(again, m.Visited)
    assert again.refusals
    ended = site.call(lambda participant, now: site.reminders.end(view.key, now))
    assert ended == view
    (held,) = site.answers(visit(1, want("one", 4 * HOUR, 5 * HOUR)))
    assert isinstance(held, m.Visited)
    assert held.held
    assert site.reclaims == {}


def test_what_begins_within_the_notice_stays(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    now_s = world.sites["here"].now.wall_s
    world.reclaim("here/one", 4, 5, notice_s=START + 4 * HOUR - now_s)
    world.wait(30)
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}
    (view,) = world.reclaims("here")
    assert (view.waiting, view.gone, view.spared) == ((), (), (rid,))
    now_s = world.sites["here"].now.wall_s
    world.reclaim("here/one", 4, 5, notice_s=START + 4 * HOUR - now_s - 1)
    assert world.hours(rid) != {"here/one": 4, "there/one": 4}


def test_the_site_asks_again_and_again_and_breaks_nothing_by_itself(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    world.lost = {m.Reclaim}
    world.reclaim("here/one", 4, 5)
    world.wait(100)
    assert 3 <= world.reclaim_messages <= 6
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}
    assert world.reclaims("here")[0].waiting == (rid,)
    world.lost = set()
    world.wait(60)
    assert world.hours(rid) == {"here/one": 3, "there/one": 3}


def test_a_broker_that_comes_is_asked_at_once_and_so_is_one_after_a_restart_of_the_site() -> None:
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    world.lost = {m.Reclaim}
    world.reclaim("here/one", 4, 5)
    world.lost = set()
    site = world.sites["here"]
    site.call(lambda participant, now: site.reminders.remind_all(now))
    world.deliver()
    assert world.hours(rid) == {"here/one": 3, "there/one": 3}
    again = ReclaimWorld()
    rid = again.book(BOTH, at=4)
    again.lost = {m.Reclaim}
    again.reclaim("here/one", 4, 5)
    again.lost = set()
    again.sites["here"].restart()
    for name in "ab":
        again.start(name)
    again.wait(1)
    assert again.hours(rid) == {"here/one": 3, "there/one": 3}


def test_the_old_stands_when_the_change_is_refused_and_another_time_is_tried() -> None:
    """What the look showed as free is taken before the change arrives; and a part of it reports its end."""
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    world.lost = {m.Visit}
    world.reclaim("here/one", 4, 5)
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}
    other = m.Want("there/one", START + 3 * HOUR, START + 4 * HOUR, 1)
    site = world.sites["there"]
    assert isinstance(site.answer(visit(900, other, principal=Principal("bob"))), m.Visited)
    ended = m.PartNews(rid=rid, att=1, machine="here/one", job=1, ended_at=START)
    world.broker.receive("here", ended)
    world.lost = {m.Reclaim}
    world.wait(3)
    assert world.hours(rid) == {"here/one": 5, "there/one": 5}
    assert world.locked("here") == [("here/one", 5)]


def test_a_broker_that_dies_while_it_moves_it_leaves_nothing_half_moved() -> None:
    for lost in (m.Query, m.View, m.Visit, m.Visited, m.Decide, m.Done):
        world = ReclaimWorld()
        rid = world.book(BOTH, at=4)
        world.lost = {lost}
        world.reclaim("here/one", 4, 5)
        world.start("a")
        world.lost = set()
        for row in register_rows(world):
            world.brokers["b"].adopt(row)
        world.deliver()
        world.wait(90)
        assert world.standing(rid).state == "reserved", lost
        start = world.hours(rid)["here/one"]
        assert start != 4, lost
        assert world.hours(rid) == {"here/one": start, "there/one": start}
        assert world.locked("here") == [("here/one", start)]
        assert world.locked("there") == [("there/one", start)]


def test_of_two_replicas_that_are_asked_at_once_one_moves_it() -> None:
    """Both are told; the one that booked is alive for the other, or, when it is dead, one takes over."""
    for alive in (frozenset({"a:1"}), frozenset[str]()):
        world = ReclaimWorld()
        rid = world.book(BOTH, at=4)
        world.brokers["b"] = Broker(world.register, name="b", alive=alive)
        world.brokers["c"] = Broker(world.register, name="c", alive=alive)
        if not alive:
            world.start("d")
            del world.brokers["a"]
        for broker in world.brokers.values():
            broker.at_once = False
        world.lost = {m.Reclaim}
        world.reclaim("here/one", 4, 5)
        world.lost = set()
        reclaim = m.Reclaim(
            rid=rid, att=1, resources=("here/one",), start=START + 4 * HOUR, end=START + 5 * HOUR
        )
        asked = list(reversed(world.brokers.values()))
        for broker in asked:
            for site in world.sites.values():
                broker.receive(site.name, site.participant.hello())
            broker.receive("here", reclaim)
        for _ in range(20):
            for broker in asked:
                broker.write()
            world.deliver()
        changes = world.register.execute(
            "select count(*) from request where reservation != rid"
        ).fetchone()
        assert changes == (1,)
        assert world.locked("there") == [("there/one", 3)]


def register_rows(world: ReclaimWorld) -> list[str]:
    """What another replica takes over: everything that is not told to the end."""
    rows = world.register.execute("select rid from request where done = 0").fetchall()
    return [rid for (rid,) in rows]


def test_two_sites_that_reclaim_the_same_reservation_at_once_move_it_once() -> None:
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    world.reclaim("here/one", 3, 5, deliver=False)
    world.reclaim("there/one", 4, 5.5, deliver=False)
    world.deliver()
    world.wait(30)
    start = world.hours(rid)["here/one"]
    assert start == 5.5
    assert world.hours(rid) == {"here/one": start, "there/one": start}
    assert world.locked("there") == [("there/one", start)]
    assert [kind for kind, _ in world.story(rid)].count("changed") == 1


def test_what_is_promised_when_it_is_reclaimed_is_decided_first_and_moved_then() -> None:
    world = ReclaimWorld()
    world.lost = {m.Decide}
    rid = world.book(BOTH, at=4)
    world.reclaim("here/one", 4, 5)
    assert world.reclaims("here")[0].waiting == ()
    world.lost = set()
    world.wait(7)
    assert world.hours(rid) == {"here/one": 3, "there/one": 3}
    assert world.reclaims("here")[0].gone == (rid,)


def test_what_is_only_held_there_is_not_promised_any_more(world: ReclaimWorld) -> None:
    site = world.sites["here"]
    slot = want("one", 4 * HOUR, 5 * HOUR)
    (held,) = site.answers(visit(1, slot))
    assert isinstance(held, m.Visited)
    world.reclaim("here/one", 4, 5)
    prepare = m.Prepare(
        rid=number_to_rid(1), att=1, hold_ids=site.ids(1), parts=(m.Part("here", "http://here"),),
        need=1,
    )  # fmt: skip
    (voted,) = site.answers(prepare)
    assert isinstance(voted, m.Voted)
    assert (voted.vote, [each.code for each in voted.refusals]) == ("no", [RefusalCode.BLACKOUT])


def wait_at_there(world: ReclaimWorld, stamp: int) -> None:
    """Somebody waits at `there` for hours 5 to 9, of which somebody else holds the last."""
    there = world.sites["there"]
    held = m.Want("there/one", START + 8 * HOUR, START + 9 * HOUR, 1)
    wanted = m.Want("there/one", START + 5 * HOUR, START + 9 * HOUR, 1)
    bob, cy = Principal("bob"), Principal("cy")
    holder = visit(901, held, principal=bob, hold_ms=3_000_000)
    there.receive(structs.replace(holder, stamp=0), "other")
    asked = visit(902, wanted, principal=cy, hold_ms=3_000_000)
    line = structs.replace(asked, queue=True, stamp=stamp)
    (place,) = there.answers(line, "other")
    assert isinstance(place, m.Visited)
    assert place.ahead >= 0


def test_sites_hear_that_it_ends_or_moves_for_an_owner_and_that_nobody_pays_more() -> None:
    moved, cancelled = ReclaimWorld(), ReclaimWorld()
    rid = moved.book(BOTH, at=4)
    moved.reclaim("here/one", 4, 5)
    rows = [each for each in request_reads.every(moved.broker.register) if isinstance(each, Record)]
    (change,) = [each for each in rows if each.replaces == rid]
    for site in ("here", "there"):
        assert change.pays(site) == Pays(at_most=0, reclaimed=True)
    rid = cancelled.book(BOTH, window_h=(4, 6))
    cancelled.reclaim("here/one", 4, 6)
    assert cancelled.broker.row(rid).reclaimed
    rid = cancelled.book(BOTH, at=8)
    assert cancelled.broker.row(rid).pays("there") is None


def test_room_that_others_wait_for_is_taken_only_when_there_is_no_other() -> None:
    free = ReclaimWorld()
    rid = free.book(BOTH, at=4)
    wait_at_there(free, LATE)
    free.reclaim("here/one", 2.5, 5)
    assert free.hours(rid) == {"here/one": 1.5, "there/one": 1.5}
    tight = ReclaimWorld()
    rid = tight.book(BOTH, window_h=(4, 6))
    tight.wait(2)
    wait_at_there(tight, T0 * 1_000 + tight.broker.ms)
    tight.wait(2)
    tight.reclaim("here/one", 4, 5)
    assert tight.hours(rid) == {"here/one": 5, "there/one": 5}


def test_room_that_older_requests_wait_for_is_theirs(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, window_h=(4, 6))
    wait_at_there(world, 1)
    world.reclaim("here/one", 4, 5)
    assert world.standing(rid).state == "cancelled"


def test_a_site_is_not_believed_about_the_resources_of_another(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    lie = m.Reclaim(rid=rid, att=1, resources=("here/one",), start=START, end=START + 9 * HOUR)
    world.broker.receive("there", lie)
    world.deliver()
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}
    assert len(world.broker.alarms) == 1


def test_a_site_that_takes_back_its_word_while_it_is_moved_breaks_nothing() -> None:
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    world.lost = {m.Visit}
    world.reclaim("there/one", 4, 5)
    world.broker.receive("there", unfounded(rid))
    world.lost.clear()
    world.wait(5)
    assert len(world.broker.alarms) == 1
    assert world.hours(rid)["here/one"] != 4


def unfounded(rid: str) -> m.Reclaim:
    """A time at which `rid`, which begins after four hours, has nothing there."""
    return m.Reclaim(rid=rid, att=1, resources=("there/one",), start=START, end=START + HOUR)


def test_a_reclaim_is_repeatable_by_its_key_and_no_other_may_use_it(world: ReclaimWorld) -> None:
    site = world.sites["here"]
    body = owner_calls.Reclaim(
        key="the-key-of-it", resource="here/one", start=START, end=START + HOUR
    )

    def ask(asked: owner_calls.Reclaim) -> owner_calls.ReclaimView:
        return site.call(lambda participant, now: site.reminders.reclaim(asked, now))

    assert ask(body) == ask(body)
    assert len(world.reclaims("here")) == 1
    with pytest.raises(KeyReused):
        ask(
            owner_calls.Reclaim(
                key="the-key-of-it", resource="here/one", start=START, end=START + 1
            )
        )
    for wrong in (
        owner_calls.Reclaim(key="another-key", resource="here/none", start=START, end=START + HOUR),
        owner_calls.Reclaim(key="another-key", resource="here/one", start=START, end=START),
        owner_calls.Reclaim(key="another-key", resource="here/one", start=0, end=HOUR),
    ):
        with pytest.raises(InvalidInput):
            ask(wrong)
    with pytest.raises(NotFound):
        site.call(lambda participant, now: site.reminders.end("another-key", now))


def test_many_that_have_to_go_at_once_find_places_without_racing_each_other() -> None:
    world = ReclaimWorld()
    rids = [world.book("there/one + here/pool", at=hour) for hour in range(4, 10)]
    world.reclaim("there/one", 4, 10)
    world.wait(90)
    starts = sorted(world.hours(rid)["there/one"] for rid in rids)
    assert len(set(starts)) == len(rids)
    assert not [start for start in starts if 3 < start < 10]
    assert all(len(set(world.hours(rid).values())) == 1 for rid in rids)
    assert world.reclaims("there")[0].waiting == ()
    failed = world.register.execute("select count(*) from request where state = 'closed'")
    assert failed.fetchone() == (0,)


def test_what_has_begun_meanwhile_is_left_alone(world: ReclaimWorld) -> None:
    rid = world.book(BOTH, at=4)
    world.lost = {m.Reclaim}
    world.reclaim("here/one", 4, 5)
    for clock in (*world.sites.values(), *world.brokers.values()):
        clock.ms += (DAY + 4 * HOUR) * 1_000
    world.lost = set()
    world.wait(70)
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}
    assert world.reclaims("here")[0].waiting == (rid,)


def test_what_runs_is_not_ended_for_a_later_stage_that_has_no_other_time() -> None:
    world = ReclaimWorld()
    rid = world.book("here/one + there/one@+1h for 1h", window_h=(4, 7))
    for clock in (*world.sites.values(), *world.brokers.values()):
        clock.ms += (DAY + 4 * HOUR + HOUR // 2) * 1_000
    world.reclaim("there/one", 4.75, 7)
    world.wait(70)
    assert world.hours(rid) == {"here/one": 4, "there/one": 5}
    assert world.reclaims("there")[0].waiting == (rid,)


def test_a_rule_that_no_look_shows_is_met_by_other_times_and_in_the_end_by_a_cancellation() -> None:
    """Since it was booked, the other owner lets nobody book for so long."""
    world = ReclaimWorld()
    rid = world.book(BOTH, at=4)
    rules = world.sites["there"].participant.book.calendars["there/one"].rules
    rules.limits = Limits([Limit("short", "everyone", longest_s=HOUR // 2)])
    world.reclaim("here/one", 4, 5)
    assert world.standing(rid).state == "cancelled"
    tries = [
        decode_record(body).wants
        for (body,) in world.register.execute("select body from request where state = 'closed'")
    ]
    assert len(tries) == len(set(tries)) == TRIES_MAX
    assert world.locked("here") == world.locked("there") == []
