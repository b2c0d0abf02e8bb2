"""An older request may have the holds of a younger one, if that one's agent gives them back."""

from __future__ import annotations

import pytest
from site_agent_support import KIND, SOURCE, AgentSite, ask, dispatch, own, starts, times
from tests.protocol_support import ANN, BOB, DAY, T0, abort, prepare, rid, visit, vote, want

from kalends.agents.runs import RunOutcome
from kalends.contract import messages as m
from kalends.core.errors import RefusalCode
from kalends.core.scripts import BLAME, HeldChoice
from kalends.resource_servers.participation.effects import RunTask
from kalends.resource_servers.participation.visits.agent_recalls import ASK_AGAIN_MS

YES = RunOutcome("ok", True)
NO = RunOutcome("ok", False)


def site_with_holder(answer: list[int] | None = None) -> AgentSite:
    """Request 5 holds slots of instrument one by an agent that answers recalls."""
    site = AgentSite()
    message = dispatch(5, ask("one", 10), source=KIND, principal=BOB)
    site.hold_by_agent(message, answer or [0])
    return site


@pytest.fixture
def site() -> AgentSite:
    return site_with_holder()


def recalls_of(site: AgentSite, message: m.Message) -> tuple[RunTask, ...]:
    effects = site.receive(message)
    assert not effects.sends
    return tuple(effects.errands)


def test_the_holder_is_shown_what_is_wanted_and_never_by_whom() -> None:
    site = site_with_holder([0, 2])
    (errand,) = recalls_of(site, vote(1, want("one", 5, 12)))
    assert errand.rid == rid(5)
    assert errand.job.function == "recall"
    assert errand.job.user == "bob"
    slot, asker, view = errand.job.arguments
    assert (slot["start"], slot["id"]) == (T0 + DAY, 0)
    assert asker == {"start": T0 + DAY + 5, "end": T0 + DAY + 12, "units": 1}
    assert [each["start"] - T0 - DAY for each in view["slots"]] == [0, 20]
    assert "ann" not in repr(errand.job.arguments)


def test_what_is_given_back_goes_to_the_older_request_and_the_holder_is_told() -> None:
    site = site_with_holder([0, 2])
    lost, kept = site.ids(5)
    (errand,) = recalls_of(site, vote(1, want("one", 5, 12)))
    told, visited = site.end(errand, YES).sends
    assert told.message == m.Renewed(
        rid=rid(5), att=1, epoch=site.epoch, kept=(kept,), lost=(lost,)
    )
    assert isinstance(visited.message, m.Visited)
    assert visited.message.vote == "yes"
    assert site.ids(5) == (kept,)
    assert times(own(site.receive(dispatch(5, source=KIND, principal=BOB))).held) == [20]


REFUSALS = [RunOutcome(code, True) for code in BLAME if code != "ok"]
REFUSALS += [NO, *(RunOutcome("ok", answer) for answer in (None, 1, "True", [True], 0))]


@pytest.mark.parametrize("outcome", REFUSALS)
def test_whatever_else_the_agent_says_it_keeps_and_the_visit_is_refused(
    site: AgentSite,
    outcome: RunOutcome,
) -> None:
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    (send,) = site.end(errand, outcome).sends
    assert isinstance(send.message, m.Visited)
    assert send.message.vote == "no"
    assert [each.code for each in send.message.refusals] == [RefusalCode.HELD]
    assert site.states(5) == ["held"]
    assert site.stake(1) is None


def test_an_agent_that_does_not_answer_in_time_keeps(site: AgentSite) -> None:
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    (send,) = site.advance(2_000).sends
    assert isinstance(send.message, m.Visited)
    assert send.message.refusals
    assert not site.end(errand, YES)
    assert site.states(5) == ["held"]


def test_an_agent_that_keeps_is_not_asked_again_for_a_while(site: AgentSite) -> None:
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    site.end(errand, NO)
    assert len(site.answers(vote(2, want("one", 0, 10)))) == 1
    site.advance(ASK_AGAIN_MS)
    assert len(recalls_of(site, vote(3, want("one", 0, 10)))) == 1


def test_a_younger_request_never_asks_an_older_one(site: AgentSite) -> None:
    answer = site.answer(vote(6, want("one", 0, 10)))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "no"


def test_of_two_with_the_same_stamp_only_one_may_ask() -> None:
    site = AgentSite()
    site.hold_by_agent(dispatch(5, source=KIND, stamp=1), [0])
    assert site.answers(vote(1, want("one", 0, 10))) == [], "request 1 comes first by its name"
    site = AgentSite()
    site.hold_by_agent(dispatch(5, source=KIND, stamp=9), [0])
    assert len(site.answers(vote(9, want("one", 0, 10)))) == 1


@pytest.mark.parametrize("source", [SOURCE, "# def recall(\n" + SOURCE, "x = 'def recall('\n"])
def test_a_script_that_does_not_define_recall_is_not_asked(source: str) -> None:
    site = AgentSite()
    site.hold_by_agent(dispatch(5, source=source), [0])
    assert len(site.answers(vote(1, want("one", 0, 10)))) == 1


def test_a_hold_without_an_agent_and_a_promise_are_never_asked_for() -> None:
    site = AgentSite()
    site.answer(visit(5, want("one", 0, 10)))
    assert len(site.answers(vote(1, want("one", 0, 10)))) == 1
    site = site_with_holder()
    site.receive(prepare(5, *site.ids(5)))
    assert len(site.answers(vote(1, want("one", 0, 10)))) == 1


