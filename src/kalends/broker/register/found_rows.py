"""Answers of a register, from the rows that its reads have found, whatever the store.

A row that cannot be read harms no other: it is given as `Unreadable`, or passed over where only records help.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.register.contract import DueReminder, Row, WholeReservation
from kalends.broker.register.stored_request import StoredRequest, read_record
from kalends.broker.register.writes import Named, NoticeAddress
from kalends.core.conversion import UNREADABLE
from kalends.notices.request_notice import RequestNotice

UNDECIDED: Final = ("open", "held")
"""States of requests of which something is left to be done: an index finds these few among all others."""


def row_of(columns: Sequence[Any]) -> Row:
    """Return the body as it was stored, with the columns that writes have moved on.

    `columns` are those of `StoredRequest` but its body, then the site where its job has started, how that has
    ended, and the body.
    """
    rid, user, key, reservation, att, state, owner, done, started, ended, body = columns
    request = StoredRequest(rid, user, key, reservation, att, state, owner, bool(done), body)
    return read_record(request, started, ended)


def until_enough(rows: Iterable[Row], count_max: int) -> list[Row]:
    """Return the first of `rows`, until `count_max` of them can be read."""
    found: list[Row] = []
    for row in rows if count_max else ():
        found.append(row)
        count_max -= isinstance(row, Record)
        if not count_max:
            break
    return found


def whole_reservations(rows: Iterable[Row]) -> list[WholeReservation]:
    """Return the reservations of `rows`, which are in order of id; so are these."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.reservation, []).append(row)
    return [WholeReservation(tuple(found[id])) for id in sorted(found)]


def took_their_place(rows: Iterable[Row], changes: Iterable[Row]) -> dict[str, Record]:
    """Return those of `changes` that took the place of replaced `rows`, by the ids of these."""
    replaced = {row.rid for row in rows if row.state == "replaced"}
    records = (each for each in changes if isinstance(each, Record))
    return {each.replaces: each for each in records if each.replaces in replaced}


def has_left(row: Row, site: str, why: str) -> TypeGuard[Record]:
    """Whether it is a job that has left `site` for this reason, and has started nowhere."""
    if not isinstance(row, Record):
        return False
    made, place = row.spec.by_others, row.spec.placement
    if made is None or made.reason != why or place is None or site not in place.elsewhere:
        return False
    return place.running == "no"


def by_owner(counts: Iterable[Sequence[Any]]) -> dict[str, dict[str, int]]:
    """Return numbers of requests, each of an owner and a user, by both."""
    counted: dict[str, dict[str, int]] = {}
    for owner, user, count in counts:
        counted.setdefault(owner, {})[user] = count
    return counted


def named(name: str, script: str, size_bytes: int, functions: str, uploaded_ms: int) -> Named:
    """Return a script's name out of its columns."""
    return Named(name, script, size_bytes, tuple(functions.split()), uploaded_ms)


def read_notices(
    rows: Iterable[Sequence[Any]],
) -> tuple[dict[int, RequestNotice], tuple[int, ...]]:
    """Return the notices that `rows` hold by number, and the numbers of those that cannot be read."""
    notices: dict[int, RequestNotice] = {}
    unreadable = []
    for number, body in rows:
        try:
            notices[number] = msgspec.msgpack.decode(body, type=RequestNotice)
        except UNREADABLE:
            unreadable.append(number)
    return notices, tuple(unreadable)


def reminders_of(rows: Iterable[Sequence[Any]]) -> list[DueReminder]:
    """Return the reminders of `rows`: when each is due, the address, and the columns of the request."""
    width = len(NoticeAddress._fields) + 1
    found = ((*columns[:width], row_of(columns[width:])) for columns in rows)
    return [
        DueReminder(due_s, NoticeAddress(*address), record)
        for due_s, *address, record in found
        if isinstance(record, Record)
    ]
