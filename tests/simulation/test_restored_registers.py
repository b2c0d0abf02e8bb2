"""A register that was brought back to an earlier time denies nothing, and finds out by its sites."""

from __future__ import annotations

from tests import effort
from tests.simulation.restored_register import RestoredWorld, run

SEEDS = effort.examples(12)


class TombstonesAfterRestore(RestoredWorld):
    """The timeline is not looked at: after some seconds what is not found was never promised."""

    notices_timelines = False


def test_a_register_that_was_brought_back_denies_no_promise_and_is_told_what_it_forgot() -> None:
    forgotten = 0
    for seed in range(1, SEEDS + 1):
        end = run(seed)
        assert not end.violation, f"seed {seed}: {end.violation}"
        assert end.recognised or not end.forgotten, f"seed {seed}: nobody has told it"
        forgotten += end.forgotten
    assert forgotten > SEEDS / 2


def test_a_register_that_believes_another_timeline_gives_a_tombstone_for_a_promise() -> None:
    caught = (seed for seed in range(20, 500) if run(seed, TombstonesAfterRestore).violation)
    assert next(caught, None) is not None
