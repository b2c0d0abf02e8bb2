"""An auditor from outside: the public calls of every server, held against what customers were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import kalends
from kalends.contract.calls import AuditClaim, AuditRecord, CalendarView, RequestView
from kalends.core.errors import KalendsError

from .customers import Claim, Customer, claims_of
from .facility import CAPACITY, Facility
from .servers import Server, until

QUIET_S_MAX: Final = 75.0
"""Within it everything must have come to rest: a hold lives 30 s, a promise is asked about for less."""

Connect = Callable[[Server, str], kalends.Client]
"""A client of a server as a user."""


def open_access(server: Server, user: str) -> kalends.Client:
    return kalends.connect(server.url, user=user, zone="UTC")


class Seen(NamedTuple):
    """All claims of every site, by the site's name, and the decisions that every broker shows."""

    claims: dict[str, list[AuditClaim]]
    records: dict[str, list[AuditRecord]]
    problems: list[str]


async def audit(
    facility: Facility,
    customers: Sequence[Customer],
    *,
    connect: Connect = open_access,
    capacity: int = CAPACITY,
    start_s: int,
    end_s: int,
    news: Sequence[str] = (),
) -> list[str]:
    """Every promise that does not hold; waits first, bounded, until nothing is on its way any more.

    All bookings lie within ``[start_s, end_s)``. What a server tells of itself and has a text of `news` in
    it is no fault: it has noticed what befell it.
    """
    seen = await at_rest(facility, customers, connect=connect)
    return await judged(
        facility,
        customers,
        seen,
        connect=connect,
        capacity=capacity,
        start_s=start_s,
        end_s=end_s,
        news=news,
    )


async def judged(
    facility: Facility,
    customers: Sequence[Customer],
    seen: Seen,
    *,
    connect: Connect = open_access,
    capacity: int = CAPACITY,
    start_s: int,
    end_s: int,
    news: Sequence[str] = (),
) -> list[str]:
    """Every promise that does not hold, where `seen` is what is there `at_rest`."""
    problems = [problem for customer in customers for problem in customer.violations]
    problems += [told for told in seen.problems if not any(text in told for text in news)]
    problems += broken_promises(seen)
    told = [claim for customer in customers for it in customer.reserved.values() for claim in it]
    problems += as_told(seen, told)
    problems += overbooked(seen, capacity)
    for broker in facility.brokers:
        for customer in customers:
            problems += await _views_as_told(broker, customer, connect)
    problems += await _calendars_as_told(facility, told, connect, capacity, (start_s, end_s))
    return problems


async def at_rest(
    facility: Facility,
    customers: Sequence[Customer],
    *,
    connect: Connect = open_access,
) -> Seen:
    """Wait, bounded, until nothing is on its way any more, and return what is there then."""
    going_on: list[str] = []

    async def look_again() -> Seen | None:
        try:
            seen = await look(facility, connect)
        except KalendsError as error:
            going_on[:] = [str(error)]
            return None
        going_on[:] = unrest(seen)
        for customer in customers if not going_on else ():
            going_on.extend(await unconfirmed(facility.brokers[0], customer, connect))
        return None if going_on else seen

    seen = await until(
        look_again, "all is at rest", within_s=QUIET_S_MAX, explain=lambda: "; ".join(going_on[:20])
    )
    assert seen is not None
    return seen


async def look(facility: Facility, connect: Connect) -> Seen:
    """One look at everything, through the operation ``audit``."""
    claims: dict[str, list[AuditClaim]] = {}
    records: dict[str, list[AuditRecord]] = {}
    problems: dict[str, None] = {}
    for server in facility.servers:
        found_claims: dict[AuditClaim, None] = {}
        found_records: list[AuditRecord] = []
        async with connect(server, "auditor") as client:
            after, more = "", True
            while more:
                page = await client.audit(after)
                found_claims.update(dict.fromkeys(page.claims))
                found_records += page.records
                for problem in page.problems:  # Each page tells all of them.
                    problems[f"{server.name} says: {problem}"] = None
                ids = [
                    *(claim.id for claim in page.claims),
                    *(record.id for record in page.records),
                ]
                more = page.more and bool(ids)
                after = max(ids, default="")
        if server in facility.sites:
            claims[server.name] = list(found_claims)
        else:
            records[server.name] = found_records
    return Seen(claims, records, list(problems))


def unrest(seen: Seen) -> list[str]:
    """What is still on its way: open requests, holds, promises, and locks not yet told or freed."""
    return _claims(seen, "held") + undecided(seen)


def undecided(seen: Seen) -> list[str]:
    """The same without holds: what nobody needs any more ends by itself where a site was not told."""
    on_its_way = _claims(seen, "prepared")
    for broker, records in seen.records.items():
        on_its_way += [f"{broker}: {each.id} is open" for each in records if each.state == "open"]
    return on_its_way + broken_promises(seen)


def _claims(seen: Seen, state: str) -> list[str]:
    return [
        f"{site}: {claim.state} {claim.resource} of {claim.id} attempt {claim.att}"
        for site, claims in seen.claims.items()
        for claim in claims
        if claim.state == state
    ]


