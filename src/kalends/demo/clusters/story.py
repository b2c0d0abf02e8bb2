"""Two owners with a Slurm, one with an instrument, and a program that runs on both machines in step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

import kalends
from kalends.cli.console import output
from kalends.cli.requests import find, request_texts
from kalends.client.client import Client
from kalends.contract.calls import Candidate, RequestView
from kalends.core.durations import parse_duration
from kalends.core.errors import NoCommonTime, Unavailable
from kalends.core.identifiers import short_id, split_resource
from kalends.core.jobs import JobRequest
from kalends.demo.clusters import rod
from kalends.demo.clusters.loopback_slurm import free_ports
from kalends.demo.clusters.sites import CENTRES, NODES, STRANGER, Centres
from kalends.demo.facility import USER
from kalends.demo.narrator import Tell, in_a_second_terminal, program
from kalends.demo.together import all_of, until

NODES_EACH: Final = 2
RANKS: Final = NODES_EACH * len(CENTRES)
MACHINES: Final = tuple(f"{name}/cluster" for name in CENTRES)
TEXT: Final = " + ".join([*(f"{name}:{NODES_EACH}" for name in MACHINES), "caltech/beamline"])
DURATION: Final = "2m"
LEAD: Final = "now+20s"
STEP_S_MAX: Final = 240.0


class ClustersReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the demo, for programs."""

    request: str
    found: Candidate
    reservation: RequestView
    reservations_of_slurm: dict[str, str]
    """What each Slurm says of the slot."""
    outputs: dict[str, str]
    digest: str
    """Digest of the rod when one process computes it alone; the program prints the same."""
    ended: RequestView


async def play(
    centres: Centres, tell: Tell, progress: Callable[[str], None], zone: ZoneInfo
) -> ClustersReport:
    """Book both machines and the instrument, and run one program on both.

    `progress` hears what is waited for. Raises the client's errors, and `Unavailable` when a server or a job
    does not do what it should.
    """
    await _occupy(centres, tell)
    facility = centres.facility
    async with kalends.connect(facility.broker_url, token=facility.token(USER)) as client:
        found = await _find(client)
        options = f"--for {DURATION} --after {LEAD}"
        tell(
            "When could all three start?",
            [f"kalends find '{TEXT}' {options}"],
            find.candidate_lines([found], zone),
        )
        port = free_ports(RANKS)
        booked = await client.submit_in_step(
            TEXT, jobs=_parts(centres, port), window=(LEAD, "now+1h"), note="one program on both"
        )
        tell(
            "One program on both machines, and the beamline along: all at once, or nothing",
            [f"kalends submit '{TEXT}' --for {DURATION} --begin {LEAD} {_options(port)}"],
            request_texts.request_lines(booked, zone),
        )
        seen = {name: await _said(centres, name, "show", "reservation", "-o") for name in CENTRES}
        tell("What each Slurm has reserved", ["scontrol show reservation"], _reserved(seen))
        progress("the program is submitted, and waits for its slot")
        outputs = await _outputs(centres, booked, tell)
        ended = await until(
            partial(client.show, booked.id),
            lambda view: bool(view.parts_ended_at),
            "what is left of the slots is not given back",
        )
        await until(lambda: _left(centres), lambda left: not left, "a Slurm keeps the slot")
        tell(
            "Both parts have ended: what is left of the slots is free again",
            [f"kalends list | grep {short_id(booked.id)}"],
            [request_texts.listing([ended], zone)[1], "no Slurm has it any more"],
        )
    return ClustersReport(
        request=TEXT, found=found, reservation=booked, reservations_of_slurm=seen, outputs=outputs,
        digest=rod.alone(RANKS), ended=ended,
    )  # fmt: skip


def try_now(centres: Centres) -> Iterator[str]:
    """Yield commands to copy while everything runs."""
    slurm = f"SLURM_CONF={centres.slurms[CENTRES[0]].configuration_file}"
    yield from in_a_second_terminal(
        centres.facility,
        f"{program()} find '{TEXT}' --for 10m --explain",
        f"{program()} book '{TEXT}' --for 10m",
        f"{slurm} scontrol show reservation",
        f"{slurm} squeue",
    )


