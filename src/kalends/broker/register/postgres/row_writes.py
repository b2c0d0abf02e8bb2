"""The second message of a batch: what its decisions have changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kalends.broker.register import writes as w
from kalends.broker.register.postgres.locked_rows import LockedRows
from kalends.broker.register.postgres.locks import of_requests
from kalends.broker.register.postgres.register_schema import REQUEST_COLUMNS
from kalends.core.clock import ASTRAY_MS
from kalends.stores.postgres import fence
from kalends.stores.postgres.session import Statement

_DELETE_REQUESTS: Final = "delete from request where rid = any($1::text[])"
_BRING_BACK: Final = "delete from request_old where rid = any($1::text[])"
_INSERT_REQUESTS: Final = (
    f"insert into request ({', '.join(REQUEST_COLUMNS)}) select {{columns}} from {{rows}}"
)
_SET: Final = ", ".join(
    f"{name} = new.{name}" for name in [*REQUEST_COLUMNS][4:] if name not in ("body", "uses")
)
_UPDATE_REQUESTS: Final = (
    f"update request set {_SET}, body = coalesce(new.body, request.body),"
    " uses = string_to_array(new.uses, ' ') from {rows} where request.rid = new.rid"
)

_DELETE_SCRIPTS: Final = "delete from script where hash = any($1::text[])"
_PUT_SCRIPTS: Final = (
    "insert into script select * from unnest($1::text[], $2::bytea[]) on conflict do nothing"
)
_DELETE_NAMES: Final = (
    "delete from script_name using unnest($1::text[], $2::text[]) as gone (client, name)"
    " where script_name.client = gone.client and script_name.name = gone.name"
)
_PUT_NAMES: Final = """
insert into script_name
select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::boolean[]
)
on conflict (client, name) do update set hash = excluded.hash, size_bytes = excluded.size_bytes,
    functions = excluded.functions, uploaded_ms = excluded.uploaded_ms, deleted = excluded.deleted
"""
_DELETE_ADDRESSES: Final = (
    "delete from notice_address using unnest($1::text[], $2::text[]) as gone (client, receiver)"
    " where notice_address.client = gone.client and notice_address.receiver = gone.receiver"
)
_PUT_ADDRESSES: Final = """
insert into notice_address
select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[]
)
on conflict (client, receiver) do update
    set zone = excluded.zone, added_at = excluded.added_at, secret = excluded.secret,
    remind_s = excluded.remind_s, reminded_at = excluded.reminded_at
"""
_DELETE_FEEDS: Final = (
    "delete from feed using unnest($1::text[], $2::text[]) as gone (client, name)"
    " where feed.client = gone.client and feed.name = gone.name"
)
_PUT_FEEDS: Final = """
insert into feed select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
on conflict (client, name) do update set hash = excluded.hash, added_at = excluded.added_at
"""
_DELETE_SHARES: Final = (
    "delete from share using unnest($1::text[], $2::text[]) as gone (reservation, party)"
    " where share.reservation = gone.reservation and share.party = gone.party"
)
_PUT_SHARES: Final = """
insert into share
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
on conflict (reservation, party) do update
    set may = excluded.may, client = excluded.client, at = excluded.at, until = excluded.until
"""
_DELETE_LISTED_SITES: Final = (
    "delete from listed_site using unnest($1::text[], $2::text[]) as gone (name, key)"
    " where listed_site.name = gone.name and listed_site.key = gone.key"
)
_PUT_LISTED_SITES: Final = """
insert into listed_site
select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::bigint[], $7::text[], $8::bigint[],
    $9::text[], $10::bigint[]
)
on conflict (name, key) do update set url = excluded.url, ca = excluded.ca, passes = excluded.passes,
    made_at = excluded.made_at, state = excluded.state, since = excluded.since,
    named_by = excluded.named_by, until = excluded.until
"""
_DELETE_NOTICES: Final = "delete from notice where number = any($1::bigint[])"
_POST: Final = (
    "insert into notice (client, body) select new.client, new.body"
    " from unnest($1::text[], $2::bytea[]) with ordinality as new (client, body, nth) order by nth"
)
_DROP_DELIVERIES: Final = "delete from letter where id = any($1::text[])"
_PUT_DELIVERIES: Final = (
    "insert into letter (id, body) select new.id, new.body"
    " from unnest($1::text[], $2::bytea[]) with ordinality as new (id, body, nth) order by nth"
    " on conflict (id) do update set body = excluded.body"
)
_DELETE_LEASES: Final = "delete from lease where owner = any($1::text[])"
_PUT_LEASES: Final = (
    "insert into lease select * from unnest($1::text[], $2::bigint[])"
    " on conflict (owner) do update set beats = excluded.beats"
)
_RETIRE: Final = "delete from replica where starts_with(owner, $1::text || ':') and owner <> $2"
_PUT_LIVES: Final = (
    "insert into life select * from unnest($1::text[], $2::bigint[]) on conflict (life)"
    " do update set position = excluded.position where life.position < excluded.position"
)
# Whoever stores another life of a site ends the marks of the life before it, whose positions do not count
# any more. All rows have one number, so that sites are in the same order as these transactions.
_END_SITE_LIVES: Final = "delete from site where name = any($1::text[])"
_PUT_SITES: Final = """
insert into site select name, $1, (select nextval('site_change')), life, position, proof
from unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) as new (name, life, position, proof)
on conflict (name, replica) do update set change = excluded.change, life = excluded.life,
    position = excluded.position, proof = excluded.proof
