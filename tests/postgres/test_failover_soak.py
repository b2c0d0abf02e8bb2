"""The soak of failovers for a few rounds, and that its auditor finds what asynchronous standbys lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from .failover_soak import Report, longest_pause_s, planned, soak
from .struck_servers import KINDS

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]


async def test_a_lost_primary_a_hanging_one_and_killed_servers_lose_nothing(tmp_path: Path) -> None:
    plan = ["primary killed", "site killed", "primary paused", "broker killed"]
    report = Report()
    await soak(tmp_path, plan, 7, print, report=report)
    assert report.faults == []
    assert {kind: totals.rounds for kind, totals in report.totals.items()} == dict.fromkeys(plan, 1)
    assert all(totals.acknowledged for totals in report.totals.values())


async def test_the_auditor_finds_what_is_lost_where_commits_wait_for_no_standby(
    tmp_path: Path,
) -> None:
    report = Report()
    await soak(tmp_path, ["primary killed"], 7, print, report=report, synchronous="")
    assert report.faults != []


def test_a_seed_gives_the_same_strikes_again_and_all_kinds_of_them() -> None:
    assert planned(300, 7) == planned(300, 7) != planned(300, 8)
    assert set(planned(300, 7)) == KINDS.keys()


def test_the_gap_is_the_longest_pause_until_bookings_go_on_after_the_strike() -> None:
    assert longest_pause_s([0.0, 1.0, 2.0, 5.0, 5.5, 20.0], began_s=1.5, ended_s=4.0) == 3.0
    assert longest_pause_s([0.0, 9.0, 9.5], began_s=1.0, ended_s=2.0) == 8.0
