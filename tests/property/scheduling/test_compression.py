"""Compression moves bookings to where taking each out, and looking from the beginning, would put it."""

from __future__ import annotations

import random

from tests import effort

from kalends.scheduling.policies.backfill.compression import Compression
from kalends.scheduling.profile import NEVER, Profile

NODES = 12
LENGTHS_S = (1, 3, 9, 27, 80)

Booking = tuple[int, int, int]
"""Nodes, length and start."""


def moved_slowly(plan: Profile, bookings: list[Booking]) -> list[Booking]:
    moved = []
    for nodes, length_s, start_s in bookings:
        if start_s < NEVER:
            plan.take(-nodes, start_s, start_s + length_s)
        earlier_s = plan.earliest(nodes, length_s, plan.times[0])
        plan.take(nodes, earlier_s, earlier_s + length_s)
        moved.append((nodes, length_s, earlier_s))
    return moved


def moved_up(compression: Compression, bookings: list[Booking]) -> list[Booking]:
    moved = []
    for nodes, length_s, start_s in bookings:
        if start_s > compression.from_s and nodes <= compression.roof:
            start_s = compression.move(nodes, length_s, start_s)
        moved.append((nodes, length_s, start_s))
    return moved


def test_bookings_move_to_where_looking_from_the_beginning_puts_them() -> None:
    moves = 0
    for seed in range(effort.examples(150)):
        moves += _rounds(random.Random(seed))
        effort.steps["rounds of compression"] += 20
    assert moves > 1_000


def _rounds(draw: random.Random) -> int:
    """Free something twenty times, and let all move each time; return how many have moved."""
    plan, widest, moves = Profile(0, NODES), draw.choice((1, 3, NODES)), 0

    def booked() -> Booking:
        nodes, length_s = draw.randint(1, widest), draw.choice(LENGTHS_S)
        start_s = plan.earliest(nodes, length_s, plan.times[0])
        plan.take(nodes, start_s, start_s + length_s)
        return nodes, length_s, start_s

    bookings = [booked() for _ in range(draw.choice((5, 40)))]
    # Some wait for nodes that were out of service: they are in no plan, and all of it is new to them.
    bookings += [(1, draw.choice(LENGTHS_S), NEVER) for _ in range(draw.choice((0, 0, 2)))]
    freed_from_s, freed_until_s = 0, NEVER
    for _ in range(20):
        slow = plan.copy()
        expected = moved_slowly(slow, bookings)
        compression = Compression(plan, freed_from_s, freed_until_s)
        found = moved_up(compression, bookings)
        assert found == expected
        assert (plan.times, plan.free) == (slow.times, slow.free)
        assert all(one != other for one, other in zip(plan.free, plan.free[1:], strict=False))
        moves += sum(one != other for one, other in zip(found, bookings, strict=True))
        bookings = found
        now = plan.times[0] + draw.choice((0, 1, 5))
        plan.forget_before(now)
        bookings = [each for each in bookings if each[2] > now]
        while len(bookings) < 5 or draw.random() < 0.3:
            bookings.append(booked())
        nodes, length_s, start_s = bookings.pop(draw.randrange(len(bookings)))
        plan.take(-nodes, start_s, start_s + length_s)
        freed_from_s = min(compression.moved_from_s, start_s)
        freed_until_s = max(compression.moved_until_s, start_s + length_s)
    return moves
