"""A request that is too hard to plan is refused in words, and costs nobody else anything."""

from __future__ import annotations

from tests.protocol_broker import START, Broker
from tests.protocol_support import ANN, DAY, T0

from kalends.broker.record import Spec
from kalends.core import messages as m
from kalends.core.language import parse_request
from kalends.core.resources import ResourceInfo

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
    broker.coordinator.submit(ANN, "the-key-of-it", "digest", Spec(request, text), 1, broker.now)
    broker.settle()
    while asked := [(to, each) for to, each in broker.sent() if isinstance(each, m.Query)]:
        for site, query in asked:
            broker.receive(site, all_free(query))
    problem = broker.answers[1].problem
    assert problem is not None
    assert problem.code == "invalid-input"
    assert "ways" in problem.detail
    assert not broker.coordinator.cases
