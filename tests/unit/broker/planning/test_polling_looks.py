"""The real coordinator polls p of thirty machines on thirty sites, in growing rounds, and learns."""

from __future__ import annotations

import pytest
from tests.protocol_broker import START, Broker
from tests.protocol_support import ANN, T0
from touring_support import AgentBroker

from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.planning.directory import SiteEntry
from kalends.broker.planning.polling import site_statistics as o
from kalends.broker.planning.polling.views import poll_views
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.language import parse_request
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo

MACHINES = tuple(f"m{number:02}" for number in range(30))
THREE = "3 of {kind=sgi}"


class Poller(Broker):
    """Thirty sites with one machine each; `here` and `there` have something else."""

    def __init__(self) -> None:
        super().__init__()
        for site in MACHINES:
            self.directory.sites[site] = SiteEntry(site, f"http://{site}")
            self.directory.peer_urls[site] = f"http://{site}"
            info = ResourceInfo(name=f"{site}/sgi", grain_s=60, attributes={"kind": "sgi"})
            self.receive(site, m.Hello(site=site, epoch=1, resources=(info,)))
        self.queries: dict[str, m.Query] = {}
        self.sent()

    def book(self, text: str, *, window_s: int = 60, key: str = "the-key-of-it") -> str:
        request = wanted(text, window_s=window_s)
        rid = self.coordinator.calls.submit(ANN, key, "digest", Spec(request, text), 1, self.now)
        self.settle()
        return rid

    def asked(self) -> list[str]:
        """The sites that were queried since the last look, in order."""
        new = {to: message for to, message in self.sent() if isinstance(message, m.Query)}
        self.queries |= new
        return sorted(new)

    def says(self, site: str, *, free: bool, later: bool = False) -> None:
        query = self.queries.pop(site)
        begin = START + 1_800 if later else START
        views = tuple(
            m.FreeSteps(
                resource=want.resource,
                until=want.end,
                steps=((begin, want.end, 1),) if (free or later) and begin < want.end else (),
            )
            for want in query.wants
        )
        self.receive(site, m.View(query_id=query.query_id, epoch=1, views=views))


def wanted(text: str, *, window_s: int = 60) -> Request:
    return parse_request(
        text, duration="60s", not_before=START, not_after=START + window_s, now_s=T0, zone="UTC"
    )


@pytest.fixture
def poller() -> Poller:
    return Poller()


def test_about_p_of_thirty_are_asked_first(poller: Poller) -> None:
    poller.book(THREE)
    asked = poller.asked()
    (view,) = poll_views(wanted(THREE), poller.directory, o.Odds(), T0)
    assert len(asked) == view.chosen
    assert 6 <= len(asked) <= 15
    least = min(view.curve, key=lambda point: point.delay_ms)
    assert (view.needed, view.candidates, least.polled) == (3, 30, len(asked))
    assert view.busy == pytest.approx(o.BUSY_PRIOR)


def test_nobody_else_is_waited_for_once_three_have_said_that_they_are_free(poller: Poller) -> None:
    rid = poller.book(THREE)
    asked = poller.asked()
    poller.says(asked[0], free=True)
    poller.says(asked[3], free=False)
    poller.says(asked[5], free=True)
    assert poller.case(rid).phase == "looking"
    poller.says(asked[2], free=True)
    assert poller.case(rid).phase == "voting"
    visits = [to for to, message in poller.sent() if isinstance(message, m.Visit)]
    assert visits == [asked[0], asked[2], asked[5]]
    late = poller.queries.popitem()
    poller.receive(late[0], m.View(query_id=late[1].query_id, epoch=1, views=()))
    assert poller.case(rid).phase == "voting"


def test_when_too_few_are_free_a_larger_round_follows_at_once(poller: Poller) -> None:
    rid = poller.book(THREE)
    first = poller.asked()
    for site in first[: len(first) - 3]:
        poller.says(site, free=False)
        assert poller.asked() == []
    poller.says(first[-3], free=False)
    second = poller.asked()
    assert len(second) >= len(first)
    assert not set(first) & set(second)
    poller.says(second[0], free=True)
    poller.says(first[-1], free=True)
    poller.says(second[1], free=True)
    assert poller.case(rid).phase == "voting"


