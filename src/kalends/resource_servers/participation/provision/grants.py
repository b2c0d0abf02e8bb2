"""Grants: reservations that a batch system was asked to keep for claims of this site, one for each.

A grant serves one claim, or two while a reservation is changed. `needs` says what each of them needs; what is
wanted is their envelope, or nothing once no claim is left. `outer` is the most that the batch system may have
under the name: all of it takes room, whatever the claims need, until the system is seen to have less. So room
is free when the system has given it up, and not when it was told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from kalends.backends.records import SystemReservation
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.provision.extents import Extent, envelope


class NodeGrant(msgspec.Struct, gc=False):
    """One reservation of a batch system, by its name; neither that nor the number is used again."""

    number: int
    name: str
    resource: str
    rid: str
    user: str
    """As the batch system calls the user: never a name that came with a message."""
    outer: Extent
    needs: dict[int, Extent]
    """By the number of the claim."""

    @property
    def wanted(self) -> Extent | None:
        """Return the joint need of the claims; None if there is none."""
        return envelope(self.needs.values()) if self.needs else None


@dataclass(eq=False, slots=True)
class Sight:
    """Observed state of a grant in the batch system; it does not outlive the site's life."""

    seen: bool = False
    """Whether `found` is what was there when it was last looked at."""
    found: SystemReservation | None = None
    written: SystemReservation | None = None
    """What the system said last that it has made of it; None if that is not known any more."""
    errand: int = 0
    """The number of the errand under way, or 0."""
    errand_ended: int = 0
    """When the last one ended, in the order of all: a listing that was asked for before says nothing new."""
    failures: int = 0
    retry_at_ms: int = 0
    doubtful: bool = False
    """Something had no answer, and may still be carried out: absence does not last until that is over."""
    reachable_since_ms: int | None = None
    """For how long the system has been answering since the doubt arose (monotonic)."""

    def shows(self, wish: SystemReservation, clock_s: int) -> bool:
        """Whether the system has exactly `wish`; of what has begun, the start is history."""
        found = self.found
        if not self.seen or found is None or found.broken or found.users != wish.users:
            return False
        # Clocks are told in whole seconds: by its own it may be a second later.
        begun = max(found.start, wish.start) <= clock_s + 1
        same_start = found.start == wish.start or begun
        return same_start and found.end == wish.end and found.has_room_of(wish)

    def tells_parts(self) -> bool:
        """Whether it is told how many cores of each node there are, and not their sum alone."""
        return self.found is not None and len(self.found.cores) in (0, len(self.found.nodes))


class GrantStored(SiteFact, frozen=True):
    """Fact: the grant of this number is now as in `body` (see `decode_grant`)."""

    number: int
    body: bytes


class GrantDropped(SiteFact, frozen=True):
    """Fact: the batch system has nothing of this number any more, and never will."""

    number: int


_ENCODER = msgspec.msgpack.Encoder()

decode_grant: Final = msgspec.msgpack.Decoder(NodeGrant).decode
"""Return the grant of `stored`; raises `msgspec.DecodeError` for bytes that are none."""


def stored(grant: NodeGrant) -> GrantStored:
    """Return the fact that `grant` is as it is now."""
    return GrantStored(grant.number, _ENCODER.encode(grant))
