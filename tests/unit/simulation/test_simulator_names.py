"""The public names of the simulator's packages: there, and each said what it is."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import kalends
from kalends import machines, scheduling
from kalends.simulation import checking

NAMES = [(module, name) for module in (machines, scheduling, checking) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[name for _, name in NAMES])
def test_every_public_name_and_method_says_what_it_is(module: ModuleType, name: str) -> None:
    found = getattr(module, name)
    if not callable(found):
        return
    assert inspect.getdoc(found)
    for method, value in inspect.getmembers(found, inspect.isfunction):
        if inspect.isclass(found) and not method.startswith("_"):
            told = inspect.getdoc(value) or inspect.getdoc(getattr(scheduling.Policy, method, None))
            assert told, f"{name}.{method}"


def test_the_simulator_itself_is_in_kalends() -> None:
    assert {"simulate", "SimulatedJob"} <= set(dir(kalends))
