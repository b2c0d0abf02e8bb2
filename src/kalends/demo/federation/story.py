"""Jobs that name no machine: where they go, what two places are worth, and what a lost site costs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

import kalends
from kalends.cli.jobs import shown_jobs
from kalends.cli.requests.lookups import story_lines
from kalends.cli.requests.request_texts import placed_text
from kalends.cli.resources import site_lines
from kalends.client.client import Client
from kalends.contract.calls import PlacedJob, RequestView, Story
from kalends.contract.job_calls import JobView
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.identifiers import short_id, split_resource
from kalends.core.jobs import JobRequest
from kalends.demo.facility import OPERATOR, USER, Facility
from kalends.demo.federation.sites import (
    LAST,
    LAST_NODES,
    MEMBER,
    POLICIES,
    VIRTUAL,
    Federation,
)
from kalends.demo.narrator import Tell, in_a_second_terminal, program
from kalends.demo.together import until

OTHERS: Final = (("sdsc", 8, 600), ("ctc", 4, 300), ("ncsa", 4, 1_200))
"""What runs already: at which site, on how many nodes, for how many seconds at most."""

LINE: Final = 'echo "job $KALENDS_JOB of $KALENDS_MACHINE runs"'
LIMIT_S: Final = 120
"""Long enough that all four sites are asked."""

STRANGER: Final = "daemon"


class FederationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the demo, for programs."""

    slurm: bool
    """Whether the last site has a Slurm."""
    first: RequestView
    bids: Story
    redundant: RequestView
    started: RequestView
    """The redundant job, once it has started at one of its sites."""
    left: JobView
    """Its other place, which it has left."""
    lost: RequestView
    """A job whose site is lost soon after."""
    elsewhere: RequestView
    story: Story
    come_back: JobView
    """What the lost site knows of that job once it is back."""


async def play(
    federation: Federation, tell: Tell, progress: Callable[[str], None], zone: ZoneInfo
) -> FederationReport:
    """Let the broker place jobs, end a user's job, and stop a site; `progress` hears what is waited for.

    Raises the client's errors, and `Unavailable` when a server or a job does not do what it should.
    """
    facility = federation.facility
    filled = await _occupy(federation, tell)
    async with kalends.connect(facility.broker_url, token=facility.token(USER)) as client:
        first, bids = await _anywhere(facility, client, tell, zone)
        redundant, started, left = await _twice(facility, client, filled, tell, zone)
        progress("a site is stopped, and comes back")
        lost, elsewhere, story, come_back = await _lost(federation, client, tell, zone)
    return FederationReport(
        slurm=federation.slurm is not None, first=first, bids=bids, redundant=redundant, started=started,
        left=left, lost=lost, elsewhere=elsewhere, story=story, come_back=come_back,
    )  # fmt: skip


async def _occupy(federation: Federation, tell: Tell) -> dict[str, int]:
    """Let others run jobs everywhere; return the number of the job at each site with a queue of ours."""
    facility, numbers = federation.facility, {}
    others = list(OTHERS)
    if federation.slurm is None:
        others.append((LAST, LAST_NODES, 1_200))
    for site, nodes, limit_s in others:
        async with _operated(facility, site) as there:
            sleep = ("/bin/sleep", str(limit_s))
            job = JobRequest(
                machine=f"{site}/cluster", nodes=nodes, limit_s=limit_s, command=sleep, directory="/"
            )  # fmt: skip
            number = numbers[site] = (await there.submit(job)).job.job
            await until(
                partial(there.job, job.machine, number),
                lambda view: view.phase == "running",
                f"the first job at {site} does not run",
            )
    said = [
        f"{site}: {POLICIES[site][1]} nodes, {POLICIES[site][0]}; {nodes} are taken for {limit_s // 60} min"
        + (f"; reached through {VIRTUAL}" if site == MEMBER else "")
        for site, nodes, limit_s in OTHERS
    ]
    if federation.slurm is not None:
        federation.slurm.said(
            "sbatch", f"--uid={STRANGER}", f"-N{LAST_NODES}", "--time=20", "--output=/dev/null",
            "--wrap=sleep 1200",
        )  # fmt: skip
    kind = "run by Slurm" if federation.slurm is not None else "shortest jobs first"
    said.append(f"{LAST}: {LAST_NODES} nodes, {kind}; all are taken for 20 min")
    said.append(f"{VIRTUAL} is a virtual site: it owns nothing, and is the way to {MEMBER}")
    tell("Four sites, each with a policy of its own, and one broker", [], said)
    return numbers


async def _anywhere(
    facility: Facility, client: Client, tell: Tell, zone: ZoneInfo
) -> tuple[RequestView, Story]:
    await until(
        client.resources,
        lambda seen: (
            len(seen.resources) > len(POLICIES) and not any(each.rests_s for each in seen.sites)
        ),
        "not all sites are known to the broker",
    )
    view, placed = await _placed(client, nodes=4)
    said = await _written(facility, placed)
    bids = await client.why(view.id)
    tell(
        "A job, and no idea where it should run",
        [
            f"kalends submit -n 4 --for 2m -- sh -c '{LINE}'",
            f"kalends log {_name(placed)}",
            f"kalends why {short_id(view.id)}",
        ],
        [f"{_name(placed)}: {placed_text(placed, zone)}", said, *story_lines(bids, zone)],
    )
    tell("What the broker has learned", ["kalends sites"], site_lines(await client.resources()))
    return view, bids


