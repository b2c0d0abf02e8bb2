"""Replays on machines that name their nodes: schedules use the nodes that the mapper gave."""

from __future__ import annotations

from pathlib import Path

import kalends
from kalends.simulation.schedule import Schedule

EXCERPT = Path(__file__).parents[3] / "examples" / "data" / "sdsc-sp2-excerpt.swf"


def test_a_mesh_gives_whole_atomic_units_and_never_one_node_twice() -> None:
    schedule = Schedule()
    kalends.simulate(EXCERPT, machine="mesh2d:8x16:2x2", watchers=[schedule.add])
    runs = [
        (start_s, end_s, {n for low, high in nodes for n in range(low, high + 1)})
        for _, start_s, end_s, nodes in schedule.on_nodes(128)
    ]
    assert all(len(nodes) % 4 == 0 for _, _, nodes in runs)
    for at, (start_s, end_s, nodes) in enumerate(runs):
        for other_s, other_end_s, others in runs[:at]:
            assert not (start_s < other_end_s and other_s < end_s and nodes & others)
