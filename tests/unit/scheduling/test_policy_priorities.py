"""Which policies look at the priorities of jobs is what the registry says."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.policy_logs import SmallLog, crowded_log, decided

from kalends.scheduling.registry import POLICIES, PolicyInfo, looks_at_priorities

LOGS = [crowded_log(seed) for seed in range(40)]


def alike(log: SmallLog) -> SmallLog:
    """The same log, in which all jobs have the same priority."""
    return structs.replace(log, jobs=tuple((*job[:4], 1) for job in log.jobs))


@pytest.mark.parametrize("info", POLICIES, ids=[info.name for info in POLICIES])
def test_a_policy_decides_by_priorities_where_the_registry_says_so_and_nowhere_else(
    info: PolicyInfo,
) -> None:
    name = info.name if info.optional or not info.number else f"{info.name}:50"
    differs = any(decided(log, name) != decided(alike(log), name) for log in LOGS)
    assert differs == looks_at_priorities(name)


def test_without_different_priorities_easy_priority_is_easy() -> None:
    for log in map(alike, LOGS):
        assert decided(log, "easy-priority") == decided(log, "easy")
