"""Scenarios: what happens in a facility, and which promise must be kept in it."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

from tests.shells.facility import Facility, Plan

Story = Callable[[Facility, random.Random], Awaitable[None]]


class Broken(Exception):
    """A promise was broken; the text says which, and how that shows."""


class Scenario(NamedTuple):
    story: Story
    plan: Plan
    least: Mapping[str, int]
    """How much of each outcome must have come of every play, by the facility's counts."""
    long: bool = False
    """Played by its name only: minutes of processor time, and more."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    plan: Plan, *, least: Mapping[str, int], long: bool = False
) -> Callable[[Story], Story]:
    """Make a story known by its name.

    It is given a facility of `plan`, whose servers it starts, and chance of its own. It raises
    `Broken`; any other error counts as a broken promise too. It runs in a process of the world that is
    called ``judge``. A play in which less than the `least` was counted of an outcome proves nothing, and
    counts as broken: it follows from what is asked for in the story, with a wide margin for what strikes.
    """

    def known(story: Story) -> Story:
        name = story.__name__
        assert name not in SCENARIOS, name
        assert least, name
        SCENARIOS[name] = Scenario(story, plan, least, long)
        return story

    return known


async def all_over(tasks: Collection[asyncio.Task[None]], within_s: float, late_ones: str) -> None:
    """Return once all are over; `Broken` when some never are: so many `late_ones`."""
    done, late = await asyncio.wait(tasks, timeout=within_s)
    for task in done:
        task.result()
    if late:
        raise Broken(f"{len(late)} {late_ones}")


def too_little(facility: Facility, least: Mapping[str, int]) -> str:
    """Return what has happened less often than it must; "" if nothing has."""
    rare = {
        outcome: facility.counts[outcome]
        for outcome, count in least.items()
        if facility.counts[outcome] < count
    }
    return f"too little has happened: {rare}, and {dict(least)} must" if rare else ""


def load_all() -> None:
    """Import every module of `tests.shells.hunts`."""
    package = importlib.import_module("tests.shells.hunts")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
