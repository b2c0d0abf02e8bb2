"""A batch system looked at before a site relies on it: what is there, what is missing, what users notice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kalends.backends.adapter import Adapter, SystemRefused, SystemSilent, carry_out
from kalends.backends.names import name_of
from kalends.backends.records import (
    CreateReservation,
    DeleteReservation,
    SystemReservation,
    SystemState,
    Traits,
)

TRIED_AHEAD_S: Final = 300 * 86_400
"""The reservation that is tried lies so far ahead that nobody has made plans there."""

TRIED_S: Final = 60
SKEW_TOLD_S: Final = 2
TOLD_MAX: Final = 5


class CheckUp(NamedTuple):
    """`facts` are told in any case; with any of `problems` the site cannot keep what it promises."""

    facts: list[str]
    problems: list[str]


async def check_up(
    adapter: Adapter, site: str, nodes: Collection[str], users: Mapping[str, str], now_s: int
) -> CheckUp:
    """Look at a system, and make and delete a reservation of one node for each user; raises nothing."""
    try:
        state = await adapter.state()
    except (SystemRefused, SystemSilent) as error:
        return CheckUp([], [f"it does not answer: {error}"])
    facts = [
        f"{state.version or 'it'} has {len(state.nodes)} nodes, {len(state.reservations)} reservations and "
        f"{len(state.jobs)} running jobs",
        *traits_in_words(adapter.traits),
    ]
    problems = [*_clock(state, now_s), *_nodes(state, nodes)]
    if not users:
        problems.append("no users are named: nobody can book")
    well = sorted(set(nodes) & set(state.nodes) - {each.name for each in state.unwell})
    if well:
        problems += await _tried(adapter, site, well[0], users, now_s)
    return CheckUp(facts, problems)


def traits_in_words(traits: Traits) -> list[str]:
    """Return what the traits of a system mean for those who book."""
    said = []
    if traits.weak_s:
        said.append(
            f"what it has granted it may forget if it fails within {traits.weak_s} s; the site makes it again"
        )
    if traits.late_write_s:
        said.append(
            f"after an answer that did not come, nodes may be out of use for {traits.late_write_s} s"
        )
    if traits.gap_s:
        said.append(f"between two reservations of a node {traits.gap_s} s pass")
    if traits.job_offset_s:
        said.append(f"running jobs count for {traits.job_offset_s} s after their limit")
    if not traits.deletes_in_use:
        said.append("a reservation with jobs in it goes when these are cancelled")
    return said


def _clock(state: SystemState, now_s: int) -> list[str]:
    skew_s = state.clock_s - now_s
    if abs(skew_s) <= SKEW_TOLD_S:
        return []
    return [f"its clock differs by {skew_s:+d} s: have both follow the same time server"]


def _nodes(state: SystemState, nodes: Collection[str]) -> list[str]:
    wanted = set(nodes)
    found = []
    if unknown := sorted(wanted - set(state.nodes)):
        found.append(f"it does not know {_some(unknown)}")
    found += [
        f"{each.name} is {each.state}{each.detail and ': '}{each.detail}"
        for each in state.unwell
        if each.name in wanted
    ]
    return found


async def _tried(
    adapter: Adapter, site: str, node: str, users: Mapping[str, str], now_s: int
) -> list[str]:
    """Return what stands in the way of reservations, by making and deleting one for each user."""
    found = []
    start = (now_s + TRIED_AHEAD_S) // TRIED_S * TRIED_S
    for number, (user, there) in enumerate(sorted(users.items())):
        name = name_of(site, "00000000", now_s * 1_000 + number)
        wish = SystemReservation(name, start, start + TRIED_S, (node,), (there,))
        made = await carry_out(adapter, CreateReservation(wish))
        if made.found != wish:
            found.append(f"no reservation can be made for {user} as {there}: {made.detail}")
        gone = await carry_out(adapter, DeleteReservation(name))
        if gone.found is not None or gone.outcome == "unknown":
            found.append(f"the reservation {name} that was tried is still there: {gone.detail}")
    return found


def _some(names: Collection[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:TOLD_MAX]) + (", ..." if len(listed) > TOLD_MAX else "")
