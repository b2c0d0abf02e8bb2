"""What has passed of a reservation was used: it cannot be given back, counts on, and stays where it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kalends
from kalends.client.sync import SyncClient
from kalends.core.errors import Conflict, KalendsError, LimitExceeded
from kalends.testing import LocalFacility

NOW = "2027-03-01T08:00Z"  # A Monday.
EACH = {"name": "fair", "who": "everyone", "week_hours": 4}
TOGETHER = {"name": "group", "who": "everyone", "together": True, "week_hours": 4}


def facility(*limits: dict[str, object], **settings: object) -> LocalFacility:
    return LocalFacility(
        {"lab": {"scope": {"grain": "15m", "limits": [*limits], **settings}}}, now=NOW
    )


def booked(client: SyncClient, at: str, hours: int) -> kalends.RequestView:
    return client.book("lab/scope", duration=f"{hours}h", at=at, patience="none")


@pytest.mark.parametrize("limit", [EACH, TOGETHER])
def test_hours_that_were_used_are_not_given_back_by_cancelling_or_moving(
    limit: dict[str, object],
) -> None:
    with facility(limit) as servers, servers.sync_client("ann") as ann:
        running = booked(ann, "2027-03-01T09:00Z", 4)
        servers.clock.advance(hours=2, minutes=50)
        with pytest.raises(LimitExceeded):
            ann.move(running.id, "2027-03-02T09:00Z")
        assert ann.cancel(running.id).state == "cancelled"
        with pytest.raises(LimitExceeded) as refused:
            booked(ann, "2027-03-02T10:00Z", 3)
        assert "a later booking" in refused.value.remedy
        over = booked(ann, "2027-03-02T10:00Z", 2)
        servers.clock.advance(days=3)
        with pytest.raises(LimitExceeded):
            booked(ann, "2027-03-06T10:00Z", 1)
        assert booked(ann, "2027-03-08T10:00Z", 4).state == "reserved"
        assert ann.show(over.id).state == "reserved"


ENDS: dict[str, Callable[[SyncClient, str], object]] = {
    "cancel": lambda client, rid: client.cancel(rid),
    "release": lambda client, rid: client.release(rid),
    "move": lambda client, rid: client.move(rid, "2027-03-05T10:00Z"),
    "shrink": lambda client, rid: client.shrink(rid, by="1h"),
    "extend": lambda client, rid: client.extend(rid, by="1h"),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_is_over_is_given_back_in_no_way(end: str) -> None:
    with facility() as servers, servers.sync_client("ann") as ann:
        over = booked(ann, "2027-03-01T09:00Z", 2)
        servers.clock.advance(hours=3)
        with pytest.raises(Conflict, match="the reservation has ended") as refused:
            ENDS[end](ann, over.id)
        assert "cancel" not in refused.value.remedy
        assert ann.show(over.id).state == "reserved"


def test_time_is_given_back_whatever_notice_is_asked_for() -> None:
    notice = {"name": "notice", "who": "everyone", "lead": "1d"}
    with facility(notice) as servers, servers.sync_client("ann") as ann:
        mine = booked(ann, "2027-03-03T10:00Z", 4)
        servers.clock.advance(hours=48)
        assert ann.shrink(mine.id, by="1h").state == "reserved"
        with pytest.raises(KalendsError, match="notice"):
            ann.extend(mine.id, by="1h")
        assert ann.cancel(mine.id).state == "cancelled"


def test_a_later_stage_is_taken_back_and_what_has_begun_stays_where_it_is() -> None:
    with (
        facility() as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("owner", at="lab") as owner,
    ):
        mine = ann.book(
            "lab/scope + lab/scope @+14d + lab/scope @+28d", duration="1h", at="2027-03-02T09:00Z"
        )
        first, *later = (claim.start for claim in mine.claims)
        servers.clock.advance(days=3)
        owner.reclaim(
            "lab/scope", at="2027-03-30T09:00Z", duration="1h", reason="a new pump", notice="1h"
        )
        assert any(event.kind == "changed" for event in ann.watch(mine.id, after=0))
        moved = ann.show(mine.id)
        starts = [claim.start for claim in moved.claims]
        assert starts[0] == first
        assert starts[1] - later[0] == starts[2] - later[1] != 0
        with pytest.raises(Conflict, match="first stage has begun"):
            ann.move(mine.id, "2027-03-20T09:00Z")
