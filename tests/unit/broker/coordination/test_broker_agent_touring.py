"""An agent's rounds, told by a coordinator with a real register; sites are played by hand."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace
from tests.protocol_broker import START, WANTS, new_register
from tests.protocol_support import ANN
from touring_support import (
    OTHER_SCRIPT,
    OTHER_SOURCE,
    SCRIPT,
    SOURCE,
    AgentBroker,
    asked,
    held,
    offered,
    prepared,
    says,
)

from kalends.broker.coordination.agents.agent_dispatch import UNKNOWN_MAX, ClientWord
from kalends.broker.coordination.agents.agent_events import LEFT_MAX
from kalends.broker.coordination.agents.itinerary import AGREE_MAX, TOURS_MAX
from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.coordination.transaction_table import REQUEST_MS_MAX
from kalends.broker.coordination.user_calls import DRAINED
from kalends.broker.coordination.voting.prepare_phase import HOLD_MS
from kalends.contract import messages as m
from kalends.core.errors import LimitExceeded, Refusal, RefusalCode
from kalends.core.limits import AGENT_MESSAGES_MAX, OFFERS_MAX
from kalends.core.scripts import RunCode


@pytest.fixture
def broker() -> AgentBroker:
    broker = AgentBroker()
    broker.sent()
    return broker


@pytest.fixture
def rid(broker: AgentBroker) -> str:
    """Of an agent that is on its way."""
    return broker.send_agent()


# The visit


def test_every_site_is_visited_with_its_own_asks_and_the_source_of_the_script(
    broker: AgentBroker,
) -> None:
    broker.send_agent("here/one:2 + there/one")
    sent = broker.dispatches()
    assert set(sent) == {"here", "there"}
    (ask,) = sent["here"].asks
    assert (ask.term, ask.resource, ask.units, ask.length_s) == (0, "here/one", 2, 60)
    (ask,) = sent["there"].asks
    assert (ask.term, ask.resource, ask.units) == (1, "there/one", 1)
    for dispatch in sent.values():
        assert (dispatch.script, dispatch.source) == (SCRIPT, SOURCE)
        assert (dispatch.round, dispatch.text) == (1, "here/one:2 + there/one")
        assert (dispatch.starts.first, dispatch.starts.last) == (START, START + 540)
        assert dispatch.starts.step_s == 1
        assert {part.site for part in dispatch.parts} == {"here", "there"}
        assert dispatch.need == 2


def test_every_visit_is_one_that_a_site_takes(broker: AgentBroker) -> None:
    text = " + ".join(f"here/one @+{number + 100}h for 1m" for number in range(32))
    request = asked(text, 200 * 3_600)
    spec = Spec(request, text * 10, agent="mine", script=SCRIPT)
    broker.coordinator.calls.submit(
        ANN, "the-key-of-it", "digest", spec, 1, broker.now, source=SOURCE
    )
    broker.settle()
    (dispatch,) = broker.dispatches().values()
    frame = m.FrameToSite(2, "npaci-1", 1, [dispatch])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=m.FrameToSite) == frame
    assert len(dispatch.asks) == 32


def test_where_the_slots_are_given_the_agent_stays_at_home(broker: AgentBroker) -> None:
    spec = Spec(asked("here/one + there/one"), wants=WANTS, agent="mine", script=SCRIPT)
    rid = broker.coordinator.calls.submit(
        ANN, "the-key-of-it", "digest", spec, 1, broker.now, source=SOURCE
    )
    broker.settle()
    assert {type(each).__name__ for _, each in broker.sent()} == {"Visit"}
    broker.visited(rid)
    view = broker.answers[1]
    assert (view.state, view.agent) == ("reserved", "mine")
    assert "no choice" in broker.row(rid).trail[0].detail


def test_a_script_travels_once_in_a_session(broker: AgentBroker) -> None:
    broker.send_agent(key="key-number-1")
    broker.sent()
    broker.send_agent(key="key-number-2")
    assert {dispatch.source for dispatch in broker.dispatches().values()} == {""}
    broker.greet("here")
    again = [each.source for _, each in broker.sent() if isinstance(each, m.Dispatch)]
    assert again == [SOURCE, ""]


def test_the_grid_is_on_every_grain_and_no_finer_than_a_visit_can_offer(
    broker: AgentBroker,
) -> None:
    broker.greet("here", grain_s=60)
    broker.greet("there", grain_s=40)
    broker.sent()
    broker.send_agent("{kind=x} + {kind=x}", window_s=86_400)
    for dispatch in broker.dispatches().values():
        starts = dispatch.starts
        count = (starts.last - starts.first) // starts.step_s + 1
        assert starts.step_s % 120 == 0
        assert starts.first % 120 == 0
        assert count * len(dispatch.asks) <= OFFERS_MAX


def test_without_an_end_the_first_weeks_are_shown(broker: AgentBroker) -> None:
    broker.send_agent("here/one + there/one", window_s=-START)
    for dispatch in broker.dispatches().values():
        assert 13 * 86_400 <= dispatch.starts.last - dispatch.starts.first <= 14 * 86_400
        assert (dispatch.starts.last - dispatch.starts.first) // dispatch.starts.step_s < OFFERS_MAX


def test_sites_that_are_near_share_a_visit(broker: AgentBroker) -> None:
    broker.greet("here", near=("there", "elsewhere"))
    broker.greet("there", near=("here",))
    broker.sent()
    rid = broker.send_agent()
    ((to, dispatch),) = broker.dispatches().items()
    assert to == "here"
    (stop,) = dispatch.near
    assert (stop.site, stop.asks[0].resource) == ("there", "there/one")
    there = broker.sealed(rid, says("there", held("there/one", 0, term=1)))
    broker.report(rid, says("here", held("here/one", 0)), there)
    assert broker.case(rid).phase == "preparing"


def test_what_a_near_site_has_not_answered_is_asked_of_it_directly(broker: AgentBroker) -> None:
    broker.greet("here", near=("there",))
    broker.greet("there", near=("here",))
    broker.sent()
    rid = broker.send_agent()
    broker.sent()
    broker.report(rid, says("here", held("here/one", 0)))
    ((to, dispatch),) = broker.dispatches().items()
    assert (to, dispatch.source, dispatch.near) == ("there", SOURCE, ())
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    assert broker.case(rid).phase == "preparing"


def test_a_near_site_that_could_not_be_reached_is_asked_directly(broker: AgentBroker) -> None:
    broker.greet("here", near=("there",))
    broker.greet("there", near=("here",))
    rid = broker.send_agent()
    broker.sent()
    down = Refusal(where="there", code=RefusalCode.SITE_DOWN, detail="it does not answer")
    broker.report(rid, says("here"), says("there", refusals=(down,)))
    assert set(broker.dispatches()) == {"there"}
    assert broker.case(rid).phase == "touring"


def test_when_the_way_to_a_near_site_is_lost_it_is_visited_directly(broker: AgentBroker) -> None:
    broker.greet("there", near=("here",))
    broker.greet("here", near=("there",))
    broker.send_agent()
    broker.sent()
    broker.coordinator.site_lost("there", "gone")
    broker.advance(1_500)
    assert "here" in broker.dispatches()


# What is held by all


def test_the_start_that_all_hold_is_promised_and_reserved(broker: AgentBroker, rid: str) -> None:
    broker.sent()
    broker.report(
        rid, says("here", held("here/one", 0, hold_id=1), held("here/one", 60, hold_id=2))
    )
    assert broker.case(rid).phase == "touring"
    broker.report(
        rid,
        says("there", held("there/one", 60, term=1, hold_id=3), held("there/one", 120, term=1)),
    )
    assert prepared(broker) == {"here": (2,), "there": (3,)}
    broker.voted(rid)
    row = broker.row(rid)
    assert row.state == "commit"
    assert row.chosen == {"here": (2,), "there": (3,)}
    view = broker.answers[1]
    assert (view.state, view.start, view.end) == ("reserved", START + 60, START + 120)
    assert (view.agent, view.script) == ("mine", SCRIPT)


def test_the_better_preference_wins_over_the_earlier_start(broker: AgentBroker, rid: str) -> None:
    late = [held("here/one", 120), held("here/one", 0)]
    broker.report(rid, says("here", *late))
    broker.report(rid, says("there", held("there/one", 120, term=1), held("there/one", 0, term=1)))
    assert broker.row(rid).att == 1
    assert {want.start for want in broker.case(rid).record.wants} == {START + 120}


def test_n_of_k_takes_different_resources_and_lets_the_other_sites_go(broker: AgentBroker) -> None:
    rid = broker.send_agent("2 of {kind=x}")
    broker.sent()
    broker.report(
        rid, says("here", held("here/two", 0, hold_id=1), held("here/three", 0, hold_id=2))
    )
    broker.report(rid, says("there", held("there/one", 60), held("there/two", 60)))
    sent = broker.sent()
    assert ("there", m.Release(rid=rid, att=1)) in sent
    (prepare,) = [message for _, message in sent if isinstance(message, m.Prepare)]
    assert prepare.hold_ids == (1, 2)
    assert [part.site for part in prepare.parts] == ["here"]
    assert prepare.need == 1
    broker.receive("here", m.Voted(rid=rid, att=1, epoch=1, vote="yes"))
    assert set(broker.row(rid).chosen) == {"here"}


def test_two_terms_over_two_sites_share_no_resource(broker: AgentBroker) -> None:
    rid = broker.send_agent("{kind=x} + {kind=x}:2")
    broker.report(
        rid,
        says(
            "here", held("here/one", 0, hold_id=1), held("here/one", 0, term=1, units=2, hold_id=2)
        ),
    )
    broker.report(rid, says("there", held("there/one", 0, hold_id=3)))
    assert prepared(broker) == {"here": (2,), "there": (3,)}


def test_a_hold_keeps_one_start_and_gives_the_rest_up(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=600)
    broker.sent()
    broker.report(
        rid, says("here", held("here/one", 0, hold_id=1), held("here/one", 60, hold_id=2))
    )
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=3)))
    given_up = ("here", m.Release(rid=rid, att=1, hold_ids=(2,)))
    renewed = [
        (site, m.Renew(rid=rid, att=1, hold_ids=(hold_id,), hold_ms=HOLD_MS, considered=True))
        for site, hold_id in (("here", 1), ("there", 3))
    ]
    assert broker.sent() == [given_up, *renewed], "sites learn at once what is chosen"
    assert broker.answers[1].state == "held"
    assert broker.events == ["agent", "agent", "held"]
    broker.advance(10_000)
    assert given_up in broker.sent()
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=1, kept=(1,)))
    broker.advance(10_000)
    assert given_up not in broker.sent(), "it has been heard"
    broker.lock(rid, 2)
    assert prepared(broker) == {"here": (1,), "there": (3,)}
    broker.voted(rid)
    assert broker.answers[2].state == "reserved"


def test_what_was_given_back_besides_the_hold_changes_nothing(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=600)
    broker.report(
        rid, says("here", held("here/one", 0, hold_id=1), held("here/one", 60, hold_id=2))
    )
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=3)))
    broker.sent()
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=1, kept=(1,), lost=(2,)))
    assert broker.case(rid).phase == "held"
    assert broker.sent() == []


def test_a_hold_that_is_lost_is_asked_for_again_where_it_was(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=600)
    broker.report(rid, says("here", held("here/one", 0, hold_id=1)))
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=3)))
    broker.sent()
    broker.receive("here", m.Renewed(rid=rid, att=1, epoch=2, lost=(1,)))
    visits = {to: message for to, message in broker.sent() if isinstance(message, m.Visit)}
    assert {visit.wants[0].start for visit in visits.values()} == {START}
    assert broker.case(rid).record.att == 2


def test_a_promise_that_is_refused_leads_to_another_round_without_that_start(
    broker: AgentBroker,
    rid: str,
) -> None:
    for att in (1, 2):
        broker.report(rid, says("here", held("here/one", 0), held("here/one", 60)), att=att)
        broker.report(
            rid, says("there", held("there/one", 0, term=1), held("there/one", 60, term=1)), att=att
        )
        assert {want.start for want in broker.case(rid).record.wants} == {START + 60 * (att - 1)}
        busy = Refusal(where="here/one", code=RefusalCode.BUSY, detail="taken")
        broker.receive("here", m.Voted(rid=rid, att=att, epoch=1, vote="no", refusals=(busy,)))
    assert broker.case(rid).record.att == 3


# Nothing in common


def test_the_next_round_is_about_starts_that_all_offered_the_most_wished_first(
    broker: AgentBroker,
    rid: str,
) -> None:
    broker.report(
        rid,
        says(
            "here", held("here/one", 0), offers=[offered("here/one", (0, 300))],
            wished=(0, 200, 290),
        ),
    )  # fmt: skip
    broker.sent()
    broker.report(
        rid,
        says(
            "there", held("there/one", 400, term=1),
            offers=[offered("there/one", (150, 500), term=1)], wished=(400, 290, 200),
        ),
    )  # fmt: skip
    sent = broker.sent()
    assert ("here", m.Decide(rid=rid, att=1, outcome="abort")) in sent
    dispatches = {to: each for to, each in sent if isinstance(each, m.Dispatch)}
    assert set(dispatches) == {"here", "there"}
    only = {each.starts.only for each in dispatches.values()}
    (starts,) = only
    assert {START + 200, START + 290} <= set(starts) <= {START + each for each in range(150, 301)}
    assert {(each.att, each.round) for each in dispatches.values()} == {(2, 2)}
    broker.report(rid, says("here", held("here/one", 200, hold_id=1)), att=2)
    broker.report(rid, says("there", held("there/one", 200, term=1, hold_id=2)), att=2)
    assert prepared(broker) == {"here": (1,), "there": (2,)}


def test_where_nothing_is_offered_by_all_the_planner_looks_by_itself(broker: AgentBroker) -> None:
    rid = broker.send_agent()
    broker.report(rid, says("here", held("here/one", 0), offers=[offered("here/one", (0, 60))]))
    broker.sent()
    broker.report(
        rid,
        says(
            "there",
            held("there/one", 300, term=1),
            offers=[offered("there/one", (300, 300), term=1)],
        ),
    )
    sent = broker.sent()
    assert {type(each).__name__ for _, each in sent} == {"Decide", "Query"}
    assert broker.row(rid).att == 2
    assert broker.case(rid).phase == "looking"


def disagreeing_rounds(
    broker: AgentBroker, here: Sequence[int], there: Sequence[int], *, code: RunCode = "ok",
    rounds: int = AGREE_MAX,
) -> str:  # fmt: skip
    """Rounds of an agent that holds 0 here and 60 there, and prefers the starts that are given."""
    rid = broker.send_agent()
    for att in range(1, rounds + 1):
        assert broker.case(rid).phase == "touring"
        of_here = says(
            "here", held("here/one", 0), offers=[offered("here/one", (0, 500))], wished=here
        )
        broker.report(rid, of_here, att=att)
        broker.sent()
        of_there = says(
            "there", held("there/one", 60, term=1), wished=there, code=code,
            offers=[offered("there/one", (0, 500), term=1)],
        )  # fmt: skip
        broker.report(rid, of_there, att=att)
    return rid


def test_what_the_agent_leaves_out_to_the_last_round_is_not_booked(broker: AgentBroker) -> None:
    disagreeing_rounds(broker, [0, 10], [60, 70])
    failed = broker.answers[1]
    assert failed.state == "failed"
    assert failed.problem is not None
    assert failed.problem.code == "no-common-time"
    assert [(each.where, each.code) for each in failed.problem.refusals] == [
        ("here", RefusalCode.NOT_CHOSEN), ("there", RefusalCode.NOT_CHOSEN),
    ]  # fmt: skip


def test_an_agent_that_chooses_nothing_says_no(broker: AgentBroker) -> None:
    rid = broker.send_agent("here/one")
    for att in (1, 2, 3):
        broker.report(rid, says("here", offers=[offered("here/one", (0, 500))], wished=()), att=att)
    problem = broker.answers[1].problem
    assert problem is not None
    assert "chose none" in problem.refusals[0].detail


def test_what_it_chose_and_others_took_every_time_is_a_lost_race(broker: AgentBroker) -> None:
    disagreeing_rounds(broker, [0, 10, 200], [60, 70, 200], rounds=TOURS_MAX)
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "lost-race"


def test_where_a_run_has_failed_all_that_is_offered_counts_as_chosen(broker: AgentBroker) -> None:
    disagreeing_rounds(broker, [0, 10], [], code="agent-error", rounds=TOURS_MAX)
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "lost-race"


def test_why_there_is_nothing_is_told_by_the_planner(broker: AgentBroker, rid: str) -> None:
    unknown = Refusal(where="here/one", code=RefusalCode.UNKNOWN_RESOURCE, detail="no such thing")
    broker.report(rid, says("here", refusals=(unknown,)))
    broker.report(rid, says("there"))
    broker.shows()
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "no-common-time"


# What goes wrong


def test_a_failed_run_is_told_and_the_default_counts(broker: AgentBroker, rid: str) -> None:
    broker.report(
        rid,
        says(
            "here", held("here/one", 0), code="agent-error", line=7,
            detail="ZeroDivisionError: division\nby zero",
        ),
    )  # fmt: skip
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    broker.voted(rid)
    assert broker.answers[1].state == "reserved"
    told = [event.detail for event in broker.row(rid).trail if event.kind == "agent"]
    assert told == [
        "round 1, here: agent-error in line 7: ZeroDivisionError: division by zero;"
        " the default chose; 1 slot held",
        "round 1, there: the agent chose; 1 slot held",
    ]


def test_a_site_that_has_forgotten_the_script_is_sent_it_again(broker: AgentBroker) -> None:
    broker.send_agent(key="key-number-1")
    rid = broker.send_agent(key="key-number-2")
    broker.sent()
    broker.report(rid, says("here", code="unknown-script"))
    ((to, dispatch),) = broker.dispatches().items()
    assert (to, dispatch.source) == ("here", SOURCE)
    broker.report(rid, says("here", code="unknown-script"))  # said again before it was heard
    broker.report(rid, says("here", held("here/one", 0)))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    assert broker.case(rid).phase == "preparing"


def test_a_site_that_never_learns_the_script_does_not_stop_the_others(broker: AgentBroker) -> None:
    rid = broker.send_agent("2 of {kind=x}")
    for _ in range(UNKNOWN_MAX + 1):
        broker.report(rid, says("here", code="unknown-script"))
    broker.report(rid, says("there", held("there/one", 0), held("there/two", 0)))
    assert broker.case(rid).phase == "preparing"


def test_a_site_is_not_believed_about_others_nor_about_what_was_not_asked(
    broker: AgentBroker,
) -> None:
    rid = broker.send_agent("{kind=x} + there/one")
    broker.sent()
    lies = (
        held("there/one", 0, term=1),
        held("there/two", 0),
        held("here/two", 0, units=3),
        held("here/one", 0, term=1),
        held("here/two", 5_000),
    )
    broker.report(rid, says("here", *lies), says("there", held("there/one", 0, term=1)))
    assert broker.case(rid).phase == "touring"
    assert prepared(broker) == {}
    tour = broker.case(rid).agent.tour
    assert tour is not None
    assert tour.reports["here"].held == ()
    assert set(tour.reports) == {"here"}


def test_reports_of_strangers_of_other_attempts_and_twice_change_nothing(
    broker: AgentBroker,
    rid: str,
) -> None:
    broker.report(rid, says("here", held("here/one", 0, hold_id=1)))
    broker.report(rid, says("here", held("here/one", 60, hold_id=2)))
    broker.report(rid, says("there", held("there/one", 60, term=1)), source="silent")
    broker.report(rid, says("there", held("there/one", 60, term=1)), att=7)
    broker.report("0" * 36, says("there", held("there/one", 60, term=1)))
    assert broker.case(rid).phase == "touring"
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=3)))
    assert prepared(broker) == {"here": (1,), "there": (3,)}
    broker.report(rid, says("there", held("there/one", 60, term=1)))
    assert broker.case(rid).phase == "preparing"


def test_who_does_not_answer_is_visited_again_and_then_done_without(broker: AgentBroker) -> None:
    rid = broker.send_agent("2 of {kind=x}")
    broker.report(rid, says("here", held("here/one", 0), held("here/two", 0)))
    broker.sent()
    broker.advance(2_000)
    assert set(broker.dispatches()) == {"there"}
    broker.advance(10_000)
    assert ("there", m.Release(rid=rid, att=1)) in broker.sent()
    assert broker.case(rid).phase == "preparing"


def test_when_the_silent_one_is_needed_the_planner_says_so(broker: AgentBroker, rid: str) -> None:
    broker.report(rid, says("here", held("here/one", 0), offers=[offered("here/one", (0, 60))]))
    broker.advance(10_500)
    assert broker.case(rid).phase == "looking"
    broker.advance(60_000)
    problem = broker.answers[1].problem
    assert problem is not None
    assert "there" in {refusal.where for refusal in problem.refusals}


def test_a_site_that_restarts_is_visited_again_whatever_it_had_reported(
    broker: AgentBroker,
    rid: str,
) -> None:
    broker.report(rid, says("here", held("here/one", 0, hold_id=1)))
    broker.sent()
    broker.greet("here", epoch=2)
    assert set(broker.dispatches()) == {"here"}
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=3)))
    assert broker.case(rid).phase == "touring"
    broker.report(rid, says("here", held("here/one", 0, hold_id=2), epoch=2))
    assert prepared(broker) == {"here": (2,), "there": (3,)}


def test_a_site_that_is_merely_connected_again_keeps_its_report(broker: AgentBroker) -> None:
    rid = broker.send_agent()
    broker.report(rid, says("here", held("here/one", 0, hold_id=1)))
    broker.sent()
    broker.greet("here")
    assert broker.dispatches() == {}


def test_no_agent_goes_where_there_is_nothing_to_choose(broker: AgentBroker) -> None:
    broker.send_agent("here/one + silent/one")
    broker.advance(REQUEST_MS_MAX)
    assert broker.dispatches() == {}
    assert broker.answers[1].state == "failed"


def test_without_its_script_a_request_goes_on_without_its_agent(broker: AgentBroker) -> None:
    rid = broker.send_agent(script="0" * 64)
    assert {type(each).__name__ for _, each in broker.sent()} == {"Query"}
    assert "no longer stored" in broker.case(rid).record.trail[0].detail


# Ends


def test_a_release_while_the_agent_is_away_ends_it(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=60)
    broker.sent()
    broker.release(rid, 2)
    assert broker.answers[2].state == "cancelled"
    assert broker.sent() == [
        (site, m.Decide(rid=rid, att=1, outcome="abort")) for site in ("here", "there")
    ]
    broker.report(rid, says("here", held("here/one", 0)))
    assert rid not in broker.coordinator.cases


def test_a_lock_while_the_agent_is_away_reserves_what_it_chooses(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=60)
    broker.lock(rid, 2)
    broker.sent()
    broker.report(rid, says("here", held("here/one", 0, hold_id=1)))
    broker.report(rid, says("there", held("there/one", 0, term=1, hold_id=2)))
    assert prepared(broker) == {"here": (1,), "there": (2,)}


def test_a_stale_round_ends_where_another_replica_has_gone_on() -> None:
    shared = new_register()
    first = AgentBroker(shared, name="a")
    rid = first.send_agent()
    second = AgentBroker(shared, name="b")
    second.sent()
    second.adopt(rid)
    dispatches = second.dispatches()
    assert {(each.att, each.round, each.source) for each in dispatches.values()} == {(2, 1, SOURCE)}
    first.receive("here", m.Stale(rid=rid, att=1, seen=2))
    assert rid not in first.coordinator.cases
    second.report(rid, says("here", held("here/one", 0, hold_id=1)), att=2)
    second.report(rid, says("there", held("there/one", 0, term=1, hold_id=2)), att=2)
    second.voted(rid, att=2)
    assert second.row(rid).state == "commit"


def test_a_take_over_goes_on_with_the_round_that_was_reached() -> None:
    shared = new_register()
    first = AgentBroker(shared, name="a")
    rid = first.send_agent()
    first.report(rid, says("here", offers=[offered("here/one", (0, 60))]))
    first.report(rid, says("there", offers=[offered("there/one", (30, 90), term=1)]))
    only = first.row(rid).agent.only
    assert only
    second = AgentBroker(shared, name="b")
    second.sent()
    second.adopt(rid)
    assert {(each.round, each.starts.only) for each in second.dispatches().values()} == {(2, only)}


def test_a_stale_answer_to_a_live_round_begins_another_attempt(broker: AgentBroker) -> None:
    rid = broker.send_agent()
    broker.receive("here", m.Stale(rid=rid, att=1, seen=1))
    assert broker.case(rid).record.att == 2


def test_a_request_that_was_deleted_meanwhile_keeps_its_source(broker: AgentBroker) -> None:
    rid = broker.send_agent()
    rows = broker.register.execute("select hash, source from script").fetchall()
    assert rows == [(SCRIPT, SOURCE)]
    broker.report(rid, says("here", held("here/one", 0)))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    broker.voted(rid)
    assert broker.register.execute("select count(*) from script").fetchone() == (0,)
    assert broker.register.execute("select count(*) from script_use").fetchone() == (0,)


# Messages to and fro


def test_what_the_agent_leaves_is_shown_to_its_client_and_only_plain_data_of_good_runs(
    broker: AgentBroker,
    rid: str,
) -> None:
    broker.report(
        rid, says("here", held("here/one", 0), sent=('{"price": 3}', "not json", "1e999", "[" * 50))
    )
    broker.report(
        rid, says("there", held("there/one", 0, term=1), code="limit-steps", sent=('"no"',))
    )
    broker.voted(rid)
    (note,) = broker.answers[1].notes
    assert (note.site, note.value) == ("here", {"price": 3})
    assert "left 1 message" in broker.row(rid).trail[0].detail


def test_what_is_left_is_bounded(broker: AgentBroker, rid: str) -> None:
    for att in (1, 2, 3):
        for site, term in (("here", 0), ("there", 1)):
            sent = tuple(f'"{att} {site} {n} {"x" * 4_000}"' for n in range(AGENT_MESSAGES_MAX))
            run = [offered(f"{site}/one", (0, 60), term=term)]
            broker.report(rid, says(site, offers=run, sent=sent), att=att)
    left = broker.row(rid).agent.left
    assert len(left) <= LEFT_MAX
    assert sum(len(each.text) for each in left) <= 65_536
    assert left[-1].text.startswith('"3 there 15')


def tell(broker: AgentBroker, rid: str, message: str, key: str = "tell-key-1") -> bool:
    row = broker.row(rid)
    told = broker.coordinator.calls.tell_agent(row, ClientWord(key, "digest", message), broker.now)
    broker.settle()
    return told


def test_a_message_reaches_the_agent_in_its_next_round_once(broker: AgentBroker, rid: str) -> None:
    assert tell(broker, rid, '"cheaper"')
    assert tell(broker, rid, '"cheaper"')  # the same key
    assert broker.row(rid).agent.inbox == ('"cheaper"',)
    for att, inbox in ((1, ('"cheaper"',)), (2, ())):
        broker.report(rid, says("here", offers=[offered("here/one", (0, 60))]), att=att)
        broker.sent()
        broker.report(rid, says("there", offers=[offered("there/one", (0, 60), term=1)]), att=att)
        assert {each.inbox for each in broker.dispatches().values()} == {inbox}


def test_only_so_many_messages_wait(broker: AgentBroker, rid: str) -> None:
    for number in range(AGENT_MESSAGES_MAX):
        assert tell(broker, rid, str(number), f"tell-key-{number}")
    with pytest.raises(LimitExceeded):
        tell(broker, rid, '"more"', "tell-key-more")
    assert len(broker.row(rid).agent.inbox) == AGENT_MESSAGES_MAX


def test_another_agent_goes_on_from_the_next_round(broker: AgentBroker, rid: str) -> None:
    row = broker.row(rid)
    spec = row.spec.__class__(row.spec.request, row.spec.text, agent="other", script=OTHER_SCRIPT)
    other = ClientWord("tell-key-1", "digest", spec=spec, source=OTHER_SOURCE)
    assert broker.coordinator.calls.tell_agent(row, other, broker.now)
    broker.settle()
    kept = {row[0] for row in broker.register.execute("select hash from script")}
    assert kept == {SCRIPT, OTHER_SCRIPT}
    broker.report(rid, says("here", offers=[offered("here/one", (0, 60))]))
    broker.sent()
    broker.report(rid, says("there", offers=[offered("there/one", (0, 60), term=1)]))
    sent = broker.dispatches().values()
    assert {(each.script, each.source) for each in sent} == {(OTHER_SCRIPT, OTHER_SOURCE)}


def test_between_two_attempts_the_agent_is_told_later(broker: AgentBroker, rid: str) -> None:
    broker.at_once = False
    broker.report(rid, says("here", offers=[offered("here/one", (0, 60))]))
    broker.report(rid, says("there", offers=[offered("there/one", (0, 60), term=1)]))
    assert broker.case(rid).phase == "raising"
    assert not tell(broker, rid, '"wait"')
    broker.write()
    assert tell(broker, rid, '"now"')
    broker.write()
    assert broker.row(rid).agent.inbox == ('"now"',)


def test_a_word_to_the_agent_does_not_tell_of_a_hold_before_it_is_written(
    broker: AgentBroker,
) -> None:
    rid = broker.send_agent(hold_s=60)
    broker.at_once = False
    assert tell(broker, rid, '"hello"')
    broker.report(rid, says("here", held("here/one", 0)))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    broker.write(1)
    assert 1 not in broker.answers
    broker.write()
    assert broker.answers[1].state == "held"


def test_a_draining_broker_finishes_its_rounds(broker: AgentBroker, rid: str) -> None:
    broker.coordinator.calls.drained_until_s = DRAINED
    broker.report(rid, says("here", held("here/one", 0)))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    broker.voted(rid)
    assert broker.answers[1].state == "reserved"


def test_a_site_on_the_way_that_has_forgotten_the_script_still_passes_it_on(
    broker: AgentBroker,
) -> None:
    broker.greet("here", near=("there",))
    broker.greet("there", near=("here",))
    rid = broker.send_agent()
    broker.sent()
    broker.report(rid, says("here", code="unknown-script"))
    ((to, dispatch),) = broker.dispatches().items()
    assert (to, dispatch.source, [stop.site for stop in dispatch.near]) == (
        "here",
        SOURCE,
        ["there"],
    )
    for _ in range(UNKNOWN_MAX):
        broker.report(rid, says("here", code="unknown-script"))
    broker.sent()
    broker.advance(2_000)
    assert set(broker.dispatches()) == {"there"}


# Whether it must run


def test_where_an_agent_fails_the_answer_names_the_site_and_the_default_has_chosen(
    broker: AgentBroker,
    rid: str,
) -> None:
    broker.report(rid, says("here", held("here/one", 0), code="error", line=3))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    assert broker.case(rid).phase == "preparing"
    assert broker.case(rid).record.agent.failed == ("here",)


def test_an_agent_that_must_run_and_fails_books_nothing(broker: AgentBroker) -> None:
    rid = broker.send_agent(must_run=True)
    broker.report(rid, says("here", held("here/one", 0), code="error", detail="oh", line=3))
    broker.report(rid, says("there", held("there/one", 0, term=1)))
    view = broker.answers[1]
    assert view.state == "failed"
    assert view.problem is not None
    assert view.problem.code == "conflict"
    assert [each.where for each in view.problem.refusals] == ["here"]
    assert "line 3: oh" in view.problem.refusals[0].detail
    ended = {to: each.outcome for to, each in broker.sent() if isinstance(each, m.Decide)}
    assert ended == {"here": "abort", "there": "abort"}


def test_an_agent_that_must_run_is_not_done_without_where_there_is_nothing_to_choose(
    broker: AgentBroker,
) -> None:
    request = replace(asked("here/one + there/one"), agent="mine", agent_must_run=True)
    spec = Spec(request, wants=WANTS, agent="mine", script=SCRIPT)
    broker.coordinator.calls.submit(
        ANN, "the-key-of-it", "digest", spec, 1, broker.now, source=SOURCE
    )
    broker.settle()
    assert broker.answers[1].state == "failed"
    assert not [each for _, each in broker.sent() if isinstance(each, m.Visit | m.Dispatch)]
    broker.send_agent(must_run=True, key="key-number-2", ticket=2, script="a" * 64)
    assert broker.answers[2].state == "failed"