"""
# A bound that has risen since it was read is of a clock that was not wrong.
_LOWER_CLOCKS: Final = f"""
update clock set bound = $3::bigint from unnest($1::text[], $2::bigint[]) as seen (replica, bound)
where clock.replica = seen.replica and clock.bound > $3
    and (clock.bound = seen.bound or clock.bound > $3 + {ASTRAY_MS})
"""
_PUT_CLOCK: Final = (
    "insert into clock values ($1, $2) on conflict (replica) do update set bound = excluded.bound"
)
_PUT_BACK: Final = "update register set put_back = $1"


def changes(rows: LockedRows, writes: Sequence[w.Write], replica: str) -> Iterator[Statement]:
    """Return what stores the changes of `rows` that `writes` of `replica` have made."""
    yield from _requests(rows)
    yield from _scripts(rows)
    yield from _addresses(rows)
    yield from _feeds(rows)
    yield from _shares(rows)
    yield from _listed_sites(rows)
    yield from _replicas(rows, writes, replica)
    if rows.new_put_back is not None:
        yield Statement(_PUT_BACK, (rows.new_put_back,))
    yield from _notices(rows)


def _requests(rows: LockedRows) -> Iterator[Statement]:
    brought_back, deleted, inserted, updated = rows.changed_requests()
    if brought_back:
        yield Statement(_BRING_BACK, (brought_back,))
    if deleted:
        yield Statement(_DELETE_REQUESTS, (deleted,))
    if inserted:
        yield of_requests(_INSERT_REQUESTS, inserted)
    if updated:
        yield of_requests(_UPDATE_REQUESTS, updated)


def _scripts(rows: LockedRows) -> Iterator[Statement]:
    if gone := rows.sources.taken():
        yield Statement(_DELETE_SCRIPTS, (gone,))
    if put := [*rows.sources.put()]:
        hashes, sources = zip(*put, strict=True)
        yield Statement(_PUT_SCRIPTS, ([*hashes], [source.encode() for source in sources]))
    if unnamed := rows.names.taken():
        yield Statement(_DELETE_NAMES, _columns(unnamed))
    if named := [*rows.names.put()]:
        columns = [
            (client, *kept.named[:3], " ".join(kept.named.functions), kept.named.uploaded_ms, kept.deleted)
            for (client, _), kept in named
        ]  # fmt: skip
        yield Statement(_PUT_NAMES, _columns(columns))


def _addresses(rows: LockedRows) -> Iterator[Statement]:
    if gone := rows.addresses.taken():
        yield Statement(_DELETE_ADDRESSES, _columns(gone))
    if put := [*rows.addresses.put()]:
        yield Statement(_PUT_ADDRESSES, _columns([address for _, address in put]))


def _feeds(rows: LockedRows) -> Iterator[Statement]:
    if gone := rows.feeds.taken():
        yield Statement(_DELETE_FEEDS, _columns(gone))
    if put := [feed for _, feed in rows.feeds.put()]:
        yield Statement(_PUT_FEEDS, _columns(put))


def _shares(rows: LockedRows) -> Iterator[Statement]:
    if gone := rows.shares.taken():
        yield Statement(_DELETE_SHARES, _columns(gone))
    if put := [share for _, share in rows.shares.put()]:
        yield Statement(_PUT_SHARES, _columns(put))


def _listed_sites(rows: LockedRows) -> Iterator[Statement]:
    if gone := rows.listed_sites.taken():
        yield Statement(_DELETE_LISTED_SITES, _columns(gone))
    if put := [site for _, site in rows.listed_sites.put()]:
        yield Statement(_PUT_LISTED_SITES, _columns(put))


def _replicas(rows: LockedRows, writes: Sequence[w.Write], replica: str) -> Iterator[Statement]:
    for write in writes:
        if isinstance(write, w.Retire):
            yield Statement(_RETIRE, (write.name, write.owner))
        elif isinstance(write, w.Resign):
            yield fence.retire([write.owner])
    if gone := rows.beats.taken():
        yield Statement(_DELETE_LEASES, (gone,))
    if beats := [*rows.beats.put()]:
        yield Statement(_PUT_LEASES, _columns(beats))
    if lives := [*rows.lives.put()]:
        yield Statement(_PUT_LIVES, _columns(lives))
    if sites := [*rows.sites.put()]:
        before = rows.site_lives
        if turned := [site for site, mark in sites if before.get(site, mark.life) != mark.life]:
            yield Statement(_END_SITE_LIVES, (turned,))
        marks = _columns([(site, mark.life, mark.position, mark.proof) for site, mark in sites])
        yield Statement(_PUT_SITES, (replica, *marks))
    if rows.new_clock is not None:
        seen = [(name, bound) for name, bound in rows.clocks.items() if bound > rows.new_clock]
        if seen:
            yield Statement(_LOWER_CLOCKS, (*_columns(seen), rows.new_clock))
        yield Statement(_PUT_CLOCK, (replica, rows.new_clock))


def _notices(rows: LockedRows) -> Iterator[Statement]:
    """Numbers are drawn last, when nothing is waited for any more."""
    if rows.taken:
        yield Statement(_DELETE_NOTICES, (sorted(rows.taken),))
    encode = msgspec.msgpack.encode
    if rows.dropped:
        yield Statement(_DROP_DELIVERIES, (sorted(rows.dropped),))
    if rows.deliveries:
        bodies = [encode(delivery) for delivery in rows.deliveries.values()]
        yield Statement(_PUT_DELIVERIES, ([*rows.deliveries], bodies))
    if rows.posted:
        users = [notice.user for notice in rows.posted]
        yield Statement(_POST, (users, [encode(notice) for notice in rows.posted]))


def _columns(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    return [[*column] for column in zip(*rows, strict=True)]