def test_before_it_is_told_that_there_is_none_everybody_has_been_asked(poller: Poller) -> None:
    rid = poller.book(THREE)
    everybody, rounds = set(), 0
    while asked := poller.asked():
        everybody |= set(asked)
        rounds += 1
        for site in list(poller.queries):
            poller.says(site, free=False)
    assert everybody == set(MACHINES)
    assert rounds <= 4
    assert poller.row(rid).state == "closed"


def test_silent_sites_are_given_up_and_others_asked(poller: Poller) -> None:
    rid = poller.book(THREE)
    first = poller.asked()
    poller.says(first[0], free=True)
    poller.advance(4_900)
    assert poller.asked() == []
    poller.advance(200)
    second = poller.asked()
    assert len(second) >= len(first)
    for site in second[:2]:
        poller.says(site, free=True)
    assert poller.case(rid).phase == "voting"


def test_in_an_open_window_a_later_start_is_taken_only_once_all_were_asked(poller: Poller) -> None:
    rid = poller.book(THREE, window_s=7_200)
    everybody = set()
    while asked := poller.asked():
        everybody |= set(asked)
        for site in asked:
            assert poller.case(rid).phase == "looking"
            poller.says(site, free=site == "m07", later=site in ("m02", "m11", "m25"))
    assert everybody == set(MACHINES)
    assert poller.case(rid).phase == "voting"
    assert {want.start for want in poller.case(rid).record.wants} == {START + 1_800}


def test_in_an_open_window_the_earliest_start_is_taken_at_once(poller: Poller) -> None:
    rid = poller.book(THREE, window_s=7_200)
    for site in poller.asked()[:3]:
        poller.says(site, free=True)
    assert poller.case(rid).phase == "voting"


def test_after_a_lost_race_everybody_is_asked(poller: Poller) -> None:
    rid = poller.book(THREE, window_s=7_200)
    for site in poller.asked()[:3]:
        poller.says(site, free=True)
    refusal = Refusal(where="m00/sgi", code=RefusalCode.BUSY, detail="taken")
    (lost, *_) = poller.case(rid).parts
    poller.sent()
    poller.receive(
        lost, m.Visited(rid=rid, att=1, epoch=1, vote="no", held=(), refusals=(refusal,))
    )
    assert poller.case(rid).phase == "looking"
    assert poller.asked() == list(MACHINES)


def test_named_resources_are_always_asked_and_waited_for(poller: Poller) -> None:
    rid = poller.book(f"{THREE} + there/one")
    asked = poller.asked()
    assert "there" in asked
    assert "here" not in asked
    for site in asked:
        if site != "there":
            poller.says(site, free=True)
    assert poller.case(rid).phase == "looking"
    poller.says("there", free=True)
    assert poller.case(rid).phase == "voting"


def test_several_machines_of_one_site_are_one_message(poller: Poller) -> None:
    resources = tuple(
        ResourceInfo(name=f"there/sgi{n}", grain_s=60, attributes={"kind": "sgi"}) for n in range(9)
    )
    poller.receive("there", m.Hello(site="there", epoch=1, resources=resources))
    poller.sent()
    poller.book(THREE)
    asked = poller.asked()
    assert "there" in asked
    assert len(poller.queries["there"].wants) == 9
    (view,) = poll_views(wanted(THREE), poller.directory, o.Odds(), T0)
    assert view.candidates == 39
    assert view.chosen == 9 + len(asked) - 1
    assert view.curve[0].polled == 9


def test_few_sites_are_all_asked_and_of_more_only_one_where_all_are_quick_and_free(
    poller: Poller,
) -> None:
    for _ in range(60):
        for site in MACHINES[:9]:
            poller.coordinator.search.odds.note(site, START, False)
            poller.coordinator.search.odds.note_delay(site, 1.0)
    poller.book("1 of {kind=sgi, site in (m01, m02, m03, m04)}")
    assert poller.asked() == ["m01", "m02", "m03", "m04"]
    poller.book("1 of {kind=sgi, site in (m01, m02, m03, m04, m05)}", key="another-key")
    assert len(poller.asked()) == 1


