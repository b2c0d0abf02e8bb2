"""The second guard against double booking: the database itself refuses what is booked already.

Each promised or locked claim of a resource of one unit has rows in `booked`, in the batch that stores it, and
rows of one resource never overlap. Nothing is decided here: a site that runs into it has a fault, or another
one writes in its place, and it stops.

A change of a reservation may need time that the old one has: until it is committed, only what it wants beyond
that is booked. Alternatives of one request overlap as they like. For resources of several units there is
`booked_units`.

A resource that had several units may have overlapping bookings. So requests that are stored when it comes to
have one are exempt for as long as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
)
from kalends.stores.postgres.session import Statement

SCHEMA: Final = """
create table known_resource (
    name   text collate "C" primary key,
    units  bigint not null,
    counted boolean not null,
    number integer generated always as identity unique
);
create table exempt (rid text collate "C" primary key);
create table booked (
    resource integer not null,
    during   int8range not null,
    rid      text collate "C" not null,
    replaces text collate "C" not null,
    constraint booked_once
        exclude using gist (int4range(resource, resource, '[]') with &&, during with &&)
);
create index booked_rid on booked (rid);
create index booked_replaces on booked (replaces) where replaces <> '';
"""

_EXEMPT: Final = """
insert into exempt select rid from stake where exists (
    select 1 from known_resource
    join unnest($1::text[], $2::bigint[], $3::boolean[]) as given (name, units, counted) using (name)
    where known_resource.units > given.units and (given.units = 1 or given.counted)
        or given.counted and not known_resource.counted
) on conflict do nothing
"""

_KNOW: Final = """
insert into known_resource (name, units, counted)
select * from unnest($1::text[], $2::bigint[], $3::boolean[])
on conflict (name) do update set units = excluded.units, counted = excluded.counted
"""

_UNGUARD: Final = """
delete from booked where resource in (select number from known_resource where units > 1)
"""

_FREE: Final = "delete from booked where rid = any($1::text[])"
_FORGET: Final = "delete from exempt where rid = any($1::text[])"

_BOOK: Final = """
insert into booked select wanted.number, piece, wanted.rid, wanted.replaces from (
    select number, rid, replaces, range_agg(int8range(start, stop)) as spans
    from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
        as given (rid, replaces, resource, start, stop)
    join known_resource on known_resource.name = given.resource and known_resource.units = 1
    where not exists (select 1 from exempt where exempt.rid = given.rid)
    group by number, rid, replaces
) as wanted, unnest(wanted.spans - coalesce((
    select range_agg(during) from booked as other where other.resource = wanted.number
        and (other.rid = wanted.replaces or other.replaces = wanted.rid and other.replaces <> '')
), '{}')) as piece
"""


def begin(units: Mapping[str, int], counts: bool) -> Sequence[Statement]:
    """A life begins; `units` gives the capacity of each resource. `counts`: `booked_units` guards, too."""
    given = (list(units), list(units.values()), [counts and count > 1 for count in units.values()])
    return [Statement(_EXEMPT, given), Statement(_KNOW, given), Statement(_UNGUARD)]


class BookedOnce:
    """The writes of the guard for a site whose resources have these `units`."""

    def __init__(self, units: Mapping[str, int]) -> None:
        self._guarded = {name for name, count in units.items() if count == 1}

    def statements(self, stakes: Sequence[Stake], dropped: Sequence[str]) -> Sequence[Statement]:
        """Return what keeps `booked` as `stakes` have it, and without those `dropped`."""
        if not self._guarded:
            return ()
        statements = [Statement(_FREE, ([*(stake.rid for stake in stakes), *dropped],))]
        if dropped:
            statements.append(Statement(_FORGET, (dropped,)))
        # What is locked first: a change is seen next to the reservation that it replaces.
        for state in ("locked", "prepared"):
            rows = [row for stake in stakes for row in self._rows(stake, state)]
            if rows:
                columns = [list(each) for each in zip(*rows, strict=True)]
                statements.append(Statement(_BOOK, columns))
        return statements

    def _rows(self, stake: Stake, state: str) -> Iterable[tuple[str, str, str, int, int]]:
        for claim in stake.claims:
            if claim.state == state and claim.resource in self._guarded:
                yield stake.rid, stake.replaces, claim.resource, claim.start, claim.end
