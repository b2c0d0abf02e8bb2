"""Jobs in step: all parts start in one moment or none does, and none runs twice."""

from __future__ import annotations

from tests.shells import job_substitutes, mutations_of_steps  # noqa: F401  # before a site is built

# isort: split
import random
from typing import Final

from tests.shells.facility import Facility, Plan
from tests.shells.hunts.machine_rooms import power_went, rooms_up
from tests.shells.hunts.storms import weather
from tests.shells.judging import calm
from tests.shells.outcomes import must_have_happened
from tests.shells.placing import until_all_is_over
from tests.shells.scenarios import scenario
from tests.shells.stepping import StepCustomers, judge_steps

STRIKES: Final = 100
STRIKES_S_MAX: Final = 30.0
WAITS_S: Final = (0, 3, 10, 30)
"""Some parts give up while servers are struck."""
QUEUED_S: Final = 24 * 3_600.0

ROOMS: Final = Plan(sites=3, replicas=2, machine=True, audited=False)


@scenario(ROOMS)
async def steps(facility: Facility, chance: random.Random) -> None:
    """Nothing fails: all that was reserved runs, and its parts begin together."""
    await rooms_up(facility)
    customers = StepCustomers(facility, chance)
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    await judge_steps(facility, customers, punctual=True)
    must_have_happened(facility, {"in step": len(customers.wishes)})


@scenario(ROOMS)
async def steps_in_storms(facility: Facility, chance: random.Random) -> None:
    """Everything fails that can, between the promise and the end."""
    facility.world.on_death.append(power_went)
    await rooms_up(facility)
    customers = StepCustomers(facility, chance, waits_s=WAITS_S)
    await weather(facility, chance, strikes=STRIKES, pause_s_max=STRIKES_S_MAX, slow=0.02)
    await calm(facility)
    await customers.end(QUEUED_S)
    await until_all_is_over(facility, QUEUED_S)
    await judge_steps(facility, customers, punctual=False)
    must_have_happened(facility, {"in step": len(customers.wishes) // 3})
