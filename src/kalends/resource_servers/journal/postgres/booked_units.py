"""The second guard for resources of several units, which a site has if its owner wants it.

Each promised or locked claim of such a resource has rows in `booked_units`, and a trigger adds up the units
at each start in the time of new rows: where they are more than there are, it refuses the batch, as
`booked_once` does for resources of one unit.

Of the alternatives of a request the largest counts, and of a change only what the reservation that it
replaces does not have already. Once units were taken away, or the guard is new for a resource, requests that
are stored are exempt for as long as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.occupancy import pieces_beyond
from kalends.stores.postgres.session import Statement

SCHEMA: Final = """
create table booked_units (
    resource integer not null,
    during   int8range not null,
    units    bigint not null,
    rid      text collate "C" not null
);
create index booked_units_rid on booked_units (rid);
create index booked_units_during on booked_units
    using gist (int4range(resource, resource, '[]'), during);
create or replace function booked_units_within() returns trigger language plpgsql as $$
declare
    over record;
begin
    select known_resource.name, known_resource.units as capacity, point.at, sum(beside.units) as units
    into over
    from (
        select resource, lower(during) as at from added
        union
        select added.resource, lower(beside.during) from added join booked_units as beside
            on int4range(beside.resource, beside.resource, '[]')
                && int4range(added.resource, added.resource, '[]')
            and beside.during && added.during
        where lower(beside.during) > lower(added.during)
    ) as point
    join booked_units as beside
        on int4range(beside.resource, beside.resource, '[]')
            && int4range(point.resource, point.resource, '[]')
        and beside.during @> point.at
    join known_resource on known_resource.number = point.resource
    group by known_resource.name, known_resource.units, point.at
    having sum(beside.units) > known_resource.units
    limit 1;
    if found then
        raise exclusion_violation using message = format(
            '%s of the %s units of %s would be booked from %s on',
            over.units, over.capacity, over.name, over.at
        );
    end if;
    return null;
end $$;
create trigger booked_units_within after insert on booked_units
    referencing new table as added for each statement execute function booked_units_within();
"""

_BEGIN: Final = """
delete from booked_units where resource in (select number from known_resource where not counted)
    or rid in (select rid from exempt)
"""

_FREE: Final = "delete from booked_units where rid = any($1::text[])"

# What a change wants beyond its reservation is not the same everywhere: it is cut where that changes.
_BOOK: Final = """
with wanted as (
    select known_resource.number as resource, given.* from (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
            with ordinality as given (rid, replaces, name, start, stop, units, place)
    ) as given join known_resource using (name)
    where not exists (select 1 from exempt where exempt.rid = given.rid)
), standing as (
    select distinct booked_units.rid, booked_units.resource, booked_units.during, booked_units.units
    from wanted join booked_units on booked_units.rid = wanted.replaces
), cut as (
    select wanted.*, at, lead(at, 1, stop) over (partition by place order by at) as until
    from wanted, lateral (
        select start as at
        union select bound from standing, unnest(array[lower(during), upper(during)]) as bound
        where standing.rid = replaces and standing.resource = wanted.resource
            and bound > start and bound < stop
    ) as bounds
), beyond as (
    select resource, at, until, rid, units - coalesce((
        select sum(standing.units) from standing where standing.rid = cut.replaces
            and standing.resource = cut.resource and standing.during @> at
    ), 0) as units from cut
)
insert into booked_units select resource, int8range(at, until), units, rid from beyond where units > 0
"""


def begin() -> Sequence[Statement]:
    """A life begins, and the resources, and what is exempt, are known (`booked_once.begin`)."""
    return [Statement(_BEGIN)]


class BookedUnits:
    """The writes of the guard for a site whose resources have these `units`."""

    def __init__(self, units: Mapping[str, int]) -> None:
        self._guarded = {name for name, count in units.items() if count > 1}

    def statements(self, stakes: Sequence[Stake], dropped: Sequence[str]) -> Sequence[Statement]:
        """Return what keeps `booked_units` as `stakes` have it, and without those `dropped`."""
        statements = [Statement(_FREE, ([*(stake.rid for stake in stakes), *dropped],))]
        waiting = list(stakes)
        while waiting:
            # A change is seen next to the reservation that it replaces, which comes first.
            rids = {stake.rid for stake in waiting}
            ready = [each for each in waiting if each.replaces not in rids]
            rows = [row for stake in ready or waiting for row in self._rows(stake)]
            if rows:
                columns = [list(each) for each in zip(*rows, strict=True)]
                statements.append(Statement(_BOOK, columns))
            waiting = [each for each in waiting if each.replaces in rids] if ready else []
        return statements

    def _rows(self, stake: Stake) -> Iterator[tuple[str, str, str, int, int, int]]:
        claims = [
            claim
            for claim in stake.claims
            if claim.state in ("prepared", "locked") and claim.resource in self._guarded
        ]
        for resource, start, end, units in pieces_beyond(claims, ()):
            yield stake.rid, stake.replaces, resource, start, end, units