def test_what_is_free_only_for_the_slot_itself_is_free(poller: Poller) -> None:
    rid = poller.book(THREE)
    for site in poller.asked()[:3]:
        query = poller.queries[site]
        free = m.FreeSteps(
            resource=f"{site}/sgi", until=START + 60, steps=((START, START + 60, 1),)
        )
        poller.receive(site, m.View(query_id=query.query_id, epoch=1, views=(free,)))
    assert poller.case(rid).phase == "voting"


def test_where_a_resource_may_be_preferred_all_are_asked(poller: Poller) -> None:
    for site in MACHINES:
        info = ResourceInfo(name=f"{site}/sgi", grain_s=60, capacity=4, attributes={"kind": "sgi"})
        poller.receive(site, m.Hello(site=site, epoch=1, resources=(info,)))
    request = wanted("{kind=sgi}:1..4")
    (view,) = poll_views(request, poller.directory, o.Odds(), T0)
    assert view.chosen == 30


def test_answers_teach_who_is_busy_and_who_is_slow(poller: Poller) -> None:
    poller.book(THREE)
    first = poller.asked()
    odds = poller.coordinator.search.odds
    poller.ms += 700
    for site in first[:2]:
        poller.says(site, free=False)
    for site in first[2:5]:
        poller.says(site, free=True)
    assert odds.busy(first[0], START) > odds.busy("m29", START) > odds.busy(first[2], START)
    assert odds.delay(first[0]).median_ms > odds.delay("m29").median_ms
    for _ in range(40):
        odds.note(first[0], START, True)
        odds.note_delay("m29", 10.0)
        odds.note("m29", START, False)
    again = Poller()
    again.coordinator.search.odds = odds
    again.book(THREE)
    asked = again.asked()
    assert "m29" in asked
    assert first[0] not in asked


def test_a_hidden_machine_is_not_counted_aloud(poller: Poller) -> None:
    (view,) = poll_views(wanted(THREE), poller.directory, o.Odds(), T0, hidden=("m03/sgi",))
    assert view.candidates == 29


def test_sites_that_are_down_are_not_counted(poller: Poller) -> None:
    poller.coordinator.site_lost("m03", "gone")
    (view,) = poll_views(wanted(THREE), poller.directory, o.Odds(), T0)
    assert view.candidates == 29
    assert poll_views(wanted("there/one"), poller.directory, o.Odds(), T0) == ()


def test_terms_that_compete_are_polled_for_what_they_need_together(poller: Poller) -> None:
    both = f"2 of {{kind=sgi}} + 2 of {{kind=sgi, site in ({', '.join(MACHINES[:9])})}}"
    views = poll_views(wanted(both), poller.directory, o.Odds(), T0)
    assert [(view.term, view.needed, view.candidates) for view in views] == [(0, 4, 30), (1, 4, 9)]
    apart = "2 of {kind=sgi} + 2 of {kind=sgi} @+2h"
    views = poll_views(wanted(apart, window_s=8_000), poller.directory, o.Odds(), T0)
    assert [view.needed for view in views] == [2, 2]


class Regions(AgentBroker):
    """The thirty sites in three regions; in each, all ten pass agents on to one another."""

    def __init__(self) -> None:
        super().__init__()
        for site in MACHINES:
            self.directory.sites[site] = SiteEntry(site, f"http://{site}")
            self.directory.peer_urls[site] = f"http://{site}"
            near = tuple(each for each in MACHINES if each[:2] == site[:2] and each != site)
            info = ResourceInfo(name=f"{site}/sgi", attributes={"kind": "sgi"})
            hello = m.Hello(site=site, epoch=1, resources=(info,), near=near)
            self.receive(site, hello)
        self.sent()


def test_an_agent_reaches_all_thirty_sites_with_three_messages_where_a_poll_needs_more() -> None:
    regions = Regions()
    regions.send_agent(THREE, window_s=60)
    dispatches = regions.dispatches()
    assert sorted(dispatches) == ["m00", "m10", "m20"]
    reached = {stop.site for dispatch in dispatches.values() for stop in dispatch.near}
    assert reached | dispatches.keys() == set(MACHINES)
    poller = Poller()
    poller.book(THREE)
    assert len(poller.asked()) > 2 * len(dispatches)
