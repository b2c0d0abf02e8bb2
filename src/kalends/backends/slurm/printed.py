"""Readers of the output of Slurm's commands; they raise `SystemSilent` for unreadable output.

A truncated listing, or that of another command, must not be mistaken for one in which something is missing:
every line has to be whole. Times are requested as seconds (``SLURM_TIME_FORMAT=%s``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode
from kalends.backends.slurm.hostlists import expanded

JOBS_FORMAT: Final = "%i|%T|%u|%N|%S|%e|%v|%C|%W|."
NODES_FORMAT: Final = "%N|%T|%a|%X|%Y|%Z|."
LICENCES_MAX: Final = 1_000

_CLOCK: Final = re.compile(r"^Configuration data as of ([0-9]+)$", re.MULTILINE)
_BOOT: Final = re.compile(r"^BOOT_TIME\s*=\s*([0-9]+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^SLURM_VERSION\s*=\s*([0-9.]{1,32})$", re.MULTILINE)
_LETTING_OTHERS_IN: Final = frozenset({"OVERLAP", "MAINT", "IGNORE_JOBS", "ANY_NODES"})
_NODE: Final = re.compile(r"^NodeName=(\S+) ", re.MULTILINE)
_CORES: Final = re.compile(r"NodeName=(\S+) CoreIDs=([0-9,\-]+)")
_LICENCE: Final = re.compile(r"([^\s:,@|;&()]{1,128})(?:@[^\s:,|;&()]{1,128})?(?::([0-9]{1,9}))?")
_UNKNOWN: Final = re.compile(r"unk|\*")
_DOWN: Final = re.compile(r"down|fail|power|boot|inval|perfctrs|future")
_DRAINED: Final = re.compile(r"drain|maint|resv?d?_maint")


def clock_and_boot(config: str) -> tuple[int, int]:
    """Return the time of the controller's clock, and the controller's start by that clock."""
    clock, boot = _CLOCK.search(config), _BOOT.search(config)
    if clock is None or boot is None:
        raise SystemSilent("scontrol show config shows no clock")
    return int(clock.group(1)), int(boot.group(1))


def version(config: str) -> str:
    """Return the version of the controller; "" if it shows none."""
    found = _VERSION.search(config)
    return f"Slurm {found.group(1)}" if found is not None else ""


def reservations(text: str, *, in_parts: bool = False) -> Iterator[SystemReservation]:
    """Yield the reservations of ``scontrol show reservation -o``; with their cores if they are `in_parts`."""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("No reservations"):
            continue
        fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
        if not line.startswith("ReservationName=") or "State" not in fields:
            raise SystemSilent(f"a reservation that cannot be read: {line[:200]!r}")
        try:
            yield _reservation(fields, _cores(line, fields) if in_parts else ())
        except (KeyError, ValueError) as error:
            raise SystemSilent(f"a reservation that cannot be read: {line[:200]!r}") from error


def _cores(line: str, fields: dict[str, str]) -> tuple[int, ...]:
    """Return the cores of each node; in its first half minute a reservation shows only their sum."""
    nodes, told = expanded(fields["Nodes"]), dict(_CORES.findall(line))
    if nodes and sorted(told) == list(nodes):
        return tuple(_numbers(told[node]) for node in nodes)
    return (int(fields["CoreCnt"]),) if nodes else ()


def _numbers(text: str) -> int:
    """Return how many numbers there are in ``0-3,7``."""
    spans = (each.partition("-") for each in text.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


def _reservation(fields: dict[str, str], cores: tuple[int, ...]) -> SystemReservation:
    flags = set(fields["Flags"].split(",")) & _LETTING_OTHERS_IN
    if fields["Nodes"] == "(null)":  # A reservation of licences only.
        flags.discard("ANY_NODES")
    return SystemReservation(
        name=fields["ReservationName"],
        start=int(fields["StartTime"]),
        end=int(fields["EndTime"]),
        nodes=expanded(fields["Nodes"]),
        users=tuple(sorted(_listed(fields["Users"]))),
        licences=tuple(sorted(_licences(fields["Licenses"]))),
        broken=",".join(sorted(flags)),
        cores=cores,
    )


def _listed(text: str) -> list[str]:
    return [] if text == "(null)" else re.split(r"[,;|]", text)


def _licences(text: str) -> Iterator[tuple[str, int]]:
    for each in _listed(text)[:LICENCES_MAX]:
        found = _LICENCE.fullmatch(each)
        if found is not None:  # Others are not for a site: see its configuration.
            yield found.group(1), int(found.group(2) or 1)


def licences(text: str) -> tuple[tuple[str, int], ...]:
    """Return how many there are of each of the licences of ``scontrol show licenses -o``."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("No licenses"):
            continue
        fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
        try:
            found.append((fields["LicenseName"].partition("@")[0], int(fields["Total"])))
        except (KeyError, ValueError) as error:
            raise SystemSilent(f"a licence that cannot be read: {line[:200]!r}") from error
    return tuple(found)


def running_jobs(text: str, threads: Mapping[str, int] | None = None) -> Iterator[SystemJob]:
    """Yield the jobs of ``squeue`` in `JOBS_FORMAT` that have nodes.

    With the `threads` of a core of each node, jobs have their cores, as a sum over all nodes.
    """
    for line in text.splitlines():
        fields = line.removesuffix("|.").split("|", 8)  # Licences may have any separators.
        if len(fields) != 9 or not line.endswith("|."):
            raise SystemSilent(f"a job that cannot be read: {line[:200]!r}")
        number, _, user, names, start, end, reservation, processors, licensed = fields
        try:
            nodes = expanded(names)
            each = min((threads.get(node, 1) for node in nodes), default=1) if threads else 0
            yield SystemJob(
                id=number,
                user=user,
                nodes=nodes,
                cores=(-(-int(processors) // each),) if nodes and each else (),
                licences=tuple(sorted(_licences(licensed))),
                start=int(start) if start.isdecimal() else 0,
                end=int(end) if end.isdecimal() else None,
                reservation="" if reservation == "(null)" else reservation,
            )
        except ValueError as error:
            raise SystemSilent(f"a job that cannot be read: {line[:200]!r}") from error


def nodes(text: str) -> tuple[tuple[str, ...], tuple[UnwellNode, ...]]:
    """Return all nodes of ``sinfo -N`` in `NODES_FORMAT`, and those that are out of order.

    A node of several partitions is unwell if it is unwell in any, or if one of them is down.
    """
    names: set[str] = set()
    unwell: dict[str, UnwellNode] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != 7 or fields[-1] != ".":
            raise SystemSilent(f"a node that cannot be read: {line[:200]!r}")
        name, state, partition = fields[:3]
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


def node_order(text: str) -> dict[str, int]:
    """Return the position of each node in ``scontrol show node -o``, which is Slurm's own order."""
    return {name: place for place, name in enumerate(_NODE.findall(text))}


def cores_and_threads(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of cores of each node of `nodes`, and of threads of each core."""
    cores, threads = {}, {}
    for line in text.splitlines():
        try:
            name, _, _, sockets, cores_each, threads_each, _ = line.split("|")
            cores[name] = int(sockets) * int(cores_each)
            threads[name] = max(int(threads_each), 1)
        except ValueError as error:
            raise SystemSilent(f"a node that cannot be read: {line[:200]!r}") from error
    return cores, threads
