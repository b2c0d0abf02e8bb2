"""Whatever is killed or stands still, and when: what was acknowledged stays true, all of it or none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .ordeal import ordeal

pytestmark = pytest.mark.xdist_group("one-at-a-time")

KILLS = 25
PAUSES = 4


async def test_servers_killed_and_stopped_under_load_lose_nothing_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"python -m tests.processes.ordeal --kills {KILLS} --pauses {PAUSES} --seed {seed}")
    report = await ordeal(tmp_path, kills=KILLS, pauses=PAUSES, seed=seed)
    print(report.as_json())
    assert report.violations == []
    assert sum(report.struck.values()) == KILLS + PAUSES
    assert report.told["booked"] > KILLS, "there was hardly any load"
