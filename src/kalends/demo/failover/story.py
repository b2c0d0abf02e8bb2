"""A primary database, a process of a broker and a process of a site are killed while users book."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

import kalends
from kalends.cli.console import output
from kalends.contract.calls import AuditClaim, AuditRecord
from kalends.demo.facility import OPERATOR
from kalends.demo.failover.databases import to_its_end
from kalends.demo.failover.hosts import BROKERS, OTHER, SITES, Hosts
from kalends.demo.failover.load import PAUSE_S, TEXT, UNITS, USERS, at_work, clock
from kalends.demo.failover.tally import (
    AuditFound,
    BookingSeen,
    FailureSeen,
    Window,
    failure_seen,
    found_again,
    longest_gap_s,
)
from kalends.demo.narrator import Tell, in_a_second_terminal, program
from kalends.demo.together import LOOK_EVERY_S, SETTLE_S_MAX

BOOKED_BEFORE: Final = 5
BOOKED_AFTER: Final = 5
"""Bookings of each user before a strike, and after it until the host is brought back."""


class FailoverReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the demo, for programs.

    `usual_gap_s` is the longest time between two bookings before the first failure. The audit found `lost`,
    `undecided` and `stray` slots: booked and not locked everywhere; not decided; locked and not booked.
    """

    request: str
    users: int
    usual_gap_s: float
    failures: tuple[FailureSeen, ...]
    booked: int
    lost: int
    undecided: int
    stray: int
    primary: str
    standby: str


class _Strike(NamedTuple):
    failure: str
    commands: Sequence[str]
    kill: Callable[[], Awaitable[None]]
    bring_back: Callable[[], Awaitable[None]]
    came_back: str


async def play(hosts: Hosts, tell: Tell, progress: Callable[[str], None]) -> FailoverReport:
    """Kill three processes while users book, and compare their bookings with those of the servers.

    `progress` hears what is waited for. Raises the client's errors, and `Unavailable` when the users cannot
    go on, or a host does not come back.
    """
    _introduce(hosts, tell)
    windows: list[tuple[str, Window]] = []
    async with at_work(hosts, int(time.time())) as load:
        since_s = load.began_s
        async for strike in _strikes(hosts):
            await load.each_booked(BOOKED_BEFORE)
            progress(f"killing {strike.failure}")
            struck_s = clock()
            await strike.kill()
            await load.each_booked(BOOKED_AFTER)
            await strike.bring_back()
            window = Window(since_s, struck_s, clock())
            windows.append((strike.failure, window))
            since_s = window.until_s
            tell(f"{strike.failure} fails", strike.commands, _told(strike, load.bookings, window))
    progress("comparing what users were told with the broker and all sites")
    found = await _audited(hosts, load.bookings)
    report = _report(hosts, load.bookings, windows, found)
    tell("What users saw", [], list(_table(report)))
    return report


def try_now(hosts: Hosts) -> Iterator[str]:
    """Yield commands to copy while everything runs."""
    kalends_ = program()
    yield from in_a_second_terminal(
        hosts,
        f"{kalends_} resources",
        f"{kalends_} book '{TEXT}' --for 10m",
        f"kill -9 $(cat {hosts.directory}/{BROKERS[0]}.pid)",
        f"{kalends_} list",
    )


def _introduce(hosts: Hosts, tell: Tell) -> None:
    databases = hosts.databases
    tell(
        "Every server but one has a second one, as on another host",
        [],
        [
            f"{databases.primary} is the primary of PostgreSQL; its commits wait for {databases.standby}",
            f"{' and '.join(BROKERS)} are one broker, with its register in that database",
            f"{SITES[0]} serves a site, with its journal in that database; {SITES[1]} stands by",
            f"{OTHER} is a site with its store in a file",
            f"{USERS} users book '{TEXT}' all the time, each after a pause of {PAUSE_S:g} s",
        ],
    )


async def _strikes(hosts: Hosts) -> AsyncIterator[_Strike]:
    """Yield the strikes; each is chosen when the hosts of the one before are back."""
    databases = hosts.databases
    dead, promoted = databases.primary, databases.standby
    data = databases[promoted].data
    yield _Strike(
        f"the primary database {dead}",
        [f"kill -9 {databases[dead].pid}", f"pg_ctl promote -D {data}"],
        lambda: to_its_end(databases.fail_over),
        lambda: to_its_end(databases.bring_back),
        f"{promoted} is promoted; {dead} is back as its synchronous standby, from a new backup",
    )
    yield _killed(hosts, "the broker's process", BROKERS[0], f"{BROKERS[0]} is back")
    serves = await hosts.serving()
    (stands_by,) = {*SITES} - {serves}
    came_back = f"{stands_by} serves; {serves} is back as its standby"
    yield _killed(hosts, "the site's process", serves, came_back)


