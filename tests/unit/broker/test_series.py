"""Series at a real broker with real sites: booked, shown, tried again, cancelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kalends.client.sync import SyncClient
from kalends.contract.calls import SeriesMode, SeriesView
from kalends.core.errors import (
    InvalidInput,
    KeyReused,
    LimitExceeded,
    NoCommonTime,
    NotFound,
    RefusalCode,
)
from kalends.testing import LocalFacility

FIRST = "2027-03-02 14:00"
"""A Tuesday; the clocks of Berlin change on the 28th."""

BOTH = "east/room + west/camera"


@pytest.fixture(scope="module")
def facility() -> Iterator[LocalFacility]:
    sites: dict[str, dict[str, Any]] = {
        "east": {"room": 1, "hall": 1, "yard": 1},
        "west": {"camera": 1},
    }
    sites["east"] |= {"booth": {"grain": "2h", "zone": "Europe/Berlin"}, "desk": {"grain": "45m"}}
    sites["east"]["near"] = {"capacity": 1, "horizon": "14d"}
    with LocalFacility(sites, now="2027-03-01T09:00Z") as made:
        yield made


@pytest.fixture
def ann(facility: LocalFacility) -> Iterator[SyncClient]:
    with facility.sync_client("ann", zone="Europe/Berlin") as client:
        yield client
        for view in client.list(state="reserved"):
            client.cancel(view.id)


@pytest.fixture
def bob(facility: LocalFacility) -> Iterator[SyncClient]:
    with facility.sync_client("bob", zone="Europe/Berlin") as client:
        yield client
        for view in client.list(state="reserved"):
            client.cancel(view.id)


def states(series: SeriesView) -> dict[str, str]:
    return {each.name[5:10]: each.state for each in series.occurrences}


def test_all_occurrences_are_booked_at_the_same_local_hour(ann: SyncClient) -> None:
    series = ann.book_series(
        BOTH, duration="1h", at=FIRST, every="week on tue,thu", times=10, skip=["2027-03-09"]
    )
    assert Counter(each.state for each in series.occurrences) == {"reserved": 9}
    assert [each.name for each in series.occurrences][:2] == [
        "2027-03-02T14:00",
        "2027-03-04T14:00",
    ]
    assert {each.name[11:] for each in series.occurrences} == {"14:00"}
    before, after = series.occurrences[0], series.occurrences[-1]
    assert (before.start % 86_400, after.start % 86_400) == (13 * 3_600, 12 * 3_600)
    views = {view.id: view for view in ann.list(state="reserved")}
    assert views[before.id].series == series.id
    assert views[before.id].occurrence == before.name


def test_one_refusal_books_none_of_all(ann: SyncClient, bob: SyncClient) -> None:
    bob.book("west/camera", duration="1h", at="2027-03-16 14:00")
    series = ann.book_series(BOTH, duration="1h", at=FIRST, every="week", times=4)
    assert {each.state for each in series.occurrences} == {"failed"}
    refused = series.occurrences[2]
    assert refused.problem is not None
    assert [each.where for each in refused.problem.refusals] == ["west/camera"]
    others = [each.problem for each in series.occurrences if each is not refused]
    assert all(each is not None and "another occurrence" in each.detail for each in others)
    assert bob.book("east/room", duration="1h", at=FIRST).state == "reserved"


def test_as_many_as_possible_are_booked_and_the_rest_can_be_tried_again(
    ann: SyncClient, bob: SyncClient
) -> None:
    taken = bob.book("east/room", duration="2h", at="2027-03-09 13:00")
    asked = {"duration": "1h", "at": FIRST, "every": "week", "times": 4, "mode": "as-many"}
    series = ann.book_series(BOTH, **asked)  # type: ignore[arg-type]  # The options of the call.
    wanted = {"03-02": "reserved", "03-09": "failed", "03-16": "reserved", "03-23": "reserved"}
    assert states(series) == wanted
    assert states(ann.retry_series(series.id)) == wanted
    bob.cancel(taken.id)
    again = ann.retry_series(series.id)
    assert set(states(again).values()) == {"reserved"}
    assert ann.retry_series(series.id) == again
    kept = [(each.name, each.id) for each in series.occurrences if each.state == "reserved"]
    assert set(kept) <= {(each.name, each.id) for each in again.occurrences}


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_a_call_that_does_not_wait_shows_the_series_that_it_has_begun(
    ann: SyncClient, mode: SeriesMode
) -> None:
    asked = {"duration": "1h", "at": FIRST, "every": "week", "mode": mode, "key": f"at-once-{mode}"}
    series = ann.book_series("east/room", times=3, wait_s=0, **asked)  # type: ignore[arg-type]  # As above.
    assert len(series.occurrences) == 3
    whole = ann.book_series("east/room", times=3, **asked)  # type: ignore[arg-type]  # As above.
    assert (whole.id, {each.state for each in whole.occurrences}) == (series.id, {"reserved"})


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_a_repeated_call_is_the_same_series_and_another_rule_is_refused(
    ann: SyncClient, mode: str
) -> None:
    asked = {"duration": "1h", "at": FIRST, "every": "week", "mode": mode, "key": f"course-{mode}"}
    series = ann.book_series("east/room", times=3, **asked)  # type: ignore[arg-type]  # As above.
    assert ann.book_series("east/room", times=3, **asked) == series  # type: ignore[arg-type]  # As above.
    with pytest.raises(KeyReused):
        ann.book_series("east/room", times=4, **asked)  # type: ignore[arg-type]  # As above.
    with pytest.raises(KeyReused):
        ann.book("east/room", duration="1h", at=FIRST, key=f"course-{mode}")
    assert len(ann.list(state="reserved")) == 3


def test_one_occurrence_the_following_and_all_are_cancelled(ann: SyncClient) -> None:
    series = ann.book_series("east/hall", duration="1h", at=FIRST, every="day", times=5)
    one = ann.cancel_series(series.id, "2027-03-03T14:00")
    assert [*states(one).values()] == ["reserved", "cancelled", *["reserved"] * 3]
    later = ann.cancel_series(series.id, "2027-03-05T14:00", following=True)
    assert [*states(later).values()] == ["reserved", "cancelled", "reserved", *["cancelled"] * 2]
    with pytest.raises(NotFound, match="no occurrence 2027-03-12T14:00"):
        ann.cancel_series(series.id, "2027-03-12T14:00")
    assert set(states(ann.cancel_series(series.id)).values()) == {"cancelled"}


@pytest.mark.parametrize(
    ("resource", "duration", "first"), [("booth", "2h", "10:00"), ("desk", "45m", "09:15")]
)
def test_the_best_hours_are_looked_for_where_the_owners_grain_lets_slots_begin(
    ann: SyncClient, resource: str, duration: str, first: str
) -> None:
    found = ann.find_series(
        f"east/{resource}", duration=duration, every="week on mon", times=3, between="9:00-18:00",
        window=("2027-03-02 00:00", None),
    )  # fmt: skip
    assert [(each.first[11:], each.fits) for each in found.hours] == [(first, 3)]


def test_an_occurrence_that_was_moved_keeps_its_name(ann: SyncClient) -> None:
    series = ann.book_series("east/hall", duration="1h", at=FIRST, every="week", times=2)
    ann.move(series.occurrences[1].id, "2027-03-10 16:00")
    moved = ann.series(series.id).occurrences[1]
    assert (moved.name, moved.id) == ("2027-03-09T14:00", series.occurrences[1].id)
    assert moved.start == moved.nominal + 26 * 3_600
    cancelled = ann.cancel_series(series.id, "2027-03-09T14:00")
    assert [*states(cancelled).values()] == ["reserved", "cancelled"]
    assert [view.series for view in ann.list(state="reserved")] == [series.id]


def test_a_series_is_found_by_its_short_id_and_by_its_occurrences(ann: SyncClient) -> None:
    series = ann.book_series("east/yard", duration="1h", at=FIRST, every="day", times=2)
    assert series.id.endswith("0000")
    for part in (
        series.id,
        series.id[-8:],
        series.occurrences[1].id,
        series.occurrences[1].id[-8:],
    ):
        assert ann.series(part).id == series.id
    with pytest.raises(NotFound, match="series"):
        ann.series("abcd0000")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"every": "week"}, "one end"),
        ({"every": "week", "times": 2, "until": "2027-03-09"}, "one end"),
        ({}, "one rule"),
        ({"rule": "FREQ=WEEKLY;COUNT=2", "times": 3}, "own end"),
        ({"rule": "FREQ=WEEKLY"}, "no end"),
        ({"every": "day", "times": 201}, "more than 200"),
        ({"every": "day", "times": 2, "at": "2027-02-01 09:00"}, "has begun already"),
        ({"every": "day", "times": 2, "at": None}, "exact start"),
        ({"every": "day", "times": 60, "at": "2027-03-02 02:30"}, "skip 2027-03-28T02:30"),
    ],
)
def test_what_is_no_series_is_refused_before_anything_is_booked(
    ann: SyncClient, fields: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        ann.book_series("east/yard", **{"duration": "1h", "at": FIRST, **fields})  # type: ignore[arg-type]
    assert not ann.list(state="reserved")


def test_the_best_hours_are_those_that_can_be_booked(ann: SyncClient, bob: SyncClient) -> None:
    bob.book("east/yard", duration="1h", at="2027-03-09 14:00")
    found = ann.find_series(
        "east/yard + west/camera", duration="1h", every="week", times=5, between="13:30-16:00", count=3,
        window=("2027-03-02 00:00", None),
    )  # fmt: skip
    assert [(each.first, each.last, each.fits, each.missed) for each in found.hours] == [
        ("2027-03-02T15:00", "2027-03-02T15:00", 5, ()),
        ("2027-03-03T13:30", "2027-03-03T15:00", 5, ()),
        ("2027-03-04T13:30", "2027-03-04T15:00", 5, ()),
    ]
    series = ann.book_series(
        "east/yard + west/camera", duration="1h", at=found.hours[0].start, every="week", times=5
    )
    assert {each.state for each in series.occurrences} == {"reserved"}


def test_hours_at_which_some_are_missed_name_their_days(ann: SyncClient, bob: SyncClient) -> None:
    bob.book("east/hall", duration="24h", at="2027-03-09 00:00")
    (best,) = ann.find_series(
        "east/hall", duration="1h", every="week on tue", times=3, window=("2027-03-02 00:00", None)
    ).hours
    assert (best.fits, best.of, best.missed) == (2, 3, ("2027-03-09",))


@pytest.mark.parametrize(
    ("text", "more", "where"),
    [
        ("east/room", {"between": "18:00-09:00"}, "between"),
        ("east/room", {"between": "9:00-9:30"}, "between"),
        ("east/room", {"times": 0}, "times"),
        ("east/room", {"count": 0}, "count"),
        ("east/room", {"skip": ["2029-01-01"]}, "skip"),
        ("east/nothing", {}, "east/nothing"),
    ],
)
def test_a_search_for_hours_that_cannot_be_is_refused_at_its_place(
    ann: SyncClient, text: str, more: dict[str, Any], where: str
) -> None:
    with pytest.raises((InvalidInput, NotFound)) as refused:
        ann.find_series(text, **{"duration": "1h", "every": "day", "times": 3} | more)
    assert where in (refused.value.where, *(each.where for each in refused.value.refusals))


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_each_occurrence_may_give_way_by_so_much(
    ann: SyncClient, bob: SyncClient, mode: SeriesMode
) -> None:
    bob.book("east/room", duration="30m", at="2027-03-09 14:00")
    bob.book("west/camera", duration="1h", at="2027-03-16 13:00")
    series = ann.book_series(
        BOTH, duration="1h", at=FIRST, every="week", times=4, give="30m", mode=mode
    )
    assert {each.state for each in series.occurrences} == {"reserved"}
    moved = [each.start - each.nominal for each in series.occurrences]
    assert moved == [0, 1_800, 0, 0]
    assert series.give_s == 1_800
    assert ann.series(series.id) == series
    assert [each.name[11:] for each in series.occurrences] == ["14:00"] * 4


def test_what_cannot_give_way_enough_is_refused_as_ever(ann: SyncClient, bob: SyncClient) -> None:
    bob.book("east/room", duration="3h", at="2027-03-09 13:00")
    asked = {"duration": "1h", "at": FIRST, "every": "week", "times": 3, "give": "30m"}
    whole = ann.book_series(BOTH, **asked)  # type: ignore[arg-type]  # The options of the call.
    assert {each.state for each in whole.occurrences} == {"failed"}
    part = ann.book_series(BOTH, mode="as-many", **asked)  # type: ignore[arg-type]  # As above.
    assert [each.state for each in part.occurrences] == ["reserved", "failed", "reserved"]
    again = ann.retry_series(part.id)
    assert [each.state for each in again.occurrences] == ["reserved", "failed", "reserved"]
    with pytest.raises(InvalidInput, match="could meet"):
        ann.book_series(BOTH, duration="12h", at=FIRST, every="day", times=3, give="7h")


def test_what_may_give_way_by_less_than_the_owners_grain_is_told_of_the_grain(
    ann: SyncClient,
) -> None:
    series = ann.book_series(
        "east/booth", duration="2h", at="2027-03-02 15:00", every="week", times=2, give="30m"
    )
    for each in series.occurrences:
        assert each.problem is not None
        (refusal,) = each.problem.refusals
        assert refusal.code == RefusalCode.OFF_GRAIN
        assert "every whole 2 hours from midnight" in refusal.detail
        assert each.nearest == each.nominal + 3_600


def test_what_was_missed_has_its_reason_and_the_nearest_free_start(
    ann: SyncClient, bob: SyncClient
) -> None:
    bob.book("east/room", duration="5h", at="2027-03-09 11:30")
    bob.book("west/camera", duration="24h", at="2027-03-16 00:00")
    series = ann.book_series(BOTH, duration="1h", at=FIRST, every="week", times=3, mode="as-many")
    first, missed, other = series.occurrences
    assert (first.state, first.nearest) == ("reserved", 0)
    assert missed.problem is not None
    assert [each.where for each in missed.problem.refusals] == ["east/room"]
    assert missed.nearest - missed.nominal == 9_000
    assert other.nearest - other.nominal == 10 * 3_600
    assert ann.series(series.id) == series
    whole = ann.book_series(BOTH, duration="1h", at=FIRST, every="week", times=3)
    assert [bool(each.nearest) for each in whole.occurrences] == [True, True, True]


def test_a_series_beyond_the_horizon_is_refused_before_anything_is_booked(
    ann: SyncClient,
) -> None:
    asked = {"duration": "1h", "at": FIRST, "every": "week", "times": 4}
    for mode in ("all", "as-many"):
        with pytest.raises(NoCommonTime, match="2 of 4 occurrences lie beyond") as refused:
            ann.book_series("east/near", mode=mode, **asked)  # type: ignore[arg-type]  # As above.
        assert [each.where for each in refused.value.refusals] == ["east/near"]
        assert "2 of 4 occurrences lie within its horizon" in refused.value.refusals[0].detail
        assert "2027-03-15" in refused.value.remedy
        assert "--keep-going" in refused.value.remedy
    assert not ann.list(state="reserved")
    found = ann.find_series("east/near", duration="1h", every="week", times=4, between="9:00-18:00")
    assert found.horizon_of == "east/near"
    assert {each.fits for each in found.hours} == {2}


@pytest.mark.parametrize("mode", ["all", "as-many"])
def test_a_series_that_keeps_going_is_booked_as_the_horizon_moves(mode: SeriesMode) -> None:
    sites = {"east": {"room": {"capacity": 1, "horizon": "14d"}}}
    with (
        LocalFacility(sites, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
        servers.sync_client("bob", zone="Europe/Berlin") as bob,
    ):
        asked = {"duration": "1h", "at": FIRST, "every": "week", "times": 5, "mode": mode}
        asked |= {"keep_going": True, "key": "course-2027"}
        series = ann.book_series("east/room", **asked)  # type: ignore[arg-type]  # The options of the call.
        assert [*states(series).values()] == ["reserved", "reserved", "open", "open", "open"]
        assert [each.opens > 0 for each in series.occurrences] == [False, False, True, True, True]
        before_s = servers.clock.wall_s()
        again = ann.book_series("east/room", wait_s=120, **asked)  # type: ignore[arg-type]  # As above.
        assert again == series
        assert servers.clock.wall_s() - before_s < 120, "it waits for nothing that is for later"
        waiting = ann.show(series.occurrences[2].id).waiting
        assert waiting is not None
        assert waiting.awaited == ("east/room",)
        ann.cancel_series(series.id, series.occurrences[4].name)

        servers.stop("broker")
        servers.start("broker")
        servers.clock.advance(days=8, hours=5, minutes=2)
        assert ann.wait(series.occurrences[2].id).state == "reserved"
        assert states(ann.series(series.id))["03-23"] == "open"
        bob.book("east/room", duration="1h", at="2027-03-23 14:00")
        servers.clock.advance(minutes=5)
        with pytest.raises(NoCommonTime):
            ann.wait(series.occurrences[3].id)
        done = ann.series(series.id)
        assert [*states(done).values()] == [*["reserved"] * 3, "failed", "cancelled"]
        assert done.occurrences[3].nearest


def test_a_series_that_keeps_going_beyond_the_open_requests_of_its_user_is_refused_as_a_whole() -> (
    None
):
    sites = {"east": {"room": {"capacity": 1, "horizon": "14d"}}}
    with (
        LocalFacility(
            sites, now="2027-03-01T09:00Z", settings={"limits": {"open_per_principal_max": 3}}
        ) as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        asked = {"duration": "1h", "at": FIRST, "every": "week", "keep_going": True}
        for mode in ("all", "as-many"):
            with pytest.raises(
                LimitExceeded, match=r"at most 3 .* 0 are, and this call would add 4"
            ):
                ann.book_series("east/room", times=6, mode=mode, **asked)  # type: ignore[arg-type]
            assert not ann.list()
        series = ann.book_series("east/room", times=5, **asked)  # type: ignore[arg-type]
        assert Counter(states(series).values()) == {"reserved": 2, "open": 3}


def test_a_site_that_is_away_when_its_horizon_opens_is_asked_again_and_not_without_a_pause() -> (
    None
):
    with (
        LocalFacility(
            {"east": {"room": {"capacity": 1, "horizon": "14d"}}}, now="2027-03-01T09:00Z"
        ) as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        series = ann.book_series(
            "east/room", duration="1h", at=FIRST, every="week", times=3, keep_going=True
        )
        servers.stop("east")
        servers.clock.advance(days=1, hours=8)
        servers.start("east")
        assert ann.wait(series.occurrences[2].id).state == "reserved"


def test_a_series_that_keeps_going_books_nothing_later_if_its_beginning_is_refused(
    ann: SyncClient, bob: SyncClient
) -> None:
    bob.book("east/near", duration="1h", at=FIRST)
    series = ann.book_series(
        "east/near", duration="1h", at=FIRST, every="week", times=4, keep_going=True
    )
    assert [*states(series).values()] == ["failed", "failed", "not-asked", "not-asked"]
    assert not ann.list(state="open")


def test_a_series_is_not_split_over_the_members_of_a_virtual_site() -> None:
    with (
        LocalFacility(
            {"east": {"room": 4}}, now="2027-03-01T09:00Z", virtual={"hall": ["east"]}
        ) as servers,
        servers.sync_client("ann", zone="Europe/Berlin") as ann,
    ):
        for call, time in ((ann.book_series, {"at": FIRST}), (ann.find_series, {})):
            with pytest.raises(InvalidInput, match="not split over the members") as refused:
                call("hall/members:2", duration="1h", every="week", times=2, **time)  # type: ignore[operator]
            assert refused.value.where == "hall/members"
        assert not ann.list()
