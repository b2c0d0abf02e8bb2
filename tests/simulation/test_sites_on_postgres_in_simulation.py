"""Sites that are taken over while they pause, and go on: every promise is kept, each fault strikes."""

from __future__ import annotations

from collections import Counter

from tests import effort
from tests.simulation.climates import SITES_ON_POSTGRES
from tests.simulation.schedule import complaint

SEEDS = effort.examples(12)


def test_every_promise_is_kept_while_sites_are_taken_over_and_go_on() -> None:
    faults: Counter[str] = Counter()
    reserved = 0
    for seed in range(2001, 2001 + SEEDS):
        report = SITES_ON_POSTGRES.run(seed)
        faults += report.faults
        reserved += report.reserved
        assert not report.violation, complaint(report, SITES_ON_POSTGRES.name)
    assert all(faults[kind] for kind in ("taken over", "zombie refused", "late command"))
    assert reserved > SEEDS


def test_a_seed_of_sites_on_postgres_replays_bit_for_bit() -> None:
    assert SITES_ON_POSTGRES.run(5).trace_hash == SITES_ON_POSTGRES.run(5).trace_hash
