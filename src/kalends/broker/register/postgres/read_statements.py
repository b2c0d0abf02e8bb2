"""Statements of reads: one for each question, whatever number of rows it finds.

Values are in arrays; of many, one is found in a hashed list (`not in (select unnest ...)`). What is asked for
page by page is in an order that an index has, and ends each row with its place in that order.

What was put aside (`old_requests`) is found by who asks for it, and by who goes through all. It is not among
the work of a replica, for nothing of it is left to be done.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = "rid, client, key, reservation, att, state, owner, done, start_site, ended, body"
"""See `kalends.broker.register.found_rows.row_of`."""

COLUMN_COUNT: Final = COLUMNS.count(",") + 1

_COMMITTED: Final = "state in ('commit', 'cancelled', 'replaced')"

# Only changes are in an index of their own, for most are never changed.
_WHOLE: Final = f"""
with first (id) as materialized ({{first}})
select {COLUMNS} from any_request where rid = any(array(select id from first)) and body is not null
union all
select {COLUMNS} from any_request
where reservation = any(array(select id from first)) and reservation <> rid and body is not null
order by rid
"""
"""All rows of the reservations whose ids `first` finds."""

RESERVATION: Final = _WHOLE.format(
    first="select coalesce("
    "(select reservation from any_request where rid = $1 and body is not null), $1)"
)
BY_KEY: Final = _WHOLE.format(
    first="select reservation from any_request where client = $1 and key = $2 and body is not null"
)
RESERVATIONS: Final = _WHOLE.format(
    first="select rid from request where rid = reservation and body is not null and rid > $1"
    " order by rid limit $2::bigint"
)
LISTED: Final = _WHOLE.format(
    first="select rid from any_request where rid = reservation and body is not null and rid < $1"
    " order by rid desc limit $2::bigint"
)
# As a plain comparison, it is expected of next to no row: then all rows of a user are read, and sorted.
LISTED_OF: Final = _WHOLE.format(
    first="select rid from any_request where coalesce(rid = reservation, false) and body is not null"
    " and rid < $1 and client = $3 order by rid desc limit $2::bigint"
)
# All of them are looked at, in whatever order: they are few, and may be far from the newest requests.
_UNDECIDED: Final = """
with undecided (id, client) as materialized (
    select rid, client from request
    where not done and state = 'open' and rid = reservation and body is not null
) select id from undecided where id < $1
"""
UNDECIDED: Final = _WHOLE.format(first=f"{_UNDECIDED} order by id desc limit $2::bigint")
UNDECIDED_OF: Final = _WHOLE.format(
    first=f"{_UNDECIDED} and client = $3 order by id desc limit $2::bigint"
)
RESERVATIONS_OF: Final = (
    "select rid, reservation from any_request"
    " where rid = any($1::text[]) and reservation <> rid and body is not null"
)
IDS: Final = (
    "select rid from any_request where client = $1 and (starts_with(rid, $2)"
    " or right(rid, length($2)) = $2 or starts_with(right(rid, 8), $2))"
    " order by rid desc limit $3::bigint"
)
PAGE: Final = (
    f"select {COLUMNS} from any_request where rid > $1 and body is not null"
    " order by rid limit $2::bigint"
)

# Each part has its own index.
_COMPARED: Final = f"""
with page (rid) as materialized (
    (select rid from any_request where rid = any($3::text[]) and body is not null
        order by rid limit $4::bigint)
    union
    (select rid from request where rid > $1 and rid <= $2 and {_COMMITTED} and body is not null
        order by rid limit $4::bigint)
    order by rid limit $4::bigint
)
"""
COMPARED: Final = f"""{_COMPARED}
select {COLUMNS} from any_request where rid = any(array(select rid from page)) order by rid
"""
CHANGES: Final = f"""{_COMPARED}
select {COLUMNS} from any_request where reservation = any(array(
    select reservation from any_request where rid = any(array(select rid from page)) and state = 'replaced'
)) and reservation <> rid and {_COMMITTED} and body is not null order by rid
"""

ORPHANS: Final = (
    f"select {COLUMNS}, owner, rid from request where not done and body is not null"
    " and owner not in (select unnest($1::text[])) and (owner, rid) > ($2, $3)"
    " order by owner, rid limit $4::bigint"
)
UNATTENDED: Final = (
    f"select {COLUMNS}, rid from request where not done and body is not null and owner = $1"
    " and rid not in (select unnest($2::text[])) and rid > $3 order by rid limit $4::bigint"
)

# It has a place, is not known to have ended, and is not being changed.
_WAITS: Final = (
    "state = 'commit' and ended_at is null and body is not null and not exists"
    " (select 1 from request as change where change.reservation = request.reservation"
    " and change.reservation <> change.rid and change.state = 'open')"
)
ENDS: Final = (
    f"select {COLUMNS}, ended_at, rid from request where ended_at is not null and body is not null"
    " and (ended_at, rid) < ($1::bigint, $2) order by ended_at desc, rid desc limit $3::bigint"
)
# No site at all is contained in each list of sites.
STRANDED: Final = f"""
select {COLUMNS}, rid, (
    select count(*) from request as each where each.body is not null and (each.rid = request.reservation
        or each.reservation = request.reservation and each.reservation <> each.rid)
) from request where rid = any(array(
    select rid from request where start_site = '' and start_places <> ''
        and string_to_array(start_places, ',') <@ $1::text[]
    union all
    select rid from request where start_again and start_site <> '' and start_site = any($1::text[])
)) and rid not in (select unnest($2::text[])) and {_WAITS} and rid > $3
order by rid limit $4::bigint
"""
LEFT: Final = (
    f"select {COLUMNS}, rid from request where start_site = '' and {_WAITS} and rid > $1"
    " order by rid limit $2::bigint"
)

BEATS: Final = "select owner, beats from lease"
STANDING: Final = (
    "select (select coalesce(max(bound), 0) from clock), coalesce(bool_or(put_back), false)"
    " from register"
)
SITES: Final = "select name, replica, change, life, position, proof from site order by name"
LIVES: Final = "select life, position from life where life = any($1::text[])"
OPEN_REQUESTS: Final = (
    "select owner, client, count(*) from request where not done group by owner, client"
)

_NAME: Final = "name, script_name.hash, size_bytes, functions, uploaded_ms"
SCRIPTS: Final = f"select {_NAME} from script_name where client = $1 and not deleted order by name"
SCRIPT: Final = (
    f"select {_NAME}, source from script_name left join script on script.hash = script_name.hash"
    " where client = $1 and not deleted and (name = $2 or script_name.hash = $2)"
    " order by name limit 1"
)

_ADDRESS: Final = "address.client, receiver, zone, added_at, secret, remind_s, reminded_at"
_ADDRESSES: Final = f"select {_ADDRESS} from notice_address as address"
ADDRESSES: Final = f"{_ADDRESSES} where client = $1 order by receiver"
_NOTICES: Final = """
with page as materialized (
    select number, client from (
        select number, client, row_number() over (partition by client order by number) as nth from notice
    ) as every where nth <= $1::bigint order by number limit $2::bigint
)
"""
NOTICES: Final = f"""{_NOTICES}
select number, body from notice where number = any(array(select number from page)) order by number
"""
ADDRESSES_OF_NOTICES: Final = f"""{_NOTICES}
{_ADDRESSES} where client = any(array(select client from page)) order by client, receiver
"""
DUE_REMINDERS: Final = f"""
select begins - remind_s as due, {_ADDRESS}, {COLUMNS.replace("client", "request.client")}
from notice_address as address join request on request.client = address.client
where remind_s > 0 and state = 'commit' and begins > 0
    and begins > greatest($1::bigint, reminded_at + remind_s) and begins <= $1 + remind_s
order by due, address.client, receiver, rid limit $2::bigint
"""
_FEEDS: Final = "select client, name, hash, added_at from feed"
FEEDS: Final = f"{_FEEDS} where client = $1 order by name"
FEED: Final = f"{_FEEDS} where hash = $1"
_SHARES: Final = "select reservation, party, may, client, at, until from share"
SHARES: Final = f"{_SHARES} where reservation = any($1::text[]) order by reservation, party"
SHARES_WITH: Final = (
    f"{_SHARES} where party = any($1::text[]) and reservation < $2"
    " order by reservation desc, party limit $3::bigint"
)
DELIVERIES: Final = "select id, body from letter order by number"
