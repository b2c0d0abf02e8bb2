"""A hub answers for the sites near it; a site through which nobody can change what it says."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from site_agent_support import NEAR, AgentSite, ask, dispatch, own, report_in, times
from tests.protocol_support import DAY, HERE, KEY, REGISTER, T0, rid

from kalends.agents.runs import RunOutcome
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.common_times import is_proved, is_sealed, seals_of
from kalends.contract.common_times import report_in as common_report
from kalends.contract.messages import SiteReport
from kalends.core.scripts import Ask, HeldChoice, Stop, asked_for
from kalends.resource_servers.participation.visits.visit_handler import RELAY_MS_MAX

NEAR_ASK = Ask(1, f"{NEAR}/two", 10)
STOP = Stop(NEAR, (NEAR_ASK,))
NEAR_KEY = "9" * 32
MEET = ((0, 1), (1, 1))
BASE = T0 + DAY


def near_says(*after_s: int, **more: object) -> SiteReport:
    held = tuple(
        HeldChoice(50 + rank, 1, NEAR_ASK.resource, BASE + each, BASE + each + 10, 1, BASE + each)
        for rank, each in enumerate(after_s)
    )
    report = SiteReport(NEAR, 4, held=held, **more)  # type: ignore[arg-type]  # as given
    return replace(report, seals=seals_of(NEAR_KEY, rid(1), 1, report, STOP.asks))


def asked(**more: object) -> m.Dispatch:
    return replace(dispatch(1, near=(STOP,)), meet=MEET, **more)


def answered(site: AgentSite, near: SiteReport | None, chosen: list[int]) -> m.Report:
    effects = site.receive(asked())
    site.end(effects.errands[0], RunOutcome("ok", chosen))
    return report_in(site.relayed(effects.relays[0].number, near))


@pytest.fixture
def site() -> AgentSite:
    return AgentSite()


def test_a_hub_answers_with_what_all_hold_and_keeps_nothing_else(site: AgentSite) -> None:
    report = answered(site, near_says(20, 0), [0, 1, 2])
    assert report.sites == ()
    common = report.common
    assert common is not None
    assert [part.site for part in common.sites] == [HERE, NEAR]
    assert [start - BASE for start, _ in common.starts] == [0, 20]
    assert is_proved({NEAR: NEAR_KEY}, rid(1), 1, common)
    told = common_report(common, 0, (ask("one"),))
    assert told is not None
    assert times(told.held) == [0, 20]
    assert site.free("one", 10, 20) > 0, "nobody can book here what the near site does not hold"
    assert site.free("one", 0, 10) == site.free("one", 20, 30) == 0


def test_the_same_answer_is_given_again(site: AgentSite) -> None:
    report = answered(site, near_says(20, 0), [0, 1, 2])
    assert report_in(site.receive(asked())) == report


def test_a_hub_that_is_asked_for_itself_says_all_of_it(site: AgentSite) -> None:
    answered(site, near_says(0), [0, 1])
    alone = report_in(site.receive(dispatch(1)))
    assert alone.common is None
    assert [each.site for each in alone.sites] == [HERE]
    assert times(alone.sites[0].held) == [0]
    assert alone.sites[0].offered


def test_a_hub_that_is_asked_for_itself_waits_for_nobody(site: AgentSite) -> None:
    effects = site.receive(asked())
    assert not site.end(effects.errands[0], RunOutcome("ok", [0])).sends
    alone = report_in(site.receive(dispatch(1)))
    assert times(alone.sites[0].held) == [0]
    assert not site.relayed(effects.relays[0].number, near_says(0)).sends


@pytest.mark.parametrize(
    "near",
    [
        near_says(10),
        near_says(0, code="agent-error"),
        replace(near_says(0), seals=()),
        None,
    ],
    ids=["nothing-in-common", "failed", "unproved", "silent"],
)
def test_where_there_is_no_common_time_to_tell_each_report_is_told(
    site: AgentSite, near: SiteReport | None
) -> None:
    report = answered(site, near, [0])
    assert report.common is None
    assert [each.site for each in report.sites] == [HERE, NEAR]
    assert times(report.sites[0].held) == [0]


def test_who_does_not_ask_for_common_times_gets_each_report(site: AgentSite) -> None:
    effects = site.receive(dispatch(1, near=(STOP,)))
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    report = report_in(site.relayed(effects.relays[0].number, near_says(0)))
    assert [each.site for each in report.sites] == [HERE, NEAR]
    assert len(report.sites[1].seals) == 1
    assert is_sealed(NEAR_KEY, rid(1), 1, report.sites[1])


def test_what_was_lost_while_others_were_waited_for_is_not_told_as_common(site: AgentSite) -> None:
    effects = site.receive(replace(asked(), hold_ms=5_000))
    site.end(effects.errands[0], RunOutcome("ok", [0]))
    site.advance(RELAY_MS_MAX - 1)
    report = report_in(site.relayed(effects.relays[0].number, near_says(0)))
    assert report.common is None
    assert report.sites[0].held == ()


def test_one_that_holds_nothing_in_common_holds_nothing_any_more(site: AgentSite) -> None:
    """The terms here could be served elsewhere, those of the near site cannot."""
    effects = site.receive(replace(asked(), meet=((1, 1),)))
    site.end(effects.errands[0], RunOutcome("ok", [1]))
    report = report_in(site.relayed(effects.relays[0].number, near_says(0)))
    assert report.common is not None
    assert site.states(1) == []
    assert not site.visiting.visits


def test_a_site_proves_what_it_says_through_another(site: AgentSite) -> None:
    sent = replace(dispatch(1), way=NEAR, register=REGISTER)
    secret = proofs.of_visit(
        KEY, sent.rid, sent.att, NEAR, asked_for(sent.starts, sent.asks), str(sent.stamp),
        sent.principal.user, *sent.principal.groups,
    )  # fmt: skip
    effects = site.receive(replace(sent, secret=secret), "visit#1")
    report = own(site.end(effects.errands[0], RunOutcome("ok", [0, 1])))
    assert len(report.seals) == 4
    assert report.seals == seals_of(KEY, sent.rid, sent.att, replace(report, seals=()), sent.asks)


def test_who_is_asked_without_a_way_proves_nothing(site: AgentSite) -> None:
    assert site.hold_by_agent(dispatch(1), [0]).seals == ()


def test_a_visit_that_was_passed_on_makes_no_common_times(site: AgentSite) -> None:
    assert site.hold_by_agent(replace(dispatch(1), meet=MEET), [0]).held
