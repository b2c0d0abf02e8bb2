"""A site's record of one request: its stake, with its claims, and the facts that are stored of it.

A stake is stored whole whenever something durable about it changes; the newest stored form is the
truth after a restart. Claims that are only held are left out, for a restart loses holds; but not those
that wait for their owner's word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kalends.contract.messages import Chosen, Part, Want
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.bills import Bill
from kalends.resource_servers.participation.claims.petitions import Petition
from kalends.resource_servers.participation.claims.transitions import (
    DURABLE,
    ClaimEvent,
    ClaimState,
    next_state,
)
from kalends.resource_servers.participation.effects import SiteFact


class Claim(msgspec.Struct, gc=False):
    """`units` of `resource` during ``[start, end)``; `hold_id` is its fence number, never reused.

    Claims of one stake with different `common` starts are alternatives: at most one common start is
    ever promised, and until then only as much is booked as the one that needs most at each instant.
    For `gap_s` after its end the owner keeps the units free: it is booked, and nobody's.
    """

    hold_id: int
    resource: str
    start: int
    end: int
    units: int
    state: ClaimState = "absent"
    common: int = 0
    gap_s: int = 0

    @property
    def want(self) -> Want:
        """The slot and its units, as a visit asks for them."""
        return Want(self.resource, self.start, self.end, self.units)

    def move(self, event: ClaimEvent) -> None:
        """Take `event` by the table of transitions; raises `IllegalEvent` and stays as it was."""
        self.state = next_state(self.state, event)


def claims_of(wants: Iterable[Want]) -> list[Claim]:
    """Return `wants` as claims without a hold, to be compared with others."""
    return [Claim(0, want.resource, want.start, want.end, want.units) for want in wants]


class SlotLack(msgspec.Struct, frozen=True, gc=False):
    """Since `at` (seconds UTC), `nodes` units of slots that have begun cannot be used; 0: all can again.

    It was reported to brokers under `number`; `noted` once they have noted that.
    """

    number: int
    nodes: int
    at: int
    why: str = ""
    noted: bool = False


class Stake(msgspec.Struct, gc=False):
    """One request at this site.

    `att` is the highest attempt seen; `refused` the highest attempt that was durably refused (every
    message of it or below is stale). `chosen` is set by a commit. `replaces` names the reservation
    that this one takes the place of once it is committed.
    """

    rid: str
    att: int
    principal: Principal
    secret: str
    need: int
    parts: tuple[Part, ...]
    coords: tuple[str, ...]
    claims: list[Claim]
    refused: int = 0
    chosen: Chosen | None = None
    replaces: str = ""
    stamp: int = 0
    """The request's: smaller is older."""
    ends_at: int = 0
    """Latest end of any slot it ever asked for here: the record is needed until then."""
    register: str = ""
    """The register that made it; "" for a session that asked before its Welcome, until it has said."""
    proofs: dict[str, str] = {}
    """For each other site of a committed request, the proof of the commit there."""
    warrant: str = ""
    """What proves to the register that it has committed this, or cancelled it since."""
    once: bool = False
    """It is a place of a job that is to start at most once."""
    jobs: dict[str, JobRequest] = {}
    """What is to run in its slots, by machine, and is not submitted there yet."""
    petition: Petition | None = None
    """What of it was put before the owner, and what was said."""
    used: tuple[Want, ...] = ()
    """What had passed of it when it was cancelled or replaced, beyond what took its place: it counts."""
    passed: tuple[Want, ...] = ()
    """Used part of the reservation that it replaces, at the promise and beyond its own slots: it counts."""
    nodes_out: dict[str, SlotLack] = {}
    """By resource, what cannot be used of its slots that have begun: as it was reported last."""
    bill: Bill | None = None
    """What it costs; None: nothing."""
    came_at: int = 0
    """When its user checked in last (seconds UTC); 0: not yet."""

    def claims_in(self, state: ClaimState) -> list[Claim]:
        return [claim for claim in self.claims if claim.state == state]

    def has(self, state: ClaimState) -> bool:
        return any(claim.state == state for claim in self.claims)

    @property
    def keeps_holds(self) -> bool:
        """Whether what it holds is durable: it waits for the owner's word, or has it.

        Of alternatives that an agent holds, none is before the owner yet.
        """
        chosen = len({claim.common for claim in self.claims}) <= 1
        return self.petition is not None and self.petition.stands and chosen

    @property
    def decided(self) -> bool:
        """A commit of this request was applied here (it may have been cancelled since)."""
        return self.chosen is not None


class StakeStored(SiteFact, frozen=True):
    """Fact: the stake of `rid` is now as in `body` (see `decode_stake`); `event` says what did it."""

    rid: str
    event: str
    ends_at: int
    body: bytes


class StakeDropped(SiteFact, frozen=True):
    """Fact: nothing of `rid` is needed here any more (its slots have ended)."""

    rid: str


class StakeForgotten(SiteFact, frozen=True):
    """Fact: all sites that `rid` chose have locked it, so that nobody will ask this one about it."""

    rid: str


class TimeClosed(SiteFact, frozen=True):
    """Fact: no claim that ends at or before `horizon_s` (UTC seconds) is taken any more.

    It lies in the past. Should it prove not to, because a clock was ahead for weeks, it comes down.
    """

    horizon_s: int


_ENCODER = msgspec.msgpack.Encoder()

decode_stake: Final = msgspec.msgpack.Decoder(Stake).decode
"""The inverse of `stored`; raises `msgspec.DecodeError` for bytes that are no stake."""


def stored(stake: Stake, event: str) -> StakeStored:
    """The fact that `stake` is as it is now; a copy, so that later changes do not reach it."""
    durable = DURABLE | {"held"} if stake.keeps_holds else DURABLE
    if any(claim.state not in durable for claim in stake.claims):
        kept = [claim for claim in stake.claims if claim.state in durable]
        stake = msgspec.structs.replace(stake, claims=kept)
    return StakeStored(stake.rid, event, stake.ends_at, _ENCODER.encode(stake))


def register_mark(register: str) -> bytes:
    """What the bytes of every stake of `register` hold, and hardly any others."""
    return _ENCODER.encode("register") + _ENCODER.encode(register)