def test_what_its_broker_renews_is_chosen_and_never_asked_for() -> None:
    site = site_with_holder([0, 2])
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    site.answer(m.Renew(rid=rid(5), att=1, hold_ids=site.ids(5), hold_ms=30_000))
    assert len(site.end(errand, YES).sends) == 1
    assert site.states(5) == ["held", "held"]
    assert len(site.answers(vote(2, want("one", 0, 10)))) == 1


def test_nobody_is_asked_when_something_else_stands_in_the_way_too(site: AgentSite) -> None:
    site.answer(visit(6, want("one", 10, 20)))
    assert len(site.answers(vote(1, want("one", 5, 15)))) == 1
    assert site.states(5) == ["held"]


def test_a_promise_made_while_the_agent_is_asked_stands(site: AgentSite) -> None:
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    site.receive(prepare(5, *site.ids(5)))
    (send,) = site.end(errand, YES).sends
    assert isinstance(send.message, m.Visited)
    assert send.message.vote == "no"
    assert site.states(5) == ["prepared"]


def test_a_hold_released_while_the_agent_is_asked_leaves_room(site: AgentSite) -> None:
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    site.receive(m.Release(rid=rid(5), att=1))
    (send,) = site.end(errand, NO).sends
    assert isinstance(send.message, m.Visited)
    assert send.message.vote == "yes"


def test_several_holders_are_asked_at_once_and_all_must_give_back() -> None:
    for second in (YES, NO):
        site = site_with_holder()
        site.hold_by_agent(dispatch(6, source=KIND, over=starts(10, 10)), [0])
        asked = recalls_of(site, vote(1, want("one", 5, 15)))
        assert sorted(each.rid for each in asked) == [rid(5), rid(6)]
        assert not site.end(asked[0], YES).sends
        sends = site.end(asked[1], second).sends
        given = second is YES
        assert len(sends) == (3 if given else 1)
        assert (site.stake(5) is None) == (site.stake(6) is None) == given


def test_no_more_than_four_slots_are_asked_back() -> None:
    for count in (4, 5):
        site = AgentSite()
        message = dispatch(5, ask("one", 2), source=KIND, over=starts(0, 40, 2))
        site.hold_by_agent(message, list(range(count)))
        effects = site.receive(vote(1, want("one", 0, 20)))
        assert len(effects.errands) == (4 if count == 4 else 0)
        assert len(effects.sends) == (0 if count == 4 else 1)


def test_the_youngest_are_asked_first_and_no_more_than_needed() -> None:
    site = AgentSite()
    for number in (5, 6, 7):
        site.hold_by_agent(dispatch(number, ask("pool"), source=KIND, over=starts(0, 0)), [0])
    asked = recalls_of(site, vote(1, want("pool", 0, 10, 2)))
    assert [each.rid for each in asked] == [rid(7), rid(6)]


def test_when_nothing_useful_remains_all_holds_go() -> None:
    site = AgentSite()
    asks = (ask("one", term=0), ask("two", term=1))
    report = site.hold_by_agent(dispatch(5, *asks, source=KIND, over=starts(0, 0)), [0, 1])
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    told = site.end(errand, YES).sends[0].message
    assert isinstance(told, m.Renewed)
    assert set(told.lost) == {slot.hold_id for slot in report.held}
    assert told.kept == ()
    assert site.stake(5) is None
    assert site.free("two", 0, 10) == 1


def test_a_visit_that_waits_is_not_answered_twice_and_ends_with_its_attempt() -> None:
    site = site_with_holder()
    (errand,) = recalls_of(site, vote(1, want("one", 0, 10)))
    assert not site.receive(vote(1, want("one", 0, 10)))
    site.receive(abort(1))
    assert not site.end(errand, YES)
    assert site.states(5) == ["held"]
    assert not site.visiting.recalls


def test_a_newer_attempt_takes_the_place_of_one_that_waits(site: AgentSite) -> None:
    (first,) = recalls_of(site, vote(1, want("one", 0, 10)))
    (second,) = recalls_of(site, vote(1, want("one", 0, 10), att=2))
    assert not site.end(first, YES)
    assert isinstance(site.answer(vote(1, want("one", 0, 10))), m.Stale)
    assert len(site.end(second, YES).sends) == 2


def test_a_holder_that_is_being_asked_is_not_asked_by_another(site: AgentSite) -> None:
    (errand,) = recalls_of(site, vote(2, want("one", 0, 10)))
    assert len(site.answers(vote(1, want("one", 0, 10)))) == 1
    assert len(site.end(errand, YES).sends) == 2


def test_an_agents_choice_that_was_taken_by_a_younger_one_is_asked_back_once() -> None:
    for outcome in (YES, NO):
        site = AgentSite()
        older = site.send(dispatch(1))
        site.hold_by_agent(dispatch(5, ask("one", 40), source=KIND, over=starts(0, 0)), [0])
        effects = site.end(older, RunOutcome("ok", [1]))
        assert not effects.sends
        (asked,) = effects.errands
        assert asked.job.function == "recall"
        after = site.end(asked, outcome)
        if outcome is YES:
            assert times(own_of_last(after.sends[-1].message)) == [10]
            assert site.stake(5) is None
        else:
            report = after.sends[0].message
            assert isinstance(report, m.Report)
            assert report.sites[0].refusals[0].code == RefusalCode.BUSY
            assert site.states(5) == ["held"]


def own_of_last(message: m.Message) -> tuple[HeldChoice, ...]:
    assert isinstance(message, m.Report)
    return message.sites[0].held


def test_the_users_own_older_request_may_ask_as_well() -> None:
    site = AgentSite()
    site.hold_by_agent(dispatch(5, source=KIND, principal=ANN), [0])
    assert len(recalls_of(site, vote(1, want("one", 0, 10)))) == 1
