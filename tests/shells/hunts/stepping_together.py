"""Jobs in step: all parts start in one moment or none does, and none runs twice."""

from __future__ import annotations

from tests.shells import job_substitutes, mutations_of_steps  # noqa: F401  # before a site is built

# isort: split
import asyncio
import contextlib
import itertools
import random
import sqlite3
from collections.abc import Iterator
from typing import Final

from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.hunts.machine_rooms import power_went, rooms_up
from tests.shells.hunts.storms import weather
from tests.shells.judging import calm
from tests.shells.nodes import Node
from tests.shells.placing import until_all_is_over
from tests.shells.scenarios import scenario
from tests.shells.stepping import StepCustomers, judge_steps
from tests.shells.substitutes import WALL_AT_BEGIN_S

STRIKES: Final = 100
STRIKES_S_MAX: Final = 30.0
WAITS_S: Final = (0, 3, 10, 30)
"""Some parts give up while servers are struck."""
QUEUED_S: Final = 24 * 3_600.0

USERS: Final = 3
JOBS: Final = 5
SLOT_S: Final = 600
"""Slots begin at multiples of the grain."""
SHORT_WAITS_S: Final = (3, 8)
CUT_S: Final = 20.0
"""Longer than parts wait then; what was cut off comes back before its slot ends."""
EARLY_S_MAX: Final = 2.0

ROOMS: Final = Plan(sites=3, replicas=2, machine=True, audited=False)


@scenario(ROOMS, least={"in step": USERS * JOBS})
async def steps(facility: Facility, chance: random.Random) -> None:
    """Nothing fails: all that was reserved runs, and its parts begin together."""
    await rooms_up(facility)
    customers = StepCustomers(facility, chance, count=USERS, jobs=JOBS)
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    await judge_steps(facility, customers, punctual=True)


@scenario(ROOMS, least={"in step": USERS * JOBS // 3})
async def steps_in_storms(facility: Facility, chance: random.Random) -> None:
    """Everything fails that can, between the promise and the end."""
    facility.world.on_death.append(power_went)
    await rooms_up(facility)
    customers = StepCustomers(facility, chance, count=USERS, jobs=JOBS, waits_s=WAITS_S)
    await weather(facility, chance, strikes=STRIKES, pause_s_max=STRIKES_S_MAX, slow=0.02)
    await calm(facility)
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    await judge_steps(facility, customers, punctual=False)


@scenario(ROOMS, least={"in step": 2, "given up": 2, "cut off from its start": 1})
async def steps_cut_off(facility: Facility, chance: random.Random) -> None:
    """Sites are cut off for longer than parts wait: before their slots begin, or when a start is decided."""
    await rooms_up(facility)
    customers = StepCustomers(
        facility, chance, count=USERS, jobs=JOBS, pause_s=SLOT_S, waits_s=SHORT_WAITS_S
    )
    cutting = asyncio.create_task(_cut_off_in_each_slot(facility, customers, chance))
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    cutting.cancel()
    await calm(facility)
    await judge_steps(facility, customers, punctual=False)
    decided = books.step_starts(facility, "broker0").values()
    facility.counts["given up"] += sum(not machines for machines in decided)


async def _cut_off_in_each_slot(
    facility: Facility, customers: StepCustomers, chance: random.Random
) -> None:
    """Before one slot begins, and by the first start in the next one, in turn."""
    world = facility.world
    for early in itertools.cycle((True, False)):
        now = WALL_AT_BEGIN_S + world.loop.now_s
        start = int(now // SLOT_S + 1) * SLOT_S
        await asyncio.sleep(max(start - now - chance.uniform(0.1, EARLY_S_MAX), 0))
        if not early:
            with _cut_off_from_its_start(facility, chance):
                await asyncio.sleep(CUT_S + EARLY_S_MAX)
        elif due := customers.due(start):
            _cut_off(facility, chance.choice(chance.choice(due).sites))
            await asyncio.sleep(CUT_S)
        world.network.heal()
        await asyncio.sleep(SLOT_S / 2)


@contextlib.contextmanager
def _cut_off_from_its_start(facility: Facility, chance: random.Random) -> Iterator[None]:
    """A site of the next job that is to start hears nothing of that, for it is cut off just then."""
    on_commit, known = facility.world.on_commit, {*books.step_starts(facility, "broker0")}

    def committed(node: Node, connection: sqlite3.Connection, database: str) -> None:
        if node.host != "broker0":
            return
        for rid, machines in books.step_starts(facility, "broker0").items():
            if machines and rid not in known:
                on_commit.remove(committed)
                _cut_off(facility, chance.choice(machines).partition("/")[0])
                facility.counts["cut off from its start"] += 1
                return

    on_commit.append(committed)
    try:
        yield
    finally:
        if committed in on_commit:
            on_commit.remove(committed)


def _cut_off(facility: Facility, site: str) -> None:
    """No broker hears of it until the network heals; what is under way is lost."""
    for replica in facility.replicas:
        facility.world.network.cut(site, replica)
        facility.world.network.reset(site, replica)
