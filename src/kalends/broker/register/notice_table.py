"""Notices in a broker's register: stored with the decisions that they tell, made into deliveries once.

``notice_address`` has where users are told; nothing is stored for a user who is told nowhere. ``notice`` has
what is not made into deliveries yet, ``letter`` what is and waits to be sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from kalends.notices.delivery import Delivery
from kalends.notices.delivery_table import store_delivery
from kalends.notices.request_notice import RequestNotice

NOTICES: Final = """
create table notice (
    number integer primary key autoincrement,
    client text not null,
    body   blob not null
);
create index notice_client on notice (client, number);
create table notice_address (
    client   text not null,
    receiver text not null,
    zone     text not null,
    added_at integer not null,
    secret   blob not null,
    primary key (client, receiver)
) without rowid;
"""
"""No number of a notice is used twice: who is late with deliveries of an old one must not take a new one."""


class NoticeAddress(NamedTuple):
    """Address of `user`: `receiver` as it was asked for, times in `zone`; webhooks have a `secret`."""

    user: str
    receiver: str
    zone: str
    added_at: int
    secret: bytes = b""


class KeepAddress(NamedTuple):
    """Take the address, in place of the same one; the result is 0 where its user has `count_max` others."""

    address: NoticeAddress
    count_max: int


class ForgetAddress(NamedTuple):
    """The result is how many were forgotten."""

    user: str
    receiver: str


class PostNotice(NamedTuple):
    """Store a notice that belongs to no other stored change."""

    notice: RequestNotice


class MakeDeliveries(NamedTuple):
    """The notices with these numbers become these deliveries. The result: 1, or 0 if another made some."""

    numbers: tuple[int, ...]
    deliveries: tuple[Delivery, ...]


class WaitingNotices(NamedTuple):
    notices: dict[int, RequestNotice]
    """By number, oldest first."""
    unreadable: tuple[int, ...]


def store_notices(
    connection: sqlite3.Connection, rid: str, notices: Sequence[RequestNotice]
) -> None:
    """Store what the request `rid` has to tell, within the caller's transaction.

    That there is no other place for a job is told once, however often it is tried: tries have keys in
    common, up to their last word.
    """
    for notice in notices:
        if notice.occasion != "not-placed" or _tried_first(connection, rid):
            post_notice(connection, notice)


def post_notice(connection: sqlite3.Connection, notice: RequestNotice) -> None:
    connection.execute(
        "insert into notice (client, body) select ?, ?"
        " where exists (select 1 from notice_address where client = ?)",
        (notice.user, msgspec.msgpack.encode(notice), notice.user),
    )


def _tried_first(connection: sqlite3.Connection, rid: str) -> bool:
    client, key = connection.execute(
        "select client, key from request where rid = ?", (rid,)
    ).fetchone()
    common = key.rpartition(" ")[0]
    found = connection.execute(
        "select 1 from request where client = ? and key > ? and key < ? and rid != ?"
        " and state = 'closed' limit 1",
        (client, f"{common} ", f"{common}!", rid),
    )
    return found.fetchone() is None


def waiting_notices(
    connection: sqlite3.Connection, of_user_max: int, count_max: int
) -> WaitingNotices:
    """Return the oldest notices without deliveries, a limited number for each user.

    Whoever has more than that keeps nobody else from being told.
    """
    rows = connection.execute(
        "select number, cast(body as blob) from notice join (select number, row_number()"
        " over (partition by client order by number) as nth from notice) using (number)"
        " where nth <= ? order by number limit ?",
        (of_user_max, count_max),
    )
    notices, unreadable = {}, []
    for number, body in rows:
        try:
            notices[number] = msgspec.msgpack.decode(body, type=RequestNotice)
        except msgspec.DecodeError:
            unreadable.append(number)
    return WaitingNotices(notices, tuple(unreadable))


def make_deliveries(connection: sqlite3.Connection, op: MakeDeliveries) -> int:
    """Within the caller's transaction; all of it or nothing."""
    marks = ", ".join("?" * len(op.numbers))
    (here,) = connection.execute(
        f"select count(*) from notice where number in ({marks})", op.numbers
    ).fetchone()
    if here < len(op.numbers):
        return 0
    connection.execute(f"delete from notice where number in ({marks})", op.numbers)
    for delivery in op.deliveries:
        store_delivery(connection, delivery)
    return 1


def addresses_of(connection: sqlite3.Connection, user: str) -> tuple[NoticeAddress, ...]:
    """Return where `user` is told, in order of address."""
    rows = connection.execute(
        "select client, receiver, zone, added_at, cast(secret as blob) from notice_address"
        " where client = ? order by receiver",
        (user,),
    )
    return tuple(NoticeAddress(*row) for row in rows)


def keep_address(connection: sqlite3.Connection, op: KeepAddress) -> int:
    """Within the caller's transaction."""
    user, receiver = op.address.user, op.address.receiver
    (others,) = connection.execute(
        "select count(*) from notice_address where client = ? and receiver != ?", (user, receiver)
    ).fetchone()
    if others >= op.count_max:
        return 0
    connection.execute("insert or replace into notice_address values (?, ?, ?, ?, ?)", op.address)
    return 1


def forget_address(connection: sqlite3.Connection, op: ForgetAddress) -> int:
    """Within the caller's transaction."""
    gone = connection.execute("delete from notice_address where client = ? and receiver = ?", op)
    return gone.rowcount
