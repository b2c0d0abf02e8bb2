"""Both machines take whatever follows the types of the protocol; the long form is a command of its own."""

from __future__ import annotations

import pytest
from tests.simulation.fuzzing import Play


@pytest.mark.parametrize("first", [1, 26, 40, 1_000])
def test_no_message_breaks_a_machine_or_changes_what_belongs_to_others(first: int) -> None:
    for seed in range(first, first + 5):
        Play(seed).run(300)
