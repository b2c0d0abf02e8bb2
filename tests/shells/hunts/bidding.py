"""Jobs that are left to brokers: each runs once, where its user was told, and by its promised start."""

from __future__ import annotations

from tests.shells import job_substitutes, mutations_of_jobs, mutations_of_places  # noqa: F401  # before a site is built

# isort: split
import asyncio
import random
from collections.abc import Sequence
from typing import Final, Literal

from tests.shells.facility import Facility, Plan
from tests.shells.hunts.machine_rooms import power_went, rooms_up
from tests.shells.hunts.storms import weather
from tests.shells.job_host import host_called
from tests.shells.judging import calm
from tests.shells.judging_restarts import Absence
from tests.shells.place_oracles import Permits, Queues, Words
from tests.shells.placing import PlaceCustomers, judge_places, until_all_is_over
from tests.shells.scenarios import Broken, scenario

STRIKES: Final = 14
STRIKES_S_MAX: Final = 40.0
STRUCK: Final = 0.3
LOST_S: Final = 4.0
"""Cut cables and frozen sites last longer than that: their jobs go elsewhere, and they come back."""
ABSENT_S_MAX: Final = 30.0
ABSENCES: Final = 8
FAILURES: Final = 2
"""Of each site: no job loses its nodes at one more often than it may start there again."""
HOLE_STRIKES: Final = 4
SWALLOWED_MAX: Final = 16
"""Of 48 jobs: what is undecided when the first one fails there, and a trial a minute, then ever fewer."""
LATER_ROUNDS_MAX: Final = 8
"""Rounds of jobs, a quarter of an hour each: a pause lasts up to an hour, then a bid is a trial."""
ROUND_S: Final = 8.0
CONNECTIONS_MAX: Final = 60
REST_S_MAX: Final = 3_600
QUEUED_S: Final = 3 * 3_600.0
"""Within it all jobs are over, if nothing is in their way."""
UNDISTURBED_S: Final = 3_600.0
"""The same where nothing fails: several times what it takes."""


@scenario(
    Plan(sites=3, replicas=2, machine=True, audited=False, policy="conservative"),
    least={"placed": 48, "ran": 30, "punctual": 20},
)
async def bids(facility: Facility, chance: random.Random) -> None:
    """Nothing fails: whatever others are offered meanwhile, promised starts are kept."""
    await rooms_up(facility)
    queues, words = Queues(facility), Words(facility)
    customers = PlaceCustomers(facility, chance, count=4, jobs=12, pause_s=20.0)
    permits = Permits(facility, customers.once_at)
    await customers.end(UNDISTURBED_S)
    await until_all_is_over(facility, UNDISTURBED_S)
    await judge_places(facility, customers, punctual=True)
    for each in (queues, words, permits):
        each.judge()


@scenario(
    Plan(sites=3, replicas=2, machine=True, audited=False, broker_options=f"lost_s = {LOST_S}"),
    least={"ran": 15},
)
async def bids_in_storms(facility: Facility, chance: random.Random) -> None:
    """Everything fails that can, between the bid and the vote above all."""
    customers = await _in_a_storm(facility, chance, slow=0.02)
    await _nobody_rests_for_ever(facility)
    await _all_end_well(facility, customers)


@scenario(
    Plan(sites=3, replicas=2, machine=True, audited=False, broker_options=f"lost_s = {LOST_S}"),
    least={"ran": 20},
)
async def lost_sites(facility: Facility, chance: random.Random) -> None:
    """Queues are long, and sites are gone for longer than brokers wait: cut off, frozen, or dead."""
    await rooms_up(facility)
    customers = PlaceCustomers(facility, chance, count=4, pause_s=2.0, once=0.45)
    await _sites_go_and_come_back(facility, chance)
    facility.counts["of lost sites"] += len(facility.logged('"place_elsewhere"'))
    facility.counts["asked back"] += len(facility.logged('"place_asked_back"'))
    await calm(facility)
    await _all_end_well(facility, customers)


