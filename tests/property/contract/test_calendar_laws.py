"""Calendar files are read by another program as they were meant, whatever users have written into them."""

from __future__ import annotations

from datetime import UTC, datetime

import icalendar
from hypothesis import given
from hypothesis import strategies as st

from kalends.contract.calendar_files import LINE_BYTES_MAX, CalendarEntry, calendar_text
from kalends.core.limits import TIME_S_MAX

times = st.integers(0, TIME_S_MAX)
texts = st.text(max_size=200)
entries = st.builds(
    CalendarEntry,
    uid=st.uuids().map(str),
    start=times,
    end=times,
    stamp=times,
    sequence=st.integers(0, 1_000),
    status=st.sampled_from(("TENTATIVE", "CONFIRMED", "CANCELLED")),
    summary=texts,
    location=texts,
    description=texts,
    private=st.booleans(),
)


def shown(text: str) -> str:
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)


@given(st.lists(entries, max_size=5), texts)
def test_another_program_reads_what_was_written(written: list[CalendarEntry], name: str) -> None:
    text = calendar_text(written, name=name, refreshed=True)
    read = icalendar.Calendar.from_ical(text)
    assert str(read.get("NAME", "")) == shown(name)
    events = read.walk("VEVENT")
    assert len(events) == len(written)
    for event, entry in zip(events, written, strict=True):
        assert event.errors == []
        assert str(event["UID"]) == entry.uid
        for key, time_s in (
            ("DTSTART", entry.start),
            ("DTEND", entry.end),
            ("DTSTAMP", entry.stamp),
        ):
            assert event[key].dt == datetime.fromtimestamp(time_s, UTC)
        assert (event["SEQUENCE"], event["STATUS"]) == (entry.sequence, entry.status)
        for key, told in (("SUMMARY", entry.summary), ("LOCATION", entry.location)):
            assert str(event.get(key, "")) == shown(told)
        assert str(event.get("DESCRIPTION", "")) == shown(entry.description)
        assert (event.get("CLASS") == "PRIVATE") == entry.private


@given(st.lists(entries, max_size=5), texts)
def test_no_line_is_longer_than_the_format_allows(written: list[CalendarEntry], name: str) -> None:
    text = calendar_text(written, name=name)
    assert text.endswith("\r\n")
    lines = text.removesuffix("\r\n").split("\r\n")
    assert max(len(line.encode()) for line in lines) <= LINE_BYTES_MAX
    assert not any(sign in line for line in lines for sign in "\r\n")
