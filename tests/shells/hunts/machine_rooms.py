"""Sites that run jobs: whatever strikes servers, shepherds and hosts, what users are told is what ran."""

from __future__ import annotations

from tests.shells import job_substitutes, mutations_of_jobs  # noqa: F401  # before a site is built

# isort: split
import asyncio
import random
from typing import Final

import kalends
from tests.shells.facility import Facility, Plan
from tests.shells.hunts.storms import Strikes
from tests.shells.job_customers import LIMIT_S_MAX, JobCustomers
from tests.shells.job_host import HOSTS, host_below, host_called
from tests.shells.job_judging import judge_forgetful, judge_jobs, judge_moved
from tests.shells.judging import calm
from tests.shells.nodes import Node
from tests.shells.scenarios import Broken, scenario

STRIKES: Final = 20
STRIKES_S_MAX: Final = 90.0
DEATHS: Final = 0.4
"""The part of the strikes that hit a shepherd, and not a server."""

FAULTY: Final = 0.05
STRUCK: Final = 0.15
MOVES: Final = 5
QUEUED_S: Final = 12 * 3_600.0
"""Within it all jobs are over, if nothing is in their way."""


async def rooms_up(facility: Facility) -> None:
    """Start everything; each site has a host for jobs of its own."""
    await facility.up()
    for site in facility.sites:
        host_called(facility.world, site)


@scenario(
    Plan(machine=True, audited=False),
    least={"jobs exit": 8, "programs": 10, "charges judged": 8},
)
async def machine_room(facility: Facility, chance: random.Random) -> None:
    """Jobs and reservations of one calendar, while everything fails that can."""
    world = facility.world
    world.on_death.append(power_went)
    for site in facility.sites:
        host_called(world, site).faulty = FAULTY
        host_called(world, site).timed = True
    await facility.up()
    customers = JobCustomers(facility, chance, strikes=STRUCK)
    strikes = Strikes(facility, chance)
    for _ in range(STRIKES):
        await asyncio.sleep(chance.uniform(0.1, STRIKES_S_MAX))
        if chance.random() < DEATHS:
            host = HOSTS[chance.choice(facility.sites)]
            if host.shepherd_dies() and chance.random() < 0.2:
                host.record_is_removed()
        else:
            strikes.strike()
    await asyncio.sleep(31)
    customers.strikes = 0.0
    for host in HOSTS.values():
        host.faulty = 0.0
    await calm(facility)
    await customers.end(QUEUED_S)
    await _until_all_is_over(facility, customers)
    await judge_jobs(facility, customers)


@scenario(
    Plan(sites=1, machine=True, audited=False),
    least={"told": 20, "programs": 5, "charges judged": 3},
)
async def machine_restored(facility: Facility, chance: random.Random) -> None:
    """An older image of a site comes back: nothing runs twice that must not, or on nodes that are taken."""
    world = facility.world
    world.on_death.append(power_went)
    await facility.up()
    host = host_called(world, "site0")
    host.faulty, host.timed = FAULTY, True
    customers = JobCustomers(facility, chance, jobs=16, pause_s=20.0, strikes=STRUCK / 3)
    await asyncio.sleep(chance.uniform(5, 120))
    world.disk.image(world.disk_of("site0"), world.folder / "image")
    await asyncio.sleep(chance.uniform(5, 90))
    world.kill("site0", dark=chance.random() < 0.2)
    world.disk.put_back(world.disk_of("site0"), world.folder / "image")
    restored_s = world.loop.now_s
    facility.start("site0")
    await asyncio.sleep(chance.uniform(30, 200))
    customers.strikes = HOSTS["site0"].faulty = 0.0
    await calm(facility)
    await customers.end(QUEUED_S)
    await _until_all_is_over(facility, customers)
    await judge_forgetful(facility, customers, restored_s)
    facility.counts["told"] += len(customers.told)
    facility.counts["programs"] += len(HOSTS["site0"].history)


@scenario(
    Plan(sites=1, machine=True, audited=False),
    least={"told": 20, "programs": 8, "jobs exit": 4, "hosts lost": 1},
)
async def machine_moved(facility: Facility, chance: random.Random) -> None:
    """A store is taken to other hosts and back: no job runs twice, and what a lost host had is lost once."""
    world = facility.world
    await facility.up()
    customers = JobCustomers(facility, chance, jobs=16, pause_s=20.0)
    for number in range(MOVES):
        host_called(world, host_below("site0")).faulty = FAULTY
        await asyncio.sleep(chance.uniform(10, 60))
        before, there = host_below("site0"), f"site0 {number}"
        facility.move("site0", there)
        await asyncio.sleep(chance.uniform(3, 60))
        await _nobody_books_it(facility)
        if number and chance.random() < 0.5:
            facility.move("site0", before)
        else:
            HOSTS[before].power_fails()
            await _give_up(facility, before)
            facility.counts["hosts lost"] += 1
    for host in HOSTS.values():
        host.faulty = 0.0
    await calm(facility)
    await customers.end(QUEUED_S)
    await _until_all_is_over(facility, customers)
    if broke := facility.logged("its queue broke"):
        raise Broken(broke[0])
    await judge_moved(facility, customers)


async def _nobody_books_it(facility: Facility) -> None:
    """Raise `Broken` where a machine is booked whose jobs nobody sees."""
    async with facility.connect(facility.replicas[0], "late", timeout_s=10) as client:
        try:
            view = await client.book(
                "site0/cluster:1", at=facility.tomorrow, duration="10m", patience="none"
            )
        except kalends.KalendsError:
            return
    if view.state == "reserved":
        raise Broken(f"{view} was booked on a machine that is put aside")


async def _give_up(facility: Facility, host: str) -> None:
    """The owner gives a host up; a call whose answer was lost may have done it."""
    async with facility.connect("site0", "owner", timeout_s=10) as client:
        while True:
            try:
                await client.host_lost(host)
            except kalends.NotFound:
                return
            except kalends.KalendsError:
                await asyncio.sleep(1)


def power_went(node: Node) -> None:
    if node.dark and node.host in HOSTS:
        HOSTS[node.host].power_fails()


async def _until_all_is_over(facility: Facility, customers: JobCustomers) -> None:
    deadline_s = facility.world.loop.now_s + QUEUED_S
    for site in facility.sites:
        async with facility.connect(site, "user0", timeout_s=10) as client:
            while facility.world.loop.now_s < deadline_s:
                if not (await client.jobs(f"{site}/cluster", everyone=True)).jobs:
                    break
                await asyncio.sleep(LIMIT_S_MAX / 4)