def broken_promises(seen: Seen) -> list[str]:
    """A committed request is locked on every chosen site, whole; any other one on none."""
    problems = []
    locked = {
        site: Counter(claim.id for claim in claims if claim.state == "locked")
        for site, claims in seen.claims.items()
    }
    attempts = {
        (site, claim.id): claim.att
        for site, claims in seen.claims.items()
        for claim in claims
        if claim.state == "locked"
    }
    for broker, records in seen.records.items():
        decided = {record.id: record for record in records}
        if len(decided) != len(records):
            problems.append(f"{broker} shows a request twice")
        for site, counts in locked.items():
            for id, count in counts.items():
                record = decided.get(id)
                if record is None or record.state != "commit":
                    state = record.state if record else "not there"
                    problems.append(f"{site} has locked {id}, which is {state} at {broker}")
                elif len(record.chosen.get(site, ())) != count:
                    problems.append(f"{site} has locked {count} claims of {id}: {record}")
                elif record.att != attempts[site, id]:
                    problems.append(f"{site} has locked attempt {attempts[site, id]}: {record}")
        problems += [
            f"{site} has not locked {record.id}, which is committed at {broker}"
            for record in records
            if record.state == "commit"
            for site in record.chosen
            if not locked[site][record.id]
        ]
    return problems


def as_told(seen: Seen, told: Iterable[Claim]) -> list[str]:
    """The sites have locked exactly what customers were told that they have."""
    actual = Counter(
        (claim.resource, claim.start, claim.end, claim.units)
        for claims in seen.claims.values()
        for claim in claims
        if claim.state == "locked"
    )
    wanted = Counter(told)
    return [
        *(f"LOST: {claim} was acknowledged, but is not locked" for claim in wanted - actual),
        *(f"EXTRA: {claim} is locked, but nobody was told so" for claim in actual - wanted),
    ]


def overbooked(seen: Seen, capacity: int) -> list[str]:
    booked: dict[str, list[tuple[int, int, int]]] = {}
    for claims in seen.claims.values():
        for claim in claims:
            if claim.state != "cancelled":
                slot = (claim.start, claim.end, claim.units)
                booked.setdefault(claim.resource, []).append(slot)
    return [
        f"OVERBOOKED: {resource} has {units} units taken at {at}"
        for resource, slots in booked.items()
        for at, units in load(slots).items()
        if units > capacity
    ]


async def _views_as_told(broker: Server, customer: Customer, connect: Connect) -> list[str]:
    """What the broker shows the customer is what the customer was told, and nothing besides."""
    problems = []
    notes: Counter[str] = Counter()
    async with connect(broker, customer.user) as client:
        shown = await _all_requests(client)
        for view in shown.values():
            notes[view.note] += 1
            if view.state == "reserved" and view.id not in customer.reserved:
                problems.append(f"{broker.name} has reserved {view.id}, unknown to its customer")
        for id, claims in customer.reserved.items():
            view = shown.get(id) or await client.show(id)
            if view.state != "reserved" or claims_of(view) != claims:
                problems.append(f"LOST: {broker.name} says of {id} {view}; told was {claims}")
    problems += [
        f"{customer.user}: key {note} made {n} requests"
        for note, n in notes.items()
        if n > 1 and note  # What a register was put back and reminded of has lost its note.
    ]
    return problems


async def unconfirmed(
    broker: Server, customer: Customer, connect: Connect = open_access
) -> list[str]:
    """Reservations of which some site has not said yet that it has locked them."""
    async with connect(broker, customer.user) as client:
        views = [await client.show(id) for id in customer.reserved]
    return [
        f"{view.id} is not confirmed"
        for view in views
        if not all(claim.confirmed for claim in view.claims)
    ]


async def _all_requests(client: kalends.Client) -> dict[str, RequestView]:
    shown: dict[str, RequestView] = {}
    before = ""
    while page := await client.list(count=500, before=before):
        shown.update({view.id: view for view in page})
        before = page[-1].id
    return shown


async def _calendars_as_told(
    facility: Facility,
    told: Sequence[Claim],
    connect: Connect,
    capacity: int,
    window: tuple[int, int],
) -> list[str]:
    """The calendars, as the sites show them, are full and free where the bookings say so."""
    problems = []
    for site, resource in zip(facility.sites, facility.resources, strict=True):
        slots = [(start, end, units) for name, start, end, units in told if name == resource]
        async with connect(site, "auditor") as client:
            calendar = await client.calendar(resource, start=window[0], end=window[1])
        wanted = load(slots)
        if load((slot.start, slot.end, slot.units) for slot in calendar.slots) != wanted:
            problems.append(f"the calendar of {resource} does not show what was booked")
        problems += [
            f"{resource} shows {free} free at {at}, where {units} of {capacity} are taken"
            for at, units in wanted.items()
            if (free := _free_at(calendar, at)) != capacity - units
        ]
    return problems


def _free_at(calendar: CalendarView, at: int) -> int:
    return sum(units for start, end, units in calendar.free if start <= at < end)


def load(slots: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Units taken from each time on at which they change."""
    changes: Counter[int] = Counter()
    for start, end, units in slots:
        changes[start] += units
        changes[end] -= units
    taken, steps = 0, {}
    for at in sorted(changes):
        if changes[at]:
            taken += changes[at]
            steps[at] = taken
    return steps
