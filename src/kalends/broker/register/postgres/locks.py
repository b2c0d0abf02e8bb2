"""The first message of a batch: it keeps from others all rows that its writes are about, and brings them.

Rows are locked in order of rid. What is not there yet cannot be locked, and is kept from others in two ways.
A request that a write may make is inserted first; where it is not made, it is deleted again. Whatever else
may be added is added under a guard: a lock with a name that all replicas give to the same thing. Guards are
taken first, in one order.

Where a write looks for a row and finds none, that place is kept free in the same way, by a second run of the
batch. What was put aside (`old_requests`) is looked at for each place that is kept free, once it is: whoever
moves a row has both its places locked.

A replica that is stopped between its two messages keeps what it has locked. So marks of sites and bounds of
clocks, about which all replicas write all the time, are locked by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register import writes as w
from kalends.broker.register.decisions.requests import stored, tombstone
from kalends.broker.register.postgres.locked_rows import LockedRows, RequestRow
from kalends.broker.register.postgres.register_schema import REQUEST_COLUMNS
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.touched import touched
from kalends.stores.postgres.batches import Collided, Rows
from kalends.stores.postgres.session import Row, Statement

GUARDS: Final = 512
"""Names of guards share so many locks: a server has room for a limited number."""

_COLUMNS: Final = ", ".join(REQUEST_COLUMNS)

_EVERYTHING: Final = "lock table register, request, script, script_name in exclusive mode"

_GUARD: Final = f"""
select names, case when alone then pg_advisory_xact_lock('register'::regclass::oid::integer, number)
    else pg_advisory_xact_lock_shared('register'::regclass::oid::integer, number) end
from (
    select number, bool_or(alone) as alone, array_agg(named.name) as names
    from (
        select given.name, true from unnest($1::text[]) as given (name)
        union select given.name, false from unnest($2::text[]) as given (name)
        union select 'script ' || used.hash, true
            from request, unnest(uses) as used (hash) where rid = any($3::text[])
        union select 'script ' || hash, true from script_name where client = any($4::text[])
        union select 'reservation ' || reservation, true from request where rid = any($5::text[])
        union select 'user ' || client, false from request where rid = any($6::text[])
    ) as named (name, alone), lateral (select hashtext(named.name) & {GUARDS - 1}) as lock (number)
    group by number order by number
) as guard
"""

_PLACEHOLDERS: Final = (
    f"insert into request ({_COLUMNS}) select {{columns}} from {{rows}} order by rid"
    " on conflict do nothing returning rid"
)

_REQUESTS: Final = f"select {_COLUMNS} from request where rid in ({{rids}}) order by rid for update"

# All of a reservation, of which one is looked for by its rid or key: it is put aside as a whole. Mostly there
# is none, and two indexes of each month are looked at.
_OLD_REQUESTS: Final = f"""
with named (id) as materialized (
    select reservation from request_old where rid = any($1::text[])
    union select old.reservation from unnest($2::text[], $3::text[]) as asked (client, key)
        join request_old as old using (client, key)
    union select old.reservation from unnest($4::text[], $5::text[]) as tried (client, common)
        join request_old as old on old.client = tried.client and old.key > tried.common || ' '
        and old.key < tried.common || '!'
), found (rid) as materialized (
    select rid from request_old where rid = any(array(select id from named))
    union all select rid from request_old
        where reservation = any(array(select id from named)) and reservation <> rid
)
select {_COLUMNS} from request_old where rid = any(array(select rid from found)) order by rid for update
"""

_SCRIPTS: Final = """
with about (hash) as materialized (
    select unnest($1::text[])
    union select unnest(uses) from request where rid = any($2::text[])
    union select hash from script_name where client = any($3::text[])
)
select 'source', hash, '' from script where hash in (select hash from about)
union all select 'use', used.hash, rid from request, unnest(uses) as used (hash)
    where uses <> '{}' and uses && (select array_agg(hash) from about)
    and used.hash in (select hash from about)
union all select 'name', hash, client from script_name
    where not deleted and hash in (select hash from about) and client <> all($3::text[])
"""

_ALL_SCRIPTS: Final = """
select 'source', hash, '' from script
union all select 'use', used.hash, rid from request, unnest(uses) as used (hash) where uses <> '{}'
union all select 'name', hash, client from script_name
    where not deleted and client <> all($1::text[])
