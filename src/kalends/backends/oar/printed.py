"""Readers of the JSON of OAR's commands; they raise `SystemSilent` for unreadable output.

Truncated JSON is invalid, and each entry must have all fields of an entry. So neither half a listing nor that
of another command is mistaken for one in which something is missing. Times are seconds UTC.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import SystemJob, SystemReservation, UnwellNode

T = TypeVar("T")

_WITH_NODES: Final = frozenset({"Running", "Suspended", "Resuming", "Finishing", "toError"})
_WITH_ROOM: Final = _WITH_NODES | {"toLaunch", "Launching"}


class _Resource(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A part of a node, as ``oarnodes`` prints it."""

    number: int = msgspec.field(name="resource_id")
    network_address: str
    state: str
    type: str
    available_upto: int = 0
    drain: str = "NO"


class _Place(msgspec.Struct, frozen=True, gc=False):
    network_address: str


class _Job(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job or a reservation, as ``oarstat -f`` prints it."""

    number: int = msgspec.field(name="Job_Id")
    owner: str
    state: str
    reservation: str
    types: list[str]
    start: int | None = msgspec.field(name="startTime")
    length: int | None = msgspec.field(name="walltime")
    """Printed, like the start, once OAR has decided."""
    assigned: list[int] = msgspec.field(name="assigned_resources")
    nodes: list[str] = msgspec.field(name="assigned_network_address")
    reserved: dict[str, _Place] | None = msgspec.field(name="reserved_resources", default=None)
    name: str | None = None

    @property
    def begins(self) -> int:
        return self.start or 0

    @property
    def ends(self) -> int:
        return self.begins + (self.length or 0)

    @property
    def inside(self) -> int:
        """The number of the container that it runs in, or 0."""
        found = [each.partition("=")[2] for each in self.types if each.startswith("inner=")]
        return int(found[0]) if found and found[0].isdecimal() else 0

    @property
    def reserves(self) -> bool:
        """Whether it reserves nodes for a requested time, and is not inside another reservation."""
        return self.reservation != "None" and not self.inside


@dataclass(frozen=True)
class Inventory:
    """Everything that OAR has: its resources, and its jobs that have not ended."""

    resources: tuple[_Resource, ...]
    jobs: tuple[_Job, ...]

    def nodes(self) -> tuple[str, ...]:
        """Return all nodes that jobs can be given."""
        return tuple(sorted(self._parts()))

    def unwell(self, now_s: int) -> tuple[UnwellNode, ...]:
        """Return the nodes that are out of order; a node that sleeps to save power is not."""
        found: dict[str, UnwellNode] = {}
        for each in self._usable():
            sleeps = each.state == "Absent" and each.available_upto > now_s
            if each.state in ("Dead", "Suspected"):
                found[each.network_address] = UnwellNode(each.network_address, "down", each.state)
            elif (each.state != "Alive" and not sleeps) or each.drain == "YES":
                why = "drained" if each.drain == "YES" else each.state
                found.setdefault(
                    each.network_address, UnwellNode(each.network_address, "drained", why)
                )
        return tuple(found[node] for node in sorted(found))

    def reservations(self) -> tuple[SystemReservation, ...]:
        """Return the reservations, those of one name as one."""
        named: dict[str, list[_Job]] = defaultdict(list)
        for job in self.jobs:
            if job.reserves:
                named[job.name or str(job.number)].append(job)
        return tuple(self._told(name, found) for name, found in named.items())

    def numbers(self, name: str) -> list[int]:
        return [each.number for each in self.jobs if each.reserves and each.name == name]

    def has_begun(self, name: str) -> bool:
        """Whether the reservation of this name has its nodes, or has vanished."""
        return not any(
            each.reserves and each.name == name and each.state not in _WITH_NODES
            for each in self.jobs
        )

    def inside(self, containers: Iterable[int]) -> list[int]:
        """Return the numbers of the jobs in these containers, including waiting ones."""
        wanted = set(containers)
        return [each.number for each in self.jobs if each.inside in wanted]

    def running_jobs(self) -> Iterator[SystemJob]:
        """Yield the jobs that have nodes and are not reservations."""
        names = {each.number: each.name or str(each.number) for each in self.jobs if each.reserves}
        for each in self.jobs:
            if not each.reserves and each.state in _WITH_ROOM and each.nodes:
                yield SystemJob(
                    id=str(each.number),
                    user=each.owner,
                    nodes=tuple(sorted(set(each.nodes))),
                    start=each.begins,
                    end=each.ends if each.length is not None else None,
                    reservation=names.get(each.inside, ""),
                )

    def _usable(self) -> Iterator[_Resource]:
        return (each for each in self.resources if each.type == "default")

    def _parts(self) -> Mapping[str, int]:
        return Counter(each.network_address for each in self._usable())

    def _told(self, name: str, found: list[_Job]) -> SystemReservation:
        parts, first = self._parts(), found[0]
        mine = Counter(_nodes_of_parts(first, self.resources))
        return SystemReservation(
            name=name,
            start=first.begins,
            end=first.ends,
            nodes=tuple(sorted(mine)),
            users=(first.owner,),
            broken=_broken(found, mine, parts),
        )


def _nodes_of_parts(job: _Job, resources: Iterable[_Resource]) -> list[str]:
    """Return the node of each resource that a reservation has, or will have."""
    if job.reserved:
        return [each.network_address for each in job.reserved.values()]
    assigned = set(job.assigned)
    return [each.network_address for each in resources if each.number in assigned]


def _broken(found: list[_Job], mine: Mapping[str, int], parts: Mapping[str, int]) -> str:
    """Return the faults that make a reservation broken."""
    first = found[0]
    if len(found) > 1:
        return f"there are {len(found)} of its name"
    if first.reservation != "Scheduled" or first.length is None:
        return "it is not granted yet"
    if "container" not in first.types:
        return "no jobs can be in it"
    for node, count in mine.items():
        if node not in parts:
            return f"{node} has gone"
        if count < parts[node]:
            return f"others may have {parts[node] - count} of the {parts[node]} parts of {node}"
    return ""


def listing(resources: str, jobs: str) -> Inventory:
    """Return what ``oarnodes -J`` and ``oarstat -f -J`` print together."""
    known = _each(resources, _Resource, "resource_id")
    if not known:
        raise SystemSilent("oarnodes lists nothing")
    return Inventory(tuple(known), tuple(_each(jobs, _Job, "Job_Id")))


def _each(text: str, kind: type[T], number: str) -> list[T]:
    """Return the entries of an object by their keys, which are numbers; no output means no entries."""
    if not text.strip():
        return []
    try:
        found: dict[str, dict[str, Any]] = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        if any(str(entry.get(number)) != key for key, entry in found.items()):
            raise ValueError(f"an entry without its {number}")
        entries = [found[key] for key in sorted(found, key=int)]
        return [msgspec.convert(entry, kind, strict=False) for entry in entries]
    except (msgspec.MsgspecError, ValueError) as error:
        raise SystemSilent(f"a listing that cannot be read ({error}): {text[-200:]!r}") from error
