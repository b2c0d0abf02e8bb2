"""Deliveries about a request: what has changed, by whom and why, and what the user can do now."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from kalends.contract.slot_words import slot_words
from kalends.core.identifiers import short_id
from kalends.core.times import format_time
from kalends.notices.delivery import Delivery, one_line
from kalends.notices.request_notice import Occasion, RequestNotice

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
    "test": "Nothing has happened: you asked for this test with kalends notify test.",
}
_HELD: Final = "It is held for you. Lock it by {until}, or it is lost: kalends lock {id}."


def request_delivery(
    notices: Sequence[RequestNotice], to: str, zone: ZoneInfo, now_s: int
) -> Delivery:
    """Return the delivery to `to` that tells `notices`, all of one user, with times in `zone`.

    The same notices to the same address have the same id each time. `now_s` is in seconds UTC.
    """
    first = notices[0]
    address = hashlib.sha256(to.encode()).hexdigest()[:16]
    texts = [_text(notice, zone) for notice in notices]
    facts = [_facts(notice) for notice in notices]
    if len(notices) == 1:
        id, subject, told = f"{first.id}:{address}", _happened(first), facts[0]
    else:
        id = f"{first.id}+{len(notices) - 1}:{address}"
        subject = f"{len(notices)} changes of your requests"
        told = {"about": "requests", "event": "bundle", "user": first.user, "notices": facts}
    return Delivery(
        id=id, user=first.user, to=to, subject=f"kalends: {subject}", text="\n".join(texts), facts=told,
        made_s=now_s,
    )  # fmt: skip


def _happened(notice: RequestNotice) -> str:
    return _HAPPENED[notice.occasion].format(
        id=short_id(notice.request), by=one_line(notice.by) or "its owner"
    )


def _text(notice: RequestNotice, zone: ZoneInfo) -> str:
    until = format_time(notice.until, zone) if notice.until else ""
    rows = [
        ("request", notice.request),
        ("asked", notice.asked),
        ("note", notice.note),
        ("was", slot_words(notice.was, zone) if notice.was else ""),
        ("is now", slot_words(notice.slots, zone) if notice.slots else ""),
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
    happened = _happened(notice)
    return "\n".join([f"{happened[0].upper()}{happened[1:]}.", "", *lines, "", what_next, ""])


def _facts(notice: RequestNotice) -> dict[str, Any]:
    """Return a notice for programs: all that it says, times in seconds UTC."""
    facts: dict[str, Any] = msgspec.to_builtins(notice)
    del facts["id"]
    facts.pop("to", None)
    return {"about": "request", "event": facts.pop("occasion"), "at": facts.pop("at_s"), **facts}
