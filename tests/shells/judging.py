"""The end of a day, when all is calm: what was told is true, all of it or nothing, nobody waits."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from tests.shells import books
from tests.shells.customers import Slots
from tests.shells.facility import Facility
from tests.shells.scenarios import Broken
from tests.support.register_rows import COMMITTED

CALM_S: Final = 60.0
"""Within it everything that is open comes to its end: the longest hold, inquiry and repeat."""


class Reclaimed(NamedTuple):
    """A period in which an owner has taken `units` back, without notice; 0: all."""

    site: str
    start: int
    end: int
    units: int = 0

    def overlaps(self, start: int, end: int) -> bool:
        return start < self.end and self.start < end


Stakes = Mapping[str, Mapping[str, Mapping[str, Any]]]


async def calm(facility: Facility) -> None:
    """All faults end: what is down comes up, clocks are right, and everybody has time to finish."""
    world = facility.world
    world.network.heal()
    world.network.slow = 0.0
    world.disk.fault = None
    for name in facility.servers:
        world.resume(name)
        world.set_clock(name, 0.0)
        if world.nodes[name].dead:
            facility.start(name)
    if facility.witness is not None:
        facility.witness.calm()
    await asyncio.sleep(CALM_S)


def judge(
    facility: Facility,
    told: Collection[str],
    *,
    cancelled: Collection[str] = (),
    reclaimed: Sequence[Reclaimed] = (),
    slots: Mapping[str, Sequence[Slots]] = {},
) -> None:
    """Raise `Broken` unless the stores agree with each other, and with what users were told.

    Each of `slots` is reserved as one of those that its user was told of: resources, times and units.

    `told` are the reservations whose users were told that they have it, `cancelled` those who were told
    that they have not any more. What owners have `reclaimed` is nobody's, and who had some of it may have
    lost it, or have been moved.
    """
    stored = {site: books.stakes(facility, site) for site in facility.sites}
    registers = {broker: books.rows(facility, broker) for broker in facility.brokers}
    rows = {rid: row for register in registers.values() for rid, row in register.items()}
    of_one: defaultdict[str, list[books.Row]] = defaultdict(list)
    for row in rows.values():
        of_one[row.reservation].append(row)
    for rid in sorted(told):
        states = sorted(row.state for row in of_one[rid] if row.state in COMMITTED)
        lost = states.count("cancelled") == 1 and _had_some_of(of_one[rid], reclaimed)
        if states.count("commit") != 1 and not lost:
            raise Broken(f"{rid} was told as reserved, and its rows are {of_one[rid]}")
        facility.counts["told and kept"] += not lost
        compared = rid in slots and not _had_some_of(of_one[rid], reclaimed)
        facility.counts["slots compared"] += compared
        if compared and _reserved(of_one[rid]) not in slots[rid]:
            raise Broken(f"{rid} was told as {slots[rid]}, and its rows are {of_one[rid]}")
    for rid in sorted(cancelled):
        states = sorted(row.state for row in of_one[rid] if row.state in COMMITTED)
        if states.count("cancelled") != 1 or "commit" in states:
            raise Broken(f"{rid} was told as cancelled, and its rows are {of_one[rid]}")
    for rid, row in sorted(rows.items()):
        if not row.done:
            raise Broken(f"{rid} is {row.state}, and not finished although all is calm")
        _all_or_nothing(rid, row, stored)
    for site, stakes in stored.items():
        _nothing_without_row(site, stakes, rows)
        _fits(site, stakes, facility.plan.capacity)
        of_site = [each for each in reclaimed if each.site == site]
        _is_free(site, stakes, of_site, facility.plan.capacity)


def _reserved(rows: Sequence[books.Row]) -> Slots:
    return frozenset(
        (want["resource"], want["start"], want["end"], want["units"])
        for row in rows
        if row.state == "commit"
        for want in row.body["wants"]
    )


def _all_or_nothing(rid: str, row: books.Row, stored: Stakes) -> None:
    for site, stakes in stored.items():
        claims = stakes[rid]["claims"] if rid in stakes else ()
        locked = {claim["hold_id"] for claim in claims if claim["state"] == "locked"}
        expected = row.chosen(site) if row.state == "commit" else set()
        if locked != expected:
            raise Broken(f"{site} has {locked} of {rid} locked, not {expected}: it is {row.state}")


def _nothing_without_row(
    site: str, stakes: Mapping[str, Mapping[str, Any]], rows: Mapping[str, books.Row]
) -> None:
    for rid, stake in sorted(stakes.items()):
        states = {claim["state"] for claim in stake["claims"]}
        if rid not in rows and states & {"locked", "prepared"}:
            raise Broken(f"{site} has {states} of {rid}, of which no broker knows")
        if "prepared" in states:
            raise Broken(f"{site} is still in doubt of {rid} although all is calm")


def _had_some_of(rows: Sequence[books.Row], reclaimed: Sequence[Reclaimed]) -> bool:
    return any(
        each.overlaps(want["start"], want["end"]) and want["resource"].startswith(f"{each.site}/")
        for row in rows
        for want in row.body["wants"]
        for each in reclaimed
    )


def _is_free(
    site: str,
    stakes: Mapping[str, Mapping[str, Any]],
    reclaimed: Sequence[Reclaimed],
    capacity: int,
) -> None:
    """What is locked leaves everywhere what owners have taken back."""
    locked = [
        claim
        for stake in stakes.values()
        for claim in stake["claims"]
        if claim["state"] == "locked"
    ]
    borders = {time_s for each in reclaimed for time_s in (each.start, each.end)}
    for at in sorted(borders.union(claim["start"] for claim in locked)):
        used = sum(claim["units"] for claim in locked if claim["start"] <= at < claim["end"])
        there = [each.units or capacity for each in reclaimed if each.overlaps(at, at + 1)]
        if used + min(sum(there), capacity) > capacity:
            raise Broken(f"{site}: {used} are locked at {at}, and its owner has taken {there} back")


def _fits(site: str, stakes: Mapping[str, Mapping[str, Any]], capacity: int) -> None:
    taken = [
        (claim["start"], claim["end"], claim["units"])
        for stake in stakes.values()
        for claim in stake["claims"]
        if claim["state"] in ("prepared", "locked")
    ]
    times = sorted({time for start, end, _ in taken for time in (start, end)})
    for begin, end in pairwise(times):
        units = sum(each[2] for each in taken if each[0] < end and begin < each[1])
        if units > capacity:
            raise Broken(f"{site}: {units} of {capacity} units are taken at {begin}")