@scenario(
    Plan(sites=4, replicas=2, machine=True, audited=False, broker_options=f"lost_s = {LOST_S}"),
    least={"ran": 12},
)
async def starting_again(facility: Facility, chance: random.Random) -> None:
    """Jobs run for long that may start again: they are moved, drained away, and left by their sites."""
    await rooms_up(facility)
    customers = PlaceCustomers(
        facility, chance, count=3, jobs=8, pause_s=30.0, once=0.2, again=0.8, moves=0.5
    )
    absences = await _sites_go_and_come_back(facility, chance)
    await calm(facility)
    await _all_end_well(facility, customers, absences=absences, lost_s=LOST_S)


@scenario(
    Plan(sites=3, replicas=2, machine=True, audited=False),
    least={"ran": 40, "could not start": 1, "ran after the repair": 1},
)
async def black_hole(facility: Facility, chance: random.Random) -> None:
    """One site can start no program, and has the most free nodes for that; then it is repaired."""
    await rooms_up(facility)
    hole = host_called(facility.world, chance.choice(facility.sites))
    hole.hollow = True
    customers = PlaceCustomers(facility, chance, count=4, jobs=12, pause_s=20.0, again=0.2)
    for _ in range(HOLE_STRIKES):
        await asyncio.sleep(chance.uniform(1.0, ABSENT_S_MAX))
        facility.restart(chance.choice(facility.replicas))
    await calm(facility)
    await customers.end(QUEUED_S)
    swallowed = len(hole.swallowed)
    facility.counts["could not start"] += swallowed
    if swallowed > SWALLOWED_MAX:
        raise Broken(f"{swallowed} jobs went to {hole.name}, which can start none")
    hole.hollow = False
    later = []
    while not hole.history and len(later) < LATER_ROUNDS_MAX:
        later.append(
            PlaceCustomers(
                facility, chance, count=4, jobs=8, pause_s=120.0, named=f"later{len(later) or ''}"
            )
        )
        await later[-1].end(QUEUED_S)
    for _ in range(2):  # What could not start last has its next place by then.
        await until_all_is_over(facility, QUEUED_S)
        await asyncio.sleep(ROUND_S)
    await judge_places(facility, customers, punctual=False)
    for each in later:
        await judge_places(facility, each, punctual=False)
    if not hole.history:
        jobs = sum(len(each.wishes) for each in later)
        raise Broken(f"{hole.name} is repaired, and none of {jobs} jobs went there")
    facility.counts["ran after the repair"] += len(hole.history)


@scenario(
    Plan(sites=4, replicas=2, machine=True, audited=False, policy="conservative"),
    least={"ran": 8},
)
async def failing_nodes(facility: Facility, chance: random.Random) -> None:
    """Nodes fail under jobs that may start again: who waits for others goes where some are free."""
    await rooms_up(facility)
    customers = PlaceCustomers(
        facility, chance, count=4, jobs=4, pause_s=60.0, again=0.9, once=0.2, moves=0.0
    )
    await _nodes_fail_and_come_back(facility, chance)
    await calm(facility)
    await _all_end_well(facility, customers)


@scenario(
    Plan(
        sites=6,
        brokers=2,
        replicas=2,
        machine=True,
        audited=False,
        virtual={"hall": ("site1", "site2", "west"), "west": ("site3", "site4", "site5")},
        broker_options=f"lost_s = {LOST_S}",
    ),
    least={"ran": 20, "managers asked": 1},
)
async def virtual_sites(facility: Facility, chance: random.Random) -> None:
    """Most sites are reached by virtual ones, one below the other, which die, freeze and are cut off, too."""
    customers = await _in_a_storm(facility, chance, slow=0.01)
    facility.counts["managers asked"] += await _referrals(facility)
    await _all_end_well(facility, customers)


async def _all_end_well(
    facility: Facility,
    customers: PlaceCustomers,
    absences: Sequence[Absence] = (),
    lost_s: float = 0.0,
) -> None:
    """Return once all jobs are over and judged; promised starts may have been missed."""
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    await judge_places(facility, customers, punctual=False, absences=absences, lost_s=lost_s)


