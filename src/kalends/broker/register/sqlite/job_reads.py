"""Reads about jobs that are left to the broker: how they ended, and which need another place."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from itertools import islice
from typing import Final

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.register.contract import Stranded
from kalends.broker.register.found_rows import has_left, row_of
from kalends.broker.register.sqlite.request_rows import COLUMNS

WAITING: Final = (
    "state = 'commit' and not exists (select 1 from ending where ending.rid = request.rid)"
    " and not exists (select 1 from request as change where change.reservation = request.reservation"
    " and change.reservation != change.rid and change.state = 'open')"
)
"""It has a place, is not known to have ended, and is not being changed."""


PLACED: Final = (
    "(select rid as job, places as at_sites from start where site = ''"
    " union all select rid, site from start where again = 1 and site != '')"
)
"""Jobs with the sites, joined by commas, that must all be lost before another place is looked for."""


def newest_ends(connection: sqlite3.Connection, count_max: int) -> list[Record]:
    ends = connection.execute(
        f"select {COLUMNS} from (select rid as ended, at as ended_at from ending)"
        " join request on rid = ended where request.body is not null"
        " order by ended_at desc, ended desc"
    )
    found = (each for each in map(row_of, ends) if isinstance(each, Record))
    return [*islice(found, count_max)][::-1]


def stranded(
    connection: sqlite3.Connection, sites: Collection[str], but: Collection[str], count_max: int
) -> list[Stranded]:
    all_places = connection.execute(f"select distinct at_sites from {PLACED}")
    lost = [at for (at,) in all_places if set(sites).issuperset(at.split(","))]
    placed = connection.execute(
        "select (select count(*) from request as each where each.body is not null and"
        " (each.rid = request.reservation"
        " or (each.reservation = request.reservation and each.reservation != each.rid))),"
        f" {COLUMNS} from {PLACED} join request on rid = job where {WAITING}"
        " and at_sites in (select value from json_each(?))"
        " and job not in (select value from json_each(?)) order by job",
        (json.dumps(lost), json.dumps([*but])),
    )
    found = ((count, row_of(tuple(columns))) for count, *columns in placed)
    readable = (Stranded(row, count) for count, row in found if isinstance(row, Record))
    return [*islice(readable, count_max)]


def left(connection: sqlite3.Connection, site: str, why: str, count_max: int) -> list[Record]:
    waiting = connection.execute(
        f"select {COLUMNS} from (select rid as job from start where site = '')"
        f" join request on rid = job where {WAITING} order by job"
    )
    found = (row for row in map(row_of, waiting) if has_left(row, site, why))
    return [*islice(found, count_max)]
