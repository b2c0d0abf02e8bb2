"""Slots: reservations under one name in a batch system, with their node-seconds.

A slot counts from its start to its end, or to when it was given back, with the nodes that it had when. What
jobs used in it is stored beside it (`JobsRead`), and summed up where it is asked for.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.backends.records import FinishedJob
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.provision.extents import Extent

KEPT_NUMBERS_MAX: Final = 64
"""A system that makes reservations anew gives a new number for each change."""

STRAY_S: Final = 60
"""A job that is called by the number of its reservation began so long before or after it, at most."""


class ReservedSlot(msgspec.Struct, gc=False, kw_only=True):
    """The reservation `name` of the batch system `system`, for `nodes` nodes during ``[start, end)``.

    `counted` node-seconds are those before `since`: until then it had other nodes, or another end.
    """

    name: str
    system: str
    resource: str
    rid: str
    """The request that has locked it last: the reservation, or a change of it."""
    user: str
    account: str
    """As the batch system calls the user."""
    start: int
    end: int
    nodes: int
    since: int
    first_rid: str = ""
    """The id that its user knows, if a change has locked it last; else "", as in older stores."""
    counted: int = 0
    numbers: tuple[str, ...] = ()
    """By which the accounting of the system calls it, if not by its name."""

    @property
    def reservation(self) -> str:
        """Return the id that its user knows."""
        return self.first_rid or self.rid

    @property
    def node_seconds(self) -> int:
        """Return what is reserved by it, to its end."""
        return self.counted + self.nodes * max(self.end - self.since, 0)

    def reserve(self, extent: Extent, now: int) -> None:
        """Have it as `extent` from `now` on; what has passed counts as it was."""
        if now <= self.start:
            self.start, self.since = extent.start, extent.start
        else:
            self._count(now)
            self.since = max(now, extent.start)
        self.end, self.nodes = extent.end, len(extent.nodes)

    def give_back(self, now: int) -> None:
        """End it `now`, unless it is over."""
        self._count(now)
        self.end = max(min(self.end, now), self.start)

    def _count(self, now: int) -> None:
        until = max(min(now, self.end), self.since)
        self.counted += self.nodes * (until - self.since)
        self.since = until

    def holds(self, job: FinishedJob) -> bool:
        """Whether `job` ran in it, by the name or the number that it tells."""
        if job.reservation == self.name:
            return True
        near = job.start < self.end + STRAY_S and self.start < job.end + STRAY_S
        return job.reservation in self.numbers and near


class SlotJob(msgspec.Struct, frozen=True, gc=False):
    """A job that is over, and the slot in which it ran."""

    slot: str
    job: FinishedJob


class SlotStored(SiteFact, frozen=True):
    """Fact: the slot of this name is now as in `body` (see `decode_slot`)."""

    name: str
    system: str
    resource: str
    user: str
    end: int
    node_seconds: int
    body: bytes


class SlotDropped(SiteFact, frozen=True):
    """Fact: the slot of this name was given back before it began."""

    name: str


class JobsRead(SiteFact, frozen=True):
    """Fact: all jobs of `system` are known that have ended before `until`; these `jobs` are new."""

    system: str
    until: int
    jobs: tuple[SlotJob, ...]


class SlotsClosed(SiteFact, frozen=True):
    """Fact: no jobs are added any more to slots of `system` that ended before then."""

    system: str
    before: int


class KnownSlots(msgspec.Struct, frozen=True):
    """What is stored: slots to which jobs may still be added, and how far each system's jobs are read."""

    slots: tuple[ReservedSlot, ...] = ()
    read_until: dict[str, int] = {}


NO_SLOTS: Final = KnownSlots()

_ENCODER = msgspec.msgpack.Encoder()

decode_slot: Final = msgspec.msgpack.Decoder(ReservedSlot).decode
"""Return the slot of `slot_stored`; raises `msgspec.DecodeError` for bytes that are none."""


def slot_stored(slot: ReservedSlot) -> SlotStored:
    """Return the fact that `slot` is as it is now."""
    return SlotStored(
        slot.name,
        slot.system,
        slot.resource,
        slot.user,
        slot.end,
        slot.node_seconds,
        _ENCODER.encode(slot),
    )
