"""The auditor catches the protocol gone wrong in every way that we know; if not, it judges nothing."""

from __future__ import annotations

import pytest

from tests import effort
from tests.simulation import mutations
from tests.simulation.mutations import MUTATIONS, Mutation, run_with, seeds_to_catch
from tests.simulation.mutations_of_waiting import MUTATIONS_OF_WAITING
from tests.simulation.world import World

SEEDS = 2_000
SHIPPED_SEEDS = effort.examples(60)
"""In each climate: more than any mutation needs to be caught there."""

ALL = (*MUTATIONS, *MUTATIONS_OF_WAITING)


@pytest.mark.timeout(900)  # Some show only after dozens of schedules, on a busy machine.
@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_the_auditor_catches(mutation: Mutation) -> None:
    assert seeds_to_catch(mutation, range(1, SEEDS + 1)) is not None


class SoonWorld(World):
    make_participant = mutations.DroppedSoon


CLIMATES = {each[2:]: each for each in ALL if each.climate}
"""One mutation of each climate: with the shipped code in its place, all of them are the same."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", CLIMATES.values(), ids=lambda each: each.name)
def test_the_shipped_code_keeps_its_promises_in_the_same_climate(mutation: Mutation) -> None:
    world = SoonWorld if mutation.size is mutations.SOON else World
    for seed in range(1, SHIPPED_SEEDS + 1):
        violation = run_with(mutation, seed, world)
        assert not violation, f"{mutation.name}, seed {seed}: {violation}"
