"""What a crash, or a message that came late, leaves unheard accuses nobody; stories made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kalends.contract import messages as m
from kalends.core.principals import Principal
from kalends.core.scripts import Ask
from tests.simulation.line_turns import Turns
from tests.simulation.test_line_oracle import HOUR_S, PART, SITE, Story


def an_unheard_promise_comes_back_when_its_abort_is_lost(story: Story) -> None:
    story.oracle.healed()
    story.visit("holder", 5, mode="vote")
    story.oracle.crashed(SITE)
    story.asks(m.Decide(rid="holder", att=1, outcome="abort"))
    story.oracle.crashed(SITE)
    _waits_in_vain(story)


def a_hold_promised_unheard_comes_back_when_its_abort_is_lost(story: Story) -> None:
    story.oracle.healed()
    hold_id = story.holds("holder", 5)
    story.asks(
        m.Prepare(
            rid="holder", att=1, hold_ids=(hold_id,), parts=(m.Part(SITE, "sim://argo"),), need=1
        )
    )
    story.oracle.crashed(SITE)
    story.asks(m.Decide(rid="holder", att=1, outcome="abort"))
    story.oracle.crashed(SITE)
    _waits_in_vain(story)


def a_visit_of_an_attempt_that_was_over_comes_late(story: Story) -> None:
    story.holds("holder", 1)
    story.visit("old", 10)
    story.asks(m.Decide(rid="old", att=1, outcome="abort"))
    story.lines_up("old", 10)
    story.says(m.Done(rid="old", att=1, of="abort"))
    story.says(m.Stale(rid="old", att=1, seen=1))
    story.release("holder")
    story.holds("young", 20)


def a_promise_of_before_a_crash_is_told_after_it(story: Story) -> None:
    story.visit("young", 20, mode="vote")
    story.oracle.crashed(SITE)
    story.lines_up("old", 10)
    story.holds("young", 20, mode="vote", vote="yes")


def a_hold_whose_promise_nobody_heard_is_gone_after_a_crash(story: Story) -> None:
    hold_id = story.holds("ann", 5)
    story.asks(
        m.Prepare(
            rid="ann", att=1, hold_ids=(hold_id,), parts=(m.Part(SITE, "sim://argo"),), need=1
        )
    )
    story.oracle.crashed(SITE)
    story.taken_back("ann", hold_id)


def _an_older_attempt_is_served_after(story: Story, wait_ms: int) -> None:
    story.wait(wait_ms)
    story.lines_up("ann", 5, att=2)
    story.granted("ann")


def a_hold_runs_out_and_its_attempt_is_forgotten(story: Story) -> None:
    story.holds("ann", 5, att=3)
    _an_older_attempt_is_served_after(story, 40_000)


def a_place_runs_out_and_its_attempt_is_forgotten(story: Story) -> None:
    story.holds("holder", 1)
    story.lines_up("ann", 5, att=3)
    _an_older_attempt_is_served_after(story, 70_000)


def holders_are_asked_before_a_visit_is_in_line(story: Story) -> None:
    story.visit("old", 10)
    story.asks(_agent(0))
    story.asks(m.Query(query_id=1, principal=Principal(user="ann"), wants=()))
    story.waits("old")
    _report(story, 1)


@pytest.mark.parametrize(
    "tell",
    [
        holders_are_asked_before_a_visit_is_in_line,
        a_hold_runs_out_and_its_attempt_is_forgotten,
        a_place_runs_out_and_its_attempt_is_forgotten,
        a_hold_whose_promise_nobody_heard_is_gone_after_a_crash,
        an_unheard_promise_comes_back_when_its_abort_is_lost,
        a_hold_promised_unheard_comes_back_when_its_abort_is_lost,
        a_visit_of_an_attempt_that_was_over_comes_late,
        a_promise_of_before_a_crash_is_told_after_it,
    ],
    ids=lambda tell: tell.__name__,
)
def test_what_is_right_though_nobody_heard_it_is_not_complained_of(
    tell: Callable[[Story], None],
) -> None:
    story = Story()
    tell(story)
    assert story.oracle.finish() == []


def test_an_abort_that_is_durable_brings_nothing_back() -> None:
    story = Story()
    story.oracle.healed()
    story.visit("holder", 5, mode="vote")
    story.oracle.crashed(SITE)
    story.asks(m.Decide(rid="holder", att=1, outcome="abort"))
    story.says(m.Done(rid="holder", att=1, of="abort"))
    _waits_in_vain(story)
    [complaint] = story.oracle.finish()
    assert "is silent" in complaint


def test_a_promise_that_nobody_asked_for_before_a_crash_is_no_excuse() -> None:
    story = Story()
    story.oracle.crashed(SITE)
    story.lines_up("old", 10)
    story.holds("young", 20, mode="vote", vote="yes")
    [complaint] = story.oracle.finish()
    assert "gives young room" in complaint


def test_a_late_answer_to_an_older_attempt_ends_no_newer_place() -> None:
    story = Story()
    story.lines_up("old", 10, att=2)
    story.says(m.Stale(rid="old", att=1, seen=2))
    story.holds("young", 20)
    [complaint] = story.oracle.finish()
    assert "gives young room" in complaint


@pytest.mark.parametrize("taken", [False, True])
def test_only_a_request_that_the_register_took_has_anybody_who_waits(taken: bool) -> None:
    turns = Turns(10_000)
    turns.healed(0)
    turns.asked("lost", 1)
    turns.waits("lost", 0)
    assert [rid for rid, _ in turns.unfinished(30_000)] == ["lost"]
    story = Story()
    story.oracle.exists = lambda rid: taken
    story.oracle.healed()
    story.holds("holder", 1)
    story.lines_up("lost", 10)
    story.wait(60_000)
    assert len(story.oracle.finish()) == taken


def _waits_in_vain(story: Story) -> None:
    """Somebody is first in line all the time, and is granted nothing."""
    for _ in range(4):
        story.lines_up("old", 10)
        story.wait(1_000)


def _agent(start: int, att: int = 1) -> m.Dispatch:
    """It may choose any hour of argo/x from `start` on."""
    return m.Dispatch(
        rid="agent", att=att, stamp=50, principal=Principal(user="agent"), script="0" * 64,
        starts=m.Starts(first=start, last=start, step_s=60),
        asks=(Ask(0, "argo/x", HOUR_S),), parts=(m.Part(SITE, "sim://argo"),), need=1,
        secret="s" * 16, hold_ms=30_000,
    )  # fmt: skip


def _report(story: Story, hold_id: int, att: int = 1) -> None:
    choice = m.HeldChoice(
        hold_id=hold_id, term=0, resource="argo/x", start=0, end=HOUR_S, units=1, common=0
    )
    story.says(m.Report(rid="agent", att=att, sites=(m.SiteReport(SITE, 1, held=(choice,)),)))


def test_what_an_agent_may_hold_unreported_is_room_for_nobody() -> None:
    story = Story()
    story.oracle.healed()
    story.asks(_agent(0))
    _waits_in_vain(story)
    _report(story, 1)
    assert story.oracle.finish() == []


def test_what_an_agent_holds_in_its_second_run_is_room_for_nobody() -> None:
    story = Story()
    story.oracle.healed()
    story.asks(_agent(0))
    _report(story, 1)
    story.wait(100_000)
    story.asks(_agent(0))
    _report(story, 2)
    _waits_in_vain(story)
    assert story.oracle.finish() == []


def test_what_the_newest_question_names_is_promised_whatever_a_crash_left_unanswered() -> None:
    story = Story()
    for att, hold_id in ((1, 1), (2, 2)):
        story.asks(_agent(0, att))
        _report(story, hold_id, att)
        story.asks(m.Prepare(rid="agent", att=att, hold_ids=(hold_id,), parts=(PART,), need=1))
        if att == 1:
            story.oracle.crashed(SITE)
    story.says(m.Voted(rid="agent", att=2, epoch=1, vote="yes"))
    story.oracle.healed()
    _waits_in_vain(story)
    assert story.oracle.finish() == []


def test_an_agent_elsewhere_is_no_excuse() -> None:
    story = Story()
    story.oracle.healed()
    story.asks(_agent(2 * HOUR_S))
    _waits_in_vain(story)
    [complaint] = story.oracle.finish()
    assert "is silent" in complaint
