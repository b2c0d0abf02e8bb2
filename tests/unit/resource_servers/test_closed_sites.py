"""A site that is closed for a time: nothing new, what stands kept, moved or cancelled, and open again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import kalends
from kalends.cli import cli
from kalends.client.sync import SyncClient
from kalends.contract.calls import RequestView
from kalends.contract.owner_calls import ClosureView
from kalends.testing import LocalFacility

NOW = "2027-03-03T07:00Z"
TEN = "2027-03-03T10:00Z"


@pytest.fixture
def lab() -> Iterator[LocalFacility]:
    with LocalFacility({"lab": {"scope": 2, "room": 1}, "other": {"cave": 1}}, now=NOW) as servers:
        yield servers


@pytest.fixture
def ann(lab: LocalFacility) -> Iterator[SyncClient]:
    with lab.sync_client("ann") as client:
        yield client


@pytest.fixture
def owner(lab: LocalFacility) -> Iterator[SyncClient]:
    with lab.sync_client("operator", at="lab") as client:
        yield client


def states(closed: ClosureView) -> dict[str, list[str]]:
    return {part.resource: [each.state for each in part.reservations] for part in closed.parts}


def until_changed(lab: LocalFacility, ann: SyncClient, id: str) -> RequestView:
    for _ in range(200):
        view = ann.show(id)
        if view.changed is not None or view.state == "cancelled":
            return view
        lab.clock.advance(seconds=1)
    raise AssertionError(view)


def test_nothing_new_is_taken_in_a_closed_time_on_any_resource(
    ann: SyncClient, owner: SyncClient
) -> None:
    owner.close_site(at=TEN, duration="2h", reason="water in the hall")
    for wanted in ("lab/scope", "lab/room", "other/cave + lab/room"):
        with pytest.raises(kalends.NoCommonTime) as raised:
            ann.book(wanted, duration="1h", at=TEN)
        assert "water in the hall" in str(raised.value.refusals)
    assert ann.book("lab/room", duration="1h", at="2027-03-03T12:00Z").state == "reserved"


def test_some_resources_are_closed_and_the_others_stay_open(
    ann: SyncClient, owner: SyncClient
) -> None:
    owner.close_site(["lab/room"], at=TEN, duration="2h")
    assert ann.book("lab/scope", duration="1h", at=TEN).state == "reserved"
    with pytest.raises(kalends.NoCommonTime):
        ann.book("lab/room", duration="1h", at=TEN)


def test_what_stands_is_shown_and_kept_until_the_owner_says_otherwise(
    lab: LocalFacility, ann: SyncClient, owner: SyncClient
) -> None:
    kept = ann.book("lab/room", duration="1h", at=TEN)
    closed = owner.close_site(at=TEN, duration="2h")
    assert states(closed) == {"lab/room": ["stays"], "lab/scope": []}
    lab.clock.advance(minutes=5)
    assert ann.show(kept.id).state == "reserved"
    moved = owner.close_site(key=closed.key, standing="move", reason="a flood")
    assert moved.standing == "move"
    view = until_changed(lab, ann, kept.id)
    assert view.changed is not None
    assert (view.changed.made, view.changed.by, view.changed.reason) == ("moved", "lab", "a flood")


def test_what_is_cancelled_is_cancelled_at_all_sites_also_if_it_has_begun(
    lab: LocalFacility, ann: SyncClient, owner: SyncClient
) -> None:
    both = ann.book("lab/scope:2 + other/cave", duration="6h", at="2027-03-03T07:30Z")
    lab.clock.advance(hours=1)
    owner.close_site(at="now", duration="1d", standing="cancel", reason="a flood")
    view = until_changed(lab, ann, both.id)
    assert view.state == "cancelled"
    assert view.changed is not None
    assert (view.changed.made, view.changed.by, view.changed.reason) == (
        "cancelled",
        "lab",
        "a flood",
    )
    assert ann.book("other/cave", duration="1h", at=TEN).state == "reserved"


def test_a_closure_outlives_a_restart_and_one_command_opens_the_site_again(
    lab: LocalFacility, ann: SyncClient, owner: SyncClient
) -> None:
    owner.close_site(at=TEN, duration="2h", key="the-first-closure")
    owner.close_site(at="2027-03-04T10:00Z", duration="2h")
    lab.stop("lab")
    lab.start("lab")
    with pytest.raises(kalends.NoCommonTime):
        ann.book("lab/room", duration="1h", at=TEN)
    assert [each.key for each in owner.open_site("the-first-closure")] == ["the-first-closure"]
    assert ann.book("lab/room", duration="1h", at=TEN).state == "reserved"
    assert len(owner.open_site()) == 1
    assert owner.open_site() == owner.reclaims() == ()


def test_a_closure_is_whole_or_not_at_all(owner: SyncClient) -> None:
    for asked in ({"resources": ["lab/room", "lab/none"]}, {"duration": "400d"}, {"at": 0}):
        with pytest.raises(kalends.InvalidInput):
            owner.close_site(**{"at": TEN, "duration": "2h"} | asked)  # type: ignore[arg-type]
    assert owner.reclaims() == ()
    owner.close_site(at=TEN, duration="2h", key="the-first-closure")
    with pytest.raises(kalends.KeyReused):
        owner.close_site(at=TEN, duration="3h", key="the-first-closure")
    with pytest.raises(kalends.KeyReused):
        owner.close_site(["lab/room"], key="the-first-closure", standing="cancel")
    with pytest.raises(kalends.NotFound):
        owner.open_site("the-second-closure")


def test_the_command_shows_what_stands_and_changes_nothing_in_a_dry_run(
    lab: LocalFacility, ann: SyncClient, owner: SyncClient
) -> None:
    booked = ann.book("lab/room", duration="1h", at=TEN)
    words = ("--broker", lab.url("lab"), "--user", "operator", "--zone", "UTC", "admin")
    wish = ("close", "--at", TEN, "--for", "2h", "--standing", "cancel")
    shown = CliRunner().invoke(cli, (*words, *wish, "--dry-run"))
    assert shown.exit_code == 0, shown.output
    assert booked.id[-8:] in shown.stdout
    assert "would be cancelled" in shown.stdout
    assert owner.reclaims() == ()
    closed = CliRunner().invoke(cli, (*words, "close", "--at", TEN, "--for", "2h"))
    assert closed.stdout.startswith("closed: lab/scope, lab/room from Wed 2027-03-03 10:00")
    assert "stays: the owner keeps it" in closed.stdout
    opened = CliRunner().invoke(cli, (*words, "open"))
    assert opened.stdout.startswith("open again: lab/scope, lab/room")
    assert CliRunner().invoke(cli, (*words, "open")).stdout == "nothing was closed\n"
