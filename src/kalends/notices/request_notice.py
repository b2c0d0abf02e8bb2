"""Notices about requests: a change by another, for its user; its deliveries, and how many there are.

A delivery says what has changed, by whom and why, and what the user can do now.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from kalends.contract.calendar_files import CalendarEntry, slot_entries
from kalends.contract.fields import Want
from kalends.contract.slots_text import slots_text
from kalends.core.identifiers import short_id
from kalends.core.times import format_time
from kalends.notices.delivery import Delivery, one_line

Occasion = Literal[
    "moved", "shortened", "cancelled", "recalled", "came", "gave-up", "placed-elsewhere", "not-placed",
    "approved", "not-approved", "nodes-out", "nodes-back", "offered", "taken", "declined",
    "booked",
    "begins",
    "test",
]  # fmt: skip
"""Why a user gets a notice.

``came``: what a request was on waiting lists for is reserved, or held. ``gave-up``: it was not, in time.
``approved``: the owners have approved it, and it is reserved. ``not-approved``: one has declined, or did not
answer in time. ``not-placed``: a job was to leave its site, and there is no other place for it.
``nodes-out``: units of a slot that has begun cannot be used. ``nodes-back``: all of them can be used again.
``offered``: it is offered to the user by another. ``taken`` and
``declined``: the user whom it was offered to has taken it over, or has not. ``booked``: another user has
booked it in the user's name. ``begins``: a reminder.
"""


class RequestNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notice to `user` about `request`, the id that users see. One event has one `id`.

    `by` caused it, for the `reason`; `slots` are those of the request now, and `was` the earlier ones. At
    `until` the held slots are lost; `at_s` is the time of the event (seconds UTC). `place` is the machine and
    number of a job, `asked` the text of the request, and `to` the only address that gets a test or a
    reminder, as it was added. `changes` is the number of changes of its slots.
    """

    id: str
    user: str
    occasion: Occasion
    at_s: int
    request: str = ""
    asked: str = ""
    note: str = ""
    by: str = ""
    reason: str = ""
    slots: tuple[Want, ...] = ()
    was: tuple[Want, ...] = ()
    until: int = 0
    place: str = ""
    to: str = ""
    changes: int = 0


_HAPPENED: Final[dict[Occasion, str]] = {
    "moved": "reservation {id} was moved by {by}",
    "shortened": "reservation {id} was shortened by {by}",
    "cancelled": "{id} was cancelled by {by}",
    "recalled": "hold {id} is recalled",
    "came": "{id} has the slots that it waited for",
    "approved": "{id} was approved, and is reserved",
    "not-approved": "{id} was not approved",
    "gave-up": "{id} did not get the slots that it waited for",
    "placed-elsewhere": "job {id} was placed elsewhere, for {by}",
    "not-placed": "job {id} finds no other place",
    "nodes-out": "reservation {id} has failed nodes",
    "nodes-back": "reservation {id} has all its nodes again",
    "offered": "reservation {id} is offered to you by {by}",
    "taken": "reservation {id} was taken over by {by}",
    "declined": "reservation {id} was declined by {by}, and stays yours",
    "booked": "reservation {id} was booked in your name by {by}",
    "begins": "reservation {id} begins at {begins}",
    "test": "a test of your notices",
}

_NEXT: Final[dict[Occasion, str]] = {
    "moved": "If the new time does not suit you: kalends move {id} --to TIME, or kalends cancel {id}.",
    "shortened": "If that is too short: kalends extend {id} --by TIME, or kalends cancel {id}.",
    "cancelled": "kalends why {id} shows more. To book another time: kalends find, then kalends book.",
    "recalled": "Lock it by {until}, or it is lost: kalends lock {id}.",
    "came": "Nothing needs to be done. If you no longer need it: kalends cancel {id}.",
    "approved": "Nothing needs to be done. If you no longer need it: kalends cancel {id}.",
    "not-approved": "Nothing was booked. Ask the owner, or book another time or resource.",
    "gave-up": "kalends why {id} shows more. To wait again, repeat kalends book with --when-free.",
    "placed-elsewhere": "kalends job {place} shows more.",
    "not-placed": "The job keeps its place; the search goes on. To give the job up: kalends cancel {id}.",
    "nodes-out": "It is not moved, because it has begun. To give the rest of it up: kalends cancel {id}.",
    "nodes-back": "Nothing needs to be done.",
    "offered": "Answer by {until}: kalends accept {id}, or kalends decline {id}.",
    "taken": "It is no longer yours. kalends why {id} shows its story until then.",
    "declined": "To offer it to another user: kalends give {id} USER.",
    "booked": "If you do not want it: kalends cancel {id}.",
    "begins": "If you no longer need it: kalends cancel {id}.",
    "test": "Nothing has happened: you asked for this test with kalends notify test.",
}
_IN_CALENDARS: Final = frozenset({"moved", "shortened", "came", "approved", "booked"})
"""The occasions that put slots into a user's calendar."""

TO_ONE: Final = frozenset({"begins", "test"})
"""The occasions that are for one address of the user."""

_HELD: Final = "It is held for you. Lock it by {until}, or it is lost: kalends lock {id}."


