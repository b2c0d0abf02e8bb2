"""Check-up of a batch system before a site relies on it: its contents, faults, and effects on users."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import structs

from kalends.backends.adapter import Adapter, SystemRefused, SystemSilent, carry_out
from kalends.backends.names import NO_LIFE, name_of, some_of
from kalends.backends.records import (
    CreateReservation,
    DeleteReservation,
    ListFinishedJobs,
    SystemReservation,
    SystemState,
    Traits,
)

TRIED_AHEAD_S: Final = 300 * 86_400
"""The trial reservation lies far ahead, where nothing is planned yet."""

TRIED_S: Final = 60
ACCOUNTS_TRIED_S: Final = 60
SKEW_TOLD_S: Final = 2
TOLD_MAX: Final = 5
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class CheckUp(NamedTuple):
    """`facts` are always printed; with any of `problems` the site cannot keep its promises."""

    facts: list[str]
    problems: list[str]


async def check_up(
    adapter: Adapter, site: str, nodes: Collection[str], users: Mapping[str, str], now_s: int,
    handed_over: Collection[str] = (), cores: Mapping[str, int] = NOTHING,
    licences: Mapping[str, int] = NOTHING,
) -> CheckUp:  # fmt: skip
    """Check a system, and make and delete a reservation of one unit for each user; raises nothing.

    `nodes`, the `cores` of each node and `licences` are for reservations; nodes that are `handed_over`
    have jobs of the site without reservations.
    """
    try:
        state = await adapter.state()
    except (SystemRefused, SystemSilent) as error:
        return CheckUp([], [f"it does not answer: {error}"])
    facts = [
        f"{state.version or 'it'} has {len(state.nodes)} nodes, {len(state.reservations)} reservations and "
        f"{len(state.jobs)} running jobs",
        *traits_in_words(adapter.traits, in_parts=bool(cores)),
    ]
    problems = [
        *_clock(state, now_s),
        *_nodes(state, {*nodes, *cores, *handed_over}),
        *_too_few(cores, dict(state.cores), "cores"),
        *_too_few(licences, dict(state.licences), "licences"),
        *(
            f"it does not know the licence {each}"
            for each in licences
            if each not in dict(state.licences)
        ),
    ]
    if not users:
        problems.append("no users are listed, so booking is not possible")
    for shape in _tries(state, nodes, cores, licences):
        problems += await _tried(adapter, site, shape, users, now_s)
    if adapter.traits.tells_use and users:
        facts += await _accounts(adapter, tuple(sorted(set(users.values()))), state.clock_s)
    return CheckUp(facts, problems)


async def _accounts(adapter: Adapter, users: tuple[str, ...], clock_s: int) -> list[str]:
    """Return why used time is not available, if it is not; promises are kept nevertheless."""
    try:
        await adapter.finished_jobs(ListFinishedJobs(clock_s - ACCOUNTS_TRIED_S, clock_s, users))
    except (SystemRefused, SystemSilent) as error:
        return [f"the time that jobs used in a slot is not known: {error}"]
    return []


def check_launching(users: Mapping[str, str], missing: Collection[str]) -> list[str]:
    """Return the obstacles to running users' programs from this host; `missing` are commands."""
    problems = [f"the command {each} is not on this host, but starts the jobs" for each in missing]
    own = os.geteuid()
    for user, there in sorted(users.items()):
        try:
            number = pwd.getpwnam(there).pw_uid
        except KeyError:
            problems.append(f"{there}, as {user} is called there, is not a Unix user of this host")
            continue
        if number == 0:
            problems.append(f"{user} is root there: jobs never run as root")
        elif own not in (0, number):
            problems.append(f"the site is not root: it can start no jobs of {user} as {there}")
    return problems


