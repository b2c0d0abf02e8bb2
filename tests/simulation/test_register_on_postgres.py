"""A register whose effects and answers come late or never: every promise is kept, each fault strikes."""

from __future__ import annotations

from collections import Counter

from tests import effort
from tests.simulation.climates import REGISTER_ON_POSTGRES
from tests.simulation.schedule import complaint

SEEDS = effort.examples(12)

FAULTS = (
    "late batch", "hung batch", "lost batch", "late answer", "lost answer", "late read",
    "read without an answer", "cancelled wait", "failover", "stored in a failover",
    "lost in a failover", "zombie refused", "late zombie refused", "waited for locks",
    "session ended by who waited",
)  # fmt: skip


def test_every_promise_is_kept_while_the_register_answers_late_or_never() -> None:
    faults: Counter[str] = Counter()
    reserved = 0
    complaints = []
    for seed in range(1001, 1001 + SEEDS):
        report = REGISTER_ON_POSTGRES.run(seed)
        faults += report.faults
        reserved += report.reserved
        if report.violation:
            complaints.append(complaint(report, REGISTER_ON_POSTGRES.name))
    assert not complaints, "\n\n".join(complaints[:5])
    assert [kind for kind in FAULTS if not faults[kind]] == []
    assert reserved > 5 * SEEDS


def test_a_seed_replays_bit_for_bit_on_postgres() -> None:
    assert REGISTER_ON_POSTGRES.run(5).trace_hash == REGISTER_ON_POSTGRES.run(5).trace_hash
