"""Scenarios: what happens in a facility, and which promise must be kept in it."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.shells.facility import Facility, Plan

Story = Callable[[Facility, random.Random], Awaitable[None]]


class Broken(Exception):
    """A promise was broken; the text says which, and how that shows."""


class Scenario(NamedTuple):
    story: Story
    plan: Plan
    long: bool = False
    """Played by its name only: minutes of processor time, and more."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(plan: Plan, *, long: bool = False) -> Callable[[Story], Story]:
    """Make a story known by its name.

    It is given a facility of `plan`, whose servers it starts, and chance of its own. It raises
    `Broken`; any other error counts as a broken promise too. It runs in a process of the world that is
    called ``judge``.
    """

    def known(story: Story) -> Story:
        name = story.__name__
        assert name not in SCENARIOS, name
        SCENARIOS[name] = Scenario(story, plan, long)
        return story

    return known


def load_all() -> None:
    """Import every module of `tests.shells.hunts`."""
    package = importlib.import_module("tests.shells.hunts")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