async def _in_a_storm(facility: Facility, chance: random.Random, slow: float) -> PlaceCustomers:
    """Have jobs left to the brokers while all kinds of faults strike; return once these are over."""
    facility.world.on_death.append(power_went)
    await rooms_up(facility)
    customers = PlaceCustomers(facility, chance, count=4, strikes=STRUCK)
    await weather(facility, chance, strikes=STRIKES, pause_s_max=STRIKES_S_MAX, slow=slow)
    customers.strikes = 0.0
    await calm(facility)
    return customers


async def _sites_go_and_come_back(facility: Facility, chance: random.Random) -> list[Absence]:
    """Have one site after the other cut off, frozen, dead or drained; return when each was away."""
    world, absences = facility.world, []
    for _ in range(ABSENCES):
        site, away_s = chance.choice(facility.sites), chance.uniform(LOST_S, ABSENT_S_MAX)
        kind = chance.choice(("cut", "frozen", "dead", "drained"))
        if kind == "frozen":
            world.pause(site)
        elif kind == "dead":
            world.kill(site, dark=chance.random() < 0.5)
        elif kind == "drained":
            await _drained(facility, site, on=True)
        else:
            for replica in facility.replicas:
                world.network.cut(site, replica, both=True)
        since_s = world.loop.now_s
        await asyncio.sleep(away_s)
        absences.append(Absence(site, since_s, world.loop.now_s))
        world.network.heal()
        if kind == "frozen":
            world.resume(site)
        elif kind == "dead":
            facility.start(site)
        elif kind == "drained":
            await _drained(facility, site, on=False)
        if chance.random() < STRUCK:
            facility.restart(chance.choice(facility.replicas))
        await asyncio.sleep(chance.uniform(0.1, ABSENT_S_MAX))
    return absences


async def _nodes_fail_and_come_back(facility: Facility, chance: random.Random) -> None:
    """Have half of the nodes of one site after the other fail; some sites, and replicas, die meanwhile."""
    for site in chance.sample(facility.sites * FAILURES, len(facility.sites) * FAILURES):
        await asyncio.sleep(chance.uniform(0.1, ABSENT_S_MAX))
        nodes = facility.plan.capacity
        failed = chance.sample(range(nodes), nodes // 2)
        await _served(facility, site, "fail", failed)
        if chance.random() < STRUCK:
            facility.restart(chance.choice((site, *facility.replicas)))
        await asyncio.sleep(chance.uniform(1.0, ABSENT_S_MAX))
        await _served(facility, site, "resume", failed)


@scenario(
    Plan(
        sites=2,
        machine=True,
        audited=False,
        virtual={"hall": ("site1", "round")},
        ways={"round": "hall/v1/members/round"},
    ),
    least={"placed": 4, "ran": 1},
)
async def going_round(facility: Facility, chance: random.Random) -> None:
    """A member of a virtual site is reached by nothing but itself: that is refused, and harms nobody."""
    await facility.up(ROUND_S)
    transports = facility.world.nodes["hall"].transports
    if (count := len(transports)) > CONNECTIONS_MAX:
        raise Broken(f"hall had {count} connections within {ROUND_S} s")
    customers = PlaceCustomers(facility, chance, count=2, jobs=2, pause_s=1.0)
    await _all_end_well(facility, customers)


async def _nobody_rests_for_ever(facility: Facility) -> None:
    for replica in facility.replicas:
        async with facility.connect(replica, "operator") as operator:
            for each in (await operator.bidders()).bidders:
                if each.status.rests_s > REST_S_MAX:
                    raise Broken(
                        f"{replica} asks {each.status.site} in {each.status.rests_s} s only"
                    )


async def _referrals(facility: Facility) -> int:
    """Return how often managers that have not died since have named a member."""
    found = 0
    for name in facility.plan.virtual:
        async with facility.connect(name, "operator") as operator:
            found += sum(each.chosen for each in (await operator.bidders()).bidders)
    return found


async def _served(
    facility: Facility, site: str, what: Literal["fail", "resume"], nodes: list[int]
) -> None:
    async with facility.connect(site, "operator") as operator:
        await operator.serve_nodes(f"{site}/cluster", what, nodes)


async def _drained(facility: Facility, site: str, *, on: bool) -> None:
    async with facility.connect(site, "operator") as operator:
        await operator.drain(on=on)
