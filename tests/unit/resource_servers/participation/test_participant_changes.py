"""Changes of a reservation at its site (move, extend, shrink), and what askers are shown of them.

A change is booked beside the old only where it needs more; until it is committed the old stands.
"""

from __future__ import annotations

import pytest
from tests.protocol_support import (
    ANN,
    BOB,
    DAY,
    T0,
    Site,
    abort,
    commit,
    lock,
    peer_says,
    prepare,
    rid,
    visit,
    vote,
    want,
)

from kalends.calendars import Limit
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.core.principals import Principal

OLD = want("one", 60, 120)
SHRUNK = want("one", 70, 110)
EXTENDED = want("one", 30, 150)
SHIFTED = want("one", 90, 150)


def cancel(site: Site, number: int) -> None:
    site.receive(m.Cancel(rid=rid(number), att=1))


def refused(site: Site, message: m.Visit) -> list[str]:
    answer = site.answer(message)
    assert isinstance(answer, m.Visited)
    assert not answer.held
    return [refusal.code for refusal in answer.refusals]


def test_what_a_change_adds_counts_until_its_last_slot_is_over() -> None:
    site = Site(owners_limits=(Limit("hours", "everyone", locked_unit_s=240),))
    lock(site, 1, want("pool", 0, 60), want("pool", 120, 180))
    site.receive(vote(2, want("pool", 0, 60, 2), want("pool", 120, 180, 2), replaces=1))
    assert site.states(2) == ["prepared", "prepared"]
    site.advance((DAY + 90) * 1_000)
    assert refused(site, vote(3, want("pool", 200, 261))) == [RefusalCode.LIMIT]
    lock(site, 4, want("pool", 200, 260))


@pytest.mark.parametrize("changed", [OLD, SHRUNK, EXTENDED, SHIFTED, want("two", 0, 60)])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_commit_puts_the_new_in_place_of_the_old(changed: m.Want, restarted: bool) -> None:
    site = Site()
    lock(site, 1, OLD)
    site.receive(vote(2, changed, replaces=1))
    if restarted:
        site.restart()
    assert site.states(1) == ["locked"]
    effects = site.receive(commit(2, *site.ids(2)))
    assert len(effects.facts) == 2, "both are stored in one step"
    site.restart()
    assert site.states(1) == ["replaced"]
    assert site.states(2) == ["locked"]
    name = changed.resource.split("/")[1]
    for at in range(0, 180, 10):
        begin = T0 + DAY + at
        taken = changed.start <= begin < changed.end
        assert site.free(name, at, at + 10) == (0 if taken else 1)


@pytest.mark.parametrize("changed", [SHRUNK, EXTENDED, SHIFTED])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_abort_keeps_the_old_and_frees_the_rest(changed: m.Want, restarted: bool) -> None:
    site = Site()
    lock(site, 1, OLD)
    site.receive(vote(2, changed, replaces=1))
    if restarted:
        site.restart()
    site.receive(abort(2))
    assert site.states(1) == ["locked"]
    assert site.free("one", 0, 60) == 1
    assert site.free("one", 60, 61) == site.free("one", 119, 120) == 0
    assert site.free("one", 120, 180) == 1


@pytest.mark.parametrize("changed", [want("one", 60, 150), want("one", 60, 90)])
def test_what_has_begun_is_made_longer_and_shorter_and_not_begun_at_another_time(
    site: Site,
    changed: m.Want,
) -> None:
    lock(site, 1, OLD)
    site.advance((DAY + 70) * 1_000)
    assert refused(site, vote(2, want("one", 61, 150), replaces=1)) == [RefusalCode.PAST]
    assert refused(site, vote(3, want("one", 60, 70), replaces=1)) == [RefusalCode.PAST]
    assert refused(site, vote(4, want("two", 60, 150), replaces=1)) == [RefusalCode.PAST]
    site.receive(vote(5, changed, replaces=1))
    site.receive(commit(5, *site.ids(5)))
    assert (site.states(1), site.states(5)) == (["replaced"], ["locked"])
    site.advance(20_000)
    assert refused(site, vote(6, want("one", 60, 200), replaces=1)) == [RefusalCode.BEING_CHANGED]


