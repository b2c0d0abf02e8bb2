"""Programs that do not run on this host: each attempt has an allocation of a batch system.

Its shepherd is here as ever, with the record, the terminal and the limit; in the place of its program it has
the commands that run it there. An attempt is over once nothing of its allocation is left. Allocations are
known by their names, so that whoever dies when, what is left is found; and what a namesake of the site has
started is left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.allocations import Allocation, Allocator, SystemProgram
from kalends.backends.names import NO_LIFE, Allocated, allocated, allocation_name, some_of
from kalends.backends.passage import Passage
from kalends.batch.job_rights import no_account
from kalends.batch.queue.effects import Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.shepherds.folders import is_name
from kalends.core.errors import InvalidInput, Unavailable
from kalends.core.jobs import JobRequest

AGAIN_S: Final = 1.0
SWEEP_S: Final = 20.0
LEAST_S: Final = 60
"""Batch systems count in minutes."""

LATE_S: Final = 3
"""So much later an allocation may begin than it is asked for."""

BEHIND_S: Final = 60
"""The batch system ends what is left of an attempt so long after its shepherd should have."""

T = TypeVar("T")
Failed = Callable[[str], None]
Told = Callable[[str], None]
"""Hears of programs that only bear our names; "" when there are none."""
Alive = Callable[[], Mapping[str, BatchJob]]
"""Returns the attempts whose jobs have nodes at their queue, with these jobs."""


class SlotNodes(NamedTuple):
    """Nodes and reservations of the batch system for a booking."""

    name: str
    nodes: tuple[str, ...]


@dataclass
class Elsewhere:
    """The allocations of one machine's jobs.

    `nodes` are those of its resource, by their numbers. Where the batch system has a queue of its own for
    them, jobs run in reservations only, which `reserved` knows by their bookings; None: they were handed
    over. In a reservation programs are asked to end `ahead_s` before its end.
    """

    machine: str
    allocator: Allocator
    users: Mapping[str, str]
    nodes: tuple[str, ...]
    reserved: Callable[[int], SlotNodes | None] | None = None
    ahead_s: int = 0
    grace_s: int = 10
    now_s: Callable[[], float] = time.time
    first_life: str = NO_LIFE
    """The first life of the site's store, which stands in the names of all that is ours."""
    _seats: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The nodes of each attempt that may have any."""
    _alive: Alive = dict
    _told: Told = field(default=lambda said: None)
    _older_names: dict[str, str] = field(default_factory=dict)
    """The names without a life of attempts that were begun when names had none."""
    _others: frozenset[str] = frozenset()
    """Nodes where somebody else's programs ran when that was last looked at."""
    _prolonged: set[str] = field(default_factory=set)
    """Attempts whose allocations last as long as they may."""
    _swept: asyncio.Event = field(default_factory=asyncio.Event)

    # What a job may ask for

    def check(self, user: str, job: JobRequest) -> None:
        """Raise `InvalidInput` or `NotAllowed` for a job that cannot run there."""
        self.unix_user(user)
        if job.malleable:
            raise InvalidInput(
                "programs in a batch system cannot change their size",
                where="malleable",
                remedy="submit it with one number of nodes",
            )
        for name in job.environment:
            if name.startswith(self.allocator.own_variables):
                raise InvalidInput(
                    f"{name} is a variable that the batch system sets",
                    where="environment",
                    remedy="leave it out, or set it in the program",
                )
        if self.reserved is not None and not job.reservation:
            raise InvalidInput(
                f"jobs run on {self.machine} in reservations only",
                where="reservation",
                remedy=f"book its nodes (kalends book {self.machine}:{job.nodes} --for ...), and submit "
                "with --reservation; or submit to its own queue, if `kalends resources` lists one (advisory)",
            )

    def unix_user(self, user: str) -> str:
        """Return who runs the jobs of `user` there; raises `NotAllowed`."""
        if user not in self.users:
            raise no_account(user, self.machine)
        return self.users[user]

    # To start

    async def ready(self, failed: Failed) -> None:
        """Return when nothing is left of attempts that are no more, and the system answers."""
        await self._swept.wait()
        # A system that has crashed since may have again what it had given back.
        await _insisted(lambda: self._sweep(failed), failed)

    def passage(self, start: Start, attempt: str) -> Passage:
        """Return the way of an attempt to its nodes; raises `InvalidInput` where it has none."""
        job = start.job
        reservation, nodes = "", tuple(self.nodes[each] for each in start.nodes)
        length_s = self.limit_s(job, job.limit_s) + self.grace_s + BEHIND_S
        if self.reserved is not None:
            found = self.reserved(job.slot)
            if found is None:
                raise InvalidInput("the batch system has no such reservation", where="reservation")
            reservation = found.name
            nodes = self._seats.get(attempt) or self._free_of(found, len(start.nodes))
            left_s = job.slot_end_s - LATE_S - int(self.now_s())
            if left_s < LEAST_S:
                raise InvalidInput(
                    f"{max(left_s, 0)} s of the slot are left, but a batch system counts in minutes",
                    where="reservation",
                )
            # `sweep` prolongs it to its end: to begin, it must be over when others have the nodes.
            length_s = min(length_s, left_s // LEAST_S * LEAST_S)
        self._seats[attempt] = nodes
        asked = job.request
        terminal, merged = asked.terminal and not asked.piped, asked.piped or not asked.error
        return self.allocator.passage(
            Allocation(self._name(attempt), nodes, length_s, reservation, terminal, merged)
        )

    def _free_of(self, found: SlotNodes, count: int) -> tuple[str, ...]:
        """Return nodes of a reservation that no job of ours has; its user may have programs on others."""
        taken = {node for nodes in self._seats.values() for node in nodes}
        free = [node for node in found.nodes if node not in taken]
        if len(free) < count:
            raise InvalidInput(
                f"its reservation has {len(free)} free nodes in the batch system",
                where="reservation",
            )
        return tuple(sorted(sorted(free, key=self._others.__contains__)[:count]))

    def names(self, attempt: str) -> tuple[str, ...]:
        """Return the nodes of an attempt."""
        return self._seats.get(attempt, ())

    def limit_s(self, job: BatchJob, limit_s: int) -> int:
        """Return how long a program runs before it is asked to end: so that it has ended with its slot."""
        if self.reserved is None:
            return limit_s
        return max(min(limit_s, job.slot_end_s - self.ahead_s - job.started_s), 1)

    # To end

    async def prolong(self, job: BatchJob, attempt: str) -> None:
        """Let an allocation last as long as its job may by now; raises `Unavailable`."""
        try:
            await self._prolong(job, attempt)
        except (SystemRefused, SystemSilent) as error:
            raise Unavailable(f"the allocation cannot be extended: {error}") from None

    async def _prolong(self, job: BatchJob, attempt: str) -> None:
        until_s = job.started_s + self.limit_s(job, job.limit_s) + self.grace_s + BEHIND_S
        if self.reserved is not None:
            until_s = min(until_s, job.slot_end_s)
        await self.allocator.prolong(self._name(attempt), self._unix_users(), until_s)

    async def _prolong_once(self, job: BatchJob, attempt: str) -> None:
        if self.reserved is not None and attempt not in self._prolonged:
            await self._prolong(job, attempt)
            self._prolonged.add(attempt)

    async def release(self, attempt: str, failed: Failed) -> None:
        """Return once nothing of an allocation is left, however often that has to be asked for."""
        if attempt not in self._seats:
            # It may have an older name, which is ours only as long as its end was not told.
            await self._swept.wait()
        await _insisted(lambda: self._release(attempt), failed)

    async def _release(self, attempt: str) -> None:
        nodes = self._seats.get(attempt) or self.nodes
        await self.allocator.release(self._name(attempt), self._unix_users(), nodes)

    def forget(self, attempt: str) -> None:
        """Take it that an attempt has no nodes any more, or never had any."""
        self._seats.pop(attempt, None)
        self._older_names.pop(attempt, None)
        self._prolonged.discard(attempt)

    async def sweep(self, alive: Alive, failed: Failed, told: Told) -> None:
        """End what attempts have left there that are not `alive`: now, and for ever.

        `alive` are those whose jobs have nodes. Nothing starts before that was done once.
        """
        self._alive, self._told = alive, told
        self._swept.clear()
        while True:
            try:
                await self._sweep(failed)
                self._swept.set()
            except (SystemRefused, SystemSilent) as error:
                failed(str(error))
            await asyncio.sleep(SWEEP_S if self._swept.is_set() else AGAIN_S)

    async def _sweep(self, failed: Failed) -> None:
        """One round. What does not end keeps its own nodes, in the batch system, and no others."""
        there = await self.allocator.programs()
        # Whoever began since is not among them; whoever has ended since has nothing left.
        living = self._alive()
        self._note_older_names(there, living)
        others = [each for each in there if not self._attempt_of(each)]
        self._others = frozenset(node for each in others for node in each.nodes)
        for each in there:
            attempt = self._attempt_of(each)
            if attempt in living:
                self._seats.setdefault(attempt, each.nodes)
                await self._prolong_once(living[attempt], attempt)
            elif attempt:
                try:
                    await self._release(attempt)
                except (SystemRefused, SystemSilent) as error:
                    failed(f"{each.name} could not be cancelled, and remains: {error}")
                else:
                    self.forget(attempt)
        self._tell_of_namesake([each.name for each in others if self._named(each)])

    def _tell_of_namesake(self, names: Collection[str]) -> None:
        """Say that another site of this name is at work here, or that this one's store was lost."""
        text = (
            f"jobs in the batch system have names of {self.machine}, but its store does not "
            f"list them: {some_of(names)}; "
            "give each site its own name, or cancel the jobs if the store that listed them is lost"
        )
        self._told(text if names else "")

    def _note_older_names(
        self, there: Iterable[SystemProgram], living: Mapping[str, BatchJob]
    ) -> None:
        """Know by its name each living attempt whose name has no life in it."""
        names = {each.name for each in there}
        for each in there:
            found = self._named(each)
            if found is None or found.life or found.attempt not in living:
                continue
            if found.attempt not in self._seats and self._name(found.attempt) not in names:
                self._older_names[found.attempt] = each.name

    def _named(self, program: SystemProgram) -> Allocated | None:
        """Return what the name of a program says, if a site of our name has started it for a user of ours."""
        found = allocated(self.machine, program.name)
        if found is None or not is_name(found.attempt) or program.user not in self._unix_users():
            return None
        return found

    def _attempt_of(self, program: SystemProgram) -> str:
        """Return the attempt of which a program is; "" for one that is not ours."""
        found = self._named(program)
        return found.attempt if found and program.name == self._name(found.attempt) else ""

    def _unix_users(self) -> Collection[str]:
        return set(self.users.values())

    def _name(self, attempt: str) -> str:
        """Return the name under which the batch system knows an attempt."""
        older = self._older_names.get(attempt)
        return older or allocation_name(self.machine, self.first_life, attempt)


async def _insisted(ask: Callable[[], Awaitable[T]], failed: Failed) -> T:
    """Return the answer of a system, however often it has to be asked."""
    told = ""
    while True:
        try:
            return await ask()
        except (SystemRefused, SystemSilent) as error:
            if str(error) != told:
                told = str(error)
                failed(told)
            await asyncio.sleep(AGAIN_S)
