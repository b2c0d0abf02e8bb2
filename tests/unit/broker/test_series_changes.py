"""Series at a real broker with real sites: moved, extended and shrunk, from one occurrence on or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kalends.client.sync import SyncClient
from kalends.contract.calls import SeriesMode, SeriesView
from kalends.core.errors import Conflict, InvalidInput, KeyReused, NotAllowed, NotFound
from kalends.core.full_times import shown
from kalends.core.times import zone_named
from kalends.testing import LocalFacility

FIRST = "2027-03-02 10:00"
"""A Tuesday; the clocks of Berlin change on the 28th."""

BOTH = "east/room + west/camera"
BERLIN = zone_named("Europe/Berlin")
GUARDED = {"limits": [{"name": "word", "who": "everyone", "approval": True}]}
SHORT = {"limits": [{"name": "short", "who": "everyone", "longest": "2h"}]}


@pytest.fixture(scope="module")
def facility() -> Iterator[LocalFacility]:
    sites: dict[str, dict[str, Any]] = {
        "east": {"room": 1, "hall": 4, "lab": GUARDED, "booth": SHORT},
        "west": {"camera": 1},
    }
    with LocalFacility(sites, now="2027-03-01T09:00Z") as made:
        yield made


@pytest.fixture
def ann(facility: LocalFacility) -> Iterator[SyncClient]:
    yield from client_of(facility, "ann")


@pytest.fixture
def bob(facility: LocalFacility) -> Iterator[SyncClient]:
    yield from client_of(facility, "bob")


def client_of(facility: LocalFacility, user: str) -> Iterator[SyncClient]:
    with facility.sync_client(user, zone="Europe/Berlin") as client:
        yield client
        for view in client.list(state="reserved"):
            client.cancel(view.id)


def weekly(client: SyncClient, what: str = BOTH, **more: Any) -> SeriesView:
    return client.book_series(
        what, **{"duration": "1h", "at": FIRST, "every": "week", "times": 6} | more
    )


def hours(series: SeriesView) -> list[str]:
    """The day of each occurrence, and from when to when it is by the local clock."""
    return [
        f"{shown(each.start, BERLIN):%d %H:%M}-{shown(each.end, BERLIN):%H:%M}"
        for each in series.occurrences
    ]


def unchanged(series: SeriesView) -> list[str]:
    return [each.name[8:10] for each in series.occurrences if each.unchanged is not None]


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_all_are_moved_to_another_hour_of_the_local_clock(
    ann: SyncClient, mode: SeriesMode
) -> None:
    series = weekly(ann, mode=mode)
    moved = ann.move_series(series.id, by="1h")
    days = ("02", "09", "16", "23", "30", "06")
    assert hours(moved) == [f"{day} 11:00-12:00" for day in days]
    assert not unchanged(moved)
    assert [each.name for each in moved.occurrences] == [each.name for each in series.occurrences]
    assert [each.id for each in moved.occurrences] == [each.id for each in series.occurrences]
    back = ann.move_series(series.id, by="-1d1h")
    assert hours(back)[4:] == ["29 10:00-11:00", "05 10:00-11:00"]
    assert ann.series(series.id) == back


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_what_follows_an_occurrence_is_moved_with_it(ann: SyncClient, mode: SeriesMode) -> None:
    series = weekly(ann, mode=mode)
    moved = ann.move_series(
        series.id, "2027-03-23T10:00", to="2027-03-24 11:30", following=True, key=f"later-{mode}"
    )
    assert hours(moved) == [
        "02 10:00-11:00", "09 10:00-11:00", "16 10:00-11:00",
        "24 11:30-12:30", "31 11:30-12:30", "07 11:30-12:30",
    ]  # fmt: skip
    again = ann.move_series(
        series.id, "2027-03-23T10:00", to="2027-03-24 11:30", following=True, key=f"later-{mode}"
    )
    assert again == moved
    one = ann.move_series(series.id, "2027-03-09T10:00", to="2027-03-09 08:00")
    assert hours(one)[:3] == ["02 10:00-11:00", "09 08:00-09:00", "16 10:00-11:00"]
    assert hours(one)[3:] == hours(moved)[3:]


def test_one_refusal_changes_none_of_all(ann: SyncClient, bob: SyncClient) -> None:
    series = weekly(ann)
    bob.book("west/camera", duration="1h", at="2027-03-23 11:00")
    before = {view.id: view for view in ann.list(state="reserved")}
    refused = ann.move_series(series.id, by="30m")
    assert hours(refused) == hours(series)
    assert unchanged(refused) == ["02", "09", "16", "23", "30", "06"]
    at_fault = refused.occurrences[3].unchanged
    assert at_fault is not None
    assert [each.where for each in at_fault.refusals] == ["west/camera"]
    others = [each.unchanged for each in refused.occurrences if each is not refused.occurrences[3]]
    assert all(each is not None and "another occurrence" in each.detail for each in others)
    assert {view.id: view for view in ann.list(state="reserved")} == before
    assert not unchanged(ann.series(series.id))
    assert bob.book("east/room", duration="30m", at="2027-03-02 11:00").state == "reserved"


def test_each_that_can_be_had_is_changed_of_as_many_as_possible(
    ann: SyncClient, bob: SyncClient
) -> None:
    series = weekly(ann, mode="as-many")
    bob.book("west/camera", duration="1h", at="2027-03-23 11:00")
    part = ann.move_series(series.id, by="1h", key="as-many-by-1h")
    assert hours(part)[2:5] == ["16 11:00-12:00", "23 10:00-11:00", "30 11:00-12:00"]
    assert unchanged(part) == ["23"]
    why = part.occurrences[3].unchanged
    assert why is not None
    assert [each.where for each in why.refusals] == ["west/camera"]
    assert ann.move_series(series.id, by="1h", key="as-many-by-1h") == part


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_lengths_change_over_a_change_of_the_clocks(ann: SyncClient, mode: SeriesMode) -> None:
    series = weekly(ann, mode=mode)
    longer = ann.extend_series(series.id, by="30m")
    assert [each[3:] for each in hours(longer)] == ["10:00-11:30"] * 6
    later = ann.shrink_series(series.id, "2027-03-16T10:00", duration="45m", following=True)
    assert [each[3:] for each in hours(later)] == ["10:00-11:30"] * 2 + ["10:00-10:45"] * 4
    even = ann.extend_series(series.id, duration="90m")
    assert [each[3:] for each in hours(even)] == ["10:00-11:30"] * 6
    assert not unchanged(even)


def test_each_occurrence_keeps_so_many_units(ann: SyncClient) -> None:
    series = weekly(ann, "east/hall:3")
    fewer = ann.shrink_series(series.id, "2027-03-16T10:00", units={"east/hall": 2}, following=True)
    units = [ann.show(each.id).claims[0].units for each in fewer.occurrences]
    assert units == [3, 3, 2, 2, 2, 2]
    assert hours(fewer) == hours(series)
    with pytest.raises(InvalidInput, match=r"2027-03-16T10:00: the occurrence has only 2 units"):
        ann.shrink_series(series.id, units={"east/hall": 3})


def test_a_repeated_call_changes_nothing_twice_and_another_one_by_its_key_is_refused(
    ann: SyncClient,
) -> None:
    for mode in ("all", "as-many"):
        series = weekly(ann, "east/hall", mode=mode)
        moved = ann.move_series(series.id, by="1h", key=f"repeated-{mode}")
        assert ann.move_series(series.id, by="1h", key=f"repeated-{mode}") == moved
        assert hours(moved)[0] == "02 11:00-12:00"
        with pytest.raises(KeyReused):
            ann.move_series(series.id, by="2h", key=f"repeated-{mode}")
        with pytest.raises(KeyReused):
            ann.book("east/hall", duration="1h", at="now+1d", key=f"repeated-{mode}")


def test_what_was_moved_by_itself_is_moved_from_where_it_is(ann: SyncClient) -> None:
    series = weekly(ann, times=3)
    ann.move(series.occurrences[1].id, "2027-03-10 15:00")
    ann.cancel(series.occurrences[2].id)
    moved = ann.move_series(series.id, by="1h")
    assert hours(moved)[:2] == ["02 11:00-12:00", "10 16:00-17:00"]
    assert [each.state for each in moved.occurrences] == ["reserved", "reserved", "cancelled"]
    one = ann.move(series.occurrences[0].id, "2027-03-02 13:00")
    assert one.state == "reserved", "a change of one occurrence waits for no other"


def test_days_of_daily_occurrences_go_where_the_next_one_was(ann: SyncClient) -> None:
    """Each by itself: the last one goes first, or the first one."""
    series = weekly(ann, every="day", times=4, mode="as-many")
    later = ann.move_series(series.id, by="1d")
    assert hours(later) == [f"{day} 10:00-11:00" for day in ("03", "04", "05", "06")]
    assert hours(ann.move_series(series.id, by="-1d")) == hours(series)


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_what_waits_for_a_horizon_is_changed_with_the_rest(mode: SeriesMode) -> None:
    sites = {"east": {"room": {"capacity": 1, "horizon": "14d"}}}
    with (
        LocalFacility(sites, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        series = weekly(ann, "east/room", mode=mode, keep_going=True)
        key = f"wait-{mode}"
        ann.move_series(series.id, by="1h", key=key)
        changed = ann.extend_series(series.id, by="30m", key=f"{key}-longer")
        assert ann.move_series(series.id, by="1h", key=key) == changed
        assert ann.extend_series(series.id, by="30m", key=f"{key}-longer") == changed
        assert [each.state for each in changed.occurrences] == ["reserved"] * 2 + ["open"] * 4
        opens = [each.opens for each in changed.occurrences[2:]]
        before = [each.opens for each in series.occurrences[2:]]
        assert [new - old for new, old in zip(opens, before, strict=True)] == [5_400] * 4
        later = ann.move_series(
            series.id, "2027-03-30T10:00", by="1h", following=True, key="the-rest"
        )
        assert (
            ann.move_series(series.id, "2027-03-30T10:00", by="1h", following=True, key="the-rest")
            == later
        )

        servers.stop("broker")
        servers.start("broker")
        for each in later.occurrences[2:]:
            servers.clock.advance(days=7)
            assert ann.wait(each.id).state == "reserved"
        clock = ["11:00-12:30"] * 4 + ["12:00-13:30"] * 2
        assert [each[3:] for each in hours(ann.series(series.id))] == clock


def test_what_waits_stays_where_it_was_if_the_rest_is_refused() -> None:
    sites = {"east": {"room": {"capacity": 1, "horizon": "14d"}}}
    with (
        LocalFacility(sites, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
        servers.sync_client("bob", zone="Europe/Berlin") as bob,
    ):
        series = weekly(ann, "east/room", keep_going=True)
        bob.book("east/room", duration="1h", at="2027-03-09 11:00")
        refused = ann.move_series(series.id, by="1h")
        assert unchanged(refused) == ["02", "09"]
        assert [each.opens for each in refused.occurrences] == [
            each.opens for each in series.occurrences
        ]
        servers.clock.advance(days=14)
        assert ann.wait(series.occurrences[2].id).start == series.occurrences[2].nominal


def test_owners_approve_changes_one_by_one(facility: LocalFacility, ann: SyncClient) -> None:
    with facility.sync_client("operator", at="east") as owner:
        series = weekly(ann, "east/lab", times=2, mode="as-many")
        for each in series.occurrences:
            assert ann.show(each.id).waiting is not None
            owner.approve(each.id)
            assert ann.wait(each.id).state == "reserved"
        moved = ann.move_series(series.id, by="1h", wait_s=5)
        assert hours(moved) == hours(ann.series(series.id)) == ["02 10:00-11:00", "09 10:00-11:00"]
        assert all(each.changing for each in moved.occurrences)
        (asked,) = [each for each in owner.approvals() if each.id == moved.occurrences[0].changing]
        owner.approve(asked.id)
        assert ann.wait(moved.occurrences[0].changing).state == "reserved"
        ann.cancel_series(series.id, series.occurrences[1].name)
        left = ann.series(series.id)
        assert hours(left)[0] == "02 11:00-12:00"
        assert not any(each.changing for each in left.occurrences)


def test_the_limits_of_owners_refuse_a_change_of_all(ann: SyncClient) -> None:
    series = weekly(ann, "east/booth", times=3)
    assert not unchanged(ann.extend_series(series.id, by="1h"))
    refused = ann.extend_series(series.id, by="30m")
    assert [each[3:] for each in hours(refused)] == ["10:00-12:00"] * 3
    why = [each.unchanged.refusals for each in refused.occurrences if each.unchanged is not None]
    assert len(why) == 3
    assert "short" in str(why)


def test_what_has_begun_stays_as_it_is() -> None:
    with (
        LocalFacility({"east": {"room": 1}}, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        series = weekly(ann, "east/room", times=3)
        servers.clock.advance(days=1, minutes=30)
        moved = ann.move_series(series.id, by="1h")
        assert hours(moved) == ["02 10:00-11:00", "09 11:00-12:00", "16 11:00-12:00"]
        longer = ann.extend_series(series.id, "2027-03-02T10:00", by="30m", following=True)
        assert [each[3:] for each in hours(longer)] == ["10:00-11:30", "11:00-12:30", "11:00-12:30"]
        servers.clock.advance(days=30)
        with pytest.raises(Conflict, match="no occurrence is left"):
            ann.move_series(series.id, by="1h")


def move(**how: Any) -> Callable[[SyncClient, SeriesView], object]:
    return lambda client, series: client.move_series(series.id, **how)


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        (move(), InvalidInput, "missing or ambiguous"),
        (move(by="1h", to="2027-03-02 11:00"), InvalidInput, "missing or ambiguous"),
        (move(to="2027-03-02 11:00"), InvalidInput, "a start is that of one occurrence"),
        (move(by="1h", following=True), InvalidInput, "following"),
        (move(by="1h", occurrence="2027-03-03T10:00"), NotFound, "no occurrence"),
        (move(by="-7h30m"), InvalidInput, "2027-03-28T10:00: the clocks of Europe/Berlin skip"),
        (move(by="0s"), InvalidInput, "needs a start, or a time to move by"),
        (lambda client, s: client.extend_series(s.id), InvalidInput, "new length"),
        (lambda client, s: client.extend_series(s.id, duration="30m"), InvalidInput, "cannot be extended"),
        (lambda client, s: client.shrink_series(s.id, by="1h"), InvalidInput, "cannot be shrunk to 0s"),
        (lambda client, s: client.extend_series(s.id, duration="1h"), InvalidInput, "nothing would change"),
        (
            lambda client, s: client.shrink_series(s.id, units={"east/door": 1}),
            InvalidInput, "east/door is not part",
        ),
    ],
)  # fmt: skip
def test_what_is_no_change_is_refused_before_anything_is_asked_for(
    ann: SyncClient,
    call: Callable[[SyncClient, SeriesView], object],
    error: type[Exception],
    complaint: str,
) -> None:
    series = weekly(ann, "east/hall", at="2027-03-27 10:00", every="day", times=3)
    with pytest.raises(error, match=complaint):
        call(ann, series)
    assert ann.series(series.id) == series


def test_a_series_is_changed_by_its_user_alone(ann: SyncClient, bob: SyncClient) -> None:
    series = weekly(ann, "east/hall", times=2)
    with pytest.raises((NotFound, NotAllowed)):
        bob.move_series(series.id, by="1h")
    assert ann.series(series.id) == series


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_an_occurrence_that_does_not_stand_is_not_changed_in_silence(
    ann: SyncClient, mode: SeriesMode
) -> None:
    series = weekly(ann, "east/hall", times=3, mode=mode)
    name = series.occurrences[1].name
    left = ann.cancel_series(series.id, name)
    for calls in (
        lambda: ann.move_series(series.id, name, by="1h"),
        lambda: ann.move_series(series.id, name, to="2027-03-10 15:00"),
        lambda: ann.move_series(series.id, name, to="2027-03-10 15:00", following=True),
        lambda: ann.extend_series(series.id, name, by="1h"),
    ):
        with pytest.raises(Conflict, match=f"no reservation for the occurrence {name}"):
            calls()
    assert ann.series(series.id) == left
    key = f"later-one-{mode}"
    later = ann.move_series(series.id, name, by="1h", following=True, key=key)
    assert hours(later)[2] == "16 11:00-12:00"
    ann.cancel_series(series.id)
    assert not unchanged(ann.move_series(series.id, name, by="1h", following=True, key=key))
    with pytest.raises(Conflict, match="no occurrence is left"):
        ann.move_series(series.id, by="1h")


def test_the_named_occurrence_begins_at_the_very_start_that_was_given(ann: SyncClient) -> None:
    """Also in the hour that is shown twice: the others are moved by the local clock."""
    series = weekly(ann, "east/hall", at="2027-10-30 01:30", every="day", times=3)
    second = "2027-10-31T02:30+01:00"
    moved = ann.move_series(series.id, series.occurrences[1].name, to=second, following=True)
    assert hours(moved)[1:] == ["31 02:30-03:30", "01 02:30-03:30"]
    start = moved.occurrences[1].start
    assert start == series.occurrences[1].start + 2 * 3_600
    first = ann.move_series(series.id, series.occurrences[1].name, to="2027-10-31T02:30+02:00")
    assert first.occurrences[1].start == start - 3_600
