"""How the coordinator is built: no ancestors, one taker a message, one owner a phase, and who is first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from tests.protocol_broker import Broker, hello

from kalends.broker import coordination
from kalends.broker.coordination.agents.agent_dispatch import AgentDispatch
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.owners.owner_reclaims import OwnerReclaims
from kalends.broker.coordination.parts import (
    UNOWNED,
    CoordinatorPart,
    PhaseOwner,
    on,
    owners_of_phases,
    takers,
)
from kalends.broker.coordination.phases import NEXT_PHASE
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Registered
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.search.slot_search import SlotSearch
from kalends.broker.coordination.search.waiting_lists import ListPlaces
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.jobs.parts.job_ends import JobEnds
from kalends.broker.jobs.parts.solicitation import Solicitation
from kalends.broker.jobs.parts.start_answers import StartAnswers
from kalends.broker.jobs.parts.steps import Steps
from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd

MODULES: Final = sorted(Path(coordination.__file__).parent.rglob("*.py"))
SHELLS: Final = {m.Known, m.Compared, m.Relocked}
"""Messages that the shell takes before the coordinator: what a register may have forgotten."""

WRITERS: Final = {"look": "slot_search", "lists": "waiting_lists", "agent": "agent_dispatch"}
ALIASES: Final = {"look": "look", "news": "lists", "agent": "agent"}
"""What the records are called where ``case.`` is left out."""
CHANGES: Final = {"add", "append", "clear", "discard", "extend", "pop", "remove", "update"}


def test_no_part_is_derived_from_another() -> None:
    assert Coordinator.__bases__ == (object,)
    parts = [each for each in vars(Coordinator).values() if isinstance(each, type)]
    assert all(each.__bases__ == (object,) for each in parts)


def test_every_message_to_brokers_has_one_taker() -> None:
    assert Broker().coordinator.takers.keys() | SHELLS == set(get_args(m.ToBroker))


def test_two_takers_of_a_message_are_an_error() -> None:
    def take(site: str, done: m.Done, now: object) -> None:
        raise AssertionError

    with pytest.raises(ValueError, match="two parts take Done"):
        takers([CoordinatorPart((on(m.Done, take),)), CoordinatorPart((on(m.Done, take),))])


def test_every_phase_in_which_sites_or_owners_are_waited_for_has_one_owner() -> None:
    phase_owners = Broker().coordinator.phase_owners
    assert phase_owners.keys() == NEXT_PHASE.keys()
    alone = {phase for phase, owner in phase_owners.items() if owner is UNOWNED}
    assert alone == {"new", "committing", "raising", "closing", "over"}
    with pytest.raises(ValueError, match="two parts own held"):
        owners_of_phases(
            [CoordinatorPart(phases=(PhaseOwner(("held",)), PhaseOwner(("asking", "held"))))]
        )


METHODS: Final[tuple[tuple[type, str], ...]] = (
    (AgentDispatch, "begins"),
    (AgentDispatch, "forget_scripts"),
    (DecidePhase, "abort"),
    (DecidePhase, "tell"),
    (JobEnds, "noted"),
    (ListPlaces, "leave"),
    (Negotiation, "voted"),
    (OwnerReclaims, "changed"),
    (OwnerReclaims, "examined"),
    (OwnerReclaims, "refused"),
    (RequestsInFlight, "end"),
    (SlotSearch, "begin"),
    (SlotSearch, "forget"),
    (SlotSearch, "site_back"),
    (Solicitation, "placed"),
    (Solicitation, "release_reserve"),
    (StartAnswers, "over"),
    (Steps, "examined"),
    (TransactionTable, "answer"),
)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of parts by the machine, in order."""
    calls: list[str] = []

    def listened(kind: type, name: str) -> None:
        real: Callable[..., Any] = getattr(kind, name)

        def method(part: Any, *args: Any, **named: Any) -> Any:
            calls.append(f"{kind.__name__}.{name}")
            return real(part, *args, **named)

        monkeypatch.setattr(kind, name, method)

    for kind, name in METHODS:
        listened(kind, name)
    return calls


def test_an_agent_is_asked_before_slots_are_searched(called: list[str]) -> None:
    broker = Broker()
    called.clear()
    broker.submit()
    assert called == ["AgentDispatch.begins", "SlotSearch.begin"]


def test_parts_hear_of_a_commit_before_callers_and_sites_do(called: list[str]) -> None:
    broker = Broker()
    rid = broker.submit()
    called.clear()
    broker.visited(rid)
    assert called == [
        "RequestsInFlight.end",
        "ListPlaces.leave",
        "OwnerReclaims.changed",
        "Solicitation.placed",
        "Solicitation.release_reserve",
        "TransactionTable.answer",
        "DecidePhase.tell",
    ]


def test_parts_hear_of_a_close_once_sites_are_told_and_before_the_request_is_over(
    called: list[str],
) -> None:
    broker = Broker()
    rid = broker.submit(hold_s=60)
    broker.visited(rid, vote=False)
    called.clear()
    broker.release(rid, 2)
    assert called == [
        "DecidePhase.abort",
        "ListPlaces.leave",
        "OwnerReclaims.refused",
        "Solicitation.release_reserve",
        "TransactionTable.answer",
        "SlotSearch.forget",
        "RequestsInFlight.end",
    ]


def test_a_site_that_is_back_may_know_no_script_before_requests_go_on(called: list[str]) -> None:
    broker = Broker()
    broker.ask("here/one")
    called.clear()
    broker.receive("here", hello("here", epoch=2))
    assert called == ["AgentDispatch.forget_scripts", "SlotSearch.site_back"]


def test_what_the_register_says_goes_to_its_followers_in_order(called: list[str]) -> None:
    broker = Broker()
    called.clear()
    end = PlacedEnd(at=1, end="ended", status=0, ran_s=1)
    for operation in (r.Examine("none"), r.NoteEnd("none", 1, "here", end, "here")):
        broker.coordinator.registered(Registered(operation, False), broker.now)
    assert called == [
        "OwnerReclaims.examined",
        "Steps.examined",
        "JobEnds.noted",
        "StartAnswers.over",
    ]


@pytest.mark.parametrize("record", WRITERS)
def test_a_record_is_written_by_its_part_alone(record: str) -> None:
    writers = {
        path.stem for path in MODULES if record in set(_written(ast.parse(path.read_text())))
    }
    assert writers == {WRITERS[record]}


def _written(tree: ast.AST) -> Iterator[str]:
    """The records of a request that a module changes, as ``case.look.free = ..`` does."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from (_record(each) for each in targets)
            case ast.AugAssign(target=target):
                yield _record(target)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in CHANGES:
                yield _record(value)


def _record(target: ast.expr) -> str:
    if isinstance(target, ast.Subscript):
        return _record(target.value)
    match target:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="case"), attr=record)):
            return record
        case ast.Attribute(value=ast.Name(id=name)):
            return ALIASES.get(name, "")
    return ""
