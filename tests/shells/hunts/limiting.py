"""Owners' limits while the same users ask several replicas at once, and servers die."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from kalends.calendars import Limit
from kalends.calendars.rules.usage_limits import UsageShare
from tests.shells.customers import Customers
from tests.shells.facility import Facility, Plan
from tests.shells.hunts.storms import END_S, weather
from tests.shells.judging import calm, judge
from tests.shells.scenarios import scenario
from tests.simulation.owners_limits import LimitsKept

MINUTE_S: Final = 60

LIMITS: Final = (
    Limit("few", "everyone", locked_max=4),
    Limit("hours", "everyone", locked_unit_s=50 * MINUTE_S),
    Limit("at-once", "everyone", held_max=3),
    Limit("week", "everyone", share=UsageShare(unit_s=60 * MINUTE_S)),
    Limit("few-together", "everyone", together=True, locked_max=7),
    Limit("week-together", "everyone", together=True, share=UsageShare(unit_s=110 * MINUTE_S)),
)
"""As they are configured below; bookings are ten or twenty minutes of the same week."""

OPTIONS: Final = """
[[site.defaults.limits]]
name = "each"
who = "everyone"
held_max = 3
locked_max = 4
locked_hours = 0.8333333334
week_hours = 1
[[site.defaults.limits]]
name = "all"
who = "everyone"
together = true
locked_max = 7
week_hours = 1.8333333334
"""


@scenario(
    Plan(replicas=2, site_options=OPTIONS),
    least={"refused by limits": 10, "resized": 3, "limits reached": 5, "told and kept": 3},
)
async def limiting(facility: Facility, chance: random.Random) -> None:
    """At no time anybody has more than the owner allows, by whatever replicas, changes and restarts."""
    assert facility.witness is not None
    limits = LimitsKept(dict.fromkeys(facility.sites, LIMITS))
    limits.attach_to_stores(facility.witness.auditor)
    await facility.up()
    customers = Customers(
        facility, chance, count=6, users=2, bookings=12, pause_s=2.0, cancels=0.6, moves=0.2, holds=0.3,
        resizes=0.6, slots=60, pick=True,
    )  # fmt: skip
    await weather(facility, chance, strikes=8, pause_s_max=3, slow=0.01)
    await calm(facility)
    await customers.end(END_S)
    await asyncio.sleep(60)
    judge(facility, customers.told, cancelled=customers.cancelled, slots=customers.slots)
    facility.counts["limits reached"] += sum(limits.met.values())
