"""The oracle of waiting catches every wrong that it is for, in messages made by hand, and no right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.principals import Principal
from tests.simulation.line_oracle import LineOracle

SITE, PART = "argo", m.Part("argo", "sim://argo")
HELD = Refusal(where="argo/x", code=RefusalCode.HELD, detail="")
CAPACITIES = {"argo/x": 1, "argo/n": 4}
HOUR_S = 3_600


class Story:
    """Messages at the edge of one site, one after the other, 100 ms apart."""

    def __init__(self, head_start_ms: Callable[[Principal], int] = lambda principal: 0) -> None:
        self.ms = 0
        self.oracle = LineOracle(
            CAPACITIES, head_start_ms=head_start_ms, turn_ms=10_000, doubt_ms=0, wake_ms=2_000, settle_ms=0,
            serve_ms=5_000, now_ms=lambda: self.ms,
        )  # fmt: skip
        self._hold_ids = 0
        self._visits: dict[str, m.Visit] = {}

    def wait(self, ms: int) -> None:
        """Time passes; whoever is there asks now and then whether the site is."""
        self.ms += ms

    def asks(self, message: m.Message) -> None:
        self.ms += 100
        self.oracle.delivered(SITE, "red~1", message)

    def says(self, message: m.Message) -> None:
        self.ms += 1
        self.oracle.left(SITE, "red~1", message)

    def visit(
        self, rid: str, stamp: int, *, units: int = 0, att: int = 1, mode: str = "hold",
        queue: bool = True, start: int = 0, hours: int = 1, replaces: str = "",
    ) -> None:  # fmt: skip
        """`units` of argo/n, or argo/x when 0."""
        resource = "argo/n" if units else "argo/x"
        visit = m.Visit(
            rid=rid, att=att, stamp=stamp, mode=mode, principal=Principal(user=rid),
            wants=(m.Want(resource, start * HOUR_S, (start + hours) * HOUR_S, units or 1),),
            parts=(PART,), need=1, secret="s" * 16, hold_ms=30_000, queue=queue,
            replaces=replaces,
        )  # fmt: skip
        self._visits[rid] = visit
        self.asks(visit)

    def held(self, rid: str, vote: str = "none") -> int:
        self._hold_ids += 1
        self.says(
            m.Visited(rid=rid, att=self._att(rid), epoch=1, vote=vote,
                      held=(m.HeldSlot(0, self._hold_ids),))
        )  # fmt: skip
        return self._hold_ids

    def holds(self, rid: str, stamp: int, *, vote: str = "none", **wish: Any) -> int:
        """It comes, and is held what it wants."""
        self.visit(rid, stamp, **wish)
        return self.held(rid, vote)

    def waits(self, rid: str, ahead: int = 0) -> None:
        self.says(
            m.Visited(
                rid=rid, att=self._att(rid), epoch=1, vote="none", refusals=(HELD,), ahead=ahead
            )
        )

    def lines_up(self, rid: str, stamp: int, *, ahead: int = 0, **wish: Any) -> None:
        """It comes, and has to wait."""
        self.visit(rid, stamp, **wish)
        self.waits(rid, ahead)

    def refused(self, rid: str) -> None:
        self.says(m.Visited(rid=rid, att=self._att(rid), epoch=1, vote="none", refusals=(HELD,)))

    def granted(self, rid: str) -> int:
        self._hold_ids += 1
        self.says(
            m.Grant(rid=rid, att=self._att(rid), epoch=1, held=(m.HeldSlot(0, self._hold_ids),))
        )
        return self._hold_ids

    def prepare(self, rid: str, hold_id: int, vote: str = "yes") -> None:
        att = self._att(rid)
        self.asks(m.Prepare(rid=rid, att=att, hold_ids=(hold_id,), parts=(PART,), need=1))
        self.says(m.Voted(rid=rid, att=att, epoch=1, vote=vote))

    def decide(self, rid: str, hold_id: int, outcome: str = "commit") -> None:
        chosen = {SITE: (hold_id,)} if outcome == "commit" else {}
        self.asks(m.Decide(rid=rid, att=self._att(rid), outcome=outcome, chosen=chosen))
        self.says(m.Done(rid=rid, att=self._att(rid), of=outcome))

    def recall(self, rid: str, left_ms: int = 3_000) -> None:
        self.says(m.Recall(rid=rid, att=self._att(rid), left_ms=left_ms))

    def release(self, rid: str) -> None:
        self.asks(m.Release(rid=rid, att=self._att(rid)))

    def renew(self, rid: str, hold_id: int) -> None:
        att = self._att(rid)
        self.asks(m.Renew(rid=rid, att=att, hold_ids=(hold_id,), hold_ms=30_000))
        self.says(m.Renewed(rid=rid, att=att, epoch=1, kept=(hold_id,)))

    def taken_back(self, rid: str, hold_id: int) -> None:
        self.says(m.Renewed(rid=rid, att=self._att(rid), epoch=1, lost=(hold_id,)))

    def _att(self, rid: str) -> int:
        return self._visits[rid].att


def wish(rid: str, stamp: int) -> m.Await:
    """For some of the first hour of argo/x."""
    return m.Await(
        rid=rid, att=1, stamp=stamp, principal=Principal(user=rid),
        wants=(m.Want("argo/x", 0, HOUR_S, 1),), length_s=60,
    )  # fmt: skip


def _old_waits_for_holder(story: Story) -> int:
    hold_id = story.holds("holder", 5)
    story.lines_up("old", 10)
    return hold_id


def _young_is_recalled_for_old(story: Story) -> int:
    hold_id = story.holds("young", 20)
    story.visit("old", 10)
    story.recall("young")
    story.waits("old")
    return hold_id


# What is right


def a_younger_holder_is_recalled_and_gives_back(story: Story) -> None:
    hold_id = _young_is_recalled_for_old(story)
    story.asks(m.Give(rid="young", att=1, hold_ids=(hold_id,)))
    granted = story.granted("old")
    story.lines_up("young", 20)
    story.prepare("old", granted)
    story.decide("old", granted, "abort")
    story.granted("young")


def a_younger_holder_is_told_again_what_it_gives_back_meanwhile(story: Story) -> None:
    """An answer waits for the disk, and what was held then is given back before it leaves."""
    hold_id = _young_is_recalled_for_old(story)
    story.visit("young", 20)
    story.asks(m.Give(rid="young", att=1, hold_ids=(hold_id,)))
    story.says(m.Visited(rid="young", att=1, epoch=1, vote="none", held=(m.HeldSlot(0, hold_id),)))
    granted = story.granted("old")
    story.prepare("old", granted)
    story.decide("old", granted, "abort")
    story.granted("young")


def a_recalled_hold_is_promised_in_time(story: Story) -> None:
    hold_id = _young_is_recalled_for_old(story)
    story.prepare("young", hold_id)
    story.wait(20_000)
    story.renew("young", hold_id)
    story.decide("young", hold_id)
    story.says(m.Locked(rid="old", att=1, refusals=(HELD,)))


def a_recalled_hold_is_taken_back_in_time(story: Story) -> None:
    hold_id = _young_is_recalled_for_old(story)
    story.wait(3_000)
    story.taken_back("young", hold_id)
    story.granted("old")
    story.wait(20_000)
    story.lines_up("young", 20)


def an_owner_declines_when_no_broker_can_be_told(story: Story) -> None:
    story.visit("young", 20)
    hold_id = story.held("young")
    story.asks(m.OwnerAsk(rid="young", att=1, hold_ids=(hold_id,)))
    story.visit("young", 20, att=2)
    hold_id = story.held("young")
    story.taken_back("young", hold_id)


def a_recalled_hold_is_given_back_before_the_site_says_that_it_was_made(story: Story) -> None:
    story.visit("young", 20)
    story.asks(m.Release(rid="young", att=2))
    story.lines_up("old", 10)
    story.held("young")
    story.recall("young")
    story.granted("old")
    for _ in range(3):
        story.wait(3_000)
        story.lines_up("other", 30)


def a_recalled_hold_is_over_once_a_late_visit_is_stale(story: Story) -> None:
    story.visit("young", 20)
    story.asks(m.Decide(rid="young", att=1, outcome="abort", chosen={}))
    story.visit("young", 20)
    story.lines_up("old", 10)
    story.granted("young")
    story.recall("young")
    story.says(m.Stale(rid="young", att=1, seen=1))
    for _ in range(3):
        story.wait(3_000)
        story.lines_up("old", 10)


def a_younger_one_gets_what_is_left_over(story: Story) -> None:
    story.holds("holder", 5, units=2)
    story.lines_up("old", 10, units=3)
    story.holds("young", 20, units=1)


def a_younger_one_gets_another_hour(story: Story) -> None:
    _old_waits_for_holder(story)
    story.holds("young", 20, start=1)


def an_older_one_passes_those_who_wait(story: Story) -> None:
    hold_id = story.holds("holder", 5)
    story.lines_up("young", 20)
    story.lines_up("old", 10)
    story.lines_up("young", 20, ahead=1)
    story.decide("holder", hold_id, "abort")
    story.granted("old")


def a_line_is_forgotten_in_a_crash(story: Story) -> None:
    _old_waits_for_holder(story)
    story.oracle.crashed(SITE)
    story.holds("young", 20)


def a_silent_place_is_lost(story: Story) -> None:
    hold_id = _old_waits_for_holder(story)
    story.decide("holder", hold_id, "abort")
    story.wait(70_000)
    story.holds("young", 20)


def what_was_granted_before_a_release_came(story: Story) -> None:
    hold_id = _old_waits_for_holder(story)
    story.decide("holder", hold_id, "abort")
    story.ms += 5
    story.oracle.delivered(SITE, "red~1", m.Release(rid="old", att=1), idle=False)
    story.granted("old")


def what_was_granted_again_before_an_abort_came(story: Story) -> None:
    lost = story.holds("young", 20)
    story.recall("young")
    # The disk is slow: by the time that the abort comes, an older request has come, and has gone.
    story.asks(m.Decide(rid="young", att=1, outcome="abort"))
    story.taken_back("young", lost)
    story.granted("young")


def a_late_duplicate_enters_the_line_again(story: Story) -> None:
    """After the abort; its answer is not that of the visit before."""
    hold_id = story.holds("holder", 5)
    story.visit("young", 20)
    story.asks(m.Decide(rid="young", att=1, outcome="abort"))
    story.visit("young", 20)
    story.refused("young")
    story.says(m.Done(rid="young", att=1, of="abort"))
    story.waits("young")
    story.decide("holder", hold_id, "abort")
    story.granted("young")


def a_change_takes_the_room_of_what_it_replaces(story: Story) -> None:
    story.visit("reservation", 5, units=3, mode="vote")
    story.decide("reservation", story.held("reservation", "yes"))
    story.visit("change", 8, units=1, mode="vote", replaces="reservation")
    story.decide("change", story.held("change", "yes"))
    story.holds("holder", 9, units=3, start=1)
    story.lines_up("old", 10, units=2, hours=2)
    story.holds("young", 20, units=1)


def a_change_and_what_it_is_to_replace_take_the_larger_of_the_two(story: Story) -> None:
    story.visit("reservation", 5, units=1, mode="vote")
    story.decide("reservation", story.held("reservation", "yes"))
    story.holds("change", 8, units=1, hours=2, mode="vote", replaces="reservation", vote="yes")
    story.holds("holder", 9, units=2)
    story.lines_up("old", 10, units=2)
    story.holds("young", 20, units=1)


def an_abort_is_lost_in_a_crash(story: Story) -> None:
    story.oracle.healed()
    story.holds("holder", 5, vote="yes")
    story.asks(m.Outcome(rid="holder", att=1, outcome="abort"))
    story.oracle.crashed(SITE)
    story.lines_up("old", 10)
    for _ in range(3):
        story.wait(2_000)
        story.lines_up("old", 10)
    story.oracle.ended("old")


def an_older_one_comes_while_a_younger_one_is_answered(story: Story) -> None:
    story.visit("young", 20)
    story.lines_up("old", 10)
    story.held("young")


def who_waits_for_what_is_locked_waits_as_long_as_it_likes(story: Story) -> None:
    story.oracle.healed()
    hold_id = story.holds("holder", 5, vote="yes")
    story.lines_up("old", 10)
    story.decide("holder", hold_id)
    story.says(m.Locked(rid="old", att=1, refusals=(HELD,)))
    story.asks(wish("old", 10))
    story.wait(100_000)
    story.oracle.ended("old")


def first_in_line_is_granted_room_at_once(story: Story) -> None:
    story.oracle.healed()
    hold_id = _old_waits_for_holder(story)
    story.wait(5_000)
    story.decide("holder", hold_id, "abort")
    story.granted("old")
    story.wait(5_000)
    story.oracle.ended("old")


RIGHT = [
    a_younger_holder_is_told_again_what_it_gives_back_meanwhile,
    a_younger_holder_is_recalled_and_gives_back,
    a_recalled_hold_is_promised_in_time,
    a_recalled_hold_is_taken_back_in_time,
    a_recalled_hold_is_given_back_before_the_site_says_that_it_was_made,
    an_owner_declines_when_no_broker_can_be_told,
    a_recalled_hold_is_over_once_a_late_visit_is_stale,
    a_younger_one_gets_what_is_left_over,
    a_younger_one_gets_another_hour,
    an_older_one_passes_those_who_wait,
    a_line_is_forgotten_in_a_crash,
    a_silent_place_is_lost,
    a_late_duplicate_enters_the_line_again,
    a_change_takes_the_room_of_what_it_replaces,
    a_change_and_what_it_is_to_replace_take_the_larger_of_the_two,
    an_abort_is_lost_in_a_crash,
    an_older_one_comes_while_a_younger_one_is_answered,
    who_waits_for_what_is_locked_waits_as_long_as_it_likes,
    what_was_granted_before_a_release_came,
    what_was_granted_again_before_an_abort_came,
    first_in_line_is_granted_room_at_once,
]


# What is wrong, and what is said of it


def a_younger_one_is_held_room_that_an_older_one_needs(story: Story) -> str:
    hold_id = _old_waits_for_holder(story)
    story.decide("holder", hold_id, "abort")
    story.holds("young", 20)
    return "gives young room"


def a_younger_one_is_promised_room_that_an_older_one_needs(story: Story) -> str:
    hold_id = _old_waits_for_holder(story)
    story.decide("holder", hold_id, "abort")
    story.holds("young", 20, mode="vote", queue=False, vote="yes")
    return "gives young room"


def a_younger_one_is_granted_first(story: Story) -> str:
    hold_id = story.holds("holder", 5)
    story.lines_up("young", 20)
    story.lines_up("old", 10)
    story.decide("holder", hold_id, "abort")
    story.granted("young")
    return "gives young room"


def an_agent_is_held_room_that_an_older_one_needs(story: Story) -> str:
    _old_waits_for_holder(story)
    story.asks(
        m.Dispatch(
            rid="agent", att=1, stamp=20, principal=Principal(user="eve"), script="0" * 64,
            starts=m.Starts(first=0, last=0, step_s=60), asks=(), parts=(PART,), need=1,
            secret="s" * 16, hold_ms=30_000,
        )
    )  # fmt: skip
    choice = m.HeldChoice(
        hold_id=9, term=0, resource="argo/x", start=0, end=HOUR_S, units=1, common=0
    )
    story.says(m.Report(rid="agent", att=1, sites=(m.SiteReport(SITE, 1, held=(choice,)),)))
    return "gives agent room"


def small_ones_starve_a_big_one(story: Story) -> str:
    story.holds("holder", 5, units=2, mode="vote", vote="yes")
    story.lines_up("old", 10, units=3)
    story.holds("young", 20, units=2)
    return "gives young room"


def a_larger_change_leaves_no_room_for_a_younger_one(story: Story) -> str:
    story.visit("reservation", 5, units=1, mode="vote")
    story.decide("reservation", story.held("reservation", "yes"))
    story.holds("change", 8, units=2, mode="vote", replaces="reservation", vote="yes")
    story.holds("holder", 9, units=1)
    story.lines_up("old", 10, units=2)
    story.holds("young", 20, units=1)
    return "gives young room"


def room_freed_is_granted_to_nobody(story: Story) -> str:
    story.oracle.healed()
    hold_id = _old_waits_for_holder(story)
    story.decide("holder", hold_id, "abort")
    for _ in range(3):
        story.wait(1_000)
        story.lines_up("old", 10)
    return "is silent"


def a_request_waits_for_ever(story: Story) -> str:
    story.oracle.healed()
    hold_id = _old_waits_for_holder(story)
    for _ in range(3):
        story.wait(7_000)
        story.renew("holder", hold_id)
        story.lines_up("old", 10)
    return "has waited"


def a_request_ends_too_late(story: Story) -> str:
    story.oracle.healed()
    _old_waits_for_holder(story)
    story.wait(20_500)
    story.oracle.ended("old")
    return "has waited"


def a_recall_is_ignored(story: Story) -> str:
    hold_id = _young_is_recalled_for_old(story)
    for _ in range(4):
        story.wait(2_000)
        story.renew("young", hold_id)
    return "lets it be held"


def a_recall_of_what_was_asked_for_once_more_is_ignored(story: Story) -> str:
    story.visit("young", 20)
    story.asks(m.Release(rid="young", att=1))
    story.held("young")
    story.visit("young", 20, att=2)
    hold_id = story.held("young")
    story.visit("old", 10)
    story.recall("young")
    for _ in range(4):
        story.wait(2_000)
        story.renew("young", hold_id)
    return "lets it be held"


def a_promise_is_recalled(story: Story) -> str:
    story.visit("young", 20)
    story.prepare("young", story.held("young"))
    story.visit("old", 10)
    story.recall("young")
    return "recalls what it has promised"


def a_promise_is_taken_back(story: Story) -> str:
    hold_id = _young_is_recalled_for_old(story)
    story.prepare("young", hold_id)
    story.visit("old", 10)
    story.taken_back("young", hold_id)
    return "takes back what it has promised"


def a_hold_is_taken_back_for_an_older_recall(story: Story) -> str:
    hold_id = _young_is_recalled_for_old(story)
    story.asks(m.Give(rid="young", att=1, hold_ids=(hold_id,)))
    story.release("old")
    newer = story.granted("young")
    story.taken_back("young", newer)
    return "has not recalled it"


def a_hold_is_taken_back_that_the_owner_has_approved(story: Story) -> str:
    story.visit("young", 20)
    hold_id = story.held("young")
    story.asks(m.OwnerAsk(rid="young", att=1, hold_ids=(hold_id,)))
    story.says(m.OwnerSays(rid="young", att=1, state="approved"))
    story.taken_back("young", hold_id)
    return "has not recalled it"


def a_ghost_is_granted_room(story: Story) -> str:
    hold_id = story.holds("holder", 5)
    story.lines_up("ghost", 10)
    story.release("ghost")
    story.decide("holder", hold_id, "abort")
    story.granted("ghost")
    return "does not wait there"


def a_ghost_is_ahead(story: Story) -> str:
    story.holds("holder", 5)
    story.lines_up("ghost", 10)
    story.release("ghost")
    story.lines_up("young", 20, ahead=1)
    return "1 are ahead of young, at most 0 wait"


def a_dead_broker_is_granted_room(story: Story) -> str:
    story.holds("holder", 5)
    story.lines_up("ghost", 10)
    story.wait(200_000)
    story.granted("ghost")
    return "has long been silent"


def a_ghost_is_offered_something(story: Story) -> str:
    story.asks(wish("ghost", 10))
    story.says(m.Awaited(rid="ghost", att=1, offered=(m.Freed("argo/x", 0, 60),)))
    assert not story.oracle.complaints
    story.asks(m.Release(rid="ghost", att=1))
    story.asks(wish("other", 10))
    story.says(m.Awaited(rid="ghost", att=1, offered=(m.Freed("argo/x", 0, 60),)))
    return "not on its list"


WRONG = [
    a_younger_one_is_held_room_that_an_older_one_needs,
    a_younger_one_is_promised_room_that_an_older_one_needs,
    a_younger_one_is_granted_first,
    an_agent_is_held_room_that_an_older_one_needs,
    small_ones_starve_a_big_one,
    a_larger_change_leaves_no_room_for_a_younger_one,
    room_freed_is_granted_to_nobody,
    a_request_waits_for_ever,
    a_request_ends_too_late,
    a_recall_is_ignored,
    a_recall_of_what_was_asked_for_once_more_is_ignored,
    a_promise_is_recalled,
    a_promise_is_taken_back,
    a_hold_is_taken_back_for_an_older_recall,
    a_hold_is_taken_back_that_the_owner_has_approved,
    a_ghost_is_granted_room,
    a_ghost_is_ahead,
    a_dead_broker_is_granted_room,
    a_ghost_is_offered_something,
]


@pytest.mark.parametrize("tell", RIGHT, ids=lambda tell: tell.__name__)
def test_what_is_right_is_not_complained_of(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.oracle.finish() == []


@pytest.mark.parametrize("tell", WRONG, ids=lambda tell: tell.__name__)
def test_what_is_wrong_is_complained_of_once(tell: Callable[[Story], str]) -> None:
    story = Story()
    expected = tell(story)
    [complaint] = story.oracle.finish()
    assert expected in complaint


@pytest.mark.parametrize(("head_start_ms", "complaints"), [(0, 1), (15, 0)])
def test_an_owner_may_give_a_head_start_in_the_line(head_start_ms: int, complaints: int) -> None:
    story = Story(lambda principal: head_start_ms if principal.user == "young" else 0)
    a_younger_one_is_granted_first(story)
    assert len(story.oracle.finish()) == complaints


def test_a_head_start_is_used_up_by_a_hold_that_was_given_back() -> None:
    story = Story(lambda principal: 15 if principal.user == "young" else 0)
    hold_id = _young_is_recalled_for_old(story)
    story.asks(m.Give(rid="young", att=1, hold_ids=(hold_id,)))
    story.lines_up("old", 10)
    story.lines_up("young", 20, ahead=1)
    story.granted("young")
    [complaint] = story.oracle.finish()
    assert "gives young room" in complaint


def test_faults_excuse_a_late_grant() -> None:
    story = Story()
    room_freed_is_granted_to_nobody(story)
    complaints = len(story.oracle.complaints)
    story = Story()
    story.oracle.healed = lambda: None  # type: ignore[method-assign]  # They never stop.
    room_freed_is_granted_to_nobody(story)
    assert (complaints, len(story.oracle.complaints)) == (1, 0)
