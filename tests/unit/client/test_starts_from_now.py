"""A start that is counted from now lies on a full minute, for jobs and moves as for bookings."""

from __future__ import annotations

import pytest

from kalends.client.connection import connect, in_surroundings

NOW = 1_800_000_017


@pytest.mark.parametrize(
    ("at", "start_s"),
    [
        ("now+10m", NOW + 600 + 43),
        ("in 10 minutes", NOW + 600 + 43),
        ("now", NOW + 43),
        ("2027-01-15 08:00:30", 1_800_000_030),
        (NOW + 1, NOW + 1),
    ],
)
def test_only_what_is_counted_from_now_is_rounded_up(at: str | int, start_s: int) -> None:
    client = in_surroundings(connect("http://127.0.0.1:9", zone="UTC"), wall_clock=lambda: NOW)
    assert client.start_s(at) == start_s
    assert client.request("a/b", duration=60, at=at).not_before == start_s
