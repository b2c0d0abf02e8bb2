"""How requests end when the register, another replica or the user is faster than expected."""

from __future__ import annotations

import itertools
import sqlite3

import pytest
from tests.unit.broker.register.test_register import RIDS, record_of

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.effects import CoordinatorEffects
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Spec
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.planner import fixed_wants
from kalends.broker.register.sqlite import request_rows, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.contract import messages as m
from kalends.contract.calls import RequestView
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.errors import Refusal
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.language import parse_alternatives
from kalends.core.principals import Principal
from kalends.core.requests import Request
from kalends.core.resources import ResourceInfo

NOW = Moment(1_000, 1_800_000_000_000)
ANNA = Principal("anna")
START = 1_800_003_600


class Rig:
    """A coordinator and a register that writes when it is told to."""

    def __init__(self, resources: int = 1) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.executescript(SCHEMA)
        numbers = itertools.count(100)
        self.coordinator = Coordinator(
            Identity("npaci-1", "npaci-1:1", ()),
            Directory({"sdsc": "http://127.0.0.1:1"}),
            LogicalClock(),
            new_rid=lambda now: request_id(now.wall_ms, next(numbers)),
            jitter=lambda: 0.0,
        )
        infos = tuple(ResourceInfo(name=f"sdsc/r{number}") for number in range(resources))
        self.coordinator.site_up("sdsc", m.Hello(site="sdsc", epoch=1, resources=infos), NOW)
        self.written: list[r.Operation] = []
        self.waiting: list[r.Operation] = []
        self.sent: list[m.Message] = []
        self.answers: dict[int, RequestView] = {}
        self.told: list[str] = []

    def take(self) -> CoordinatorEffects:
        effects = self.coordinator.take_effects()
        self.waiting += effects.operations
        self.sent += [send.message for send in effects.sends]
        self.answers |= {answer.ticket: answer.view for answer in effects.answers}
        self.told += [happened.event.kind for happened in effects.events]
        return effects

    def write(self) -> None:
        """Carry out what waits, and tell the coordinator."""
        self.take()
        operations, self.waiting = self.waiting, []
        self.written += operations
        for result in request_writes.apply(self.connection, operations):
            self.coordinator.registered(result, NOW)
        self.take()

    def submit(self, *, hold: bool = False, key: str = "first-key") -> str:
        request = Request(
            alternatives=parse_alternatives("sdsc/r0"),
            duration_s=3_600,
            not_before=START,
            not_after=START + 3_600,
        )
        spec = Spec(request=request, wants=fixed_wants(request) or (), hold=hold, hold_s=900)
        return self.coordinator.calls.submit(ANNA, key, "d", spec, 1, NOW)

    def visited(self, rid: str, vote: str) -> None:
        visited = m.Visited(
            rid=rid, att=1, epoch=1, held=(m.HeldSlot(0, 9),),
            vote=vote,  # type: ignore[arg-type]  # "yes" or "none"
        )  # fmt: skip
        self.coordinator.receive("sdsc", visited, NOW)

    def done(self, rid: str, of: str) -> None:
        done = m.Done(rid=rid, att=1, of=of)  # type: ignore[arg-type]  # "commit" or "cancel"
        self.coordinator.receive("sdsc", done, NOW)

    def row(self, rid: str) -> Record:
        record = request_rows.row(self.connection, rid)
        assert isinstance(record, r.Record)
        return record


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_who_loses_the_key_to_another_replica_is_answered_by_its_request_and_forgets_its_own() -> (
    None
):
    rig = Rig()
    theirs = record_of(RIDS[0], "first-key", "npaci-2:1")
    request_writes.apply(rig.connection, [r.Begin(theirs)])
    rid = rig.submit()
    rig.write()
    assert rig.answers[1].id == theirs.rid
    assert rid not in rig.coordinator.cases
    assert rig.coordinator.table.working_on("anna", "first-key") is None
    for number in range(300):
        rig.submit(key=f"lost-key-{number}")
        rig.coordinator.registered(r.Registered(rig.take().operations[0], False, theirs), NOW)
    assert rig.coordinator.cases == {}


def test_what_was_given_up_before_it_began_has_failed_whatever_a_site_has_said_meanwhile() -> None:
    for refusals in ((), (Refusal(where="sdsc/r0", code="busy", detail="it is taken"),)):
        rig = Rig()
        rid = rig.submit()
        (begin,) = rig.take().operations
        if refusals:
            refused = m.Visited(rid=rid, att=1, epoch=1, vote="no", refusals=refusals)
            rig.coordinator.receive("sdsc", refused, NOW)
        rig.coordinator.registered(r.Registered(begin, False, None), NOW)
        rig.take()
        assert rig.answers[1].state == "failed"
        assert rig.answers[1].problem is not None
        assert rig.coordinator.cases == {}


