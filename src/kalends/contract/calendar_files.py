"""Reservations as calendar files (RFC 5545, iCalendar), which calendar programs read.

A reservation is one event for each period of it, with times in UTC. The event keeps its identity over every
change, and its sequence number grows with each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from kalends.contract.fields import Want
from kalends.contract.request_views import ClaimView, RequestView
from kalends.core.identifiers import QUEUE_ENDING, short_id

CONTENT_TYPE: Final = "text/calendar"

LINE_BYTES_MAX: Final = 75
"""RFC 5545, section 3.1: longer lines are folded."""

CANCELLED_S: Final = 30 * 86_400
"""Files show a reservation for this long after it was cancelled, so that calendars remove it."""

REFRESH: Final = "PT15M"
"""How often programs that follow a feed are asked to read it again."""

Status = Literal["TENTATIVE", "CONFIRMED", "CANCELLED"]
Method = Literal["", "REQUEST", "CANCEL"]

_STATUS: Final[dict[str, Status]] = {
    "held": "TENTATIVE",
    "reserved": "CONFIRMED",
    "cancelled": "CANCELLED",
}


class CalendarEntry(NamedTuple):
    """An event of a calendar, at ``[start, end)``; `stamp` is its last change (all in seconds UTC).

    Of the events with one `uid`, that with the greatest `sequence` counts, and among these the one with the
    latest `stamp`. A `private` event shows only that the time is taken.
    """

    uid: str
    start: int
    end: int
    stamp: int
    sequence: int
    status: Status
    summary: str
    location: str = ""
    description: str = ""
    private: bool = False


class Invitation(NamedTuple):
    """The mail addresses of the server and of the user, for an event that is sent by mail."""

    organizer: str
    attendee: str


def calendar_text(
    entries: Iterable[CalendarEntry],
    *,
    name: str = "",
    method: Method = "",
    invitation: Invitation | None = None,
    refreshed: bool = False,
) -> str:
    """Return the calendar file of `entries`, called `name`; `refreshed` marks a feed.

    A file with a `method` and an `invitation` is one that a mail carries (RFC 5546).
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//kalends//kalends//EN"]
    if method:
        lines.append(f"METHOD:{method}")
    if name:
        lines += [f"NAME:{_text(name)}", f"X-WR-CALNAME:{_text(name)}"]
    if refreshed:
        lines += [f"REFRESH-INTERVAL;VALUE=DURATION:{REFRESH}", f"X-PUBLISHED-TTL:{REFRESH}"]
    for entry in entries:
        lines += _event(entry, invitation)
    lines.append("END:VCALENDAR")
    return "".join(f"{_folded(line)}\r\n" for line in lines)


def entries_of(view: RequestView, now_s: int | None = None) -> tuple[CalendarEntry, ...]:
    """Return the events of a reservation: held ones are tentative, locked ones confirmed.

    There are none for a request without slots, for a place in a queue, and for a reservation that was
    cancelled more than `CANCELLED_S` before `now_s` (None: for none of these).
    """
    status = _STATUS.get(view.state)
    stamp = view.updated_at or view.created_at
    if status is None:
        return ()
    if status == "CANCELLED" and now_s is not None and stamp <= now_s - CANCELLED_S:
        return ()
    ends = view.changes + (1 if status == "CANCELLED" else 0)
    return slot_entries(
        view.id,
        view.claims,
        status=status,
        stamp=stamp,
        sequence=ends,
        note=view.note,
        asked=view.text,
    )


def slot_entries(
    id: str,
    slots: Sequence[ClaimView | Want],
    *,
    status: Status,
    stamp: int,
    sequence: int,
    note: str = "",
    asked: str = "",
) -> tuple[CalendarEntry, ...]:
    """Return an event for each period in which `slots` of the reservation `id` lie.

    An event has the number of its first slot in its identity: that is the same after every change.
    """
    periods: dict[tuple[int, int], list[int]] = {}
    for number, slot in enumerate(slots):
        if slot.start < slot.end and not slot.resource.endswith(QUEUE_ENDING):
            periods.setdefault((slot.start, slot.end), []).append(number)
    entries = []
    for (start, end), numbers in sorted(periods.items()):
        among = [slots[number] for number in numbers]
        amounts = " + ".join(
            each.resource if each.units == 1 else f"{each.resource}:{each.units}" for each in among
        )
        told = [
            f"Request {id}",
            f"Asked for: {asked}" if asked else "",
            f"kalends show {short_id(id)}",
        ]
        entries.append(
            CalendarEntry(
                uid=f"{id}-{numbers[0] + 1}@kalends",
                start=start,
                end=end,
                stamp=stamp,
                sequence=sequence,
                status=status,
                summary=f"{note} ({amounts})" if note else amounts,
                location=", ".join(each.resource for each in among),
                description="\n".join(filter(None, told)),
            )
        )
    return tuple(entries)


def _event(entry: CalendarEntry, invitation: Invitation | None) -> list[str]:
    lines = [
        "BEGIN:VEVENT",
        f"UID:{_text(entry.uid)}",
        f"DTSTAMP:{_utc(entry.stamp)}",
        f"SEQUENCE:{entry.sequence}",
        f"DTSTART:{_utc(entry.start)}",
        f"DTEND:{_utc(entry.end)}",
        f"STATUS:{entry.status}",
        f"SUMMARY:{_text(entry.summary)}",
    ]
    if entry.location:
        lines.append(f"LOCATION:{_text(entry.location)}")
    if entry.description:
        lines.append(f"DESCRIPTION:{_text(entry.description)}")
    if entry.private:
        lines.append("CLASS:PRIVATE")
    if entry.status == "CANCELLED":
        lines.append("TRANSP:TRANSPARENT")
    if invitation is not None:
        lines.append(f"ORGANIZER:mailto:{invitation.organizer}")
        lines.append(f"ATTENDEE;PARTSTAT=ACCEPTED;RSVP=FALSE:mailto:{invitation.attendee}")
    lines.append("END:VEVENT")
    return lines


def _utc(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Return `text` as a value of type TEXT, without characters that cannot be seen."""
    shown = text
    if not text.replace("\n", "").isprintable():
        shown = "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text)
    for sign in "\\;,":
        shown = shown.replace(sign, f"\\{sign}")
    return shown.replace("\n", "\\n")


def _folded(line: str) -> str:
    """Return `line` in pieces of at most `LINE_BYTES_MAX` bytes, none of which cuts a character."""
    if line.isascii():
        # A feed has thousands of lines, nearly all like this.
        first, rest = line[:LINE_BYTES_MAX], line[LINE_BYTES_MAX:]
        step = LINE_BYTES_MAX - 1
        return "\r\n ".join([first, *(rest[at : at + step] for at in range(0, len(rest), step))])
    pieces, piece, size = [], "", 0
    for sign in line:
        width = len(sign.encode())
        if size + width > LINE_BYTES_MAX:
            pieces.append(piece)
            piece, size = " ", 1
        piece += sign
        size += width
    return "\r\n".join([*pieces, piece])
