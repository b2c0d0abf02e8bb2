"""A site's store in memory, in the plainest way: what any store of a site has to answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kalends.batch.journal.contract import (
    Cursor,
    JobEntries,
    JobOver,
    ReservedTime,
    ReservedUse,
    StoredHost,
    StoredState,
    UserUse,
)
from kalends.batch.queue.facts import JournalEntry
from kalends.contract.history_calls import PastBy, SlotProject, SlotUser
from kalends.core.limits import TIME_S_MAX
from kalends.notices.delivery import DeliveriesDone, Delivery, StoredDeliveries
from kalends.resource_servers.journal.contract import Setting, SlotCursor, SlotUse
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeDropped,
    StakeForgotten,
    StakeStored,
    TimeClosed,
    decode_stake,
)
from kalends.resource_servers.participation.credits.entries import CreditEntry, decode_entry
from kalends.resource_servers.participation.effects import EntriesFolded, EntryStored
from kalends.resource_servers.participation.memory.past import RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.provision.grants import (
    GrantDropped,
    GrantStored,
    NodeGrant,
    decode_grant,
)
from kalends.resource_servers.participation.provision.slots import (
    JobsRead,
    KnownSlots,
    ReservedSlot,
    SlotDropped,
    SlotJob,
    SlotsClosed,
    SlotStored,
    decode_slot,
)
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    ReclaimStored,
    decode_reclaim,
)
from kalends.resource_servers.participation.registers import (
    KnownRegister,
    RegisterStored,
    decode_register,
)

T = TypeVar("T")

END_OF: dict[PastBy, Callable[[JobOver], int]] = {
    "over": lambda job: job.over,
    "submitted": lambda job: job.submitted,
    "ran": lambda job: job.over,
}


class JournalTwin:
    """All that was stored, and the answers of `Journal`, `JobJournal` and `SiteHistory`."""

    def __init__(self) -> None:
        self.stakes: dict[str, Stake] = {}
        """The oldest fact first."""
        self.dropped: set[str] = set()
        self.forgotten: set[str] = set()
        self.settings: dict[str, int] = {}
        self.passed = TimePassed()
        self._reclaims: dict[str, Reclaimed] = {}
        self._registers: dict[str, KnownRegister] = {}
        self._grants: dict[int, NodeGrant] = {}
        self._slots: dict[str, ReservedSlot] = {}
        self._open: set[str] = set()
        self._slot_jobs: dict[tuple[str, str, int], SlotJob] = {}
        self._read_until: dict[str, int] = {}
        self.entries: defaultdict[str, list[JournalEntry]] = defaultdict(list)
        self._jobs: dict[tuple[str, int], JobOver] = {}
        self._reserved: dict[tuple[str, str, int, int], ReservedTime] = {}
        self.states: dict[str, StoredState] = {}
        self._hosts: dict[str, StoredHost] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._credits: dict[str, CreditEntry] = {}

    # Writing

    def store(self, operation: Any) -> None:
        match operation:
            case StakeStored():
                self.stakes.pop(operation.rid, None)
                self.stakes[operation.rid] = decode_stake(operation.body)
            case StakeDropped():
                self.stakes.pop(operation.rid, None)
                self.forgotten.discard(operation.rid)
                self.dropped.add(operation.rid)
            case StakeForgotten():
                self.forgotten.add(operation.rid)
            case ReclaimStored():
                self._reclaims[operation.key] = decode_reclaim(operation.body)
            case ReclaimDropped():
                self._reclaims.pop(operation.key, None)
            case RegisterStored():
                self._registers[operation.register] = decode_register(operation.body)
            case GrantStored():
                self._grants[operation.number] = decode_grant(operation.body)
            case GrantDropped():
                self._grants.pop(operation.number, None)
            case TimeClosed():
                self.settings["horizon_s"] = operation.horizon_s
            case RecoveryChanged():
                self.settings["recovering"] = int(operation.on)
            case TimePassed():
                self.passed = operation
            case Setting():
                self.settings[operation.name] = operation.value
            case _:
                self._store_of_a_wing(operation)

    def _store_of_a_wing(self, operation: Any) -> None:
        match operation:
            case SlotStored():
                self._slots[operation.name] = decode_slot(operation.body)
                self._open.add(operation.name)
            case SlotDropped():
                self._slots.pop(operation.name, None)
                self._open.discard(operation.name)
            case SlotsClosed():
                for slot in self._slots.values():
                    if slot.system == operation.system and slot.end <= operation.before:
                        self._open.discard(slot.name)
            case JobsRead():
                self._read_until[operation.system] = operation.until
                for each in operation.jobs:
                    key = (operation.system, each.job.id, each.job.start)
                    self._slot_jobs[key] = each
            case JobEntries():
                self.entries[operation.machine] += operation.entries
            case JobOver():
                self._jobs[operation.machine, operation.number] = operation
            case ReservedTime():
                key_of_slot = (operation.booked_start, operation.booked_end)
                self._reserved[operation.machine, operation.reservation, *key_of_slot] = operation
            case StoredState():
                self.states[operation.machine] = operation
            case StoredHost():
                self._hosts[operation.machine] = operation
            case Delivery():
                self._deliveries[operation.id] = operation
            case EntryStored():
                self._credits[operation.key] = decode_entry(operation.body)
            case EntriesFolded():
                for key in operation.keys:
                    del self._credits[key]
                for each in operation.carried:
                    self.store(each)
            case DeliveriesDone():
                for name in operation.ids:
                    self._deliveries.pop(name, None)
            case _:
                raise AssertionError(operation)

    # What a life begins with

    def hosts(self) -> list[StoredHost]:
        return [self._hosts[machine] for machine in sorted(self._hosts)]

    def reclaims(self) -> list[Reclaimed]:
        return [self._reclaims[key] for key in sorted(self._reclaims)]

    def registers(self) -> list[KnownRegister]:
        return [self._registers[key] for key in sorted(self._registers)]

    def grants(self) -> list[NodeGrant]:
        return [self._grants[key] for key in sorted(self._grants)]

    def credits(self) -> list[CreditEntry]:
        return sorted(self._credits.values(), key=lambda entry: (entry.number, entry.key))

    def known_slots(self) -> KnownSlots:
        return KnownSlots(
            tuple(self._slots[name] for name in sorted(self._open)), dict(self._read_until)
        )

    def deliveries(self) -> StoredDeliveries:
        return StoredDeliveries(list(self._deliveries.values()), [])

    # History

    def job(self, machine: str, number: int) -> JobOver | None:
        return self._jobs.get((machine, number))

    def newest(self, machine: str, user: str, before: int, count: int) -> list[JobOver]:
        found = [job for job in self._jobs_of(machine, user) if not before or job.number < before]
        return sorted(found, key=lambda job: -job.number)[:count]

    def jobs(
        self, machine: str, user: str, by: PastBy, start: int, end: int, after: Cursor, count: int
    ) -> list[JobOver]:
        place = END_OF[by]
        found = [
            job
            for job in self._jobs_of(machine, user)
            if (
                job.started and start < job.over and job.started < end
                if by == "ran"
                else start <= place(job) < end
            )
            and (place(job), job.number) > after
        ]  # fmt: skip
        return sorted(found, key=lambda job: (place(job), job.number))[:count]

    def use(self, machine: str, user: str, start: int, end: int) -> list[UserUse]:
        found = [job for job in self._jobs_of(machine, user) if start <= job.over < end]
        groups = _grouped(found, lambda job: (job.user, job.request.project))
        rows = [
            UserUse(
                *key,
                len(jobs),
                sum(job.node_seconds for job in jobs),
                sum(job.ending.cpu_s for job in jobs if job.ending),
                sum(job.credit_seconds for job in jobs),
            )
            for key, jobs in groups
        ]
        return sorted(rows, key=lambda row: (-row.node_seconds, row.user, row.project))

    def reserved(
        self, machine: str, user: str, start: int, count: int, *, end: int = TIME_S_MAX
    ) -> list[ReservedTime]:
        found = [
            each
            for each in self._reserved.values()
            if each.machine == machine
            and user in ("", each.user)
            and each.end > start
            and each.start < end
            and each.end > each.start
        ]
        return sorted(found, key=lambda each: (each.end, each.reservation, each.booked_start))[
            :count
        ]

    def reserved_use(self, machine: str, user: str, start: int, end: int) -> list[ReservedUse]:
        found = [
            each
            for each in self._reserved.values()
            if each.machine == machine
            and user in ("", each.user)
            and start <= each.end < end
            and each.end > each.start
        ]
        return [
            ReservedUse(
                name,
                len(rows),
                sum(each.nodes * (each.end - each.start) for each in rows),
                sum(each.credit_seconds for each in rows),
            )
            for name, rows in _grouped(found, lambda each: each.user)
        ]

    def slots(
        self, resource: str, user: str, start: int, end: int, after: SlotCursor, count: int
    ) -> list[SlotUse]:
        found = sorted(self._slots_of(resource, user, start, end), key=lambda s: (s.end, s.name))
        behind = [slot for slot in found if (slot.end, slot.name) > after]
        return [self._use_of(slot) for slot in behind[:count]]

    def slot_users(self, resource: str, user: str, start: int, end: int) -> tuple[SlotUser, ...]:
        found = [self._use_of(slot) for slot in self._slots_of(resource, user, start, end)]
        return tuple(
            SlotUser(
                user=name,
                slots=len(uses),
                reserved=sum(use.slot.node_seconds for use in uses),
                jobs=sum(use.jobs for use in uses),
                used=sum(use.used for use in uses),
            )
            for name, uses in _grouped(found, lambda use: use.slot.user)
        )

    def slot_projects(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotProject, ...]:
        slots = {slot.name: slot for slot in self._slots_of(resource, user, start, end)}
        found = [each for each in self._slot_jobs.values() if each.slot in slots]
        groups = _grouped(found, lambda each: (slots[each.slot].user, each.job.project))
        rows = [
            SlotProject(
                user=key[0],
                project=key[1],
                jobs=len(jobs),
                used=sum(each.job.node_seconds for each in jobs),
            )
            for key, jobs in groups
        ]
        return tuple(sorted(rows, key=lambda row: (row.user, -row.used, row.project)))

    def _jobs_of(self, machine: str, user: str) -> list[JobOver]:
        jobs = self._jobs.values()
        return [job for job in jobs if job.machine == machine and user in ("", job.user)]

    def _slots_of(self, resource: str, user: str, start: int, end: int) -> list[ReservedSlot]:
        return [
            slot
            for slot in self._slots.values()
            if slot.resource == resource and user in ("", slot.user) and start <= slot.end < end
        ]

    def _use_of(self, slot: ReservedSlot) -> SlotUse:
        jobs = [each.job for each in self._slot_jobs.values() if each.slot == slot.name]
        return SlotUse(slot, len(jobs), sum(job.node_seconds for job in jobs))


def _grouped(rows: Iterable[T], key: Callable[[T], Any]) -> list[tuple[Any, Sequence[T]]]:
    groups: defaultdict[Any, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())
