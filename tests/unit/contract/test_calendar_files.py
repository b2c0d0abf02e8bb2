"""A reservation as events of a calendar: identity, sequence and status over its life."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.contract.calendar_files import CANCELLED_S, entries_of
from kalends.contract.request_views import ClaimView, RequestView

NOW = 1_800_000_000
ID = "01a40051-77ec-71ce-a2bd-64a5dc043f58"


def claim(resource: str, start: int = NOW, hours: int = 2, units: int = 1) -> ClaimView:
    return ClaimView(resource=resource, start=start, end=start + hours * 3_600, units=units)


def view(*claims: ClaimView, state: str = "reserved", **more: Any) -> RequestView:
    given: dict[str, Any] = {"claims": claims or (claim("sdsc/sp2", units=64), claim("ncsa/cave"))}
    return RequestView(
        id=ID, state=state, user="ann", text="sdsc/sp2:64 + ncsa/cave", created_at=NOW - 60,
        **{**given, "updated_at": NOW - 30, **more},
    )  # type: ignore[arg-type]  # fmt: skip


def test_slots_at_the_same_time_are_one_event() -> None:
    (entry,) = entries_of(view(note="run 7"))
    assert (entry.start, entry.end, entry.stamp) == (NOW, NOW + 7_200, NOW - 30)
    assert entry.summary == "run 7 (sdsc/sp2:64 + ncsa/cave)"
    assert entry.location == "sdsc/sp2, ncsa/cave"
    assert "kalends show dc043f58" in entry.description


@pytest.mark.parametrize(
    ("state", "status"),
    [("held", "TENTATIVE"), ("reserved", "CONFIRMED"), ("cancelled", "CANCELLED")],
)
def test_a_state_has_its_status(state: str, status: str) -> None:
    (entry,) = entries_of(view(state=state))
    assert entry.status == status


@pytest.mark.parametrize("state", ["open", "failed", "replaced"])
def test_what_is_not_booked_is_no_event(state: str) -> None:
    assert entries_of(view(state=state)) == ()


def test_every_change_has_a_greater_sequence_and_the_same_identity() -> None:
    seen = [
        entries_of(view()),
        entries_of(view(claim("sdsc/sp2", NOW + 900), claim("ncsa/cave", NOW + 900), changes=1)),
        entries_of(view(changes=2)),
        entries_of(view(changes=2, state="cancelled")),
    ]
    assert {entry.uid for (entry,) in seen} == {f"{ID}-1@kalends"}
    assert [entry.sequence for (entry,) in seen] == [0, 1, 2, 3]


def test_stages_are_events_of_their_own_and_keep_their_identities() -> None:
    before = entries_of(view(claim("ncsa/cave", NOW + 7_200), claim("sdsc/sp2")))
    after = entries_of(view(claim("ncsa/cave", NOW), claim("sdsc/sp2", NOW - 7_200)))
    places = {entry.uid: entry.location for entry in before}
    assert places == {f"{ID}-1@kalends": "ncsa/cave", f"{ID}-2@kalends": "sdsc/sp2"}
    assert {entry.uid: entry.location for entry in after} == places


def test_a_cancelled_reservation_is_shown_for_thirty_days() -> None:
    cancelled = view(state="cancelled", updated_at=NOW)
    assert entries_of(cancelled, NOW + CANCELLED_S - 1)
    assert entries_of(cancelled, NOW + CANCELLED_S) == ()


def test_a_place_in_a_queue_is_no_event() -> None:
    assert entries_of(view(claim("sdsc/sp2.queue"))) == ()
