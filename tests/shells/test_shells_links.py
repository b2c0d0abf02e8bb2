"""Links between the shipped servers hold, and what was said over them is not lost when they break."""

from __future__ import annotations

import pytest

from tests.shells.running import check

pytestmark = pytest.mark.timeout(900)  # Many plays, on a busy machine.


def test_a_link_that_was_idle_for_many_minutes_takes_a_booking_at_once() -> None:
    check("idle", 15)
