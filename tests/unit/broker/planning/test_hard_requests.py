"""A request that is too hard to plan is refused in words, and costs nobody else anything."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.protocol_broker import START, Broker
from tests.protocol_support import ANN, DAY, T0

from kalends.broker.coordination.record.decision_record import Spec
from kalends.broker.planning.obstacles import fewest_to_move
from kalends.broker.planning.planner import plan
from kalends.broker.planning.search_budget import STEPS_MAX, TooMuchWork, Work
from kalends.contract import messages as m
from kalends.core.language import parse_request
from kalends.core.requests import Alternative, Attribute, AttributePreference, Request, Term
from kalends.core.resources import ResourceInfo, Slot

LENGTHS_S = {"x": 2 * 3 * 5 * 7 * 11 * 13 * 17, "y": 23 * 29 * 31 * 37}
"""Whose divisors, as grains, fit together in more ways than are ever searched."""


def odd_grains(site: str) -> m.Hello:
    infos = tuple(
        ResourceInfo(name=f"{site}/{kind}{grain_s}", grain_s=grain_s, attributes={"kind": kind})
        for kind, length_s in LENGTHS_S.items()
        for grain_s in range(1, 3_000)
        if length_s % grain_s == 0
    )
    return m.Hello(site=site, epoch=2, resources=infos)


def all_free(query: m.Query) -> m.View:
    views = tuple(
        m.FreeSteps(resource=want.resource, until=want.end, steps=((want.start, want.end, 1),))
        for want in query.wants
    )
    return m.View(query_id=query.query_id, epoch=1, views=views)


def test_a_request_that_cannot_be_planned_fails_with_the_reason_and_the_broker_goes_on() -> None:
    broker = Broker()
    broker.receive("here", odd_grains("here"))
    text = " + ".join(f"{{kind={kind}}} for {length_s}s" for kind, length_s in LENGTHS_S.items())
    request = parse_request(
        text, duration="1s", not_before=START, not_after=START + 80 * DAY, now_s=T0, zone="UTC"
    )
    broker.coordinator.calls.submit(
        ANN, "the-key-of-it", "digest", Spec(request, text), 1, broker.now
    )
    broker.settle()
    while asked := [(to, each) for to, each in broker.sent() if isinstance(each, m.Query)]:
        for site, query in asked:
            broker.receive(site, all_free(query))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "invalid-input"
    assert "ways" in problem.detail
    assert not broker.coordinator.cases


def test_a_search_is_given_up_when_it_has_done_all_that_one_may_do() -> None:
    text = "2 of {kind=x, speed>=1 weight 2} + 2 of {kind=x, speed>=2 weight 1}"
    request = parse_request(
        text, duration="60s", not_before=START, not_after=START + DAY, now_s=T0, zone="UTC"
    )
    infos = {
        name: ResourceInfo(name=name, grain_s=60, attributes={"kind": "x", "speed": number})
        for number, name in enumerate(("a/one", "a/two", "b/one", "b/two", "b/three"))
    }
    free = {name: [(START, START + DAY, 1)] for name in infos}
    needed = Work()
    (found,) = plan(request, infos, free, work=needed)
    steps = STEPS_MAX - needed.left
    assert plan(request, infos, free, work=Work(steps)) == [found]
    with pytest.raises(TooMuchWork, match="too many combinations"):
        plan(request, infos, free, work=Work(steps - 1))


@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("preferred", [False, True])
def test_whatever_is_asked_ends_within_the_work_that_is_allowed(
    growing: bool, preferred: bool
) -> None:
    """Without a bound each of these takes minutes; counted are steps, so that no clock decides."""
    speed = Attribute(name="speed", operator=">=", value=1)
    wishes = tuple(
        AttributePreference(attribute=structs.replace(speed, value=n), weight=1 + n / 7)
        for n in range(40 if preferred else 0)
    )
    term = Term(attributes=(speed,), count=15, preferred=wishes, units_max=64 if growing else 0)
    request = Request(
        alternatives=(Alternative(terms=(term,) * 32),) * 32,
        duration_s=7_200, not_before=START, not_after=START + 30 * DAY,
    )  # fmt: skip
    infos = {
        f"a/r{n}": ResourceInfo(
            name=f"a/r{n}", grain_s=300, capacity=64, attributes={"speed": n % 50}
        )
        for n in range(500)
    }
    free = {
        name: [(START + at, START + at + 5_000, 1 + at % 64) for at in range(0, 30 * DAY, 43_000)]
        for name in infos
    }
    with pytest.raises(TooMuchWork):
        plan(request, infos, free)


def test_the_fewest_moves_of_very_many_bookings_are_the_best_that_were_found_in_time() -> None:
    text = "2 of {kind=x}:64 + 2 of {kind=x}:64 for 20h"
    request = parse_request(
        text, duration="2h", not_before=START, not_after=START + 30 * DAY, now_s=T0, zone="UTC"
    )
    infos = {
        f"a/r{n}": ResourceInfo(name=f"a/r{n}", grain_s=60, capacity=64, attributes={"kind": "x"})
        for n in range(20)
    }
    allowed = {name: [(START, START + 30 * DAY, 64)] for name in infos}
    slots = {
        name: [
            Slot(start=START + at, end=START + at + 90_000, units=1 + at % 13, state="locked")
            for at in range(-90_000, 30 * DAY, 11_000)
        ]
        for name in infos
    }
    found = fewest_to_move(request, infos, allowed, slots)
    assert found is not None
    assert found.moves
    assert not found.exact
    assert len(found.moves) >= 5
    few = parse_request(
        "a/r1:60", duration="2h", not_before=START, not_after=START + DAY, now_s=T0, zone="UTC"
    )
    known = fewest_to_move(few, infos, allowed, slots)
    assert known is not None
    assert known.exact