def test_a_cancel_that_meets_the_last_confirmation_is_carried_out(rig: Rig) -> None:
    rid = rig.submit()
    rig.visited(rid, "yes")
    rig.write()
    rig.done(rid, "commit")
    rig.take()
    rig.coordinator.calls.cancel(rig.row(rid), 2, NOW)
    rig.write()
    assert [type(op).__name__ for op in rig.written[-2:]] == ["Finish", "Cancel"]
    assert isinstance(rig.sent[-1], m.Cancel)
    rig.done(rid, "cancel")
    rig.write()
    assert rig.answers[2].state == "cancelled"
    assert rig.row(rid).done
    assert rig.coordinator.cases == {}


def test_a_release_that_comes_after_the_lock_does_not_keep_a_reservation_from_being_cancelled() -> (
    None
):
    rig = Rig()
    rid = rig.submit(hold=True)
    rig.write()
    rig.visited(rid, "none")
    rig.write()
    assert rig.answers[1].state == "held"
    rig.coordinator.calls.lock(rig.row(rid), 2, NOW)
    rig.coordinator.calls.release(rig.row(rid), 3, NOW)
    rig.coordinator.receive("sdsc", m.Voted(rid=rid, att=1, epoch=1, vote="yes"), NOW)
    rig.write()
    assert (rig.answers[2].state, rig.answers[3].state) == ("reserved", "reserved")
    rig.coordinator.calls.cancel(rig.row(rid), 4, NOW)
    rig.done(rid, "commit")
    rig.write()
    rig.done(rid, "cancel")
    rig.write()
    assert rig.answers[4].state == "cancelled"


def test_what_happened_is_told_when_it_is_durable_and_not_before(rig: Rig) -> None:
    rid = rig.submit()
    rig.visited(rid, "yes")
    rig.take()
    assert rig.told == []
    assert rig.answers == {}
    rig.write()
    assert rig.told == ["reserved"]
    assert rig.answers[1].state == "reserved"


def test_what_the_register_refused_is_not_told(rig: Rig) -> None:
    rid = rig.submit()
    rig.write()
    rig.visited(rid, "yes")
    rig.take()
    taken = rig.row(rid)
    request_writes.apply(rig.connection, [r.Raise(rid, 1, "npaci-2:1", r.encode_record(taken))])
    rig.write()
    assert rig.told == []
    assert rig.coordinator.cases == {}


def test_what_begins_in_the_register_is_what_was_asked_whatever_came_meanwhile(rig: Rig) -> None:
    rid = rig.submit()
    rig.visited(rid, "yes")
    (begin, commit) = rig.take().operations
    assert isinstance(begin, r.Begin)
    assert isinstance(commit, r.Commit)
    assert (begin.record.rid, begin.record.chosen, begin.record.trail) == (rid, {}, ())


def test_a_look_at_more_resources_than_fit_into_a_query_takes_several() -> None:
    rig = Rig(resources=limits.CLAIMS_MAX + 1)
    request = Request(
        alternatives=parse_alternatives("{site=sdsc}"), duration_s=3_600, not_before=START
    )
    rig.coordinator.calls.submit(ANNA, "first-key", "d", Spec(request=request), 1, NOW)
    rig.take()
    queries = [message for message in rig.sent if isinstance(message, m.Query)]
    assert [len(query.wants) for query in queries] == [limits.CLAIMS_MAX, 1]


def test_a_site_is_believed_about_its_own_resources_only(rig: Rig) -> None:
    request = Request(
        alternatives=parse_alternatives("{site=sdsc}"), duration_s=3_600, not_before=START
    )
    rid = rig.coordinator.calls.submit(ANNA, "first-key", "d", Spec(request=request), 1, NOW)
    rig.take()
    (query,) = (message for message in rig.sent if isinstance(message, m.Query))
    free = m.FreeSteps(resource="sdsc/r0", until=START + 7_200, steps=((START, START + 7_200, 1),))
    view = m.View(query_id=query.query_id, epoch=1, views=(free,))
    rig.coordinator.receive("ncsa", view, NOW)
    assert rig.coordinator.cases[rid].phase == "looking"
    rig.coordinator.receive("sdsc", view, NOW)
    assert rig.coordinator.cases[rid].phase == "voting"
