"""Whatever a site answers, it harms no request but its own, and no site but itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs
from serving_support import ManualClock
from tests.protocol_broker import START, Broker
from tests.protocol_support import rid as number_to_rid
from tests.reclaim_world import ReclaimWorld
from tests.support.patience import PATIENCE_S
from tests.unit.broker.test_availability_queries import ADA
from touring_support import AgentBroker, held, says

from kalends.broker.searches.availability_queries import AvailabilityQueries
from kalends.broker.searches.searches import Searches
from kalends.broker.searches.site_queries import SiteQueries
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.contract.messages import FreeSteps, Want
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.resources import Slot
from kalends.serving.logs import get_logger

ONE_DAY = 86_400
ABROAD = Refusal(where="there/one", code=RefusalCode.BUSY, detail="says here of there")
LONG = Refusal(where="here/one", code=RefusalCode.BUSY, detail="R" * 3_000_000)


def shown(want: Want, **changes: object) -> FreeSteps:
    """All that was asked for is free, but for `changes`."""
    honest = FreeSteps(resource=want.resource, until=want.end, steps=((want.start, want.end, 1),))
    return structs.replace(honest, **changes)


def steps(*pairs: tuple[int, int]) -> Callable[[Want], tuple[FreeSteps, ...]]:
    """Free in these seconds after the start of what was asked for."""
    return lambda want: (
        shown(want, steps=tuple((want.start + a, want.start + b, 1) for a, b in pairs)),
    )


NONSENSE: dict[str, Callable[[Want], tuple[FreeSteps, ...]]] = {
    "steps out of order": steps((120, 180), (0, 60)),
    "steps that overlap": steps((0, 120), (60, 180)),
    "a step that is empty": steps((60, 60)),
    "a step that ends before it starts": steps((60, 0)),
    "free before what was asked for": steps((-60, 60)),
    "free after what was asked for": steps((0, 10**6)),
    "complete beyond what was asked for": lambda want: (shown(want, until=want.end + 1),),
    "nothing": lambda want: (),
    "everything twice": lambda want: (shown(want), shown(want)),
    "another site's resource": lambda want: (shown(want, resource="there/one"),),
    "another resource of its own": lambda want: (shown(want, resource="here/two"),),
    "a refusal in another's name": lambda want: (shown(want, refusal=ABROAD),),
    "a refusal that nobody reads": lambda want: (shown(want, refusal=LONG),),
    "a slot at another time": lambda want: (
        shown(want, slots=(Slot(want.end + 60, want.end + 120, 1, "locked"),)),
    ),
}
"""What a hostile site answers when it is asked what is free."""


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=list(NONSENSE))
def test_a_view_without_sense_counts_as_a_refusal_and_the_request_goes_elsewhere(
    broker: Broker,
    nonsense: Callable[[Want], tuple[FreeSteps, ...]],
) -> None:
    rid = broker.ask("here/one | there/one")
    for site, query in broker.sent():
        assert isinstance(query, m.Query)
        (want,) = query.wants
        views = nonsense(want) if site == "here" else (shown(want),)
        broker.receive(site, m.View(query_id=query.query_id, epoch=1, views=views))
    ((site, visit),) = broker.sent()
    assert (site, type(visit)) == ("there", m.Visit)
    assert broker.case(rid).phase == "voting"
    assert any(alarm.startswith("here ") for alarm in broker.alarms)


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=list(NONSENSE))
async def test_what_a_site_shows_without_sense_hides_only_its_own_resources(
    nonsense: Callable[[Want], tuple[FreeSteps, ...]],
) -> None:
    clock = ManualClock()
    clock.wall_now_s = START - ONE_DAY

    def send(site: str, message: m.Message) -> None:
        assert isinstance(message, m.Query)
        views = tuple(
            of_one
            for want in message.wants
            for of_one in (nonsense(want) if site == "here" else (shown(want),))
        )
        queries.answered(site, m.View(query_id=message.query_id, epoch=1, views=views))

    queries = SiteQueries(send)
    directory = Broker().directory
    searches = Searches(directory, get_logger(role="broker", name="npaci"))
    availability = AvailabilityQueries(directory, queries, clock, searches)
    seen = await availability.resources(ADA, calls.ListResources())
    assert [info.name for info in seen.resources] == ["there/one"]


class Quiet:
    """Sites of which `silent` say nothing."""

    def __init__(self) -> None:
        self.silent = {"here"}
        self.asked: list[tuple[str, m.Query]] = []
        self.queries = SiteQueries(self.send)

    def send(self, site: str, message: m.Message) -> None:
        assert isinstance(message, m.Query)
        self.asked.append((site, message))
        if site not in self.silent:
            self.answer(site, message)

    def answer(self, site: str, query: m.Query) -> None:
        views = tuple(shown(want) for want in query.wants)
        self.queries.answered(site, m.View(query_id=query.query_id, epoch=1, views=views))

    async def ask(self, patience_s: float) -> set[str]:
        wants = {site: (Want(f"{site}/one", START, START + 60, 1),) for site in ("here", "there")}
        return set(await self.queries.ask(ADA.principal, wants, patience_s=patience_s))


async def test_a_silent_site_is_waited_for_once_and_then_by_nobody_until_it_speaks() -> None:
    sites = Quiet()
    assert await sites.ask(patience_s=0.01) == {"there"}
    async with asyncio.timeout(PATIENCE_S):
        # Its patience is used up: an hour of it would not come to an end here.
        sites.queries._silent_since_s["here"] -= 3_600
        for _ in range(3):
            assert await sites.ask(patience_s=3_600) == {"there"}
        sites.answer(*next(each for each in sites.asked if each[0] == "here"))
        asking = asyncio.create_task(sites.ask(patience_s=3_600))
        await asyncio.sleep(0)
        sites.answer(*next(each for each in reversed(sites.asked) if each[0] == "here"))
        assert await asking == {"here", "there"}


async def test_a_site_that_is_lost_and_comes_back_is_waited_for_again() -> None:
    sites = Quiet()
    assert await sites.ask(patience_s=0.01) == {"there"}
    sites.queries.lost("here")
    sites.silent.clear()
    assert await sites.ask(patience_s=0.01) == {"here", "there"}


def test_an_answer_to_what_was_asked_before_a_restart_is_an_answer_to_nothing_else() -> None:
    before, after = Broker(), Broker(jitter=0.5)
    before.ask("here/one")
    rid = after.ask("here/one")
    [(_, query)] = before.sent()
    assert isinstance(query, m.Query)
    views = tuple(shown(want) for want in query.wants)
    after.receive("here", m.View(query_id=query.query_id, epoch=1, views=views))
    assert after.alarms == []
    assert after.case(rid).phase == "looking"


def test_a_site_that_answers_for_another_is_not_heard(broker: Broker) -> None:
    """Numbers of queries are no secret: whoever guesses one answers in nobody's name."""
    rid = broker.ask("here/one")
    ((site, query),) = broker.sent()
    assert isinstance(query, m.Query)
    empty = FreeSteps(resource="here/one", until=query.wants[0].end)
    broker.receive("there", m.View(query_id=query.query_id, epoch=1, views=(empty,)))
    assert broker.case(rid).phase == "looking"
    full = shown(query.wants[0])
    broker.receive(site, m.View(query_id=query.query_id, epoch=1, views=(full,)))
    assert broker.case(rid).phase == "voting"