def _killed(hosts: Hosts, what: str, name: str, came_back: str) -> _Strike:
    return _Strike(
        f"{what} {name}",
        [f"kill -9 {hosts.servers[name].process.pid}"],
        lambda: hosts.kill(name),
        lambda: hosts.start(name),
        came_back,
    )


def _told(strike: _Strike, bookings: Sequence[BookingSeen], window: Window) -> list[str]:
    seen = failure_seen(strike.failure, bookings, window, AuditFound(*[frozenset()] * 3))
    return [
        f"the longest time between two bookings was {seen.gap_s:.2f} s; one took {seen.slowest_s:.2f} s",
        f"{seen.before} bookings before, {seen.after} after; {seen.refused} refused, {seen.repeated} calls"
        " repeated",
        strike.came_back,
    ]


def _report(
    hosts: Hosts,
    bookings: Sequence[BookingSeen],
    windows: Sequence[tuple[str, Window]],
    found: AuditFound,
) -> FailoverReport:
    *earlier, (failure, last) = windows
    # What ended while the users stopped belongs to the last failure.
    windows = [*earlier, (failure, last._replace(until_s=clock()))]
    booked_s = sorted(each.ended_s for each in bookings if each.outcome == "booked")
    first = windows[0][1]
    unanswered = {each.start for each in bookings if each.outcome == "undecided"}
    return FailoverReport(
        request=TEXT,
        users=USERS,
        usual_gap_s=longest_gap_s(booked_s, booked_s[0], first.struck_s),
        failures=tuple(
            failure_seen(failure, bookings, window, found) for failure, window in windows
        ),
        booked=len(booked_s),
        lost=len(found.lost),
        undecided=len(found.undecided | unanswered),
        stray=len(found.stray),
        primary=hosts.databases.primary,
        standby=hosts.databases.standby,
    )


def _table(report: FailoverReport) -> Iterator[str]:
    numbers = ("GAP", "SLOWEST", "BEFORE", "AFTER", "REFUSED", "REPEATED", "UNDECIDED", "LOST")
    body = [
        (
            seen.failure.split()[-1], f"{seen.gap_s:.2f} s", f"{seen.slowest_s:.2f} s", seen.before,
            seen.after, seen.refused, seen.repeated, seen.undecided, seen.lost,
        )
        for seen in report.failures
    ]  # fmt: skip
    yield from output.rows(("KILLED", *numbers), body, right=numbers)
    yield ""
    yield f"Before the first failure, the longest time between two bookings was {report.usual_gap_s:.2f} s."
    yield (
        f"The audit found {report.booked - report.lost} of {report.booked} bookings at the broker and at both"
        f" sites: {report.lost} lost, {report.undecided} undecided, {report.stray} locked without a user."
    )
    yield f"{report.primary} is the primary, and {report.standby} its synchronous standby."


async def _audited(hosts: Hosts, bookings: Sequence[BookingSeen]) -> AuditFound:
    """Ask all servers what they have, again until all is at rest, but not for ever."""
    until_s = clock() + SETTLE_S_MAX
    while True:
        found = await _look(hosts, bookings)
        if not any(found) or clock() > until_s:
            return found
        await asyncio.sleep(LOOK_EVERY_S)


async def _look(hosts: Hosts, bookings: Sequence[BookingSeen]) -> AuditFound:
    _, records = await _all_of(hosts, hosts.broker_url)
    claims: list[AuditClaim] = []
    for url in (",".join(hosts.servers[name].url for name in SITES), hosts.servers[OTHER].url):
        claims += (await _all_of(hosts, url))[0]
    return found_again(bookings, UNITS, claims, records)


async def _all_of(hosts: Hosts, url: str) -> tuple[list[AuditClaim], list[AuditRecord]]:
    """Return all claims or all decisions of the server at `url`."""
    claims: dict[AuditClaim, None] = {}
    records: dict[str, AuditRecord] = {}
    async with kalends.connect(url, token=hosts.token(OPERATOR)) as client:
        after, more = "", True
        while more:
            page = await client.audit(after)
            claims.update(dict.fromkeys(page.claims))
            records.update({record.id: record for record in page.records})
            ids = [*(each.id for each in page.claims), *(each.id for each in page.records)]
            more, after = page.more and bool(ids), max(ids, default="")
    return list(claims), list(records.values())
