"""Agents among those who wait: what they hold is recalled, and they take nothing that is kept."""

from __future__ import annotations

import pytest
from site_agent_support import AgentSite, ask, dispatch, own, starts, times
from tests.protocol_support import BOB, about, line_up, prepare, release, rid, told, want

from kalends.contract import messages as m
from kalends.resource_servers.participation.contention.wound_wait import RECALL_MS

ONE_START = starts(0, 0)


@pytest.fixture
def site() -> AgentSite:
    return AgentSite()


def test_an_agent_holds_nothing_that_an_older_request_waits_for(site: AgentSite) -> None:
    site.receive(line_up(1, want("pool", 0, 60, 2)))
    site.receive(line_up(2, want("pool", 0, 60, 3)))
    report = own(site.receive(dispatch(3, ask("pool", 10), principal=BOB)))
    assert not report.held
    assert report.refusals
    assert site.free("pool", 0, 60) == 1


def test_what_is_kept_from_the_time_an_agent_ran_is_not_held(site: AgentSite) -> None:
    site.receive(line_up(1, want("pool", 0, 60, 1)))
    errand = site.send(dispatch(3, ask("pool", 10), over=ONE_START, principal=BOB))
    site.receive(line_up(2, want("pool", 0, 60, 3)))
    assert not site.choose(errand, [0]).held


def test_an_agent_is_shown_only_what_is_not_kept(site: AgentSite) -> None:
    site.receive(line_up(1, want("one", 0, 60)))
    site.receive(line_up(2, want("one", 0, 60), want("pool", 0, 10, 3)))
    report = site.hold_by_agent(dispatch(3, ask("pool", 10), principal=BOB), [0])
    assert times(report.held) == [10]


def test_an_agent_holds_what_is_over_beside_an_older_request_that_waits(site: AgentSite) -> None:
    site.receive(line_up(1, want("pool", 0, 60, 1), want("one", 0, 60)))
    site.receive(line_up(2, want("pool", 0, 60, 1), want("one", 0, 60)))
    report = site.hold_by_agent(dispatch(3, ask("pool", 10), principal=BOB), [0])
    assert len(report.held) == 1
    assert site.free("pool", 0, 10) == 1


def test_two_slots_of_an_agent_leave_together_what_is_kept(site: AgentSite) -> None:
    """Each alone would leave enough for the older request; both would not."""
    site.receive(line_up(1, want("one", 0, 60)))
    site.receive(line_up(2, want("one", 0, 60), want("pool", 0, 60, 2)))
    asked = dispatch(
        3, ask("pool", 10, term=0), ask("pool", 10, term=1), over=ONE_START, principal=BOB
    )
    report = site.hold_by_agent(asked, [0, 1])
    assert len(report.held) == 1
    assert site.free("pool", 0, 10) == 2


def test_an_older_agent_takes_what_younger_ones_wait_for(site: AgentSite) -> None:
    site.receive(line_up(2, want("pool", 0, 60, 2)))
    site.receive(line_up(3, want("pool", 0, 60, 3)))
    assert len(site.hold_by_agent(dispatch(1, ask("pool", 10), principal=BOB), [0]).held) == 1


def test_what_an_agent_holds_is_recalled_and_taken_back_without_a_place_in_line() -> None:
    site = AgentSite()
    site.hold_by_agent(dispatch(5, ask("one", 10), principal=BOB), [0])
    ids = site.ids(5)
    effects = site.receive(line_up(1, want("one", 0, 10)))
    assert about(effects, m.Recall) == [5]
    effects = site.advance(RECALL_MS)
    (renewed,) = told(effects, m.Renewed)
    assert (renewed.rid, renewed.lost) == (rid(5), ids)
    assert about(effects, m.Grant) == [1]
    assert not site.participant.waiting_here()


def test_what_an_agent_holds_can_be_promised_while_it_is_recalled(site: AgentSite) -> None:
    site.hold_by_agent(dispatch(5, ask("one", 10), principal=BOB), [0])
    site.receive(line_up(1, want("one", 0, 10)))
    site.receive(prepare(5, *site.ids(5)))
    site.advance(RECALL_MS)
    assert site.states(5) == ["prepared"]


def test_an_agent_that_comes_again_leaves_the_line_of_its_last_attempt(site: AgentSite) -> None:
    site.receive(line_up(1, want("one", 0, 60)))
    site.receive(line_up(2, want("one", 0, 60)))
    report = own(site.receive(dispatch(2, ask("one", 10), att=2)))
    assert not report.held
    assert not site.participant.waiting_here()
    assert not about(site.receive(release(1)), m.Grant)