def request_delivery(
    notices: Sequence[RequestNotice], to: str, zone: ZoneInfo, now_s: int
) -> Delivery:
    """Return the delivery of `notices`, all of one user, to `to`, with times in `zone`.

    The same notices to the same address have the same id each time. `now_s` is in seconds UTC.
    """
    first = notices[0]
    address = hashlib.sha256(to.encode()).hexdigest()[:16]
    texts = [_text(notice, zone) for notice in notices]
    facts = [_facts(notice) for notice in notices]
    if len(notices) == 1:
        id, subject, told = f"{first.id}:{address}", _happened(first, zone), facts[0]
    else:
        id = f"{first.id}+{len(notices) - 1}:{address}"
        subject = f"{len(notices)} changes of your requests"
        told = {"about": "requests", "event": "bundle", "user": first.user, "notices": facts}
    events = () if "://" in to else tuple(each for notice in notices for each in _events(notice))
    return Delivery(
        id=id, user=first.user, to=to, subject=f"kalends: {subject}", text="\n".join(texts), facts=told,
        made_s=now_s, events=events,
    )  # fmt: skip


def _events(notice: RequestNotice) -> tuple[CalendarEntry, ...]:
    """Return the events of a reservation whose slots have changed, as its calendar files have them."""
    cancelled = notice.occasion in ("cancelled", "taken")
    if not cancelled and notice.occasion not in _IN_CALENDARS:
        return ()
    return slot_entries(
        notice.request,
        notice.was if cancelled else notice.slots,
        status="CANCELLED" if cancelled else "TENTATIVE" if notice.until else "CONFIRMED",
        stamp=notice.at_s,
        sequence=notice.changes + (1 if cancelled else 0),
        note=notice.note,
        asked=notice.asked,
    )


def _happened(notice: RequestNotice, zone: ZoneInfo) -> str:
    begins = min((slot.start for slot in notice.slots), default=0)
    return _HAPPENED[notice.occasion].format(
        id=short_id(notice.request), by=one_line(notice.by) or "its owner",
        begins=format_time(begins, zone),
    )  # fmt: skip


def _text(notice: RequestNotice, zone: ZoneInfo) -> str:
    until = format_time(notice.until, zone) if notice.until else ""
    rows = [
        ("request", notice.request),
        ("asked", notice.asked),
        ("note", notice.note),
        ("was", slots_text(notice.was, zone)),
        ("is now", slots_text(notice.slots, zone)),
        ("job", notice.place),
        ("until", until),
        ("by", notice.by),
        ("reason", notice.reason),
        ("at", format_time(notice.at_s, zone)),
    ]
    lines = [f"{title:<8} {one_line(text)}" for title, text in rows if text]
    held = notice.occasion == "came" and until
    what_next = (_HELD if held else _NEXT[notice.occasion]).format(
        id=short_id(notice.request), until=until, place=notice.place
    )
    happened = _happened(notice, zone)
    return "\n".join([f"{happened[0].upper()}{happened[1:]}.", "", *lines, "", what_next, ""])


def _facts(notice: RequestNotice) -> dict[str, Any]:
    """Return a notice for programs: all that it says, times in seconds UTC."""
    facts: dict[str, Any] = msgspec.to_builtins(notice)
    del facts["id"]
    facts.pop("to", None)
    return {"about": "request", "event": facts.pop("occasion"), "at": facts.pop("at_s"), **facts}


MINUTE_S: Final = 60

BUNDLE_MAX: Final = 50
"""Notices in one delivery."""


class Bundler:
    """A bound of `minute_max` deliveries to each user in a minute; the last has all waiting notices."""

    def __init__(self, minute_max: int) -> None:
        self._minute_max = minute_max
        self._minute = 0
        self._had: Counter[str] = Counter()

    @property
    def at_once_max(self) -> int:
        """Return the maximum number of notices of a user in one delivery."""
        return self._minute_max - 1 + BUNDLE_MAX

    def bundles(self, notices: Mapping[int, RequestNotice], now_s: int) -> list[tuple[int, ...]]:
        """Return the numbers of those `notices` that are due, in order, each tuple of them for one delivery.

        What is in no bundle waits for the next minute. A reminder is alone, because it is not sent once its
        reservation is over or elsewhere. `now_s` is in seconds UTC.
        """
        if now_s // MINUTE_S != self._minute:
            self._minute = now_s // MINUTE_S
            self._had.clear()
        of_users: dict[str, list[int]] = {}
        for number, notice in notices.items():
            of_users.setdefault(notice.user, []).append(number)
        found: list[tuple[int, ...]] = []
        for user, numbers in of_users.items():
            left = self._minute_max - self._had[user]
            reminders = [each for each in numbers if notices[each].occasion == "begins"]
            made = _bundled([each for each in numbers if each not in reminders], left)
            made += [(number,) for number in reminders[: left - len(made)]]
            self._had[user] += len(made)
            found += made
        return found


def _bundled(numbers: list[int], left: int) -> list[tuple[int, ...]]:
    """Return bundles of `numbers`, at most `left`."""
    if left <= 0:
        return []
    if len(numbers) <= left:
        return [(number,) for number in numbers]
    alone = [(number,) for number in numbers[: left - 1]]
    return [*alone, tuple(numbers[left - 1 : left - 1 + BUNDLE_MAX])]