HELD: dict[str, tuple[m.HeldSlot, ...]] = {
    "more than it was asked for": (m.HeldSlot(0, 11), m.HeldSlot(1, 12)),
    "another want": (m.HeldSlot(1, 11),),
    "a want twice": (m.HeldSlot(0, 11), m.HeldSlot(0, 12)),
}


@pytest.mark.parametrize("slots", HELD.values(), ids=list(HELD))
def test_a_promise_of_something_else_is_a_refusal(slots: tuple[m.HeldSlot, ...]) -> None:
    broker = Broker()
    rid = broker.submit()
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=slots))
    answer = broker.answers[1]
    assert answer.state == "failed"
    assert answer.problem is not None
    assert {(each.where, each.code) for each in answer.problem.refusals} == {
        ("here", RefusalCode.BAD_ANSWER)
    }
    assert broker.alarms


def test_a_hold_is_no_promise(broker: Broker) -> None:
    rid = broker.submit()
    slots = (m.HeldSlot(0, 11),)
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="none", held=slots))
    assert broker.answers[1].state == "failed"


@pytest.mark.parametrize("refusal", [ABROAD, LONG], ids=["in another's name", "of 3 MB"])
def test_a_refusal_that_cannot_be_is_kept_short(broker: Broker, refusal: Refusal) -> None:
    rid = broker.submit()
    visited = m.Visited(rid=rid, att=1, epoch=1, vote="no", refusals=(refusal,))
    broker.receive("here", visited)
    record = broker.row(rid)
    assert record.state == "closed"
    assert record.problem is not None
    assert [each.where for each in record.problem.refusals] == ["here"]
    assert "R" * 1_000 not in repr(record)