@pytest.mark.parametrize("mode", ["hold", "vote"])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_cancel_of_the_old_leaves_the_change_standing_by_itself(
    site: Site, mode: str, restarted: bool
) -> None:
    lock(site, 1, OLD)
    site.receive(visit(2, SHIFTED, mode=mode, replaces=1))
    cancel(site, 1)
    if restarted and mode == "vote":
        site.restart()
    assert site.states(2) == ["held" if mode == "hold" else "prepared"]
    assert site.free("one", 60, 90) == 1
    assert site.free("one", 90, 91) == site.free("one", 149, 150) == 0
    if mode == "hold":
        site.advance(30_000)
        assert site.stake(2) is None
        assert site.free("one", 0, 180) == 1
    else:
        site.receive(commit(2, *site.ids(2)))
        assert site.states(2) == ["locked"]
        assert site.states(1) == ["cancelled"]


def test_a_change_that_needs_nothing_more_still_stands_when_the_old_is_cancelled() -> None:
    site = Site()
    lock(site, 1, OLD)
    site.receive(vote(2, SHRUNK, replaces=1))
    assert site.free("one", 0, 60) == 1
    cancel(site, 1)
    assert site.free("one", 60, 70) == 1
    assert site.free("one", 70, 110) == 0
    site.receive(abort(2))
    assert site.free("one", 0, 180) == 1


