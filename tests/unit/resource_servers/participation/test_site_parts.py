"""How the parts of a site go together: who takes a message, who hears of what, and in which order."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.owned_messages import OPEN
from tests.protocol_support import (
    ANN,
    GuardedSite,
    Site,
    SiteWithoutJobs,
    abort,
    commit,
    give,
    line_up,
    list_up,
    lock,
    peer_says,
    prepare,
    release,
    rid,
    told,
    visit,
    vote,
    want,
)

from kalends.contract import messages as m
from kalends.resource_servers import participation
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from kalends.resource_servers.participation.loss_reports import LossReports
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.parts import Plug, Tier, on, takers
from kalends.resource_servers.participation.placed_jobs.end_reports import EndReports
from kalends.resource_servers.participation.placed_jobs.job_bookings import JobBookings
from kalends.resource_servers.participation.placed_jobs.part_reports import PartReports
from kalends.resource_servers.participation.placed_jobs.place_returns import PlaceReturns
from kalends.resource_servers.participation.placed_jobs.places import Places
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.reclaims.owner_room import OwnerRoom
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.runs import RunTable
from kalends.resource_servers.participation.visits.agent_recalls import AgentRecalls
from kalends.resource_servers.participation.visits.agent_visits import AgentVisits

HOUR = want("one", 0, 60)

Methods = tuple[tuple[type, str], ...]
Heard = Callable[[Methods], list[str]]

LISTENERS: Methods = (
    (ReclaimReminders, "ask_for_locked"),
    (InDoubtResolver, "forget"),
    (InDoubtResolver, "promised"),
    (AgentRecalls, "end"),
    (AgentVisits, "end"),
    (AgentVisits, "forget_answered"),
    (WoundWait, "end_place"),
    (WoundWait, "end_holding"),
    (WoundWait, "end_changes"),
    (WoundWait, "forget_holder"),
    (WaitingLists, "leave"),
    (Places, "end"),
    (Places, "chosen"),
    (Places, "forget"),
)

ATTEMPT_OVER = ["WoundWait.end_place", "AgentRecalls.end", "AgentVisits.end", "Places.end"]

IN_TIME: Methods = (
    (Claims, "advance"),
    (RunTable, "advance"),
    (OwnerApproval, "advance"),
    (WoundWait, "advance"),
    (WaitingLists, "advance"),
    (Places, "advance"),
    (PlaceReturns, "advance"),
    (ReclaimReminders, "advance"),
    (Recovery, "advance"),
    (InDoubtResolver, "advance"),
    (StartQuestions, "advance"),
    (EndReports, "advance"),
    (PartReports, "advance"),
    (LossReports, "advance"),
    (Retention, "advance"),
    (Provisions, "advance"),
)

WHEN_A_BROKER_COMES: Methods = (
    (Places, "met"),
    (ReclaimReminders, "remind_all"),
    (PartReports, "tell_all"),
    (LossReports, "tell_all"),
    (StartQuestions, "met"),
)

AFTER_EACH_STEP: Methods = (
    (Provisions, "carry_on"),
    (JobBookings, "stand_alone"),
    (OwnerRoom, "catch"),
)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """The calls of some methods, in order, from the moment on that the test says which."""

    def listen_to(methods: Methods) -> list[str]:
        calls: list[str] = []
        for part, name in methods:
            monkeypatch.setattr(part, name, _noted(calls, part, name))
        return calls

    return listen_to


def _noted(calls: list[str], part: type, name: str) -> Callable[..., Any]:
    method = getattr(part, name)

    def noted(*arguments: Any, **named: Any) -> Any:
        calls.append(f"{part.__name__}.{name}")
        return method(*arguments, **named)

    return noted


@pytest.mark.parametrize("kind", [Site, SiteWithoutJobs])
def test_every_message_to_a_site_has_a_part_that_takes_it(kind: type[Site]) -> None:
    takers = kind().participant._takers
    assert takers.keys() == {*get_args(m.ToSite), *get_args(m.BetweenSites)}


@pytest.mark.parametrize("kind", [Site, SiteWithoutJobs])
def test_whose_a_message_is_is_checked_of_all_but_these(kind: type[Site]) -> None:
    takers = kind().participant._takers.values()
    assert {each.kind for each in takers if not each.owned} == set(OPEN)


@pytest.mark.parametrize("kind", [Site, SiteWithoutJobs])
def test_what_asks_on_behalf_of_a_user_can_be_refused(kind: type[Site]) -> None:
    """Relock and Recharge repeat what was decided: nothing is asked for."""
    takers = kind().participant._takers.values()
    asking = {each.kind for each in takers if "principal" in each.kind.__struct_fields__}
    assert {each.kind for each in takers if each.refuse} == asking - {m.Relock, m.Recharge}


def test_no_two_parts_take_the_same_message() -> None:
    one = Plug(Tier.ENDS, handles=[on(m.Forget, lambda source, forget, now: None)])
    other = Plug(Tier.ASKS, handles=[on(m.Forget, lambda source, forget, now: None)])
    with pytest.raises(ValueError, match="two parts take Forget"):
        takers([one, other])


def test_a_wing_that_is_not_plugged_in_is_not_found() -> None:
    with pytest.raises(LookupError, match="PlacedJobs"):
        _ = SiteWithoutJobs().jobs


def test_only_one_part_writes_to_claim_sets_and_their_bookings() -> None:
    writes = re.compile(
        r"book\.(occupy|vacate|restate|keep_only|leave|expire)\("
        r"|stakes\[[^]]+\] = |del .*stakes\[|\bstake\.\w+(, stake\.\w+)* = |(?<!grants)\.move\("
    )
    parts = Path(participation.__file__).parent.rglob("*.py")
    writers = {each.name for each in parts if writes.search(each.read_text())}
    assert writers == {"claims.py", "claim_table.py", "claims_at_rest.py"}


def test_what_is_for_a_broker_raises_the_alarm() -> None:
    effects = Site().receive(m.Done(rid=rid(1), att=1, of="cancel"))
    assert effects.alarms == ["Done from broker is not for a site"]


# Who hears of what


def test_who_hears_of_a_commit(heard: Heard) -> None:
    calls = heard(LISTENERS)
    site = Site()
    site.receive(vote(1, HOUR))
    for _ in ("once", "again"):
        calls.clear()
        site.receive(commit(1, *site.ids(1)))
        assert calls == [
            "InDoubtResolver.forget",
            *ATTEMPT_OVER,
            "WoundWait.end_holding",
            "WoundWait.forget_holder",
            "WoundWait.end_changes",
            "WaitingLists.leave",
            "ReclaimReminders.ask_for_locked",
        ]


def test_who_hears_of_a_refusal_and_of_an_abort(heard: Heard) -> None:
    calls = heard(LISTENERS)
    site = Site()
    site.receive(vote(1, HOUR))
    refused = ["InDoubtResolver.forget", *ATTEMPT_OVER, "WoundWait.forget_holder"]
    calls.clear()
    site.receive(abort(1))
    assert calls == [*ATTEMPT_OVER, *refused]
    site.receive(vote(2, HOUR))
    calls.clear()
    site.receive(peer_says(2, "never"))
    assert calls == refused


def test_who_hears_of_a_promise(heard: Heard) -> None:
    calls = heard(LISTENERS)
    site = Site()
    site.receive(visit(1, HOUR))
    calls.clear()
    site.receive(prepare(1, *site.ids(1)))
    assert calls == ["WoundWait.forget_holder", "InDoubtResolver.promised", "Places.chosen"]


def test_who_hears_of_a_higher_attempt_and_of_the_end_of_a_hold(heard: Heard) -> None:
    calls = heard(LISTENERS)
    site = Site()
    site.receive(visit(1, HOUR))
    calls.clear()
    site.receive(visit(1, HOUR, att=2))
    assert calls == [*ATTEMPT_OVER, "InDoubtResolver.forget", "WoundWait.forget_holder"]
    calls.clear()
    site.receive(give(1, *site.ids(1), att=2))
    assert calls == ["WoundWait.forget_holder", "AgentVisits.forget_answered", "Places.forget"]


def test_who_hears_of_a_cancel(heard: Heard) -> None:
    calls = heard(LISTENERS)
    site = Site()
    lock(site, 1, HOUR)
    calls.clear()
    site.receive(m.Cancel(rid=rid(1), att=1))
    assert calls == ["WoundWait.end_changes"]


@pytest.mark.parametrize(
    ("methods", "step", "more"),
    [
        (IN_TIME, lambda site: site.advance(10), []),
        (WHEN_A_BROKER_COMES, lambda site: site.call(Participant.broker_came), []),
        (AFTER_EACH_STEP, lambda site: site.receive(release(1)), ["OwnerRoom.catch"]),
    ],
)
def test_parts_have_their_turns_in_this_order(
    heard: Heard, methods: Methods, step: Callable[[Site], object], more: list[str]
) -> None:
    calls = heard(methods)
    site = GuardedSite()
    calls.clear()
    step(site)
    assert calls == [*(f"{part.__name__}.{name}" for part, name in methods), *more]


# Who gets what has come free


def room_for_one(on_list: int, in_line: int) -> list[m.Message]:
    """What is sent when the second hour comes free, for which one waits in line and one on a list."""
    site = Site()
    lock(site, 90, HOUR)
    site.receive(visit(91, want("one", 60, 120), principal=ANN))
    site.receive(list_up(on_list, want("one", 0, 120)))
    site.receive(line_up(in_line, want("one", 60, 120)))
    site.participant.take_effects()
    effects = site.receive(release(91))
    assert len(effects.sends) == len(told(effects, m.Awaited)) + len(told(effects, m.Grant))
    return [send.message for send in effects.sends]


def test_what_is_offered_to_an_older_request_is_not_granted_to_the_line() -> None:
    (message,) = room_for_one(on_list=1, in_line=2)
    assert isinstance(message, m.Awaited)
    assert message.offered


def test_an_older_request_in_line_is_granted_what_a_younger_one_is_offered() -> None:
    offer, grant = room_for_one(on_list=2, in_line=1)
    assert isinstance(offer, m.Awaited)
    assert isinstance(grant, m.Grant)
