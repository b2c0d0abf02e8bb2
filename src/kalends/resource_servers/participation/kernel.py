"""The parts that the booking kernel of a site hands to its wings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission, ParticipantLimits
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.consent import Consent
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite


class Ground(NamedTuple):
    """The parts that are made before admission; stored claims are booked by then."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    recovery: Recovery
    outbox: ParticipantOutbox
    limits: Callable[[], ParticipantLimits]
    """As they are now: their owner may change them."""
    settle: Callable[[Moment], None]
    """Ends a step of a wing's own: what it has freed finds takers."""
    now: Moment


class Kernel(NamedTuple):
    """The parts from which wings are made."""

    ground: Ground
    then: Consequences
    registers: Registers
    numbers: FenceNumbers
    jitter: Callable[[], float]
    admission: Admission
    attempts: LiveAttempts
    room: FreeRoom
    kept: KeptRoom
    """Room that no claim has booked."""


class Wing(Protocol):
    """Parts that stand and fall together, behind one name."""

    @property
    def plugs(self) -> tuple[Plug, ...]: ...


MakeConsent = Callable[[Ground], Consent]
MakeWing = Callable[[Kernel], Wing]