def test_room_that_the_old_would_leave_is_not_given_away_before(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(vote(2, want("one", 120, 180), replaces=1))
    assert refused(site, vote(3, OLD)) == [RefusalCode.BUSY]
    assert refused(site, vote(3, want("one", 120, 180))) == [RefusalCode.HELD]
    site.receive(commit(2, *site.ids(2)))
    lock(site, 3, OLD)


def test_a_change_without_room_leaves_the_old_as_it_is(site: Site) -> None:
    lock(site, 1, OLD)
    lock(site, 2, want("one", 120, 180))
    assert refused(site, vote(3, EXTENDED, replaces=1)) == [RefusalCode.BUSY]
    assert site.states(1) == ["locked"]
    assert site.free("one", 30, 60) == 1


def test_one_change_at_a_time_and_only_of_ones_own_lock(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(visit(2, SHRUNK, replaces=1))
    assert refused(site, vote(3, EXTENDED, replaces=1)) == [RefusalCode.BEING_CHANGED]
    assert refused(site, vote(3, EXTENDED, replaces=2)) == [RefusalCode.BEING_CHANGED]
    assert refused(site, vote(3, EXTENDED, replaces=9)) == [RefusalCode.BEING_CHANGED]
    site.advance(30_000)
    stranger = visit(4, EXTENDED, replaces=1, principal=BOB)
    assert refused(site, stranger) == [RefusalCode.BEING_CHANGED]
    site.receive(vote(3, EXTENDED, replaces=1))
    assert site.states(3) == ["prepared"]


def test_a_later_attempt_of_a_change_keeps_its_place(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(vote(2, EXTENDED, replaces=1))
    site.receive(visit(2, EXTENDED, att=2, replaces=1))
    assert site.states(2) == ["held"]
    site.receive(prepare(2, *site.ids(2), att=2))
    site.receive(commit(2, *site.ids(2), att=2))
    assert site.states(1) == ["replaced"]


def test_a_change_that_gives_up_part_of_itself_still_replaces_the_old(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(visit(2, SHIFTED, want("two", 0, 60), replaces=1))
    site.receive(prepare(2, site.ids(2)[0]))
    assert site.free("two", 0, 60) == 1
    site.receive(commit(2, *site.ids(2)))
    assert site.states(1) == ["replaced"]
    assert site.free("one", 60, 90) == 1


def test_a_change_of_a_change(site: Site) -> None:
    lock(site, 1, OLD)
    lock(site, 2, SHIFTED, replaces=1)
    lock(site, 3, EXTENDED, replaces=2)
    site.restart()
    assert [site.states(number) for number in (1, 2, 3)] == [["replaced"], ["replaced"], ["locked"]]
    site.receive(m.Cancel(rid=rid(3), att=1))
    assert site.free("one", 0, 180) == 1


def test_units_of_a_change_count_beyond_those_of_the_old(site: Site) -> None:
    lock(site, 1, want("pool", 0, 60, 2))
    site.receive(vote(2, want("pool", 0, 60, 3), replaces=1))
    assert site.states(2) == ["prepared"]
    assert site.free("pool", 0, 60) == 0
    site.receive(abort(2))
    assert site.free("pool", 0, 60) == 1


def test_a_commit_by_a_peer_replaces_too(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(vote(2, SHIFTED, replaces=1))
    site.receive(peer_says(2, "locked", *site.ids(2)))
    assert site.states(1) == ["replaced"]


# Views


def look(site: Site, *wants: m.Want, replaces: int | None = None, detail: bool = False,
         principal: Principal = ANN) -> tuple[m.FreeSteps, ...]:  # fmt: skip
    answer = site.answer(
        m.Query(
            query_id=7,
            principal=principal,
            wants=wants,
            detail=detail,
            replaces="" if replaces is None else rid(replaces),
        )
    )
    assert isinstance(answer, m.View)
    assert (answer.query_id, answer.epoch) == (7, site.epoch)
    return answer.views


DAY_VIEW = want("one", 0, 180)
BEGIN = DAY_VIEW.start


def test_a_view_shows_what_is_free_and_touches_nothing(site: Site) -> None:
    lock(site, 1, OLD)
    (view,) = look(site, DAY_VIEW)
    assert view.steps == ((BEGIN, BEGIN + 60, 1), (BEGIN + 120, BEGIN + 180, 1))
    assert view.until == DAY_VIEW.end
    assert view.slots == ()
    assert not site.participant.take_effects()


def test_a_view_lists_slots_where_asked_to(site: Site) -> None:
    lock(site, 1, OLD)
    (view,) = look(site, DAY_VIEW, detail=True)
    assert [(slot.state, slot.holder) for slot in view.slots] == [("locked", "ann")]


def test_a_view_leaves_out_what_has_too_few_units(site: Site) -> None:
    lock(site, 1, want("pool", 0, 60, 2))
    (view,) = look(site, want("pool", 0, 120, 2))
    assert view.steps == ((BEGIN + 60, BEGIN + 120, 3),)


def test_what_does_not_exist_or_is_empty_is_refused_as_unknown(site: Site) -> None:
    for view in look(site, want("nothing", 0, 60), want("one", 60, 60)):
        assert view.refusal is not None
        assert view.refusal.code == RefusalCode.UNKNOWN_RESOURCE


def test_the_view_of_a_change_counts_the_old_as_free_to_its_owner(site: Site) -> None:
    lock(site, 1, OLD)
    whole = ((BEGIN, BEGIN + 180, 1),)
    assert look(site, DAY_VIEW, replaces=1)[0].steps == whole
    assert look(site, DAY_VIEW)[0].steps != whole
    assert look(site, DAY_VIEW, replaces=1, principal=BOB)[0].steps != whole
    assert look(site, DAY_VIEW, replaces=9)[0].steps != whole
    site.receive(vote(2, SHRUNK, replaces=1))
    assert look(site, DAY_VIEW, replaces=1)[0].steps != whole
    site.participant.check()


def test_the_totals_are_those_of_all_users(site: Site) -> None:
    lock(site, 1, OLD)
    site.receive(visit(2, want("pool", 0, 60), want("two", 0, 60), principal=BOB))
    site.receive(vote(3, EXTENDED, replaces=1))
    assert site.participant.book.totals() == {"locked": 1, "held": 2, "prepared": 1}
