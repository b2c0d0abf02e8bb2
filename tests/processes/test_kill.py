"""Whatever is killed, and whenever: what was acknowledged stays true, all of it or nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .kill_loop import kill_loop

pytestmark = pytest.mark.xdist_group("one-at-a-time")

KILLS = 25


@pytest.mark.timeout(240)
async def test_servers_killed_under_load_lose_nothing_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"python -m tests.processes.kill_loop --kills {KILLS} --seed {seed}")
    report = await kill_loop(tmp_path, kills=KILLS, seed=seed)
    print(report.as_json())
    assert report.violations == []
    assert sum(report.kills.values()) == KILLS
    assert report.told["booked"] > KILLS, "there was hardly any load"