def test_of_many_refusals_a_story_keeps_few(broker: Broker) -> None:
    many = tuple(
        Refusal(where="here/one", code=RefusalCode.BUSY, detail=f"{n} " + "R" * 480)
        for n in range(limits.REFUSALS_MAX)
    )
    rid = broker.submit()
    broker.receive("here", m.Visited(rid=rid, att=1, epoch=1, vote="no", refusals=many))
    told = [len(event.refusals) for event in broker.row(rid).trail]
    assert max(told) <= limits.EVENT_REFUSALS_MAX


def test_the_same_nonsense_said_for_ever_is_one_alarm(broker: Broker) -> None:
    rid = broker.submit()
    for att in range(1, 1_000):
        broker.receive("here", m.Voted(rid=rid, att=att, epoch=1, vote="no", refusals=(LONG,)))
    assert len(broker.alarms) == 1


def test_a_hello_with_anothers_resources_gives_them_to_nobody(broker: Broker) -> None:
    before = dict(broker.directory.resources)
    stolen = before["there/one"]
    broker.receive("here", m.Hello(site="here", epoch=2, resources=(before["here/one"], stolen)))
    assert broker.directory.resources["there/one"] is stolen
    assert broker.alarms


# Near


def test_a_site_that_only_itself_calls_near_to_another_is_passed_nothing_for_it() -> None:
    broker = AgentBroker()
    broker.greet("there", near=("here",))
    broker.sent()
    broker.send_agent()
    visits = broker.dispatches()
    assert set(visits) == {"here", "there"}
    assert all(dispatch.near == () for dispatch in visits.values())


def test_of_a_site_that_is_not_near_nobody_else_is_believed() -> None:
    broker = AgentBroker()
    broker.greet("there", near=("here",))
    broker.sent()
    rid = broker.send_agent()
    busy = Refusal(where="here/one", code=RefusalCode.BUSY, detail="all taken")
    broker.report(rid, says("there", held("there/one", 0, term=1)), says("here", refusals=(busy,)))
    broker.report(rid, says("here", held("here/one", 0)))
    assert broker.case(rid).phase == "preparing"


def test_what_a_near_site_says_without_sense_does_not_count_against_who_passes_it_on() -> None:
    broker = AgentBroker()
    broker.greet("here", near=("there",))
    broker.greet("there", near=("here",))
    broker.sent()
    rid = broker.send_agent()
    stolen = says("there", held("elsewhere/one", 0, term=1))
    broker.report(rid, says("here", held("here/one", 0)), stolen)
    assert broker.alarms == [
        "there holds, or offers, another site's resources, as here passes it on"
    ]
    tour = broker.case(rid).agent.tour
    assert tour is None or tour.reports["here"].held


# Reclaims


def test_a_site_takes_back_only_what_is_booked_there(world: ReclaimWorld) -> None:
    rid = world.book("there/one", at=4)
    reclaim = m.Reclaim(
        rid=rid, att=1, resources=("here/one",), start=START, end=START + ONE_DAY, reason="mine"
    )
    for broker in world.brokers.values():
        broker.receive("here", reclaim)
    world.deliver()
    world.wait(30)
    assert world.standing(rid).state == "reserved"
    assert world.hours(rid) == {"there/one": 4}
    assert any("here" in alarm for alarm in world.broker.alarms)


def test_a_site_takes_back_only_the_time_that_is_booked_there(world: ReclaimWorld) -> None:
    rid = world.book("here/one + there/one", at=4)
    before = m.Reclaim(rid=rid, att=1, resources=("here/one",), start=START, end=START + 4 * 3_600)
    world.broker.receive("here", before)
    world.deliver()
    assert world.hours(rid) == {"here/one": 4, "there/one": 4}


def test_a_reclaim_of_what_no_register_knows_comes_to_nothing(world: ReclaimWorld) -> None:
    reclaim = m.Reclaim(
        rid=number_to_rid(77), att=1, resources=("here/one",), start=START, end=START + 60
    )
    world.broker.receive("here", reclaim)
    world.deliver()
    assert not world.broker.coordinator.cases


def test_another_site_cannot_answer_what_a_reclaim_asks_of_one(world: ReclaimWorld) -> None:
    """It would have the reservation cancelled for want of another time."""
    rid = world.book("here/one + there/one", at=4)
    world.lost = {m.View}
    world.reclaim("here/one", 3.5, 4.5)
    for query_id in range(1, 20):
        for site in ("silent", "there"):
            world.broker.receive(site, m.View(query_id=query_id, epoch=1, views=()))
    world.lost = set()
    world.wait(30)
    assert world.standing(rid).state == "reserved"
    assert world.hours(rid) == {"here/one": 4.5, "there/one": 4.5}
