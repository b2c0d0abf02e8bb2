"""Busy times from a calendar file: right on clock changes, bounded, and an error where they are not clear."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.client.inputs import busy_times as busy
from kalends.client.inputs.busy_times import busy_times, gaps
from kalends.core.errors import InvalidInput, KalendsError, NoCommonTime, TooLarge
from kalends.testing import LocalFacility

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "America/Santiago", "UTC",
    "Pacific/Auckland", "Africa/Cairo", "America/St_Johns", "Australia/Lord_Howe", "Asia/Tehran",
    "Pacific/Apia",
)  # fmt: skip
BEGIN, END = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 12, 1, tzinfo=UTC)


def event(*lines: str, uid: str = "a") -> str:
    return "\r\n".join(["BEGIN:VEVENT", f"UID:{uid}", *lines, "END:VEVENT"])


def found(*parts: str, zone: ZoneInfo = BERLIN, folder: Path) -> list[tuple[str, str]]:
    path = folder / "mine.ics"
    text = "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *parts, "END:VCALENDAR", ""])
    path.write_text(text, newline="")
    times = busy_times(path, int(BEGIN.timestamp()), int(END.timestamp()), zone)
    assert all(one[1] < other[0] for one, other in pairwise(times))
    return [(shown(start), shown(end)) for start, end in times]


def shown(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%m-%d %H:%M}"


WEEKLY = (
    "DTSTART;TZID=Europe/Berlin:20270322T090000",
    "DTEND;TZID=Europe/Berlin:20270322T100000",
    "RRULE:FREQ=WEEKLY;COUNT=4",
)


def test_a_weekly_event_stays_at_its_hour_over_a_clock_change(tmp_path: Path) -> None:
    assert found(event(*WEEKLY), folder=tmp_path) == [
        ("03-22 08:00", "03-22 09:00"),
        ("03-29 07:00", "03-29 08:00"),
        ("04-05 07:00", "04-05 08:00"),
        ("04-12 07:00", "04-12 08:00"),
    ]


def test_one_occurrence_may_be_left_out_and_another_moved(tmp_path: Path) -> None:
    moved = event(
        "RECURRENCE-ID;TZID=Europe/Berlin:20270405T090000",
        "DTSTART;TZID=Europe/Berlin:20270406T140000",
        "DURATION:PT30M",
    )
    left_out = "EXDATE;TZID=Europe/Berlin:20270329T090000"
    assert found(event(*WEEKLY, left_out), moved, folder=tmp_path) == [
        ("03-22 08:00", "03-22 09:00"),
        ("04-06 12:00", "04-06 12:30"),
        ("04-12 07:00", "04-12 08:00"),
    ]


def test_whole_days_are_those_of_the_user_also_with_23_hours(tmp_path: Path) -> None:
    day = event("DTSTART;VALUE=DATE:20270328")
    assert found(day, folder=tmp_path) == [("03-27 23:00", "03-28 22:00")]


def test_what_takes_no_time_is_left_out(tmp_path: Path) -> None:
    when = ("DTSTART:20270401T100000Z", "DTEND:20270401T110000Z")
    quiet = [
        event(*when, "TRANSP:TRANSPARENT"), event(*when, "STATUS:CANCELLED"), event(when[0]),
    ]  # fmt: skip
    free = "BEGIN:VFREEBUSY\r\nFREEBUSY;FBTYPE=FREE:20270401T100000Z/PT1H\r\nEND:VFREEBUSY"
    taken = free.replace("FBTYPE=FREE", "FBTYPE=BUSY").replace("0401", "0402")
    assert found(*quiet, free, taken, folder=tmp_path) == [("04-02 10:00", "04-02 11:00")]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("DTSTART:20270401T100000Z", "DURATION:PT1S", "RRULE:FREQ=SECONDLY"), "repeats SECONDLY"),
        (("DTSTART:20270401T100000Z", "RRULE:FREQ=DAILY;BYHOUR=1,2"), "several times a day"),
        (("DTSTART;TZID=Mars/Crater:20270401T100000", "DURATION:PT1H"), "unknown time zone"),
        (("DTSTART:20270401T100000Z", "DTEND;VALUE=DATE:20270402"), "ends with a time"),
        (
            ("RECURRENCE-ID;RANGE=THISANDFUTURE:20270401T100000Z", "DTSTART:20270401T100000Z"),
            "THISANDFUTURE",
        ),
        (("DTSTART:nonsense",), "event"),
    ],
)
def test_what_is_not_clear_is_an_error_and_never_free(
    lines: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=says):
        found(event(*lines), folder=tmp_path)


def test_a_file_and_its_rules_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = ("DTSTART:00010101T100000Z", "DURATION:PT1H")
    with pytest.raises(TooLarge, match="too many days"):
        found(event(*old, "RRULE:FREQ=DAILY"), folder=tmp_path)
    assert found(event(*old, "RRULE:FREQ=DAILY;UNTIL=00020101T000000Z"), folder=tmp_path) == []
    never = "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=31;COUNT=3"
    assert (
        len(found(event("DTSTART:20270401T100000Z", "DURATION:PT1H", never), folder=tmp_path)) == 1
    )
    for endless in ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=31"):
        lines = ("DTSTART:20270401T100000Z", "DURATION:PT1H", f"RRULE:{endless}")
        assert len(found(event(*lines), folder=tmp_path)) == 1
    with pytest.raises(InvalidInput):
        found(event("DTSTART:20270401T100000Z", "RRULE:FREQ=DAILY;INTERVAL=0"), folder=tmp_path)
    monkeypatch.setattr(busy, "OCCURRENCES_MAX", 3)
    with pytest.raises(TooLarge, match="more than 3 events"):
        found(event(*WEEKLY), folder=tmp_path)
    monkeypatch.setattr(busy, "FILE_BYTES_MAX", 100)
    with pytest.raises(TooLarge):
        found(event(*WEEKLY), folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"BEGIN:VCALENDAR\r\n", b"END:VEVENT\r\n"])
def test_what_is_no_calendar_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "no.ics"
    path.write_bytes(content)
    with pytest.raises(KalendsError):
        busy_times(path, 0, 1, BERLIN)
    with pytest.raises(InvalidInput, match="cannot read"):
        busy_times(tmp_path / "not there", 0, 1, BERLIN)


@given(
    st.sampled_from(ZONES), st.datetimes(datetime(2026, 1, 1), datetime(2027, 11, 1)),
    st.sampled_from((("DAILY", 1), ("WEEKLY", 7))), st.integers(1, 9), st.integers(1, 600),
)  # fmt: skip
def test_rules_agree_with_days_counted_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, zone: str, first: datetime, rule: tuple[str, int],
    interval: int, minutes: int,
) -> None:  # fmt: skip
    first = first.replace(microsecond=0)
    text = event(
        f"DTSTART;TZID={zone}:{first:%Y%m%dT%H%M%S}", f"DURATION:PT{minutes}M",
        f"RRULE:FREQ={rule[0]};INTERVAL={interval}",
    )  # fmt: skip
    read = found(text, zone=BERLIN, folder=tmp_path_factory.mktemp("ics"))
    told, at = [], first
    while at < datetime(2027, 12, 3):
        start = at.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        end = start + timedelta(minutes=minutes)
        if start < END and end > BEGIN:
            told.append((max(start, BEGIN), min(end, END)))
        at += timedelta(days=rule[1] * interval)
    assert read == [(f"{start:%m-%d %H:%M}", f"{end:%m-%d %H:%M}") for start, end in told]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=8))
def test_gaps_are_all_that_is_not_busy(given_times: list[tuple[int, int]]) -> None:
    merged = busy._merged((start, start + length) for start, length in given_times)
    taken = {at for start, end in merged for at in range(start, end)}
    free = {at for start, end in gaps(merged, 5, 40) for at in range(start, end)}
    assert free == set(range(5, 40)) - taken


async def test_find_keeps_clear_of_the_user_s_own_events(tmp_path: Path) -> None:
    path = tmp_path / "mine.ics"
    lines = ("DTSTART:20270301T090000Z", "DTEND:20270301T120000Z", "RRULE:FREQ=DAILY")
    text = "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", event(*lines), "END:VCALENDAR", ""])
    path.write_text(text, newline="")
    async with (
        LocalFacility({"ncsa": {"cave": 1}}, now="2027-03-01T09:00Z") as servers,
        servers.client("ann") as ann,
    ):
        await ann.book("ncsa/cave", duration="6h", at="2027-03-01T12:00Z")
        window = ("2027-03-01T09:00Z", "2027-03-03T00:00Z")
        free = await ann.find("ncsa/cave", duration="2h", window=window, count=100, free_for=path)
        starts = [datetime.fromtimestamp(each.start, UTC) for each in free.candidates]
        assert starts
        assert starts[0] == datetime(2027, 3, 1, 18, tzinfo=UTC)
        assert not [at for at in starts if 7 < at.hour < 12]
        assert starts == sorted(starts)
        with pytest.raises(NoCommonTime, match="leave no time"):
            await ann.find("ncsa/cave", duration="2h", at="2027-03-02T10:00Z", free_for=path)