"""

_NAMES: Final = (
    "select client, name, hash, size_bytes, functions, uploaded_ms, deleted from script_name"
    " where client = any($1::text[])"
)

_ADDRESSES: Final = (
    "select client, receiver, zone, added_at, secret, remind_s, reminded_at from notice_address"
    " where client = any($1::text[])"
    " or client in (select client from request where rid = any($2::text[]))"
)

_FEEDS: Final = "select client, name, hash, added_at from feed where client = any($1::text[])"

_SHARES: Final = (
    "select reservation, party, may, client, at, until from share"
    " where reservation = any($1::text[])"
)

_NOTICES: Final = (
    "select number from notice where number = any($1::bigint[]) order by number for update"
)

_LEASES: Final = """
select owner, beats from lease where owner = any($1::text[])
union select owner, beats from lease, unnest($2::text[]) as named (name)
    where starts_with(owner, name || ':')
"""

_PUT_BACK: Final = "select put_back from register"

SITES: Final = "select name, replica, change, life, position, proof from site"

LISTED_SITES: Final = (
    "select name, key, url, ca, passes, made_at, state, since, named_by, until from listed_site"
    " order by name, key"
)

_CLOCKS: Final = "select replica, bound from clock"


class _RowQuery(NamedTuple):
    """A statement of the message, and what is done with its rows."""

    statement: Statement
    read: Callable[[LockedRows, Sequence[Row]], object]


class Surprises(NamedTuple):
    """Things that only the rows have told, for the second run of a batch."""

    scripted: set[str]
    """Requests that use scripts."""
    missing: dict[str, RequestRow]
    """Rows that keep places free which a write looks at, and found empty."""
    guards: set[str]
    """Names of guards that requests need which were put aside."""


class BatchLocks:
    """The locks of some writes."""

    def __init__(self, writes: Sequence[w.Write], known: Surprises) -> None:
        self._about = touched(writes)
        self._known = known
        self._scripted = sorted(self._about.users_of_scripts & known.scripted)
        self._held: set[str] = set()
        made = {row.rid: row for row in map(_placeholder, writes) if row is not None}
        self._placeholders = {**made, **known.missing}
        whole_and_made = (each for each in self._about.made if each.rid in self._about.whole)
        self._reservations = sorted(
            self._about.reservations | {each.reservation for each in whole_and_made}
        )
        self._looks = list(self._planned(writes))

    @property
    def statements(self) -> list[Statement]:
        return [look.statement for look in self._looks]

    def read(self, found: Rows) -> LockedRows:
        """Return the rows; raises `Collided` where others were there between two statements."""
        rows = LockedRows()
        for look, brought in zip(self._looks, found, strict=True):
            look.read(rows, brought)
        self._check(rows)
        return rows

    def _planned(self, writes: Sequence[w.Write]) -> Iterator[_RowQuery]:
        about = self._about
        yield from self._guards(writes)
        if about.everything:
            yield _RowQuery(Statement(_EVERYTHING), _nothing)
            yield _RowQuery(Statement(_PUT_BACK), _read_put_back)
        if self._placeholders:
            rows = [*self._placeholders.values()]
            yield _RowQuery(of_requests(_PLACEHOLDERS, rows), self._read_placeholders)
        if about.rids or about.everything:
            yield _RowQuery(self._requests(), _read_requests)
        if self._placeholders or about.tries:
            yield _RowQuery(self._old_requests(), _read_old_requests)
        if about.everything:
            yield _RowQuery(Statement(_ALL_SCRIPTS, (sorted(about.clients),)), _read_scripts)
        elif about.scripts or about.clients or self._scripted:
            scripts = (sorted(about.scripts), self._scripted, sorted(about.clients))
            yield _RowQuery(Statement(_SCRIPTS, scripts), _read_scripts)
        if about.clients:
            yield _RowQuery(Statement(_NAMES, (sorted(about.clients),)), _read_names)
        if about.told or about.users_of:
            users = (sorted(about.told), sorted(about.users_of))
            yield _RowQuery(Statement(_ADDRESSES, users), _read_addresses)
        if about.followed:
            yield _RowQuery(Statement(_FEEDS, (sorted(about.followed),)), _read_feeds)
        if about.shared:
            yield _RowQuery(Statement(_SHARES, (sorted(about.shared),)), _read_shares)
        if about.notices:
            yield _RowQuery(Statement(_NOTICES, (sorted(about.notices),)), _read_notices)
        if about.owners or about.replicas:
            owners = (sorted(about.owners), sorted(about.replicas))
            yield _RowQuery(Statement(_LEASES, owners), _read_leases)
        if about.sites:
            statement = Statement(f"{SITES} where name = any($1::text[])", (sorted(about.sites),))
            yield _RowQuery(statement, LockedRows.read_sites)
        if about.listed_sites:
            yield _RowQuery(Statement(LISTED_SITES), _read_listed_sites)
        if about.clock:
            yield _RowQuery(Statement(_CLOCKS), _read_clocks)

    def _guards(self, writes: Sequence[w.Write]) -> Iterator[_RowQuery]:
        about = self._about
        keeps = (w.KeepAddress, w.ForgetAddress, w.Remind)
        alone = {_of_user(each.user if isinstance(each, w.ForgetAddress) else each.address.user)
                 for each in writes if isinstance(each, keeps)}  # fmt: skip
        alone.update(self._known.guards)
        alone.update(f"tries {user} {common}" for user, common in about.tries)
        alone.update(map(_of_reservation, self._reservations))
        alone.update(map(_of_script, about.scripts))
        alone.update(f"client {client}" for client in about.clients)
        alone.update(f"feeds {user}" for user in about.followed)
        alone.update(f"shares {each}" for each in about.shared)
        if about.listed_sites:
            alone.add("listed sites")
        alone.update(f"replica {name}" for name in about.replicas)
        alone.update(f"replica {owner.rpartition(':')[0]}" for owner in about.owners)
        users = about.told | {each.user for each in about.made if each.rid in about.users_of}
        shared = set(map(_of_user, users)) - alone
        derived = (
            self._scripted,
            sorted(about.clients),
            sorted(about.whole),
            sorted(about.users_of),
        )
        if alone or shared or any(derived):
            yield _RowQuery(
                Statement(_GUARD, (sorted(alone), sorted(shared), *derived)), self._read_guards
            )

    def _requests(self) -> Statement:
        about = self._about
        values: list[object] = []

        def given(of: Iterable[str]) -> str:
            values.append([*of])
            return f"${len(values)}::text[]"

        parts = [f"select unnest({given(sorted(about.rids.union(self._reservations)))})"]
        if about.keys:
            users, names = map(given, _pairs(about.keys))
            parts.append(
                f"select request.rid from unnest({users}, {names}) as asked (client, key)"
                " join request using (client, key)"
            )
        if self._reservations:
            parts.append(
                "select rid from request"
                f" where reservation = any({given(self._reservations)}) and reservation <> rid"
            )
        if about.whole:
            whole = given(sorted(about.whole))
            parts.append(
                f"select reservation from request where rid = any({whole}) union select change.rid"
                " from request as one join request as change on change.reservation = one.reservation"
                f" and change.reservation <> change.rid where one.rid = any({whole})"
            )
        if about.tries:
            users, commons = map(given, _pairs(about.tries))
            parts.append(
                f"select request.rid from unnest({users}, {commons}) as tried (client, common) join request"
                " on request.client = tried.client and request.key > tried.common || ' '"
                " and request.key < tried.common || '!'"
            )
        if about.everything:
            parts.append("select rid from request where not done and state = 'open'")
            parts.append("select rid from request where start_site = ''")
        return Statement(_REQUESTS.format(rids=" union ".join(parts)), values)

    def _old_requests(self) -> Statement:
        about = self._about
        rids = sorted(about.rids.union(self._reservations, self._known.missing))
        return Statement(_OLD_REQUESTS, (rids, *_pairs(about.keys), *_pairs(about.tries)))

    def _read_guards(self, rows: LockedRows, found: Sequence[Row]) -> None:
        for names, _ in found:
            self._held.update(names)

    def _read_placeholders(self, rows: LockedRows, found: Sequence[Row]) -> None:
        rows.placeholders.update(rid for (rid,) in found)

    def _check(self, rows: LockedRows) -> None:
        """All that the writes are about is held, as far as only the rows can tell what that is.

        Raises `Collided`, and knows it then.
        """
        about = self._about
        if about.everything:
            return
        there = {**rows.stored, **rows.old}
        made = rows.placeholders - rows.old.keys()
        whole = [there[rid] for rid in about.whole & there.keys() - made]
        told = [there[rid] for rid in about.users_of & there.keys() - made]
        used = {rid: rows.uses_of(rid) for rid in about.users_of_scripts}
        self._known.scripted.update(rid for rid, scripts in used.items() if scripts)
        needed = {_of_script(script) for scripts in used.values() for script in scripts}
        needed.update(_of_script(kept.named.script) for kept in rows.names.values())
        needed.update(_guards_of(whole, told))
        keys = {(row.user, row.key) for row in there.values()}
        rids = about.rids.union(self._reservations, (row.reservation for row in whole))
        missing = [RequestRow(*_empty(rid, "", rid)) for rid in rids if rid not in there]
        missing += [
            RequestRow(*_empty(user, key, f"{user} {key}")) for user, key in about.keys - keys
        ]
        self._known.missing.update((row.rid, row) for row in missing)
        self._known.guards.update(_guards_of(whole, told) - self._held if rows.old else ())
        if missing or not needed <= self._held:
            raise Collided("others may add what is not there yet")


def of_requests(sql: str, rows: Sequence[RequestRow]) -> Statement:
    """Return `sql` for `rows`, with these for ``{rows}``, and their columns for ``{columns}``."""
    types = ["text" if name == "uses" else type for name, type in REQUEST_COLUMNS.items()]
    arrays = ", ".join(f"${number}::{type}[]" for number, type in enumerate(types, 1))
    # An array of arrays would come out flat.
    columns = _COLUMNS.replace("uses", "string_to_array(uses, ' ')")
    values: list[list[Any]] = [[*column] for column in zip(*rows, strict=True)]
    values[-1] = [" ".join(uses) for uses in values[-1]]
    return Statement(
        sql.format(columns=columns, rows=f"unnest({arrays}) as new ({_COLUMNS})"), values
    )


def _placeholder(write: w.Write) -> RequestRow | None:
    """Return the row that a write makes if it can: mostly there is nothing to be changed in it."""
    if isinstance(write, r.Begin):
        uses = (write.record.spec.script,) if write.source else ()
        return RequestRow(*stored(write.record)._replace(done=False), uses=uses)
    if isinstance(write, r.Recover):
        return RequestRow(*stored(write.record)._replace(owner=""))
    if isinstance(write, r.Ask) and write.proved and write.certain:
        return RequestRow(*tombstone(write))
    return None


def _empty(user: str, key: str, rid: str) -> StoredRequest:
    """A row that is never committed."""
    return StoredRequest(rid, user, key, rid, 0, "closed", "", True, None)


def _pairs(of: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    pairs = sorted(of)
    return [one for one, _ in pairs], [other for _, other in pairs]


def _guards_of(whole: Iterable[RequestRow], told: Iterable[RequestRow]) -> set[str]:
    reservations = {_of_reservation(row.reservation) for row in whole}
    return reservations.union(_of_user(row.user) for row in told)


def _of_user(user: str) -> str:
    return f"user {user}"


def _of_script(script: str) -> str:
    return f"script {script}"


def _of_reservation(reservation: str) -> str:
    return f"reservation {reservation}"


def _nothing(rows: LockedRows, found: Sequence[Row]) -> None:
    """A lock brings nothing."""


def _read_put_back(rows: LockedRows, found: Sequence[Row]) -> None:
    rows.was_put_back = found[0][0]


def _read_requests(rows: LockedRows, found: Sequence[Row]) -> None:
    for columns in found:
        rows.read_request(RequestRow(*columns))


def _read_old_requests(rows: LockedRows, found: Sequence[Row]) -> None:
    for columns in found:
        rows.read_old_request(RequestRow(*columns))


def _read_scripts(rows: LockedRows, found: Sequence[Row]) -> None:
    for kind, script, by in found:
        rows.read_script(kind, script, by)


def _read_names(rows: LockedRows, found: Sequence[Row]) -> None:
    for columns in found:
        rows.read_name(*columns)


def _read_addresses(rows: LockedRows, found: Sequence[Row]) -> None:
    for columns in found:
        address = w.NoticeAddress(*columns)
        rows.addresses.read((address.user, address.receiver), address)


def _read_feeds(rows: LockedRows, found: Sequence[Row]) -> None:
    for feed in map(w.Feed._make, found):
        rows.feeds.read((feed.user, feed.name), feed)


def _read_shares(rows: LockedRows, found: Sequence[Row]) -> None:
    for share in map(w.ShareRow._make, found):
        rows.shares.read((share.reservation, share.party), share)


def _read_listed_sites(rows: LockedRows, found: Sequence[Row]) -> None:
    for site in map(w.ListedSite._make, found):
        rows.listed_sites.read((site.name, site.key), site)


def _read_notices(rows: LockedRows, found: Sequence[Row]) -> None:
    rows.notices.update(number for (number,) in found)


def _read_leases(rows: LockedRows, found: Sequence[Row]) -> None:
    for owner, beats in found:
        rows.beats.read(owner, beats)


def _read_clocks(rows: LockedRows, found: Sequence[Row]) -> None:
    rows.clocks.update(found)
