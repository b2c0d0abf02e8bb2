"""A calendar says until when it is complete, through a broker as at the site, and what is past in it."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

import kalends
from kalends.cli.timeline import ASCII, draw
from kalends.contract.calendar_steps import moments
from kalends.core import limits
from kalends.testing import LocalFacility

LISTED = 5


@pytest.mark.parametrize(
    ("booked", "until"), [(4, "18:00"), (5, "18:00"), (6, "13:00"), (8, "13:00")]
)
def test_a_list_of_slots_that_was_cut_is_complete_up_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch, booked: int, until: str
) -> None:
    monkeypatch.setattr(limits, "LISTING_MAX", LISTED)
    with (
        LocalFacility({"lab": {"stm": 1}}, now="2027-03-01T07:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("ann", at="lab") as site,
    ):
        for hour in range(8, 8 + booked):
            ann.book("lab/stm", duration="30m", at=f"2027-03-01T{hour:02}:00Z")
        day = {"start": "2027-03-01T08:00Z", "end": "2027-03-01T18:00Z"}
        for view in (ann.calendar("lab/stm", **day), site.calendar("lab/stm", **day)):
            assert len(view.slots) == min(booked, LISTED)
            assert f"{kalends.as_datetime(view.until, 'UTC'):%H:%M}" == until
            assert all(end <= view.until for _, end, _ in view.free)


def test_what_is_past_is_drawn_as_past_and_not_as_closed() -> None:
    with (
        LocalFacility({"lab": {"stm": 1}}, now="2027-03-01T07:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("ann", at="lab") as site,
    ):
        ann.book("lab/stm", duration="1h", at="2027-03-01T08:00Z")
        servers.clock.advance(hours=5)
        day = {"start": "2027-03-01T06:00Z", "end": "2027-03-01T18:00Z"}
        for client in (ann, site):
            view = client.calendar("lab/stm", **day)
            rests = [(step.past, step.taken, step.free) for step in moments(view)]
            assert rests[:3] == [(True, 0, 0), (True, 1, 0), (True, 0, 0)]
            assert set(rests[3:]) == {(False, 0, 1)}
            drawn = ["".join(text for text, _ in line) for line in draw(
                view, ZoneInfo("UTC"), width=80, glyphs=ASCII
            )]  # fmt: skip
            assert drawn[0].startswith("1 ____")
            assert "-" not in drawn[0]
            assert "_ past" in drawn[-1]
