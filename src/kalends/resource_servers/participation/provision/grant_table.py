"""The grants of a site: which nodes each has, and the room that they take on the calendars.

Nothing here speaks to a batch system, and nothing waits. A grant takes room for all that the system may have
under its name (`NodeGrant.outer`): what its claims have not booked of that is kept beside them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kalends.backends.names import name_of
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.claims.occupancy import Piece, pieces_beyond
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.extents import Extent, envelope
from kalends.resource_servers.participation.provision.foreign_room import ForeignRoom
from kalends.resource_servers.participation.provision.grants import GrantDropped, NodeGrant, stored
from kalends.resource_servers.participation.provision.node_map import choose, fragments
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite


@dataclass(eq=False)
class GrantTable:
    """Grants by number, and by the claims that they serve; every change of one is stored."""

    here: ThisSite
    book: ClaimTable
    outbox: ParticipantOutbox
    backends: Mapping[str, ResourceBackend]
    """By resource."""
    numbers: FenceNumbers
    room: KeptRoom
    foreign: ForeignRoom
    life: str
    """The life of the site; it is part of the names that the site gives."""
    _grants: dict[int, NodeGrant] = field(init=False, default_factory=dict)
    _by_claim: dict[int, NodeGrant] = field(init=False, default_factory=dict)
    _by_rid: defaultdict[str, dict[int, NodeGrant]] = field(
        init=False, default_factory=lambda: defaultdict(dict)
    )
    _short: dict[str, None] = field(init=False, default_factory=dict)
    """Reservations for whose grants not all room is kept."""
    _touched: dict[int, NodeGrant] = field(init=False, default_factory=dict)
    """Grants that this step has changed, or whose claims it has locked."""

    def __iter__(self) -> Iterator[NodeGrant]:
        """Yield all grants, as they are now."""
        return iter(list(self._grants.values()))

    def restore(self, grants: Iterable[NodeGrant]) -> None:
        """Take over `grants` as they were stored; what no durable claim needs was never promised."""
        for grant in grants:
            if grant.resource not in self.backends:
                continue
            durable = self._durable_claims(grant)
            grant.needs = {claim: each for claim, each in grant.needs.items() if claim in durable}
            self._add(grant)
            self._touched[grant.number] = grant
        for root in dict.fromkeys(self._root(grant.rid) for grant in self):
            self._keep_most(root)

    def _durable_claims(self, grant: NodeGrant) -> Collection[int]:
        stakes = [
            self.book.stakes.peek(rid) for rid in (grant.rid, self.book.changer_of(grant.rid))
        ]
        return {
            claim.hold_id
            for stake in stakes
            if stake is not None
            for claim in stake.claims
            if claim.state in ("prepared", "locked")
        }

    def take_touched(self) -> list[NodeGrant]:
        """Return the grants that were changed, or whose claims were locked, since the last call."""
        touched, self._touched = self._touched, {}
        return list(touched.values())

    def get(self, number: int) -> NodeGrant | None:
        return self._grants.get(number)

    def by_claim(self, hold_id: int) -> NodeGrant | None:
        """Return the grant that serves the claim of this number, if there is one."""
        return self._by_claim.get(hold_id)

    def unserved(self, since: int) -> Sequence[str]:
        """Return requests that have claims after `since`, and no grant for them: it is lost, it seems."""
        found = {
            booking.reservation: None
            for resource in self.backends
            for booking in self.book.calendars[resource].calendar.listing(since, TIME_S_MAX)
            if booking.state != "held" and booking.id not in self._by_claim
        }
        return [rid for rid in found if self.book.stakes.peek(rid) is not None]

    def of_system(self, system: str) -> list[NodeGrant]:
        return [grant for grant in self if self.backends[grant.resource].system == system]

    def outers(self, resource: str, *, but: NodeGrant | None = None) -> list[Extent]:
        """Return what the system may have for all grants on `resource`."""
        return [each.outer for each in self if each.resource == resource and each is not but]

    def fragments(
        self, resource: str, since: int, until: int, length_s: int
    ) -> list[tuple[int, int, int]]:
        """Return when how many units are free, and not for `length_s` in one piece: see `node_map`."""
        backend = self.backends.get(resource)
        if backend is None or not length_s:
            return []
        taken = [*self.outers(resource), *self.foreign.found.get(resource, ())]
        gap_s = backend.traits.gap_s
        return fragments(backend.room, taken, since, until, length_s, gap_s=gap_s)

    # Serving claims

    def free_nodes(
        self, resource: str, start: int, end: int, units: int, *, but: NodeGrant | None = None,
        kept: Collection[str] = (),
    ) -> tuple[str, ...] | None:  # fmt: skip
        """Return nodes that neither a grant nor anybody else has then; in `kept` first, unwell ones last.

        What others have over `but` does not count: it is there in any case.
        """
        backend = self.backends[resource]
        others = self.foreign.found if but is None else self.foreign.extents
        taken = [*self.outers(resource, but=but), *others.get(resource, ())]
        room = {**Counter(kept), **backend.room}
        unwell = self.foreign.unwell.get(resource, ())
        return choose(
            room, taken, start, end, units, gap_s=backend.traits.gap_s, kept=kept, avoided=unwell
        )

    def other_nodes(self, grant: NodeGrant, wanted: Extent) -> tuple[str, ...] | None:
        """Return nodes that the system can give for all of `wanted`, as far as is known; None for too few."""
        foreign, resource = self.foreign, grant.resource
        backend = self.backends[resource]
        taken = [*self.outers(resource, but=grant), *foreign.found.get(resource, ())]
        unwell = foreign.unwell.get(resource, ())
        return choose(
            backend.room, taken, wanted.start, wanted.end, len(wanted.nodes),
            gap_s=backend.traits.gap_s, kept=foreign.well(resource, wanted.nodes), avoided=unwell,
        )  # fmt: skip

    def begin(self, stake: Stake, claim: Claim, nodes: tuple[str, ...]) -> NodeGrant | None:
        """Serve `claim` with a grant of its own; return None where its room is not free any more."""
        number = self.numbers.new()
        extent = Extent(claim.start, claim.end, nodes)
        grant = NodeGrant(
            number=number,
            name=name_of(self.here.name, self.life, number),
            resource=claim.resource,
            rid=stake.rid,
            user=self.backends[claim.resource].users[stake.principal.user],
            outer=extent,
            needs={},
        )
        self._add(grant)
        return grant if self.serve(grant, claim.hold_id, extent) else None

    def serve(self, grant: NodeGrant, claim: int, extent: Extent) -> bool:
        """Have `grant` serve this claim, too; return False, and change nothing, where there is no room."""
        before = grant.outer
        grant.needs[claim] = extent
        grant.outer = envelope((before, extent))
        if self.keep_room(self._root(grant.rid)):
            self._by_claim[claim] = grant
            self._store(grant)
            return True
        del grant.needs[claim]
        grant.outer = before
        if not grant.needs:
            self._remove(grant)
        self.keep_room(self._root(grant.rid))
        return False

    def leave(self, rid: str, claims: Iterable[Claim], *, heir: str = "") -> list[NodeGrant]:
        """End the needs of `claims` of `rid`; return the grants that served them.

        Those that serve others still are of the request `heir` from now on, if there is one.
        """
        left = []
        for claim in claims:
            grant = self._by_claim.pop(claim.hold_id, None)
            if grant is not None:
                del grant.needs[claim.hold_id]
                if heir and grant.needs:
                    self._give_to(grant, heir)
                self._store(grant)
                left.append(grant)
        # What was kept for the old is given up first.
        for root in dict.fromkeys(self._root(each) for each in (rid, *(each.rid for each in left))):
            self._keep_most(root)
        return left

    def locked(self, stake: Stake) -> None:
        """Note that the claims of `stake` are locked now."""
        for claim in stake.claims:
            grant = self._by_claim.get(claim.hold_id)
            if grant is not None:
                self._touched[grant.number] = grant

    def take_over(self, stake: Stake) -> None:
        """Give to the committed `stake` the grants that it has shared with what it replaces."""
        self.locked(stake)
        for claim in stake.claims:
            grant = self._by_claim.get(claim.hold_id)
            if grant is not None and grant.rid != stake.rid:
                self._give_to(grant, stake.rid)
                self._store(grant)
        self._keep_most(stake.replaces)
        self._keep_most(stake.rid)

    # What the system may have

    def move(self, grant: NodeGrant, nodes: tuple[str, ...], *, surely_absent: bool) -> bool:
        """Serve the claim of `grant` with other `nodes`; return False, and change nothing, without room.

        Unless the system surely has nothing of it, what it may have had takes room still.
        """
        ((claim, need),) = grant.needs.items()
        before = grant.outer
        grant.needs[claim] = need._replace(nodes=nodes)
        grant.outer = grant.needs[claim]
        if not surely_absent:
            grant.outer = envelope((before, grant.outer))
        if self.keep_room(self._root(grant.rid)):
            self._store(grant)
            return True
        grant.needs[claim], grant.outer = need, before
        self.keep_room(self._root(grant.rid))
        return False

    def shrink(self, grant: NodeGrant, extent: Extent) -> None:
        """Note that the system was seen to have no more than `extent`: what is beyond is free."""
        if grant.outer != extent:
            grant.outer = extent
            self._store(grant)
            self._keep_most(self._root(grant.rid))

    def drop(self, grant: NodeGrant) -> None:
        """Note that the system has nothing of it any more, and never will."""
        self.outbox.store(GrantDropped(grant.number))
        root = self._root(grant.rid)
        self._remove(grant)
        for claim in grant.needs:
            del self._by_claim[claim]
        self._keep_most(root)

    def keep_room(self, root: str) -> bool:
        """Keep what the grants of a reservation may have beyond what its claims have booked.

        Return False, and keep nothing, where that is not free.
        """
        self._short.pop(root, None)
        return self.room.keep(("grants", root), "", root, self._beyond(root))

    def catch_up(self) -> None:
        """Keep what there was no room for before."""
        for root in list(self._short):
            self._keep_most(root)

    def _keep_most(self, root: str) -> None:
        """Keep room as far as nobody holds it, who will be refused there.

        A change that only holds has counted on the room of the old, which has gone, while the system has
        not given it up yet.
        """
        if not self.keep_room(root):
            self.room.keep_most(("grants", root), "", root, self._beyond(root))
            self._short[root] = None

    def _beyond(self, root: str) -> Sequence[Piece]:
        family = {root, self.book.changer_of(root)} - {""}
        outers = [
            Claim(
                each.number, each.resource, each.outer.start, each.outer.end, len(each.outer.nodes)
            )
            for rid in sorted(family)
            for each in self._by_rid.get(rid, {}).values()
        ]
        return pieces_beyond(outers, self.book.booked(family)) if outers else ()

    def _root(self, rid: str) -> str:
        """Return under whose id room is kept: while a change is under way, that of the old reservation."""
        stake = self.book.stakes.peek(rid)
        if stake is not None and stake.replaces and self.book.changer_of(stake.replaces) == rid:
            return stake.replaces
        return rid

    def _store(self, grant: NodeGrant) -> None:
        self._touched[grant.number] = grant
        self.outbox.store(stored(grant))

    def _add(self, grant: NodeGrant) -> None:
        self._grants[grant.number] = self._by_rid[grant.rid][grant.number] = grant
        for claim in grant.needs:
            self._by_claim[claim] = grant

    def _give_to(self, grant: NodeGrant, rid: str) -> None:
        self._remove(grant)
        grant.rid = rid
        if (stake := self.book.stakes.peek(rid)) is not None:
            # A reservation that is handed over is another user's.
            accounts = self.backends[grant.resource].users
            grant.user = accounts.get(stake.principal.user, grant.user)
        self._grants[grant.number] = self._by_rid[rid][grant.number] = grant

    def _remove(self, grant: NodeGrant) -> None:
        del self._grants[grant.number], self._by_rid[grant.rid][grant.number]
        if not self._by_rid[grant.rid]:
            del self._by_rid[grant.rid]
