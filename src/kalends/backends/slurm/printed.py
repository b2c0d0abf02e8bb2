"""What Slurm's commands print, as records; raises `SystemSilent` for what cannot be read.

A listing that is cut off, or that is another's, must not be taken for one in which something is missing:
every line has to be whole. Times are asked for as seconds (``SLURM_TIME_FORMAT=%s``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode
from kalends.backends.slurm.hostlists import expanded

JOBS_FORMAT: Final = "%i|%T|%u|%N|%S|%e|%v|."
NODES_FORMAT: Final = "%N|%T|%a|."
LICENCES_MAX: Final = 1_000

_CLOCK: Final = re.compile(r"^Configuration data as of ([0-9]+)$", re.MULTILINE)
_BOOT: Final = re.compile(r"^BOOT_TIME\s*=\s*([0-9]+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^SLURM_VERSION\s*=\s*([0-9.]{1,32})$", re.MULTILINE)
_LETTING_OTHERS_IN: Final = frozenset({"OVERLAP", "MAINT", "IGNORE_JOBS", "ANY_NODES"})
_UNKNOWN: Final = re.compile(r"unk|\*")
_DOWN: Final = re.compile(r"down|fail|power|boot|inval|perfctrs|future")
_DRAINED: Final = re.compile(r"drain|maint|resv?d?_maint")


def clock_and_boot(config: str) -> tuple[int, int]:
    """Return what the controller's clock shows, and when the controller began (both by that clock)."""
    clock, boot = _CLOCK.search(config), _BOOT.search(config)
    if clock is None or boot is None:
        raise SystemSilent("scontrol show config tells no clock")
    return int(clock.group(1)), int(boot.group(1))


def version(config: str) -> str:
    """Return the version of the controller; "" if it is not told."""
    found = _VERSION.search(config)
    return f"Slurm {found.group(1)}" if found is not None else ""


def reservations(text: str) -> Iterator[SystemReservation]:
    """Yield the reservations of ``scontrol show reservation -o``."""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("No reservations"):
            continue
        fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
        if not line.startswith("ReservationName=") or "State" not in fields:
            raise SystemSilent(f"a reservation that cannot be read: {line[:200]!r}")
        try:
            yield _reservation(fields)
        except (KeyError, ValueError) as error:
            raise SystemSilent(f"a reservation that cannot be read: {line[:200]!r}") from error


def _reservation(fields: dict[str, str]) -> SystemReservation:
    flags = set(fields["Flags"].split(",")) & _LETTING_OTHERS_IN
    return SystemReservation(
        name=fields["ReservationName"],
        start=int(fields["StartTime"]),
        end=int(fields["EndTime"]),
        nodes=expanded(fields["Nodes"]),
        users=tuple(sorted(_listed(fields["Users"]))),
        licences=tuple(sorted(_licences(fields["Licenses"]))),
        broken=",".join(sorted(flags)),
    )


def _listed(text: str) -> list[str]:
    return [] if text == "(null)" else text.split(",")


def _licences(text: str) -> Iterator[tuple[str, int]]:
    for each in _listed(text)[:LICENCES_MAX]:
        name, _, count = each.partition(":")
        yield name, int(count or 1)


def running_jobs(text: str) -> Iterator[SystemJob]:
    """Yield the jobs of ``squeue`` in `JOBS_FORMAT` that have nodes."""
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 8 or fields[-1] != ".":
            raise SystemSilent(f"a job that cannot be read: {line[:200]!r}")
        number, _, user, nodes, start, end, reservation, _ = fields
        try:
            yield SystemJob(
                id=number,
                user=user,
                nodes=expanded(nodes),
                start=int(start) if start.isdecimal() else 0,
                end=int(end) if end.isdecimal() else None,
                reservation="" if reservation == "(null)" else reservation,
            )
        except ValueError as error:
            raise SystemSilent(f"a job that cannot be read: {line[:200]!r}") from error


def nodes(text: str) -> tuple[tuple[str, ...], tuple[UnwellNode, ...]]:
    """Return all nodes of ``sinfo -N`` in `NODES_FORMAT`, and those that cannot be counted on.

    A node of several partitions is unwell if it is so in any; so is each node of a partition that is down.
    """
    names: set[str] = set()
    unwell: dict[str, UnwellNode] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 4 or fields[-1] != ".":
            raise SystemSilent(f"a node that cannot be read: {line[:200]!r}")
        name, state, partition, _ = fields
        names.add(name)
        if partition != "up":
            unwell[name] = UnwellNode(name, "drained", f"its partition is {partition}")
        elif _DOWN.search(state):
            unwell[name] = UnwellNode(name, "down", state)
        elif _DRAINED.search(state):
            unwell[name] = UnwellNode(name, "drained", state)
        elif _UNKNOWN.search(state):
            unwell[name] = UnwellNode(name, "unknown", state)
    return tuple(sorted(names)), tuple(unwell[name] for name in sorted(unwell))
