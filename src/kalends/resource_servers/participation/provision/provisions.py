"""Nodes that batch systems grant before a site promises them, and take back after the outcome.

A vote waits for its grants: the claim is `intended` until the system has said yes, and was seen to have just
that. What it refuses, or does not answer, is no vote; what it may have kept nevertheless takes room until it
is surely gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kalends.backends.names import OwnNames
from kalends.backends.records import SystemAnswer
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Base
from kalends.resource_servers.participation.parts import Plug, Tier
from kalends.resource_servers.participation.provision.dangers import Dangers
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.extents import Extent, envelope, in_order
from kalends.resource_servers.participation.provision.foreign_room import ForeignRoom
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.job_import import JobImport
from kalends.resource_servers.participation.provision.mirror import Mirror
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.slot_accounts import SlotAccounts
from kalends.resource_servers.participation.provision.slots import NO_SLOTS, KnownSlots
from kalends.resource_servers.participation.provision.systems import Systems
from kalends.resource_servers.participation.sockets import Decided


class _Intent(NamedTuple):
    """A request whose vote waits for these grants."""

    grants: tuple[NodeGrant, ...]
    then: Decided


class ProvisionTypes(NamedTuple):
    """The classes of its parts; a test replaces one with a broken one."""

    grants: type[GrantTable] = GrantTable
    dangers: type[Dangers] = Dangers
    mirror: type[Mirror] = Mirror


class Provisions:
    """The guard of a site with batch systems: the grants that its claims need."""

    def __init__(
        self,
        base: Base,
        backends: Mapping[str, ResourceBackend],
        grants: Iterable[NodeGrant] = (),
        slots: KnownSlots = NO_SLOTS,
        types: ProvisionTypes = ProvisionTypes(),  # noqa: B008  immutable
    ) -> None:
        """`backends` are by resource; `grants` and `slots` are what was stored."""
        here, past, outbox, now = base.here, base.past, base.outbox, base.now
        names = self._names = OwnNames(here.name, (past.life, *past.ended))
        foreign = ForeignRoom(names, base.book, base.kept)
        self.grants = types.grants(
            here, base.book, outbox, backends, base.numbers, base.kept, foreign, past.life
        )
        errands = Errands(outbox, base.numbers)
        systems = Systems(errands, outbox)
        dangers = types.dangers(
            self.grants, systems, foreign, outbox, base.give_up, base.lacks, base.keep
        )
        self.accounts = SlotAccounts(self.grants, outbox)
        self.mirror = types.mirror(
            self.grants, errands, systems, foreign, dangers, outbox, self.accounts, base.is_sure,
            self._refused,
        )  # fmt: skip
        self.imports = JobImport(errands, systems, self.accounts, outbox)
        self.resources: Collection[str] = backends.keys()
        self.fragments, self.locked = self.grants.fragments, self.grants.locked
        self.resume = dangers.resume
        self._settle = base.settle
        self._intents: dict[str, _Intent] = {}
        self._restore(grants, slots, now)

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return (Plug(Tier.CARRIES, timed=self, settle=self.carry_on, listen=self._listen),)

    def _listen(self, then: Consequences) -> None:
        then.lives_forgotten.add(self._names.remember)

    def _restore(self, grants: Iterable[NodeGrant], slots: KnownSlots, now: Moment) -> None:
        backends = self.grants.backends.values()
        self.mirror.systems.begin(backends, now)
        self.imports.begin(backends, slots.read_until, now)
        self.accounts.restore(slots.slots)
        self.grants.restore(grants)
        self.mirror.restore()
        for rid in self.grants.unserved(now.wall_s):
            stake = self.grants.book.stakes.peek(rid)
            if stake is not None:
                self.make_good(stake)

    def as_of(self, resource: str) -> int:
        backend = self.grants.backends.get(resource)
        return 0 if backend is None else self.mirror.systems.seen_s(backend.system)

    def vote_ms(self) -> int:
        backends = self.grants.backends.values()
        return max((each.answer_ms_max for each in backends), default=0)

    def kept(self, now: Moment) -> tuple[int, int]:
        """Return how many grants the systems keep, and do not keep, as they were seen last."""
        wanted = [grant for grant in self.grants if grant.needs]
        kept = sum(self.mirror.is_settled(grant, now) for grant in wanted)
        return kept, len(wanted) - kept

    def why_not(self, principal: Principal, resources: Iterable[str]) -> Refusal | None:
        for resource in resources:
            backend = self.grants.backends.get(resource)
            if backend is not None and principal.user not in backend.users:
                detail = f"{principal.user} has no account on {backend.system}"
                return self.grants.here.refusal(RefusalCode.NO_ACCOUNT, detail)
        return None

    # Before the promise

    def intend(self, stake: Stake, now: Moment, then: Decided) -> Refusal | None:
        served: list[NodeGrant] = []
        for claim in stake.claims:
            if claim.resource in self.grants.backends:
                found = self._serve(stake, claim, now)
                if isinstance(found, Refusal):
                    self.left(stake.rid, stake.claims)
                    return found
                served.append(found)
        self._intents[stake.rid] = _Intent(tuple(served), then)
        return None

    def _serve(self, stake: Stake, claim: Claim, now: Moment) -> NodeGrant | Refusal:
        """Have a grant serve `claim`: that of what it replaces, where it can grow, or one of its own."""
        here, backend = self.grants.here, self.grants.backends[claim.resource]
        closed = self.mirror.systems.why_not(backend.system, now)
        if closed:
            return here.refusal(RefusalCode.DRAINED, closed)
        grant = self._replaced(stake, claim)
        if grant is not None and self._grow(grant, claim):
            self.mirror.compare(grant)
            return grant
        nodes = self.grants.free_nodes(claim.resource, claim.start, claim.end, claim.units)
        if nodes is None:
            detail = (
                f"no {claim.units} {backend.unit} of {backend.system} are free for the whole time"
            )
            return here.refusal(RefusalCode.BUSY, detail)
        grant = self.grants.begin(stake, claim, nodes)
        if grant is None:
            return here.refusal(RefusalCode.HELD, "its nodes are still being returned")
        self.mirror.begin(grant)
        return grant

    def _replaced(self, stake: Stake, claim: Claim) -> NodeGrant | None:
        """Return the grant of a slot that `claim` is to take the place of, at least in part."""
        old = self.grants.book.stakes.peek(stake.replaces) if stake.replaces else None
        if old is None or not old.has("locked"):
            return None
        for each in old.claims:
            grant = self.grants.by_claim(each.hold_id)
            if grant is None or each.resource != claim.resource or len(grant.needs) > 1:
                continue
            if self.mirror.dangers.is_lost(grant):
                continue
            if grant.needs[each.hold_id].meets(claim.start, claim.end):
                return grant
        return None

    def _grow(self, grant: NodeGrant, claim: Claim) -> bool:
        """Have `grant` serve `claim`, too, on the nodes that it has and more if need be.

        What it has is not asked for again: a node that is down would be refused, and had to be kept.
        """
        (old,) = grant.needs.values()
        window = envelope((old, Extent(claim.start, claim.end, ())))
        units = max(claim.units, len(old.nodes))
        nodes: tuple[str, ...] | None = old.nodes
        if window._replace(nodes=old.nodes) != old or units > len(old.nodes):
            nodes = self.grants.free_nodes(
                claim.resource, window.start, window.end, units, but=grant, kept=old.nodes
            )
        if nodes is None or Counter(old.nodes) - Counter(nodes):
            return False
        unwell = self.grants.foreign.unwell.get(claim.resource, frozenset())
        more = in_order(Counter(nodes) - Counter(old.nodes))
        mine = sorted((*old.nodes, *more), key=unwell.__contains__)[: claim.units]
        extent = Extent(claim.start, claim.end, tuple(sorted(mine)))
        return self.grants.serve(grant, claim.hold_id, extent)

    def _refused(self, grant: NodeGrant, answer: SystemAnswer, now: Moment) -> bool:
        for rid, intent in list(self._intents.items()):
            if grant in intent.grants:
                del self._intents[rid]
                unknown = answer.outcome == "unknown"
                backend = self.grants.backends[grant.resource]
                detail = (
                    f"{backend.system}: {answer.detail or f'it does not keep these {backend.unit}'}"
                )
                code = RefusalCode.DRAINED if unknown else RefusalCode.BUSY
                if answer.no_account:
                    code = RefusalCode.NO_ACCOUNT
                    detail = f"{backend.system} knows no user {grant.user}: {answer.detail}"
                intent.then((self.grants.here.refusal(code, detail),), now)
                return True
        return False

    # After it

    def left(self, rid: str, claims: Iterable[Claim], *, heir: str = "") -> None:
        self._intents.pop(rid, None)
        for grant in self.grants.leave(rid, claims, heir=heir):
            self.mirror.dangers.left(grant)
            self.mirror.compare(grant)

    def take_over(self, stake: Stake, others: Iterable[Claim], replaced: Iterable[Claim]) -> None:
        """Note it, too, of grants that `stake` shared with what it replaces: they are its own now."""
        self.grants.take_over(stake)
        self.left(stake.rid, others)
        self.left(stake.replaces, replaced)

    def make_good(self, stake: Stake) -> None:
        for claim in stake.claims:
            firm = claim.state in ("prepared", "locked")
            backed = firm and claim.resource in self.grants.backends
            if not backed or self.grants.by_claim(claim.hold_id) is not None:
                continue
            nodes = self.grants.free_nodes(claim.resource, claim.start, claim.end, claim.units)
            known = self.why_not(stake.principal, [claim.resource]) is None
            grant = self.grants.begin(stake, claim, nodes) if nodes and known else None
            if grant is not None:
                self.mirror.begin(grant)
            else:
                reservation = self.grants.book.stakes.reservation_of(stake.rid)
                about = f"reservation {reservation} on {claim.resource}"
                told = "it is locked here, but the batch system cannot keep it"
                self.mirror.outbox.report(about, told)

    # Steps

    def answered(self, number: int, answer: SystemAnswer, now: Moment) -> None:
        """Take the answer of a batch system; an errand that is over already changes nothing."""
        self.mirror.errands.answered(number, answer, now)
        self._settle(now)

    def advance(self, now: Moment) -> None:
        self.mirror.advance(now)
        self.imports.advance(now)

    def next_deadline_ms(self) -> int | None:
        times_ms = (self.mirror.next_deadline_ms(), self.imports.next_deadline_ms())
        return min((each for each in times_ms if each is not None), default=None)

    def carry_on(self, now: Moment) -> None:
        """Send what this step has made necessary, and tell those whose grants are all there."""
        self.mirror.carry_on(now)
        for rid, intent in list(self._intents.items()):
            if all(self.mirror.is_settled(grant, now) for grant in intent.grants):
                del self._intents[rid]
                intent.then((), now)
        self.accounts.carry_on(now)