async def _occupy(centres: Centres, tell: Tell) -> None:
    """Let a user run a job at the first centre, and an operator reserve a node at the second."""
    first, second = CENTRES
    job = (
        "sbatch", f"--uid={STRANGER}", "--nodelist=n1,n2", "-N2", "--time=10", "--output=/dev/null",
        "--wrap=sleep 600",
    )  # fmt: skip
    slurm = centres.slurms[first]
    await asyncio.to_thread(slurm.said, *job)
    await until(
        lambda: asyncio.to_thread(slurm.said, "squeue", "-h", "-t", "R", "-o", "%i"),
        bool,
        "the job of somebody else does not run",
    )
    await _said(
        centres, second, "create", "reservation", "ReservationName=service", "StartTime=now",
        "Duration=60", "Nodes=n4", "Users=root",
    )  # fmt: skip
    tell(
        f"{first} and {second} run their machines with Slurm; the beamline is caltech's",
        [],
        [
            f"{first}: {NODES} nodes; somebody's job has two of them for ten minutes",
            f"{second}: {NODES} nodes; one is reserved for service",
        ],
    )


async def _find(client: Client) -> Candidate:
    """Return the first common start, once both sites have seen what others have at their Slurms."""
    now_s = int(time.time())
    for machine in MACHINES:
        await until(
            partial(client.calendar, machine, end="now+1h"),
            lambda view: view.as_of > now_s,
            f"{machine}: its site does not look at its Slurm",
        )
    found = await client.find(TEXT, duration=DURATION, window=(LEAD, "now+1h"), count=1)
    if not found.candidates:
        raise NoCommonTime("no common time for the demo", refusals=found.refusals)
    return found.candidates[0]


def _parts(centres: Centres, port: int) -> dict[str, JobRequest]:
    """Return what runs on each machine: ranks that find each other from `port` on."""
    limit_s = parse_duration(DURATION)
    return {
        machine: JobRequest(
            machine="",
            limit_s=limit_s,
            command=("srun", *centres.program, str(port), str(RANKS), str(at * NODES_EACH)),
            directory="/",
        )
        for at, machine in enumerate(MACHINES)
    }


def _options(port: int) -> str:
    ranks = ((machine, at * NODES_EACH) for at, machine in enumerate(MACHINES))
    return " ".join(
        f"--part '{machine}=srun python3 rod.py {port} {RANKS} {first}'" for machine, first in ranks
    )


async def _outputs(centres: Centres, booked: RequestView, tell: Tell) -> dict[str, str]:
    """Return what the program has written at each centre."""
    outputs = dict(await all_of(_written(centres, part.machine, part.job) for part in booked.parts))
    tell(
        "Every rank begins in the same second",
        [f"kalends log {part.machine}/{part.job}" for part in booked.parts],
        [
            *(
                f"{name}  {line}"
                for name, out in outputs.items()
                for line in sorted(out.splitlines())
            ),
            f"computed alone, it is {rod.alone(RANKS)}",
        ],
    )
    return outputs


async def _written(centres: Centres, machine: str, number: int) -> tuple[str, str]:
    """Return what a job has written when it has ended well; raises `Unavailable` if it does not."""
    said = b""
    there = centres.facility.at_site(split_resource(machine)[0])
    try:
        async with there as site, asyncio.timeout(STEP_S_MAX):
            async for piece in site.follow_output(machine, number):
                said += piece
            job = await until(
                lambda: site.job(machine, number), lambda job: bool(job.end), "it does not end"
            )
    except TimeoutError:
        raise Unavailable(f"the program does not end; it wrote {said!r}", where=machine) from None
    if (job.end, job.status) != ("exit", 0):
        raise Unavailable(
            f"the program ended by {job.end} {job.status}: {job.detail}", where=machine
        )
    return machine, said.decode()


async def _said(centres: Centres, name: str, *words: str) -> str:
    return await asyncio.to_thread(centres.slurms[name].said, "scontrol", *words)


async def _left(centres: Centres) -> list[str]:
    said = [await _said(centres, name, "show", "reservation", "-o") for name in CENTRES]
    return [line for each in said for line in each.splitlines() if "=kal." in line]


def _reserved(seen: dict[str, str]) -> list[str]:
    wanted = ("ReservationName", "Nodes", "Users", "StartTime", "EndTime")
    body = []
    for name, said in seen.items():
        for line in said.splitlines():
            fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
            body.append((name, *(fields[each] for each in wanted)))
    return list(output.rows(("CLUSTER", "RESERVATION", "NODES", "USERS", "START", "END"), body))