def traits_in_words(traits: Traits, *, in_parts: bool = False) -> list[str]:
    """Return the effects of a system's traits on users who book whole nodes or parts."""
    said = []
    if traits.weak_s:
        said.append(
            f"it may forget a grant if it fails within {traits.weak_s} s after it; the site restores it"
        )
    if traits.late_write_s:
        said.append(f"after a missing answer, nodes may be out of use for {traits.late_write_s} s")
    if traits.gap_s:
        said.append(f"between two reservations of a node {traits.gap_s} s pass")
    if traits.job_offset_s:
        said.append(f"running jobs count for {traits.job_offset_s} s after their limit")
    if in_parts:
        said.append(
            "a reservation of cores is recreated to lengthen it, and not while jobs are in it"
        )
    if not traits.changes_in_place:
        said.append("a reservation is recreated to change it, and not while jobs are in it")
    if not traits.asks_jobs:
        said.append("jobs in a slot are killed before its end, without a warning")
    if not traits.tells_clock:
        said.append("it does not report its clock: use the same time server for it and this host")
    if not traits.tells_use:
        said.append("it does not report what jobs used in a slot")
    if not traits.deletes_in_use:
        said.append("a reservation with jobs in it is deleted once these are cancelled")
    return said


def _clock(state: SystemState, now_s: int) -> list[str]:
    skew_s = state.clock_s - now_s
    if abs(skew_s) <= SKEW_TOLD_S:
        return []
    return [f"its clock differs by {skew_s:+d} s: use the same time server for both"]


def _nodes(state: SystemState, nodes: Collection[str]) -> list[str]:
    wanted = set(nodes)
    found = []
    if unknown := sorted(wanted - set(state.nodes)):
        found.append(f"it does not know {some_of(unknown)}")
    found += [
        f"{each.name} is {each.state}{each.detail and ': '}{each.detail}"
        for each in state.unwell
        if each.name in wanted
    ]
    return found


def _too_few(wanted: Mapping[str, int], has: Mapping[str, int], of_what: str) -> list[str]:
    few = {name: has[name] for name, count in wanted.items() if has.get(name, count) < count}
    return [
        f"{name} has {count} {of_what}, and the site offers {wanted[name]}"
        for name, count in sorted(few.items())
    ][:TOLD_MAX]


def _tries(
    state: SystemState,
    nodes: Collection[str],
    cores: Mapping[str, int],
    licences: Mapping[str, int],
) -> Iterator[SystemReservation]:
    """Yield the smallest usable unit of each offered kind: a node, a core of one, a licence."""
    well = set(state.nodes) - {each.name for each in state.unwell}
    empty = SystemReservation("", 0, 0, (), ())
    for node in sorted(well.intersection(nodes))[:1]:
        yield structs.replace(empty, nodes=(node,))
    for node in sorted(well.intersection(cores))[:1]:
        yield structs.replace(empty, nodes=(node,), cores=(1,))
    for name in sorted({*licences}.intersection(dict(state.licences)))[:1]:
        yield structs.replace(empty, licences=((name, 1),))


async def _tried(
    adapter: Adapter, site: str, shape: SystemReservation, users: Mapping[str, str], now_s: int
) -> list[str]:
    """Return the obstacles to reservations, by making and deleting one for each user."""
    found = []
    start = (now_s + TRIED_AHEAD_S) // TRIED_S * TRIED_S
    for number, (user, there) in enumerate(sorted(users.items())):
        name = name_of(site, NO_LIFE, now_s * 1_000 + number)
        wish = structs.replace(shape, name=name, start=start, end=start + TRIED_S, users=(there,))
        made = await carry_out(adapter, CreateReservation(wish))
        if made.found is None or not _is(made.found, wish):
            found.append(f"no reservation can be made for {user} as {there}: {made.detail}")
        gone = await carry_out(adapter, DeleteReservation(name))
        if gone.found is not None or gone.outcome == "unknown":
            found.append(f"the reservation {name} of the trial is still there: {gone.detail}")
    return found


def _is(found: SystemReservation, wish: SystemReservation) -> bool:
    alike = structs.replace(found, cores=wish.cores, licences=wish.licences)
    return alike == wish and found.has_room_of(wish)
