"""Where a reservation could begin instead is found as by taking it out and looking from the beginning."""

from __future__ import annotations

from random import Random

from tests.effort import examples, steps

from kalends.simulation.checking.room import Room

NODES = 6


def test_an_earlier_start_is_found_as_by_taking_the_reservation_out() -> None:
    earlier = 0
    for seed in range(examples(300)):
        random = Random(seed)
        room, reserved = Room(NODES), []
        for _ in range(random.choice([3, 30])):
            nodes, length_s = random.randint(1, NODES), random.choice([1, 3, 9, 27])
            start_s = room.earliest_s(nodes, length_s, random.randint(0, 60))
            room.add(start_s, start_s + length_s, -nodes)
            reserved.append((nodes, length_s, start_s))
        room.forget_before(random.randint(0, 20))
        for nodes, length_s, start_s in reserved:
            now = max(room.times[0], random.randint(0, 60))
            before_s = random.choice([start_s, now + random.randint(0, 60)])
            if start_s < now:
                continue
            expected = room.earlier_without_s(nodes, length_s, start_s, now, before_s)
            found = room.earlier_s(nodes, length_s, start_s, now, before_s)
            assert found == expected, (seed, nodes, length_s, start_s, now, before_s)
            moved, slow = Room(NODES), Room(NODES)
            for each in (moved, slow):
                each.times, each.free = room.times[:], room.free[:]
            moved.move(nodes, length_s, start_s, found)
            slow.add(start_s, start_s + length_s, nodes)
            slow.add(found, found + length_s, -nodes)
            assert (moved.times, moved.free) == (slow.times, slow.free)
            room, earlier = moved, earlier + (found < start_s)
            steps["earlier starts of a checked schedule"] += 1
    assert earlier > 300
