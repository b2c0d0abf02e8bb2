"""Notices in a broker's register: stored with the decisions that they tell, made into deliveries once.

``notice_address`` has where users are told; nothing is stored for a user who is told nowhere. ``notice`` has
what is not made into deliveries yet, ``letter`` what is and waits to be sent.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.broker.register.contract import WaitingNotices
from kalends.broker.register.found_rows import read_notices
from kalends.broker.register.writes import NoticeAddress

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
    notices, unreadable = read_notices(rows)
    users = {notice.user for notice in notices.values()}
    addresses = {user: addresses_of(connection, user) for user in sorted(users)}
    return WaitingNotices(notices, unreadable, addresses)


def addresses_of(connection: sqlite3.Connection, user: str) -> tuple[NoticeAddress, ...]:
    """Return where `user` is told, in order of address."""
    rows = connection.execute(
        "select client, receiver, zone, added_at, cast(secret as blob) from notice_address"
        " where client = ? order by receiver",
        (user,),
    )
    return tuple(NoticeAddress(*row) for row in rows)
