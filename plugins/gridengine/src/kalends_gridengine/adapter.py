"""Grid Engine by its commands: advance reservations of all slots of named hosts.

Learned from Grid Engine 8.1.9: a name may be given twice, so the adapter looks for it first; nothing is
granted over another reservation, or over a job until a minute after its limit; a grant survives a
crash; hosts that do not answer are reserved nevertheless. A reservation cannot be changed, only recreated,
and its jobs are deleted with it.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.command_runner import CommandRunner, after
from kalends.backends.records import (
    FinishedJob,
    ListFinishedJobs,
    SystemReservation,
    SystemState,
    Traits,
)
from kalends_gridengine import accounts, printed
from kalends_gridengine.printed import AdvanceReservation, MasterClock, Queue

TRAITS: Final = Traits(
    late_write_s=10,
    job_offset_s=60,
    unique_names=False,
    changes_in_place=False,
    asks_jobs=False,
    tells_use=True,
)

COMMAND_S_MAX: Final = 6.0

ACCOUNTS_S_MAX: Final = 60.0
"""Its accounting is one file of all jobs ever, which is read from its beginning."""
LISTED_TIMES_MAX: Final = 5
NUMBERS_AT_ONCE: Final = 5_000
"""The most numbers in one argument of a command."""

PING: Final = 'exec qping -info "$(qconf -sss)" "${SGE_QMASTER_PORT:-6444}" qmaster 1'

_AWAY: Final = re.compile(
    r"commlib|unable to (?:send|contact|receive)|can't (?:connect|open|resolve|get)|cannot open|not found"
    r"|got (?:select|send|read|receive) error|timeout|no response|not running|answer list|critical error"
    r"|no scheduling host",
    re.IGNORECASE,
)
_ABSENT: Final = re.compile(r"does not exist|do not exist|ar_unknown", re.IGNORECASE)


@dataclass(frozen=True)
class GridEngine:
    """The cell whose ``settings.sh`` is `configuration`; "" for that of this host.

    Nodes are the hosts of `queue`; `parallel_environment` is one with ``$fill_up`` that the queue has.
    """

    configuration: str = ""
    queue: str = "all.q"
    parallel_environment: str = "kalends"
    timeout_s: float = COMMAND_S_MAX
    traits: Traits = TRAITS

    async def state(self) -> SystemState:
        """Return everything; raises as `kalends.backends.adapter.Adapter` says, as all of these do."""
        clock, known, held, running, help_ = await asyncio.gather(
            self._clock(),
            self._queues(),
            self._reservations(),
            self._ask("qstat", "-u", "*", "-s", "rs", "-g", "t", "-r", "-xml"),
            self._ask("qstat", "-help"),
        )
        names = {each.number: each.name for each in held}
        in_reservation = await self._names_of(printed.job_numbers(running), names) if names else {}
        return SystemState(
            clock_s=clock.now_s,
            boot_s=clock.boot_s,
            nodes=tuple(sorted(each.node for each in known.values() if not each.is_left_over)),
            reservations=_told(held, known),
            jobs=tuple(printed.running_jobs(running, known, in_reservation)),
            unwell=printed.unwell(
                {name: each for name, each in known.items() if not each.is_left_over},
                just_begun=clock.has_just_begun,
            ),
            version=printed.version(help_),
            numbers=tuple((str(each.number), each.name) for each in held),
        )

    async def find(self, name: str) -> SystemReservation | None:
        """Return the reservation of this name; several of one name are returned as one that is broken."""
        known, held = await asyncio.gather(self._queues(), self._reservations(name))
        return next(iter(_told(held, known)), None)

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation; one whose start has passed begins now."""
        known, clock = await asyncio.gather(self._queues(), self._clock())
        _refuse_unwell(reservation, known, clock)
        await self._submit(reservation, known, clock)

    async def change(self, reservation: SystemReservation) -> None:
        """Replace the reservation of this name by a new one, unless that would delete jobs.

        It is refused without a change if others have reserved its nodes. If Grid Engine refuses the new
        reservation, the old one is restored.
        """
        known, clock, held = await asyncio.gather(
            self._queues(), self._clock(), self._reservations()
        )
        old = [each for each in held if each.name == reservation.name]
        if not old:
            raise SystemRefused("there is no such reservation")
        _refuse_unwell(reservation, known, clock)
        _refuse_reserved(reservation, held)
        if jobs := await self._jobs_in(old):
            raise SystemRefused(f"it cannot be changed while jobs are in it: {_numbers(jobs)[:80]}")
        await self._delete(old)
        try:
            await self._submit(reservation, known, clock)
        except SystemRefused:
            await self._submit(printed.as_told(old[:1], known), known, clock)
            raise

    async def delete(self, name: str) -> None:
        """Delete all reservations of this name, with the jobs in them."""
        if found := await self._reservations(name):
            await self._delete(found)

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Kill the jobs in a reservation; Grid Engine cannot ask them to end."""
        if at_once and (found := await self._reservations(name)):
            jobs = await self._jobs_in(found, states="rs")
            if jobs:
                await self._ask("qdel", _numbers(jobs))

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Return ended jobs of all users."""
        patient = replace(self, timeout_s=max(self.timeout_s, ACCOUNTS_S_MAX))
        known = await self._queues()
        try:
            listing = await patient._ask(*accounts.jobs_command(asked))
        except (SystemRefused, SystemSilent) as error:
            if accounts.NONE in str(error):
                return ()
            raise
        slots = {each.node: each.slots for each in known.values()}
        return tuple(accounts.told_jobs(listing, slots))

    # Parts of the calls above

    async def _clock(self) -> MasterClock:
        return printed.clock(await self._ask("/bin/sh", "-c", PING))

    async def _queues(self) -> dict[str, Queue]:
        listing = await self._ask("qstat", "-f", "-q", self.queue, "-F", "h_rt", "-xml")
        return printed.queues(listing, self.queue)

    async def _reservations(self, name: str = "") -> list[AdvanceReservation]:
        """Return all reservations, or those of one name. Grid Engine shows details only by number."""
        for _ in range(LISTED_TIMES_MAX):
            names = printed.reservation_numbers(await self._ask("qrstat", "-u", "*", "-xml"))
            numbers = [number for number, each in names.items() if name in ("", each)]
            found = await self._described(numbers)
            if found is not None:
                return found
        raise SystemSilent("reservations ended during the listing")

    async def _described(self, numbers: list[int]) -> list[AdvanceReservation] | None:
        """Return the reservations of these numbers; None if one of them has ended in the meantime."""
        found: list[AdvanceReservation] = []
        for at in range(0, len(numbers), NUMBERS_AT_ONCE):
            some = numbers[at : at + NUMBERS_AT_ONCE]
            try:
                listing = await self._ask("qrstat", "-ar", _numbers(some), "-xml")
            except SystemRefused as error:
                if _ABSENT.search(str(error)):
                    return None
                raise
            described = printed.reservations(listing)
            if {each.number for each in described} != set(some):
                return None
            found += described
        return found

    async def _names_of(self, jobs: list[int], names: dict[int, str]) -> dict[int, str]:
        """Return the names of the reservations in which `jobs` are, by job."""
        found = await self._reservations_of(jobs)
        return {job: names[number] for job, number in found.items() if number in names}

    async def _reservations_of(self, jobs: list[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for at in range(0, len(jobs), NUMBERS_AT_ONCE):
            some = _numbers(jobs[at : at + NUMBERS_AT_ONCE])
            found |= printed.reservations_of_jobs(await self._ask("qstat", "-j", some, "-xml"))
        return found

    async def _jobs_in(self, held: list[AdvanceReservation], states: str = "prs") -> list[int]:
        """Return the jobs in `held`: only their users have any."""
        users = ",".join(sorted({user for each in held for user in each.users}))
        if not users:
            return []
        listing = await self._ask("qstat", "-u", users, "-s", states, "-xml")
        found = await self._reservations_of(printed.job_numbers(listing))
        numbers = {each.number for each in held}
        return [job for job, number in found.items() if number in numbers]

    async def _submit(
        self, reservation: SystemReservation, known: dict[str, Queue], clock: MasterClock
    ) -> None:
        slots = sum(known[node].slots for node in reservation.nodes)
        begins = ["-a", _written(reservation.start)] if reservation.start > clock.now_s else []
        await self._ask(
            "qrsub", "-N", reservation.name, *begins, "-e", _written(reservation.end),
            "-pe", self.parallel_environment, str(slots),
            "-q", ",".join(f"{self.queue}@{node}" for node in reservation.nodes),
            "-u", ",".join(reservation.users),
        )  # fmt: skip

    async def _delete(self, held: list[AdvanceReservation]) -> None:
        try:
            await self._ask("qrdel", _numbers([each.number for each in held]))
        except SystemRefused as error:
            if not _ABSENT.search(str(error)):
                raise

    async def _ask(self, *command: str) -> str:
        """Return a command's output; raises `SystemSilent` if the system is away, else `SystemRefused`."""
        done = await CommandRunner(self.timeout_s).run(*after(self.configuration, *command))
        said = " ".join(f"{done.errors} {done.output}".split())[:500]
        if done.code:
            raise SystemSilent(said) if _AWAY.search(said) else SystemRefused(said)
        return done.output


def _told(held: list[AdvanceReservation], known: dict[str, Queue]) -> tuple[SystemReservation, ...]:
    by_name: dict[str, list[AdvanceReservation]] = defaultdict(list)
    for each in held:
        by_name[each.name].append(each)
    return tuple(printed.as_told(each, known) for each in by_name.values())


def _refuse_unwell(
    reservation: SystemReservation, known: dict[str, Queue], clock: MasterClock
) -> None:
    """Raise for hosts that are disabled or dead, which Grid Engine would reserve."""
    for node in reservation.nodes:
        if node not in known or known[node].is_left_over:
            raise SystemRefused(f"{node} is not in the queue")
    for each in printed.unwell(known, just_begun=clock.has_just_begun):
        if each.name in reservation.nodes and each.state != "unknown":
            raise SystemRefused(f"{each.name} is {each.state}: {each.detail}")


def _refuse_reserved(reservation: SystemReservation, held: list[AdvanceReservation]) -> None:
    for each in held:
        meets = each.start < reservation.end and reservation.start < each.end
        if each.name != reservation.name and meets and set(each.slots) & set(reservation.nodes):
            raise SystemRefused(f"reservation {each.number} ({each.name}) is in its way")


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _written(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%d%H%M.%S")
