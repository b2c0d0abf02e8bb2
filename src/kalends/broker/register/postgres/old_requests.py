"""Requests that were settled long ago are put aside, into `request_old`, which has a partition a month.

There it is found by its id and its key as before. A reservation goes with all its changes, into the month in
which its last slot ended: so a month that was dropped has forgotten just what was over by its end. Whoever
decides on a request that was put aside brings its reservation back (`locked_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.postgres.register_schema import REQUEST_COLUMNS
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import BEGIN, Statement, WriterSession, asked

_ALONE: Final = Statement(
    "select pg_try_advisory_lock($1::integer, hashtext(current_schema()))",
    (0x6B616C61,),  # "kala"
)
"""Only one replica at a time puts requests aside. The lock ends with its session."""

_PARTITION: Final = (
    "create table if not exists request_old_{month:%Y_%m} partition of request_old"
    " for values in ('{month}')"
)

_PATIENTLY: Final = Statement("select set_config('lock_timeout', '2s', true)")
"""A new partition locks the table against all replicas, and settled requests can wait: so give up soon."""

_FAMILY: Final = """
select rid from request where rid = any($1::text[])
union all select rid from request where reservation = any($1::text[]) and reservation <> rid
"""

# Whoever adds a change to a reservation has locked its first request.
_LOCK: Final = f"select 1 from request where rid = any(array({_FAMILY})) order by rid for update"

_COLUMNS: Final = ", ".join(REQUEST_COLUMNS)

# A snapshot of its own, after the locks: what has changed since the reservations were read stays.
_MOVE: Final = f"""
with given (id, month) as materialized (
    select * from unnest($1::text[], $2::date[])
), member as materialized (
    select rid, id, month, done and state <> 'open' as settled from given join request on rid = id
    union all
    select rid, id, month, done and state <> 'open' from given join request on reservation = id
        and reservation <> rid
), gone as (
    delete from request using member where request.rid = member.rid
        and member.id not in (select id from member where not settled)
    returning request.*, member.month
)
insert into request_old ({_COLUMNS}, month) select {_COLUMNS}, month from gone returning 1
"""


def put_aside(session: WriterSession, address: Address, settled: Sequence[WholeReservation]) -> int:
    """Put `settled` aside, those of which nothing is left to be done; returns the number of requests.

    It is none while another replica does the same. Raises `Unavailable` and `StoreFailed`. The session is
    closed afterwards.
    """
    ids, months = [each.id for each in settled], [*map(month_of, settled)]
    try:
        with asked(address):
            if session.message([_ALONE]) != [[(True,)]]:
                return 0
            for month in sorted(set(months)):
                session.message([Statement(_PARTITION.format(month=month))])
            move = [Statement(_LOCK, (ids,)), Statement(_MOVE, (ids, months))]
            return len(session.commit([BEGIN, _PATIENTLY, *move])[-1])
    finally:
        session.close()


def month_of(reservation: WholeReservation) -> date:
    """Return the first day of the month (UTC) in which the last of its slots ended."""
    records = [row for row in reservation.rows if isinstance(row, Record)]
    ends = [want.end for row in records for want in row.wants]
    made = [row.created_ms // 1_000 for row in records]
    return datetime.fromtimestamp(max(ends + made), UTC).date().replace(day=1)
