"""The parts that the booking kernel of a site hands to its wings, in the order in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kalends.core.intervals import Moment
from kalends.resource_servers.participation import sockets
from kalends.resource_servers.participation.admission import Admission, ParticipantLimits
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from kalends.resource_servers.participation.loss_reports import LossReports
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.runs import RunTable
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite


class Base(NamedTuple):
    """The parts that are made before claims; stored claims are booked by then."""

    here: ThisSite
    past: Past
    book: ClaimTable
    kept: KeptRoom
    outbox: ParticipantOutbox
    numbers: FenceNumbers
    jitter: Callable[[], float]
    settle: Callable[[Moment], None]
    """Ends a step of a wing's own: what it has freed finds takers."""
    is_sure: Callable[[], bool]
    """Whether nothing that was promised can be forgotten here."""
    give_up: Callable[[sockets.Unkept, Moment], bool]
    keep: Callable[[int], None]
    given_up: Callable[[str], Sequence[Piece]]
    """These three are those of `PriorClaims`."""
    runs: RunTable
    lacks: Callable[[str, str, int, str, Moment], None]
    """`LossReports.seen`."""
    now: Moment


class Ground(NamedTuple):
    """The parts that are made before admission."""

    base: Base
    claims: Claims
    recovery: Recovery
    retention: Retention
    set_aside: SetAside
    rulings: sockets.Rulings
    guard: sockets.Guard
    losses: LossReports
    room: FreeRoom
    limits: Callable[[], ParticipantLimits]
    """As they are now: their owner may change them."""


class Kernel(NamedTuple):
    """All parts that others are made from."""

    ground: Ground
    then: Consequences
    registers: Registers
    admission: Admission
    attempts: LiveAttempts
    wound_wait: WoundWait


MakeRulings = Callable[[Base], sockets.Rulings]
MakePayments = Callable[[Base], sockets.Payments]
MakeGuard = Callable[[Base], sockets.Guard]
MakeConsent = Callable[[Ground], sockets.Consent]
MakePriorClaims = Callable[[Ground], sockets.PriorClaims]
MakeVisitors = Callable[[Kernel], sockets.Visitors]
MakeWing = Callable[[Kernel], sockets.Wing]
