"""The checker on machines with a topology: policies do nothing wrong, and what is wrong is found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.effort import examples, steps
from tests.machine_twins import Twin, hypercube, mesh, torus

from kalends.core.errors import InvalidInput
from kalends.machines.spec import machine_from
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.checking import CheckReport, check
from kalends.simulation.checking.topologies import topology_from
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

TWINS: dict[str, Twin] = {
    "mesh2d:5x4": mesh(5, 4, (1, 1), "all"),
    "mesh2d:8x6:2x2:io=border": mesh(8, 6, (2, 2), "border"),
    "mesh2d:12x10:2x2:io=inner:fit=first": mesh(12, 10, (2, 2), "inner"),
    "mesh2d:8x6:4x2:io=inner": mesh(8, 6, (4, 2), "inner"),
    "hypercube:4": hypercube(4),
    "torus3d:3x4x2": torus(3, 4, 2),
    "torus3d:1x2x5": torus(1, 2, 5),
}
MACHINES = ["mesh2d:5x4", "mesh2d:8x6:2x2:io=border", "hypercube:4", "torus3d:3x2x2"]
Row = tuple[SimulatedJob, int, tuple[int, ...]]
"""A job with its start and its nodes."""


@pytest.mark.parametrize("spec", TWINS)
def test_the_checker_knows_the_same_partitions_as_an_exhaustive_search(spec: str) -> None:
    nodes, topology = topology_from(spec)
    assert topology is not None
    assert nodes == TWINS[spec].nodes
    for wanted in range(1, nodes + 1):
        serving = TWINS[spec].serving(wanted)
        assert topology.granted(wanted) == TWINS[spec].granted(wanted)
        assert topology.partitions(wanted) == {
            sum(1 << node for node in place.nodes) for place in serving
        }
        steps["requests for partitions"] += 1


def scheduled(spec: str, policy: str, seed: int) -> list[Row]:
    draw = Random(f"{spec} {seed}")
    machine = machine_from(spec)
    jobs, now = [], 0
    for number in range(1, draw.choice([4, 10, 30])):
        now += draw.choice([0, 0, 1, 3, 9])
        run_s = draw.randint(1, 30)
        nodes = draw.randint(1, draw.choice([machine.nodes, machine.nodes // 3]))
        requested_s = run_s + draw.choice([0, 0, 1, 5, 40])
        jobs.append(SimulatedJob(number, now, nodes, requested_s, run_s=run_s))
    scheduler = Scheduler(policy_maker(policy)(MappedCluster(machine)))
    ended = sorted(replay(jobs, scheduler), key=lambda job: job.order)
    return [(job, job.start_s, job.partition.nodes) for job in ended if job.partition is not None]


def checked(folder: Path, rows: list[Row], policy: str, spec: str) -> CheckReport:
    (folder / "log.swf").write_text(
        "".join(
            f"{job.id} {job.submit_s} -1 {job.run_s} {job.nodes} -1 -1 {job.nodes}"
            f" {job.requested_s} -1 1 1 1 1 1 1 -1 -1\n"
            for job, _, _ in rows
        )
    )
    (folder / "result.csv").write_text(
        "job_id,starting_time,finish_time,allocated_resources\n"
        + "".join(
            f"{job.id},{start_s},{start_s + job.run_s},{' '.join(map(str, nodes))}\n"
            for job, start_s, nodes in rows
        )
    )
    return check(folder / "log.swf", folder / "result.csv", policy, machine=spec)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-sjbf", "conservative"])
@pytest.mark.parametrize("spec", MACHINES)
def test_what_a_policy_does_on_a_machine_breaks_no_rule(
    tmp_path: Path, spec: str, policy: str
) -> None:
    waited = 0
    for seed in range(examples(8)):
        rules = "any" if policy == "conservative" else policy
        report = checked(tmp_path, scheduled(spec, policy, seed), rules, spec)
        assert not report.findings
        waited += report.waited
        steps["schedules checked on machines"] += 1
    assert waited or rules == "any"


@pytest.mark.parametrize("spec", MACHINES)
def test_a_schedule_that_overtakes_too_much_breaks_the_promise_to_the_head(
    tmp_path: Path, spec: str
) -> None:
    kinds: set[str] = set()
    for seed in range(12):
        report = checked(tmp_path, scheduled(spec, "fcfs-scan", seed), "easy", spec)
        kinds.update(report.kinds)
    assert {"promise", "delayed"} <= kinds <= {"promise", "delayed", "idle"}


def three(first: str, second: str, third: str) -> str:
    return (
        "job_id,starting_time,finish_time,allocated_resources\n"
        f"1,0,10,{first}\n2,0,5,{second}\n3,{third}\n"
    )


@pytest.mark.parametrize(
    ("result", "kinds"),
    [
        (three("1", "0", "10,15,0-1"), []),
        (three("1", "0", "10,15,0 2"), ["partition"]),
        (three("1", "0", "5,10,0 2"), ["partition"]),
        (three("1", "0", "10,15,0-2"), ["nodes", "partition"]),
        (three("1", "0", "11,16,0-1"), ["idle"]),
        (three("0", "1", "10,15,1-2"), ["idle"]),
        (three("1", "0", "10,15,2-3"), ["outside", "partition"]),
    ],
)
def test_the_head_waits_for_neighbours_and_gets_them(
    tmp_path: Path, result: str, kinds: list[str]
) -> None:
    # Two of three nodes in a row are wanted by the third, submitted when the first two run.
    log = tmp_path / "log.swf"
    rows = [(1, 0, 10, 1), (2, 0, 5, 1), (3, 1, 5, 2)]
    log.write_text(
        "".join(f"{a} {b} -1 {c} {d} -1 -1 {d} {c} -1 1 1 1 1 1 1 -1 -1\n" for a, b, c, d in rows)
    )
    (tmp_path / "result.csv").write_text(result)
    report = check(log, tmp_path / "result.csv", "fcfs", machine="mesh2d:3x1")
    assert sorted(report.kinds) == kinds


def test_what_cannot_be_checked_on_a_machine_is_refused(tmp_path: Path) -> None:
    rows = scheduled("mesh2d:5x4", "easy", 1)
    checked(tmp_path, rows, "any", "mesh2d:5x4")
    log, result = tmp_path / "log.swf", tmp_path / "result.csv"
    with pytest.raises(InvalidInput, match="starts depend on which nodes"):
        check(log, result, "conservative", machine="mesh2d:5x4")
    with pytest.raises(InvalidInput, match="which nodes they have"):
        check(log, result, "easy", machine="mesh2d:5x4", reservations="kept.csv")
    with pytest.raises(InvalidInput, match="both 20 nodes and a machine"):
        check(log, result, "easy", 20, machine="mesh2d:5x4")
    result.write_text("job_id,starting_time\n" + "".join(f"{job.id},{at}\n" for job, at, _ in rows))
    with pytest.raises(InvalidInput, match="no nodes by name"):
        check(log, result, "easy", machine="mesh2d:5x4")
    assert check(log, result, "any", machine="pool:20").nodes == 20


@pytest.mark.parametrize(
    "text",
    ["mesh2d", "mesh2d:3", "mesh2d:3x0", "mesh2d:8x8:3x2", "mesh2d:9x9:io=none", "hypercube:0",
     "hypercube:99", "torus3d:2x2", "pool:", "pool:0", "grid:4+", "mesh2d:999999x999999",
     "mesh2d:64x64", "mesh2d:\uff13x3", "x" * 99],
)  # fmt: skip
def test_a_machine_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        topology_from(text)
