"""Notices in a broker's register: stored with the decisions that they tell, made into deliveries once.

``notice_address`` has where users are told; nothing is stored for a user who is told nowhere. ``notice`` has
what is not made into deliveries yet, ``letter`` what is and waits to be sent.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.broker.register.contract import DueReminder, WaitingNotices
from kalends.broker.register.found_rows import read_notices, reminders_of
from kalends.broker.register.sqlite.request_rows import COLUMNS
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

REMINDERS: Final = """
alter table notice_address add column remind_s integer not null default 0;
alter table notice_address add column reminded_at integer not null default 0;
create index notice_remind on notice_address (client) where remind_s > 0;
"""

_ADDRESS: Final = (
    "address.client, receiver, zone, added_at, cast(secret as blob), remind_s, reminded_at"
)


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
        f"select {_ADDRESS} from notice_address as address where client = ? order by receiver",
        (user,),
    )
    return tuple(NoticeAddress(*row) for row in rows)


def due_reminders(connection: sqlite3.Connection, now_s: int, count_max: int) -> list[DueReminder]:
    """Return the oldest reminders that are due, of requests that have not begun.

    The order of the join and ``begins > 0`` are for the indexes: this is asked with every heartbeat.
    """
    rows = connection.execute(
        f"select begins - remind_s as due, {_ADDRESS}, {COLUMNS} from notice_address as address"
        " cross join request on request.client = address.client where remind_s > 0"
        " and state = 'commit' and begins > 0 and begins > max(:now, reminded_at + remind_s)"
        " and begins <= :now + remind_s order by due, address.client, receiver, rid limit :count",
        {"now": now_s, "count": count_max},
    )
    return reminders_of(rows)
