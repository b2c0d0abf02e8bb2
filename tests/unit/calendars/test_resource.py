"""A resource's refusals in their order and words, and what each principal is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kalends.calendars import (
    AccessList,
    AccessRule,
    Booking,
    KeptSlots,
    Recurrence,
    ResourceCalendar,
    open_access,
    unknown_resource,
)
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo, Slot

HOUR = 3600
NOW = int(datetime(2026, 3, 2, 10, 7, tzinfo=UTC).timestamp())
TEN = NOW - 7 * 60
ANN, BOB, EVE = Principal(user="ann"), Principal(user="bob"), Principal(user="eve")
OFFICE = Recurrence("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "08:00", 10 * HOUR, "Europe/Berlin")
ACCESS = AccessList(
    [
        AccessRule("users", "user:ann", ("see", "hold", "lock"), 4),
        AccessRule("guests", "user:bob", ("see", "hold")),
        AccessRule("operators", "group:operators", ("see", "detail")),
    ]
)


def resource(**changes: Any) -> ResourceCalendar:
    fields = {
        "name": "site/thing", "capacity": 8, "grain_s": 900, "horizon_s": 7 * 86_400,
        "zone": "Europe/Berlin", **changes,
    }  # fmt: skip
    return ResourceCalendar(ResourceInfo(**fields), ACCESS, (OFFICE,))


def booking(number: int, start: int, end: int, **changes: Any) -> Booking:
    fields: dict[str, Any] = {
        "units": 1, "state": "held", "holder": "ann", "reservation": f"r{number}",
    }  # fmt: skip
    return Booking(id=number, start=start, end=end, **{**fields, **changes})


def refusal(
    start: int, end: int, units: int = 1, who: Principal = ANN, *actions: str
) -> Refusal | None:
    return resource().refusal(who, actions or ("hold", "lock"), start, end, units, NOW)


def test_what_the_rules_allow_is_not_refused() -> None:
    assert refusal(TEN, TEN + HOUR) is None
    assert refusal(TEN + 7 * HOUR - 900, TEN + 7 * HOUR, 4) is None


def test_a_hidden_resource_is_refused_like_one_that_does_not_exist_whatever_else_is_wrong() -> None:
    missing = unknown_resource("site/thing")
    assert refusal(TEN, TEN + HOUR, 1, EVE) == missing
    assert refusal(1, 0, 99, EVE) == missing
    assert missing.code == RefusalCode.UNKNOWN_RESOURCE
    thing = resource()
    assert not thing.visible_to(EVE)
    assert thing.free_steps(EVE, TEN, TEN + HOUR, NOW, 100) == ([], TEN + HOUR)
    thing.book(booking(1, TEN, TEN + HOUR, holder="eve"))
    assert thing.slots(EVE, TEN, TEN + HOUR, 100) == []


@pytest.mark.parametrize(
    ("start", "end", "units", "who", "code"),
    [
        (-5, -5, 99, BOB, RefusalCode.OFF_GRAIN),
        (TEN - 901, TEN + 30 * 86_400, 99, BOB, RefusalCode.PAST),
        (TEN + 1, TEN + 30 * 86_400, 99, BOB, RefusalCode.BEYOND_HORIZON),
        (TEN + 1, TEN + 86_400, 99, BOB, RefusalCode.OFF_GRAIN),
        (TEN, TEN + 86_400, 99, BOB, RefusalCode.TOO_MUCH),
        (TEN, TEN + 86_400, 0, BOB, RefusalCode.TOO_MUCH),
        (TEN, TEN + 86_400, 8, BOB, RefusalCode.NOT_ALLOWED),
        (TEN, TEN + 86_400, 5, ANN, RefusalCode.NOT_ALLOWED),
        (TEN, TEN + 86_400, 4, ANN, RefusalCode.CLOSED_HOURS),
    ],
)
def test_the_first_reason_in_the_stated_order_is_given(
    start: int, end: int, units: int, who: Principal, code: str
) -> None:
    found = refusal(start, end, units, who)
    assert found is not None
    assert (found.code, found.where) == (code, "site/thing")


def test_a_slot_that_began_within_the_current_grain_is_not_past() -> None:
    assert refusal(TEN, TEN + 900) is None
    assert resource().refusal(ANN, ("hold",), TEN, TEN + 900, 1, TEN + 899) is None
    late = resource().refusal(ANN, ("hold",), TEN, TEN + 900, 1, TEN + 900)
    assert late is not None
    assert late.code == RefusalCode.PAST


def test_what_goes_on_with_a_slot_that_has_begun_may_begin_when_that_did_and_must_end_later() -> (
    None
):
    def changed(end: int, wall_s: int = TEN + 2 * HOUR + 60) -> Refusal | None:
        old = Interval(TEN, TEN + 3 * HOUR)
        more = (Interval(old.end, end),) if end > old.end else ()
        kept = KeptSlots(frozenset({old}), more)
        return resource().refusal(ANN, ("hold",), TEN, end, 1, wall_s, kept)

    assert changed(TEN + 4 * HOUR) is None
    assert changed(TEN + 3 * HOUR - 900) is None
    over = changed(TEN + 2 * HOUR)
    assert over is not None
    assert (over.code, "it must end later" in over.detail) == (RefusalCode.PAST, True)
    ended = changed(TEN + 4 * HOUR, TEN + 3 * HOUR)
    assert ended is not None
    assert ended.code == RefusalCode.PAST


def test_only_the_side_that_is_off_the_grain_is_named() -> None:
    start, end, both = (
        refusal(TEN + 1, TEN + HOUR),
        refusal(TEN, TEN + 1),
        refusal(TEN + 1, TEN + 2),
    )
    sides = [
        [side for side in ("start at", "end at") if side in found.detail]
        for found in (start, end, both)
        if found is not None and found.code == RefusalCode.OFF_GRAIN
    ]
    assert sides == [["start at"], ["end at"], ["start at", "end at"]]


def test_refusals_say_in_words_what_is_allowed() -> None:
    off = refusal(TEN + 60, TEN + HOUR)
    assert off is not None
    assert "every whole 15 minutes" in off.detail
    assert "11:00:00 CET (UTC+01:00) or Mon 2026-03-02 11:15:00 CET" in off.detail
    short = refusal(TEN, TEN + 10)
    assert short is not None
    assert short.detail.endswith(": end at Mon 2026-03-02 11:15:00 CET (UTC+01:00)")
    closed = refusal(TEN, TEN + 10 * HOUR)
    assert closed is not None
    assert closed.detail == "open only Mon-Fri 08:00-18:00 Europe/Berlin"
    assert closed.rule == "opening-hours"
    worded = resource(hours="weekdays, by day").refusal(
        ANN, ("hold",), TEN, TEN + 10 * HOUR, 1, NOW
    )
    assert worded is not None
    assert worded.detail == "open only weekdays, by day"
    far = refusal(TEN, TEN + 8 * 86_400)
    assert far is not None
    assert "Mon 2026-03-09 11:00:00 CET" in far.detail
    guest = refusal(TEN, TEN + HOUR, 1, BOB)
    assert guest is not None
    assert guest.rule == "access-list"
    assert "lock" in guest.detail


@pytest.mark.parametrize(
    ("grain_s", "words"),
    [(60, "minute"), (90, "90 seconds"), (3600, "hour"), (43_200, "12 hours"), (86_400, "day")],
)  # fmt: skip
def test_grains_have_words(grain_s: int, words: str) -> None:
    off = resource(grain_s=grain_s).refusal(ANN, ("hold",), NOW + 1, NOW + 2, 1, NOW)
    assert off is not None
    assert f"every whole {words} " in off.detail


@pytest.mark.parametrize("bad", [1.5, float("nan"), True, None, "5"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_what_is_not_a_whole_number_is_invalid_for_everyone(bad: Any, position: int) -> None:
    arguments: list[Any] = [TEN, TEN + HOUR, 1]
    arguments[position] = bad
    for who in (ANN, EVE):
        with pytest.raises(InvalidInput):
            resource().refusal(who, ("hold",), *arguments, NOW)


def test_an_unknown_zone_is_refused_when_the_resource_is_made() -> None:
    with pytest.raises(InvalidInput):
        resource(zone="Mars/Olympus")


def test_busy_tells_how_much_is_free_and_nothing_of_others() -> None:
    thing = resource()
    thing.book(booking(1, TEN, TEN + HOUR, units=6, holder="bob"))
    told = thing.busy(ANN, TEN, TEN + HOUR, 3, NOW)
    assert told.code == RefusalCode.BUSY
    assert told.detail.startswith("2 of 8 units are free throughout")
    assert "bob" not in told.detail
    single = resource(capacity=1)
    single.book(booking(1, TEN, TEN + HOUR))
    assert single.busy(ANN, TEN, TEN + HOUR, 1, NOW).detail.startswith(
        "taken for some time between"
    )


def test_busy_does_not_say_that_enough_is_free() -> None:
    told = resource().busy(ANN, TEN, TEN + HOUR, 3, NOW)
    assert told.detail.startswith("jobs, or other parts of the request, leave too few units free")


def test_busy_tells_when_there_is_room_that_the_asker_may_use() -> None:
    thing = resource()
    thing.book(booking(1, TEN, TEN + 7 * HOUR, units=6))
    told = thing.busy(ANN, TEN, TEN + HOUR, 3, NOW)
    # Free from 18:00 in Berlin, when it closes: the next morning is the first that may be used.
    assert told.detail.endswith("; there is room from Tue 2026-03-03 08:00:00 CET (UTC+01:00) on")


def test_busy_tells_of_room_on_a_grain_that_divides_no_day() -> None:
    grain_s = 1_100
    thing = ResourceCalendar(
        ResourceInfo(name="site/thing", grain_s=grain_s, horizon_s=7 * 86_400), open_access()
    )
    start = NOW // grain_s * grain_s + grain_s
    thing.book(booking(1, start, start + 2 * grain_s))
    told = thing.busy(ANN, start, start + grain_s, 1, NOW)
    assert "; there is room from " in told.detail


def test_busy_promises_no_room_where_the_rules_or_the_horizon_leave_none() -> None:
    thing = resource()
    thing.book(booking(1, TEN, TEN + 7 * 86_400, units=6))
    for told in (
        thing.busy(ANN, TEN, TEN + HOUR, 3, NOW),
        thing.busy(EVE, TEN, TEN + HOUR, 1, NOW),
    ):
        assert "there is room" not in told.detail


def test_slots_show_whose_they_are_to_their_holder_and_to_operators_only() -> None:
    thing = resource()
    thing.book(booking(1, TEN, TEN + HOUR, state="prepared"))
    thing.book(booking(2, TEN, TEN + HOUR, state="locked", units=2, holder="bob"))
    for who, ann_shown, bob_shown in (
        (ANN, ("ann", "r1"), ()),
        (BOB, (), ("bob", "r2")),
        (Principal(user="op", groups=("operators",)), ("ann", "r1"), ("bob", "r2")),
    ):
        assert thing.slots(who, TEN, TEN + 1, 10) == [
            Slot(TEN, TEN + HOUR, 1, "held", *ann_shown),
            Slot(TEN, TEN + HOUR, 2, "locked", *bob_shown),
        ]
    assert len(thing.slots(ANN, TEN, TEN + HOUR, 1)) == 1
    assert thing.slots(ANN, TEN + HOUR, TEN + 2 * HOUR, 10) == []


def test_free_steps_are_clipped_to_now_hours_amounts_and_horizon() -> None:
    thing = resource()
    thing.book(booking(1, TEN + HOUR, TEN + 2 * HOUR, units=8))
    thing.book(booking(2, TEN + 2 * HOUR, TEN + 3 * HOUR, units=6))
    monday, until = thing.free_steps(ANN, TEN - 9999, TEN + 10 * HOUR, NOW, 100)
    assert monday == [
        (TEN, TEN + HOUR, 4),
        (TEN + 2 * HOUR, TEN + 3 * HOUR, 2),
        (TEN + 3 * HOUR, TEN + 7 * HOUR, 4),
    ]
    assert until == TEN + 10 * HOUR
    everything, until = thing.free_steps(ANN, 0, TEN + 30 * 86_400, NOW, 100)
    assert everything[:3] == monday
    assert everything[-1] == (TEN + 7 * 86_400 - 3 * HOUR, TEN + 7 * 86_400, 4)
    assert until == TEN + 30 * 86_400
    assert thing.free_steps(ANN, 0, TEN, NOW, 100) == ([], TEN)
    assert thing.free_steps(ANN, TEN, TEN + 10 * HOUR, NOW, 1) == (monday[:1], TEN + 2 * HOUR)
    assert thing.free_steps(ANN, TEN, TEN + 10 * HOUR, NOW, 0) == ([], TEN)


def test_who_may_hold_what_they_may_not_see_is_shown_nothing() -> None:
    info = ResourceInfo(name="site/thing")
    blind = ResourceCalendar(info, AccessList([AccessRule("blind", "everyone", ("hold", "lock"))]))
    assert blind.free_steps(ANN, TEN, TEN + HOUR, NOW, 10) == ([], TEN + HOUR)
    assert blind.refusal(ANN, ("hold",), TEN, TEN + HOUR, 1, NOW) == unknown_resource("site/thing")


def test_who_may_hold_but_never_lock_is_shown_what_they_may_hold() -> None:
    steps, _ = resource().free_steps(BOB, TEN, TEN + HOUR, NOW, 10)
    assert steps == [(TEN, TEN + HOUR, 8)]


def test_a_resource_passes_bookings_on_to_its_calendar() -> None:
    thing = ResourceCalendar(ResourceInfo(name="site/one"), open_access())
    thing.book(booking(1, TEN, TEN + 60))
    assert thing.free(TEN, TEN + 60) == 0
    assert thing.change_state(1, "locked").state == "locked"
    assert thing.release(1).id == 1
    thing.check()
