"""A near site answers for all of its region: what a broker believes of that, and what it asks besides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.protocol_broker import START
from touring_support import AgentBroker, held, offered, prepared, says

from kalends.broker.coordination.agents.itinerary import TOURS_MAX
from kalends.contract import messages as m


@pytest.fixture
def broker() -> AgentBroker:
    """Sites ``here`` and ``there`` are near each other, ``yonder`` is not."""
    broker = AgentBroker()
    broker.greet("here", near=("there",))
    broker.greet("there", near=("here",))
    broker.directory.add("yonder", "http://yonder", leaving=False)
    broker.greet("yonder")
    broker.sent()
    return broker


@pytest.fixture
def rid(broker: AgentBroker) -> str:
    return broker.send_agent()


HERE = says("here", held("here/one", 60, hold_id=1), held("here/one", 0, hold_id=2))
THERE = says(
    "there",
    held("there/one", 120, term=1, hold_id=11),
    held("there/one", 0, term=1, hold_id=12),
    held("there/one", 60, term=1, hold_id=13),
)


def details(broker: AgentBroker, rid: str) -> list[str]:
    return [event.detail for event in broker.row(rid).trail]


def test_a_region_is_asked_for_what_only_it_can_serve(broker: AgentBroker) -> None:
    broker.send_agent("here/one + there/one + 2 of {kind=x} + 2 of {kind=x, site=here}")
    sent = broker.dispatches()
    assert sent["here"].meet == ((0, 1), (1, 1), (3, 2))
    assert [stop.site for stop in sent["here"].near] == ["there"]
    assert sent["yonder"].meet == ()


def test_a_site_that_is_visited_alone_is_asked_for_nothing_in_common(broker: AgentBroker) -> None:
    broker.send_agent("here/one + yonder/one")
    assert {dispatch.meet for dispatch in broker.dispatches().values()} == {()}


def test_the_common_start_that_is_best_by_all_ranks_is_promised(
    broker: AgentBroker, rid: str
) -> None:
    broker.sent()
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    assert prepared(broker) == {"here": (2,), "there": (12,)}
    broker.voted(rid)
    assert broker.answers[1].state == "reserved"
    assert broker.row(rid).chosen == {"here": (2,), "there": (12,)}
    assert details(broker, rid)[:3] == [
        "round 1, here: it answered for there, too; 2 starts in common",
        "round 1, here: the agent chose; 2 slots held",
        "round 1, there: the agent chose; 3 slots held",
    ]


def test_what_is_held_besides_is_given_up_though_nobody_has_named_it(broker: AgentBroker) -> None:
    rid = broker.send_agent(hold_s=600)
    broker.sent()
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    assert broker.answers[1].state == "held"
    released = {
        to: message.hold_ids for to, message in broker.sent() if isinstance(message, m.Release)
    }
    assert released == {"here": (1,), "there": (11, 13)}


def test_the_rest_of_the_sites_is_waited_for(broker: AgentBroker) -> None:
    rid = broker.send_agent("here/one + there/one + yonder/one")
    broker.sent()
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    assert broker.case(rid).phase == "touring"
    assert broker.dispatches() == {}
    broker.report(rid, says("yonder", held("yonder/one", 60, term=2, hold_id=21)))
    assert prepared(broker) == {"here": (1,), "there": (13,), "yonder": (21,)}


def test_where_others_hold_no_common_start_each_is_asked_for_all_it_has_to_say(
    broker: AgentBroker,
) -> None:
    rid = broker.send_agent("here/one + there/one + yonder/one")
    broker.sent()
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    yonder = says(
        "yonder",
        held("yonder/one", 180, term=2),
        offers=[offered("yonder/one", (120, 120), (180, 180), term=2)],
    )
    broker.report(rid, yonder)
    asked = broker.dispatches()
    assert {to: (each.near, each.meet) for to, each in asked.items()} == {
        "here": ((), ()),
        "there": ((), ()),
    }
    broker.report(rid, replace(HERE, offered=(offered("here/one", (0, 300)),)))
    there = replace(THERE, offered=(offered("there/one", (0, 300), term=1),))
    broker.report(rid, there)
    again = broker.dispatches()
    assert set(again) == {"here", "yonder"}
    assert again["yonder"].starts.only == (START + 120, START + 180)


LIES: dict[str, Callable[[m.CommonTimes], m.CommonTimes]] = {
    "its seal": lambda told: replace(told, seal="0" * 32),
    "a start": lambda told: replace(
        told,
        sites=(replace(told.sites[0], held=9), told.sites[1]),
        starts=(*told.starts, (told.starts[-1][0] + 60, (((0, 8),), ((0, 0),)))),
    ),
    "another slot": lambda told: replace(
        told, starts=((told.starts[0][0], (((0, 1),), ((0, 0),))), *told.starts[1:])
    ),
    "another number": lambda told: replace(
        told, sites=(told.sites[0], replace(told.sites[1], first=12))
    ),
    "a message": lambda told: replace(
        told, sites=(told.sites[0], replace(told.sites[1], sent=('"buy"',)))
    ),
    "a stranger": lambda told: replace(
        told, sites=(told.sites[0], replace(told.sites[1], site="yonder"))
    ),
    "a place that was not asked for": lambda told: replace(
        told, starts=((told.starts[0][0], (((7, 1),), ((0, 1),))), *told.starts[1:])
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hub_that_lies_is_heard_no_more_and_each_site_is_asked_itself(
    broker: AgentBroker, rid: str, lie: str
) -> None:
    broker.sent()
    broker.answer_together(rid, LIES[lie](broker.common(rid, HERE, THERE)))
    asked = broker.dispatches()
    assert {to: (each.near, each.meet) for to, each in asked.items()} == {
        "here": ((), ()),
        "there": ((), ()),
    }
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    assert broker.case(rid).phase == "touring"
    broker.report(rid, HERE)
    broker.report(rid, THERE)
    assert broker.row(rid).att == 1
    assert prepared(broker) == {"here": (2,), "there": (12,)}


def test_an_answer_without_sense_is_a_refusal_of_the_hub_alone(
    broker: AgentBroker, rid: str
) -> None:
    told = broker.common(rid, HERE, THERE)
    broker.sent()
    broker.answer_together(rid, replace(told, starts=told.starts[::-1]))
    assert set(broker.dispatches()) == {"there"}
    assert broker.alarms[-1] == "here names common starts twice, or in disorder"


def test_a_lie_is_an_alarm(broker: AgentBroker, rid: str) -> None:
    told = broker.common(rid, HERE, THERE)
    broker.alarms.clear()
    broker.answer_together(rid, replace(told, seal="0" * 32))
    assert broker.alarms == ["here answers for near sites what these have not said"]


def test_a_hub_can_at_most_lose_a_time(broker: AgentBroker, rid: str) -> None:
    broker.sent()
    broker.answer_together(
        rid, broker.common(rid, says("here", held("here/one", 60, hold_id=1)), THERE)
    )
    assert prepared(broker) == {"here": (1,), "there": (13,)}


def test_a_report_that_its_site_has_not_proved_is_asked_for_again(
    broker: AgentBroker, rid: str
) -> None:
    broker.sent()
    broker.report(rid, HERE, broker.sealed(rid, THERE, att=2))
    ((to, dispatch),) = broker.dispatches().items()
    assert (to, dispatch.near) == ("there", ())
    broker.report(rid, THERE)
    assert broker.case(rid).phase == "preparing"


def test_the_sites_of_a_silent_hub_are_asked_themselves(broker: AgentBroker, rid: str) -> None:
    broker.sent()
    broker.advance(1_500)
    assert set(broker.dispatches()) == {"here"}
    broker.advance(2_500)
    asked = broker.dispatches()
    assert {to: each.near for to, each in asked.items()} == {"here": (), "there": ()}
    told = broker.common(rid, HERE, THERE)
    broker.answer_together(rid, told)
    assert broker.case(rid).phase == "touring", "too late: it was asked for itself since"
    broker.report(rid, THERE)
    broker.report(rid, HERE)
    assert broker.case(rid).phase == "preparing"


def test_after_a_site_has_restarted_nothing_that_was_answered_for_it_counts(
    broker: AgentBroker,
) -> None:
    rid = broker.send_agent("here/one + there/one + yonder/one")
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    broker.sent()
    broker.greet("there", near=("here",), epoch=2)
    assert set(broker.dispatches()) == {"here", "there"}
    broker.report(rid, says("yonder", held("yonder/one", 0, term=2)))
    assert broker.case(rid).phase == "touring"


def test_an_answer_that_comes_twice_counts_once(broker: AgentBroker) -> None:
    rid = broker.send_agent("here/one + there/one + yonder/one")
    told = broker.common(rid, HERE, THERE)
    broker.sent()
    broker.answer_together(rid, told)
    broker.answer_together(rid, told)
    assert broker.dispatches() == {}


def test_when_the_time_is_over_what_is_known_must_do(broker: AgentBroker) -> None:
    rid = broker.send_agent("here/one + there/one + yonder/one")
    broker.answer_together(rid, broker.common(rid, HERE, THERE))
    broker.report(rid, says("yonder", held("yonder/one", 300, term=2)))
    broker.advance(12_000)
    assert broker.case(rid).record.agent.rounds == TOURS_MAX