async def _twice(
    facility: Facility, client: Client, filled: dict[str, int], tell: Tell, zone: ZoneInfo
) -> tuple[RequestView, RequestView, JobView]:
    """Wait at the two sites with eight nodes; the one where it would start later comes free first."""
    view, placed = await _placed(client, nodes=8, redundant=True)
    if not placed.also:
        raise Unavailable("the job has a place at one site only", where=placed.machine)
    other = placed.also[0]
    sooner = split_resource(other.machine)[0]
    async with _operated(facility, sooner) as there:
        await there.kill_job(other.machine, filled[sooner])
    started = await until(
        lambda: client.show(view.id),
        lambda now: now.placed is not None and not now.placed.also,
        "the job does not start",
    )
    assert started.placed is not None
    said = await _written(facility, started.placed)
    left = await _over(facility, placed)
    tell(
        f"Wait at two sites, start once: a job at {sooner} ends before its time",
        [
            f"kalends submit --redundant -n 8 --for 2m -- sh -c '{LINE}'",
            f"kalends log {_name(started.placed)}",
            f"kalends job {_name(placed)}",
        ],
        [
            f"{_name(placed)}: {placed_text(placed, zone)}",
            said,
            f"{_name(placed)}: {shown_jobs.news(None, left, zone)}",
        ],
    )
    return view, started, left


async def _lost(
    federation: Federation, client: Client, tell: Tell, zone: ZoneInfo
) -> tuple[RequestView, RequestView, Story, JobView]:
    """A job waits where its user wants it most; that site goes, and comes back."""
    facility, wanted = federation.facility, "ncsa"
    view, placed = await _placed(
        client, nodes=4, at_most_once=True, prefer={f"site={wanted}": "1h"}
    )
    site = split_resource(placed.machine)[0]
    await federation.stop(site)
    try:
        elsewhere = await until(
            lambda: client.show(view.id),
            lambda now: now.placed is not None and now.placed.machine != placed.machine,
            "the job gets no other place",
        )
        assert elsewhere.placed is not None
        said = await _written(facility, elsewhere.placed)
        story = await client.why(view.id)
    finally:
        await federation.start(site)
    come_back = await _over(facility, placed)
    tell(
        f"A site is lost: {site} is stopped, and started again later",
        [
            f"kalends submit --at-most-once -n 4 --for 2m --prefer site={wanted}:1h -- sh -c '{LINE}'",
            f"kalends log {_name(elsewhere.placed)}",
            f"kalends why {short_id(view.id)}",
            f"kalends job {_name(placed)}",
        ],
        [
            f"{_name(placed)}: {placed_text(placed, zone)}",
            said,
            *story_lines(story, zone),
            f"{_name(placed)}: {shown_jobs.news(None, come_back, zone)}",
        ],
    )
    return view, elsewhere, story, come_back


def try_now(federation: Federation) -> Iterator[str]:
    """Yield commands to copy while everything runs."""
    kalends_ = program()
    job = "-n 2 --for 1m --directory / -- hostname"
    yield from in_a_second_terminal(
        federation.facility,
        f"{kalends_} sites",
        f"{kalends_} submit {job}",
        f"{kalends_} submit --redundant {job}",
        f"{kalends_} submit --on through={VIRTUAL} {job}",
        f"{kalends_} list",
        f"{kalends_} queue sdsc/cluster --plan",
    )


async def end_all(federation: Federation) -> None:
    """End all jobs at queues of ours, as far as their sites can still be asked."""
    for site in federation.facility.servers.keys() & {*POLICIES, LAST}:
        with contextlib.suppress(KalendsError):
            async with _operated(federation.facility, site) as there:
                for job in (await there.jobs(f"{site}/cluster", everyone=True)).jobs:
                    await there.kill_job(job.machine, job.job)
                await until(
                    partial(there.jobs, f"{site}/cluster", everyone=True),
                    lambda listed: not listed.jobs,
                    f"jobs at {site} do not end",
                )


# The parts


@contextlib.asynccontextmanager
async def _operated(facility: Facility, site: str) -> AsyncIterator[Client]:
    url, token = facility.servers[site].url, facility.token(OPERATOR)
    async with kalends.connect(url, token=token) as client:
        yield client


async def _placed(
    client: Client, nodes: int, **wishes: object
) -> tuple[RequestView, PlacedJob]:  # fmt: skip
    """Leave a job to the broker, and return where it is."""
    job = JobRequest(
        machine="", nodes=nodes, limit_s=LIMIT_S, command=("/bin/sh", "-c", LINE), directory="/"
    )
    view = await client.place_job(job, **wishes)  # type: ignore[arg-type]
    if view.placed is None:
        raise Unavailable("the job has no place", remedy="read the logs of the servers")
    return view, view.placed


async def _written(facility: Facility, placed: PlacedJob) -> str:
    """Return what a job has written once it has ended well; raises `Unavailable` if it has not."""
    over = await _over(facility, placed)
    if (over.end, over.status) != ("exit", 0):
        raise Unavailable(f"the job has not run: {over.end}: {over.detail}", where=_name(placed))
    site = split_resource(placed.machine)[0]
    async with facility.at_site(site) as there:
        return (await there.job_output(placed.machine, placed.number)).data.decode().strip()


async def _over(facility: Facility, placed: PlacedJob) -> JobView:
    site = split_resource(placed.machine)[0]
    async with facility.at_site(site) as there:
        return await until(
            partial(there.job, placed.machine, placed.number),
            lambda view: bool(view.end),
            f"{_name(placed)} does not end",
        )


def _name(placed: PlacedJob) -> str:
    return f"{placed.machine}/{placed.number}"
