"""What a mapper says of a schedule, against looking at every second by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort
from tests.machine_twins import Place, Twin, hypercube, mesh, torus

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition, Planned, ScheduleVerdict
from kalends.machines.spec import machine_from

TWINS = {
    "mesh2d:4x3": mesh(4, 3, (1, 1), "all"),
    "mesh2d:8x6:2x2:io=border": mesh(8, 6, (2, 2), "border"),
    "hypercube:3": hypercube(3),
    "torus3d:2x3x2": torus(2, 3, 2),
}


@st.composite
def schedules(draw: st.DrawFn, twin: Twin) -> list[Planned]:
    """Some jobs of free choice, and some that stand on nodes of their own, perhaps over each other."""
    planned = []
    for job in range(draw(st.integers(0, 8))):
        start_s = draw(st.integers(0, 12))
        end_s = start_s + draw(st.integers(1, 6))
        kind = draw(st.sampled_from(["any", "any", "any", "shape", "fixed"]))
        place = draw(st.sampled_from(twin.places))
        if kind == "fixed":
            partition = Partition(tuple(sorted(place.nodes)), place.sides)
            planned.append(Planned(job, len(place.nodes), start_s, end_s, (), partition))
        elif kind == "shape":
            planned.append(Planned(job, 1, start_s, end_s, place.sides))
        else:
            planned.append(Planned(job, draw(st.integers(1, twin.nodes)), start_s, end_s))
    return planned


def busy_during(
    schedule: list[Planned], partitions: dict[int, Partition], start_s: int, end_s: int
) -> frozenset[int]:
    busy: set[int] = set()
    for planned in schedule:
        if planned.job in partitions and any(
            planned.start_s <= second < planned.end_s for second in range(start_s, end_s)
        ):
            busy.update(partitions[planned.job].nodes)
    return frozenset(busy)


def fits(twin: Twin, planned: Planned, busy: frozenset[int], out: frozenset[int]) -> bool:
    if planned.partition is not None:
        return not busy & set(planned.partition.nodes)
    return bool(twin.free(busy | out, planned.nodes, planned.shape))


def check(
    twin: Twin, schedule: list[Planned], verdict: ScheduleVerdict, out: frozenset[int]
) -> None:
    """Places go in the order that the protocol promises; a suggestion is the first second that fits."""
    refused = {conflict.job for conflict in verdict.conflicts}
    assert refused.isdisjoint(verdict.partitions)
    assert refused | set(verdict.partitions) == {planned.job for planned in schedule}
    so_far: dict[int, Partition] = {}
    for planned in sorted(schedule, key=lambda each: (each.partition is None, each.start_s)):
        busy = busy_during(schedule, so_far, planned.start_s, planned.end_s)
        if planned.job in refused:
            assert not fits(twin, planned, busy, out)
            continue
        partition = so_far[planned.job] = verdict.partitions[planned.job]
        if planned.partition is not None:
            assert partition == planned.partition
            assert not busy & set(partition.nodes)
        else:
            place = Place(frozenset(partition.nodes), partition.shape)
            assert place in twin.free(busy | out, planned.nodes, planned.shape)
    last_s = max((planned.end_s for planned in schedule), default=0)
    by_job = {planned.job: planned for planned in schedule}
    for conflict in verdict.conflicts:
        planned = by_job[conflict.job]
        length_s = planned.end_s - planned.start_s
        possible = [
            start_s
            for start_s in range(planned.start_s, last_s + 1)
            if fits(twin, planned, busy_during(schedule, so_far, start_s, start_s + length_s), out)
        ]
        assert conflict.suggested_s == (possible[0] if possible else None)
        effort.steps["suggestions of mappers"] += 1


@pytest.mark.parametrize("spec", TWINS)
@settings(max_examples=effort.examples(40), deadline=None)
@given(data=st.data())
def test_a_verdict_is_right_and_its_suggestions_are_the_earliest(
    spec: str, data: st.DataObject
) -> None:
    machine, twin = machine_from(spec), TWINS[spec]
    schedule = data.draw(schedules(twin))
    out = data.draw(st.sets(st.integers(0, twin.nodes - 1), max_size=2))
    machine.drain(out)
    before = machine.free
    check(twin, schedule, machine.verify(schedule), twin.broken(out))
    assert machine.free == before
    effort.steps["schedules of mappers"] += 1


def test_a_job_that_can_never_be_placed_gets_no_suggestion() -> None:
    verdict = machine_from("mesh2d:2x2").verify([Planned(7, 5, 0, 10)])
    assert [(each.job, each.suggested_s) for each in verdict.conflicts] == [(7, None)]


def test_running_jobs_end_where_the_schedule_says_and_what_it_does_not_name_never_ends() -> None:
    machine = machine_from("mesh2d:2x1")
    running = machine.place(1)
    assert running is not None
    known = [Planned(1, 1, 0, 5, (), running), Planned(2, 2, 3, 9)]
    (conflict,) = machine.verify(known).conflicts
    assert (conflict.job, conflict.suggested_s) == (2, 5)
    (conflict,) = machine.verify(known[1:]).conflicts
    assert conflict.suggested_s is None


def test_two_entries_with_one_number_are_refused() -> None:
    with pytest.raises(InvalidInput, match="job 3 is in the schedule twice"):
        machine_from("pool:4").verify([Planned(3, 1, 0, 1), Planned(3, 1, 1, 2)])
