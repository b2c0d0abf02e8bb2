"""A play is a function of its scenario and seed, whatever the process that plays it."""

from __future__ import annotations

import pytest

from tests.shells.running import plays

SEEDS = 2


@pytest.mark.parametrize("name", ["storm", "crowd", "starting_again"])
def test_a_seed_gives_the_same_trace_in_two_processes_that_hash_differently(name: str) -> None:
    once = plays(name, 1, SEEDS, hash_seed=1)
    again = plays(name, 1, SEEDS, hash_seed=2)
    assert [each.trace_hash for each in once] == [each.trace_hash for each in again]
    assert len({each.trace_hash for each in once}) == SEEDS
