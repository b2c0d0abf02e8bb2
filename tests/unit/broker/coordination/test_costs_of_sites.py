"""What a site says that something costs is about what it was asked for, and within what the user allows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.protocol_broker import WANTS, Broker

from kalends.broker.coordination.trust.cost_checks import complaint_about_cost
from kalends.contract import messages as m
from kalends.contract.costs import Cost, PaidPiece, SlotCost
from kalends.core.money import PIECES_MAX

WANT = replace(WANTS[0], units=3)
FIRST, LAST = WANT.start, WANT.end
WHOLE = PaidPiece(FIRST, LAST, 3, 1_000)


def cost(*pieces: PaidPiece, want: m.Want = WANT, **more: Any) -> Cost:
    return Cost("user:ann", (SlotCost(want, pieces or (WHOLE,)),), **more)


def test_a_price_in_pieces_is_believed_whatever_it_is() -> None:
    halves = (PaidPiece(FIRST, FIRST + 20, 1, 5), PaidPiece(FIRST, LAST, 2, 7))
    for told in (cost(), cost(*halves), Cost("user:ann")):
        assert complaint_about_cost(told, (WANT,), changes=False) == ""
    assert complaint_about_cost(cost(back=5), (WANT,), changes=True) == ""


EARLIER, LATER = FIRST - 60, LAST + 60
NONE = "charges for slots that it was not asked for"
MORE = "charges for more than a slot"
MANY = [PaidPiece(FIRST + n % 60, FIRST + n % 60 + 1, 0, n % 7) for n in range(PIECES_MAX + 1)]


@pytest.mark.parametrize(
    ("lie", "complaint"),
    [
        (cost(want=replace(WANT, end=LATER)), NONE),
        (cost(want=replace(WANT, units=4)), NONE),
        (cost(want=WANTS[1]), NONE),
        (replace(cost(), slots=cost().slots * 2), NONE),
        (cost(PaidPiece(EARLIER, LAST, 3, 1)), MORE),
        (cost(PaidPiece(FIRST, LATER, 3, 1)), MORE),
        (cost(PaidPiece(LAST, FIRST, 3, 1)), MORE),
        (cost(PaidPiece(FIRST, LAST, 4, 1)), MORE),
        (cost(WHOLE, PaidPiece(LAST - 1, LAST, 1, 1)), MORE),
        (cost(*MANY), "charges more than a request may cost"),
        (cost(back=1), "pays back for a change that there is not"),
    ],
)
def test_a_cost_of_anything_but_what_was_asked_for_is_a_lie(lie: Cost, complaint: str) -> None:
    assert complaint_about_cost(lie, (WANT,), changes=False) == complaint


def test_two_slots_alike_are_two_slots() -> None:
    twice = replace(cost(), slots=cost().slots * 2)
    assert complaint_about_cost(twice, (WANT, WANT), changes=False) == ""


HERE, THERE = (Cost("user:ann", (SlotCost(w, (PaidPiece(w.start, w.end, 1, 1_000),)),))
               for w in WANTS)  # fmt: skip
BOTH = {"here": HERE, "there": THERE}


def asked(phase: str, at_most: int = 0) -> tuple[Broker, str]:
    """A request that asks both sites for a promise at once, or after it holds the slots."""
    broker = Broker()
    rid = broker.submit(at_most=at_most, hold_s=0 if phase == "visit" else 600)
    if phase == "prepare":
        broker.visited(rid, vote=False)
        broker.lock(rid, 2)
    return broker, rid


def promise(broker: Broker, rid: str, phase: str, site: str, told: Cost) -> None:
    if phase == "visit":
        held = (m.HeldSlot(0, 11),)
        visited = m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=held, cost=told)
        broker.receive(site, visited)
    else:
        broker.receive(site, m.Voted(rid=rid, att=1, epoch=1, vote="yes", cost=told))


PHASES = ("visit", "prepare")


@pytest.mark.parametrize("phase", PHASES)
def test_what_sites_promise_at_the_limit_of_the_user_is_committed(phase: str) -> None:
    broker, rid = asked(phase, at_most=60_000)
    for site, told in BOTH.items():
        promise(broker, rid, phase, site, told)
    assert broker.row(rid).state == "commit"
    assert broker.row(rid).costs == BOTH


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("lie", "complaint"),
    [
        (replace(THERE, slots=HERE.slots), NONE),
        (replace(THERE, account="user:bob"), "charges another account than it was told"),
        (replace(THERE, account="project:dna"), "charges another account than it was told"),
        (replace(THERE, slots=(replace(THERE.slots[0], pieces=(
            PaidPiece(WANTS[1].start, WANTS[1].end, 1, 1_001),)),)),
         "charges more than the user allows"),
    ],
)  # fmt: skip
def test_a_promise_at_a_cost_that_cannot_be_is_a_no_and_its_site_is_named(
    phase: str, lie: Cost, complaint: str
) -> None:
    broker, rid = asked(phase, at_most=60_000)
    promise(broker, rid, phase, "here", HERE)
    promise(broker, rid, phase, "there", lie)
    assert broker.row(rid).state != "commit"
    assert broker.alarms == [f"there {complaint}"]
