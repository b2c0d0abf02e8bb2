"""A reclaim of an owner, as it is stored: it holds over restarts until it is withdrawn."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from kalends.contract.owner_calls import Standing
from kalends.resource_servers.participation.effects import SiteFact


class ReclaimedSlot(msgspec.Struct, frozen=True):
    """What a reservation of `user` had of the resource, or has elsewhere at the site since it was moved."""

    resource: str
    start: int
    end: int
    units: int
    user: str = ""


class Reclaimed(msgspec.Struct, frozen=True):
    """`resource` is its owner's during ``[start, end)``.

    What is locked there is to go, unless it begins by `spared_until` (UTC seconds, as the others).
    `told` are the requests whose brokers have been asked to move them, `had` is what they had there, and
    `went` where they are now. With `units`, of the capacity `of`, only so many are the owner's, and as few
    reservations are to go as have them. With a `grant`, only what the grant of this number serves is to go,
    for its request `only`, and the time stays open: the batch system cannot keep it. `out`: nodes are out of
    service, and the queue of the machine knows of it by itself. A part of a `closure` of the site says by
    `standing` whether what is locked is to go at all, and where to. `absent`: nobody came for the slot.
    """

    key: str
    resource: str
    start: int
    end: int
    notice_s: int
    made_s: int
    reason: str = ""
    told: tuple[str, ...] = ()
    only: str = ""
    grant: int = 0
    units: int = 0
    of: int = 0
    out: bool = False
    closure: str = ""
    standing: Standing = "move"
    absent: bool = False
    had: dict[str, ReclaimedSlot] = {}
    went: dict[str, ReclaimedSlot] = {}

    def units_of(self, capacity: int) -> int:
        """Return the units that are the owner's where there are `capacity` by now: others keep theirs."""
        return max(0, self.units - max(0, self.of - capacity))

    @property
    def spared_until(self) -> int:
        return self.made_s + self.notice_s

    def overlaps(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


class OutOfService(NamedTuple):
    """The `nodes` of the machine `resource` that are out of service from `start` until `end`.

    `units` less can be booked; the reservation `stuck` cannot be placed around them ("": there is none).
    `begun` has every reservation of the present, and how many of its nodes cannot be used.
    """

    resource: str
    start: int
    end: int
    nodes: int
    units: int
    reason: str
    stuck: str = ""
    begun: tuple[tuple[str, int], ...] = ()


class ReclaimStored(SiteFact, frozen=True):
    """Fact: the reclaim of `key` is now as in `body` (see `decode_reclaim`)."""

    key: str
    body: bytes


class ReclaimDropped(SiteFact, frozen=True):
    """Fact: it was withdrawn, or is long over."""

    key: str


_ENCODER = msgspec.msgpack.Encoder()

decode_reclaim: Final = msgspec.msgpack.Decoder(Reclaimed).decode
"""The inverse of `stored_reclaim`; raises `msgspec.DecodeError` for bytes that are none."""


def stored_reclaim(reclaimed: Reclaimed) -> ReclaimStored:
    return ReclaimStored(reclaimed.key, _ENCODER.encode(reclaimed))
