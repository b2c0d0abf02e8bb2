"""The accounts of slots: each change of a grant is counted, from the moment when its claim is locked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kalends.backends.records import FinishedJob, SystemState
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.extents import Extent
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.slots import (
    KEPT_NUMBERS_MAX,
    ReservedSlot,
    SlotDropped,
    SlotsClosed,
    slot_stored,
)


@dataclass(eq=False)
class SlotAccounts:
    """The slots to which jobs may still be added, by name; every change of one is stored."""

    grants: GrantTable
    outbox: ParticipantOutbox
    _slots: dict[str, ReservedSlot] = field(init=False, default_factory=dict)

    def restore(self, slots: Iterable[ReservedSlot]) -> None:
        """Take over `slots` as they were stored."""
        self._slots = {each.name: each for each in slots}

    def carry_on(self, now: Moment) -> None:
        """Count what this step has changed."""
        for grant in self.grants.take_touched():
            self._compare(grant, now.wall_s)

    def _compare(self, grant: NodeGrant, now_s: int) -> None:
        slot, locked = self._slots.get(grant.name), self._locked(grant)
        if locked is None:
            if slot is not None:
                self._end(slot, now_s)
            return
        stake, extent = locked
        if slot is None:
            # What it takes the place of has counted until now.
            begin = max(extent.start, now_s) if stake.replaces else extent.start
            slot = self._slots[grant.name] = ReservedSlot(
                name=grant.name, system=self.grants.backends[grant.resource].system,
                resource=grant.resource, rid=stake.rid, user=stake.principal.user, account=grant.user,
                start=begin, end=extent.end, nodes=len(extent.nodes), since=begin,
                first_rid=self._changed(stake.replaces),
            )  # fmt: skip
        elif (slot.rid, slot.end, slot.nodes) == (stake.rid, extent.end, len(extent.nodes)) and (
            slot.start == extent.start or slot.start < now_s
        ):
            return
        if slot.rid != stake.rid:
            slot.first_rid, slot.rid = slot.reservation, stake.rid
            slot.user, slot.account = stake.principal.user, grant.user
        slot.reserve(extent, now_s)
        self.outbox.store(slot_stored(slot))

    def _changed(self, rid: str) -> str:
        """Return the id that the user knows of a reservation which a change takes the place of; "" for none.

        Changed requests are forgotten some time, so what is known of its slot counts first.
        """
        while rid:
            for slot in self._slots.values():
                if slot.rid == rid:
                    return slot.reservation
            stake = self.grants.book.stakes.peek(rid)
            if stake is None or not stake.replaces:
                return rid
            rid = stake.replaces
        return ""

    def _locked(self, grant: NodeGrant) -> tuple[Stake, Extent] | None:
        """Return the reservation that has what `grant` keeps, and what it has of it."""
        book = self.grants.book
        for rid in dict.fromkeys((grant.rid, book.changer_of(grant.rid))):
            stake = book.stakes.peek(rid) if rid else None
            for claim in stake.claims if stake is not None else ():
                if claim.state == "locked" and claim.hold_id in grant.needs:
                    assert stake is not None
                    return stake, grant.needs[claim.hold_id]
        return None

    def _end(self, slot: ReservedSlot, now_s: int) -> None:
        if slot.end <= now_s:
            return
        slot.give_back(now_s)
        if slot.end > slot.start:
            self.outbox.store(slot_stored(slot))
        else:
            del self._slots[slot.name]
            self.outbox.store(SlotDropped(slot.name))

    # Which jobs are in which slot

    def number(self, state: SystemState) -> None:
        """Note by which numbers the accounting of a system will call slots."""
        for number, name in state.numbers:
            slot = self._slots.get(name)
            if slot is not None and number not in slot.numbers:
                slot.numbers = (*slot.numbers, number)[-KEPT_NUMBERS_MAX:]
                self.outbox.store(slot_stored(slot))

    def of_system(self, system: str) -> Iterator[ReservedSlot]:
        """Yield its slots of whole nodes: what jobs used of cores and licences is not told."""
        backends = self.grants.backends
        for each in self._slots.values():
            backend = backends.get(each.resource)
            if each.system == system and (backend is None or backend.unit == "nodes"):
                yield each

    def slot_of(self, system: str, job: FinishedJob) -> ReservedSlot | None:
        """Return the slot of `system` in which `job` ran; None if it was in none of ours."""
        if not job.reservation:
            return None
        return next((each for each in self.of_system(system) if each.holds(job)), None)

    def forget(self, system: str, before_s: int) -> None:
        """Forget slots that were over before that time: no job is added to them any more."""
        slots = self._slots.values()
        over = [each.name for each in slots if each.system == system and each.end <= before_s]
        for name in over:
            del self._slots[name]
        if over:
            self.outbox.store(SlotsClosed(system, before_s))
