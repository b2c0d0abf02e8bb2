"""What is told of a request whose job was left to a broker."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from kalends.cli._words import request_lines
from kalends.contract.calls import PlacedJob, RequestState, RequestView

PLACED = PlacedJob(machine="ctc/sp2", number=412, start_by=1_800_000_000, late_start=1_800_000_000)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("reserved", "job      ctc/sp2/412, starts by Fri 2027-01-15 08:00:00 UTC (UTC+00:00)"),
        ("cancelled", "job      ctc/sp2/412"),
    ],
)
def test_a_start_is_told_only_while_it_is_promised(state: RequestState, line: str) -> None:
    view = RequestView(
        id="0" * 36, state=state, user="ann", text="a job", created_at=1, placed=PLACED
    )
    assert f"  {line}" in request_lines(view, ZoneInfo("UTC"))
