"""What the simulation has found in the shipped code: the shortest scripts that show it, and seeds."""

from __future__ import annotations

import itertools

import pytest

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.core.clock import LogicalClock
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo
from tests.simulation.climates import CLIMATES
from tests.simulation.schedule import complaint

SEEDS = [
    pytest.param(
        "batch-promises-lost", 142176349842352, id="starts-that-no-node-has-for-the-gap-before-them"
    ),
    pytest.param("batch-promises-lost", 164399031344218, id="a-gap-between-cores-of-two-others"),
    pytest.param("batch-promises-lost", 66120026969930, id="the-same-gap-on-the-only-node"),
    pytest.param("batch-promises-lost", 110663414957743, id="cores-moved-and-only-their-sum-told"),
    pytest.param(
        "batch-promises-lost", 47921894195135, id="an-answer-about-what-was-not-wanted-any-more"
    ),
    pytest.param("batch-slots-end", 98243158938905, id="a-reclaim-of-what-an-earlier-attempt-had"),
    pytest.param(
        "batch-promises-lost", 112445017767340, id="given-up-while-room-is-on-its-way-out"
    ),
]
"""Each has its script in `tests/unit/resource_servers/participation/test_grants.py`."""

NOW = Moment(1_000, 1_800_000_000_000)
START = 1_800_003_600
WANTS = (m.Want("argo/x", START, START + 3_600, 1),)
HOLD = r.Spec(
    request=Request(
        alternatives=(Alternative(terms=(Term(resource="argo/x"),)),),
        duration_s=3_600,
        not_before=START,
        not_after=START + 3_600,
    ),
    hold=True,
    hold_s=60,
    wants=WANTS,
)


def broker() -> Coordinator:
    numbers = itertools.count(1)
    coordinator = Coordinator(
        Identity("red", "red:1", ()),
        Directory({"argo": "sim://argo"}),
        LogicalClock(),
        new_rid=lambda now: request_id(now.wall_ms, next(numbers)),
        jitter=lambda: 0.0,
    )
    resources = (ResourceInfo(name="argo/x"),)
    coordinator.receive("argo", m.Hello(site="argo", epoch=1, resources=resources), NOW)
    return coordinator


def test_nobody_is_told_of_a_hold_that_is_not_written_down_yet() -> None:
    coordinator = broker()
    rid = coordinator.calls.submit(Principal("ann"), "key-1234", "digest", HOLD, 1, NOW)
    (begin,) = coordinator.take_effects().operations
    held = (m.HeldSlot(0, 1 << 40),)
    visited = m.Visited(rid=rid, att=1, epoch=1, vote="none", held=held)
    coordinator.receive("argo", visited, NOW)
    (note,) = coordinator.take_effects().operations
    assert isinstance(note, r.Note)

    assert coordinator.calls.join(rid, 2)
    assert coordinator.take_effects().answers == []

    coordinator.registered(r.Registered(begin, True), NOW)
    coordinator.registered(r.Registered(note, True), NOW)
    answers = coordinator.take_effects().answers
    assert [(answer.ticket, answer.view.state) for answer in answers] == [(1, "held"), (2, "held")]

    assert coordinator.calls.join(rid, 3)
    assert [answer.ticket for answer in coordinator.take_effects().answers] == [3]


@pytest.mark.parametrize(("climate", "seed"), SEEDS)
def test_what_a_schedule_has_found_stays_mended(climate: str, seed: int) -> None:
    report = CLIMATES[climate].run(seed)
    assert not report.violation, complaint(report, climate)
