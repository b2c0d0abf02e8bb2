"""Slurm by its commands: reservations of named nodes for the users that the owner's table names.

Learned from Slurm 22.05: an overlap is detected before a duplicate name, a crash undoes the last five
seconds, and a frozen controller carries out its messages when it continues, for as long as munge
accepts them (five minutes). Reservations of cores never get other cores, and get more time even if others
have these cores then: so they are recreated. Slurm also reserves licences that running jobs have.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from kalends.backends.adapter import UNKNOWN_USER, SystemRefused, SystemSilent
from kalends.backends.command_runner import CommandRunner, Printed
from kalends.backends.records import (
    CreateReservation,
    DeleteReservation,
    FinishedJob,
    ListFinishedJobs,
    SystemReservation,
    SystemState,
    Traits,
    Write,
)
from kalends.backends.slurm import accounts, printed
from kalends.backends.slurm.hostlists import written
from kalends.backends.slurm.licences import too_few

TRAITS: Final = Traits(
    late_write_s=330,
    weak_s=5,
    unique_names=True,
    deletes_in_use=False,
    parts=True,
    licences=True,
    tells_use=True,
)

COMMAND_S_MAX: Final = 6.0

ACCOUNTS_S_MAX: Final = 60.0
"""The time limit for listing accounts: a day of a large cluster takes the database some time."""

LOOK_S_MAX: Final = 1.0
"""A node that failed after this look may get a promise, which moves at the site's next look."""

CLOCKS_DIFFER_S_MAX: Final = 120
"""A site promises nothing if the clock differs by more."""

FED_MAX: Final = 4_000
"""Characters in a line that every scontrol reads completely."""

AWAY: Final = re.compile(
    r"Unexpected message|Unable to contact|Socket timed out|Communication|Zero Bytes|authentication"
    r"|No route|Connection|Protocol auth|in standby|temporarily|Message receive|not permitted for daemons",
    re.IGNORECASE,
)
"""Messages of Slurm's commands that got no answer."""

_ABSENT: Final = re.compile(r"Requested reservation is invalid|does not exist", re.IGNORECASE)
_NOT_FOUND: Final = re.compile(r"^(?:scontrol: )?Reservation \S+ not found$", re.MULTILINE)
_WHOLE: Final = re.compile(
    r"^(?:scontrol: )?(?:ReservationName=\S+ .*|Reservation \S+ not found|No reservations .*)\nscontrol:",
    re.MULTILINE,
)
"""The requested reservation, and the prompt after it."""

_NOTE: Final = re.compile(r"Note, unless nodes are directly .*? is assumed\. ?")
_IN_USE: Final = re.compile(r"in use|busy", re.IGNORECASE)


@dataclass(eq=False, slots=True)
class _Looks:
    """The last look at nodes that a vote requested."""

    asked_s: float = 0.0
    nodes: asyncio.Future[str] | None = None


@dataclass(frozen=True)
class Slurm:
    """The cluster that `configuration` (a slurm.conf) names; "" for the one of this host.

    If it is reserved `in_parts`, cores and licences are returned, too.
    """

    configuration: str = ""
    timeout_s: float = COMMAND_S_MAX
    traits: Traits = TRAITS
    in_parts: bool = False
    _looks: _Looks = field(init=False, default_factory=_Looks, compare=False)

    async def state(self) -> SystemState:
        """Return everything; raises as `kalends.backends.adapter.Adapter` says, as all of these do."""
        config, held, running, known, licences = await asyncio.gather(
            self.ask("scontrol", "show", "config"),
            self.ask("scontrol", "show", "reservation", "-o"),
            self.ask("squeue", "-h", "-a", "-t", "R,CG,S", "-o", printed.JOBS_FORMAT),
            self._look_at_nodes(time.monotonic()),
            self._licences(),
        )
        clock_s, boot_s = printed.clock_and_boot(config)
        nodes, unwell = printed.nodes(known)
        cores, threads = printed.cores_and_threads(known) if self.in_parts else ({}, {})
        return SystemState(
            clock_s=clock_s,
            boot_s=boot_s,
            nodes=nodes,
            reservations=tuple(printed.reservations(held, in_parts=self.in_parts)),
            jobs=tuple(printed.running_jobs(running, threads)),
            unwell=unwell,
            version=printed.version(config),
            cores=tuple(sorted(cores.items())),
            licences=printed.licences(licences),
        )

    async def _licences(self) -> str:
        return await self.ask("scontrol", "show", "licenses", "-o") if self.in_parts else ""

    async def find(self, name: str) -> SystemReservation | None:
        done = await self._run(("scontrol", "show", "reservation", name, "-o"))
        if _NOT_FOUND.search(f"{done.output}\n{done.errors}"):
            return None
        if done.code:
            raise SystemSilent(_said(done))
        return self._named(name, done.output)

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation; one whose start has passed begins now."""
        await self.ask("scontrol", *await self._creation(reservation))

    async def change(self, reservation: SystemReservation) -> None:
        """Change times, nodes and users, and remove flags that admit others; if refused, nothing changes."""
        if words := await self._change(reservation):
            await self.ask("scontrol", *words)

    async def do_and_look(self, errand: Write) -> tuple[str, SystemReservation | None]:
        """Carry out `errand` and read the result in one process, which gets both commands.

        Returns the reason of a refusal, or "", and the result. A process costs more than its requests.
        """
        if isinstance(errand, DeleteReservation):
            name, words = errand.name, ["delete", f"ReservationName={errand.name}"]
        else:
            create = isinstance(errand, CreateReservation)
            name = errand.reservation.name
            make = self._creation if create else self._change
            try:
                words = await make(errand.reservation)
            except SystemRefused as error:
                return str(error), await self.find(name)
        if not words:
            return "", await self.find(name)
        line = " ".join(words)
        if len(line) > FED_MAX or line.split() != words:
            refused = ""
            try:
                await self.ask("scontrol", *words)
            except SystemRefused as error:
                refused = str(error)
            return refused, await self.find(name)
        done = await self._run(("scontrol", "-o"), fed=f"{line}\nshow reservation {name}\n")
        said = _plain(done.errors)
        if AWAY.search(said) or not _WHOLE.search(done.output):
            raise SystemSilent(said or "scontrol does not print the reservation")
        if isinstance(errand, DeleteReservation) and _IN_USE.search(said):
            await self._cancel_jobs(name)
        if isinstance(errand, DeleteReservation) and _ABSENT.search(said):
            said = ""
        return said, self._named(name, done.output)

    async def _creation(self, reservation: SystemReservation) -> list[str]:
        if unwell := set(reservation.nodes).intersection(await self._unwell()):
            raise SystemRefused(f"{min(unwell)} is out of order")
        await self._refuse_licences_in_use(reservation)
        begins = "now" if await self._has_begun(reservation.start) else f"uts{reservation.start}"
        name = f"ReservationName={reservation.name}"
        flags = [] if reservation.nodes else ["Flags=ANY_NODES"]
        what = _what(await self._in_order(reservation))
        shape = [*_when(reservation), *what, *flags]
        return ["create", "reservation", name, f"StartTime={begins}", *shape]

    async def _in_order(self, reservation: SystemReservation) -> SystemReservation:
        """Return it with its nodes in Slurm's own order, in which Slurm reads the numbers of cores."""
        if len(set(reservation.cores)) < 2:
            return reservation
        order = printed.node_order(await self.ask("scontrol", "show", "node", "-o"))
        cores = dict(zip(reservation.nodes, reservation.cores, strict=True))
        if unknown := cores.keys() - order.keys():
            raise SystemRefused(f"{min(unknown)} is not a node")
        nodes = sorted(cores, key=order.__getitem__)
        return structs.replace(
            reservation, nodes=tuple(nodes), cores=tuple(cores[node] for node in nodes)
        )

    async def _change(self, reservation: SystemReservation) -> list[str]:
        """Return the update that changes it in place; nothing if that is impossible and it was recreated."""
        found = await self.find(reservation.name)
        if found is None:
            raise SystemRefused("there is no such reservation")
        begun = await self._has_begun(found.start)
        longer = found.end < reservation.end or (reservation.start < found.start and not begun)
        same_cores = not longer and found.has_room_of(reservation)
        if (reservation.cores and not same_cores) or (found.nodes and not reservation.nodes):
            await self._make_anew(found, reservation)
            return []
        await self._refuse_licences_in_use(reservation)
        start = [] if begun else [f"StartTime=uts{reservation.start}"]
        what = [] if reservation.cores else _what(reservation)
        flags = [f"Flags-={found.broken}"] if found.broken else []
        name = f"ReservationName={reservation.name}"
        return ["update", name, *start, *_when(reservation), *what, *flags]

    async def _make_anew(self, found: SystemReservation, wish: SystemReservation) -> None:
        """Replace `found` by `wish`, unless that would delete jobs.

        If `wish` is refused, `found` is restored, unless Slurm has not reported its cores yet.
        """
        creation = await self._creation(wish)
        if jobs := await self._jobs_in(wish.name, "R,CG,S,PD"):
            some = ", ".join(jobs)[:80]
            raise SystemRefused(f"it cannot be changed while jobs are in it: {some}")
        await self.ask("scontrol", "delete", f"ReservationName={wish.name}")
        try:
            await self.ask("scontrol", *creation)
        except SystemRefused:
            if len(found.cores) == len(found.nodes):
                await self.ask("scontrol", *await self._creation(found))
            raise

    async def _refuse_licences_in_use(self, wish: SystemReservation) -> None:
        if not wish.licences:
            return
        totals, held, running = await asyncio.gather(
            self.ask("scontrol", "show", "licenses", "-o"),
            self.ask("scontrol", "show", "reservation", "-o"),
            self.ask("squeue", "-h", "-a", "-t", "R,CG,S", "-o", printed.JOBS_FORMAT),
        )
        why = too_few(
            wish, dict(printed.licences(totals)), printed.reservations(held),
            printed.running_jobs(running),
        )  # fmt: skip
        if why:
            raise SystemRefused(why)

    async def _has_begun(self, start: int) -> bool:
        """Whether it has begun, by the controller's clock, which is read if ours could be wrong."""
        if start > time.time() + CLOCKS_DIFFER_S_MAX:
            return False
        clock_s, _ = printed.clock_and_boot(await self.ask("scontrol", "show", "config"))
        return start <= clock_s

    async def delete(self, name: str) -> None:
        """Delete a reservation; while jobs are in it, they are cancelled, and it is refused."""
        try:
            await self.ask("scontrol", "delete", f"ReservationName={name}")
        except SystemRefused as error:
            if _ABSENT.search(str(error)):
                return
            if _IN_USE.search(str(error)):
                await self._cancel_jobs(name)
            raise

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Send SIGTERM, or SIGKILL, to all steps of all jobs in a reservation."""
        if jobs := await self._jobs_in(name, "R,CG,S"):
            await self.ask("scancel", f"--signal={'KILL' if at_once else 'TERM'}", "--full", *jobs)

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Return ended jobs of these users; raises `SystemRefused` if Slurm keeps no accounts."""
        if not asked.users:
            return ()
        patient = replace(self, timeout_s=max(self.timeout_s, ACCOUNTS_S_MAX))
        try:
            listing = await patient.ask(*accounts.jobs_command(asked))
        except SystemRefused as error:
            if not UNKNOWN_USER.search(str(error)):
                raise
            # A user may have left since the reservation; the jobs of the others are returned nevertheless.
            listing = await patient.ask(*accounts.jobs_command(asked, everyone=True))
        told = accounts.told_jobs(listing)
        nameless = [each.job.start for each in told if each.number and not each.job.reservation]
        if not nameless:
            return tuple(each.job for each in told)
        listing = await patient.ask(*accounts.reservations_command(asked, min(nameless)))
        known = accounts.told_reservations(listing)
        return tuple(accounts.named(each, known) for each in told)

    async def _cancel_jobs(self, name: str) -> None:
        if jobs := await self._jobs_in(name, "R,CG,S,PD"):
            await self.ask("scancel", *jobs)

    async def _jobs_in(self, name: str, states: str) -> list[str]:
        queued = await self.ask("squeue", "-h", "-a", "-t", states, "-o", printed.JOBS_FORMAT)
        return [each.id for each in printed.running_jobs(queued) if each.reservation == name]

    async def _unwell(self) -> frozenset[str]:
        """Return the nodes that Slurm would take but should not; votes of one second share a look."""
        _, unwell = printed.nodes(await self._look_at_nodes(time.monotonic() - LOOK_S_MAX))
        return frozenset(each.name for each in unwell if each.state != "unknown")

    async def _look_at_nodes(self, since_s: float) -> str:
        """Return the output of `sinfo`, from a look after `since_s` (monotonic)."""
        looks, loop = self._looks, asyncio.get_running_loop()
        if looks.asked_s <= since_s or looks.nodes is None or looks.nodes.get_loop() is not loop:
            looks.asked_s = time.monotonic()
            looks.nodes = asyncio.ensure_future(
                self.ask("sinfo", "-h", "-a", "-N", "-o", printed.NODES_FORMAT)
            )
        return await asyncio.shield(looks.nodes)

    def _named(self, name: str, text: str) -> SystemReservation | None:
        """Return the reservation of this name in what scontrol prints, with or without its prompts."""
        lines = (line.removeprefix("scontrol: ") for line in text.splitlines())
        held = "\n".join(line for line in lines if line.startswith("ReservationName="))
        found = printed.reservations(held, in_parts=self.in_parts)
        return next((each for each in found if each.name == name), None)

    async def ask(self, *command: str) -> str:
        """Return the output of a command of Slurm.

        Raises `SystemSilent` if Slurm is away, and `SystemRefused` for any other failure.
        """
        done = await self._run(command)
        said = _said(done)
        if done.code or "error" in done.errors.lower():
            raise SystemSilent(said) if AWAY.search(said) else SystemRefused(said)
        return done.output

    async def _run(self, command: Sequence[str], fed: str = "") -> Printed:
        variables = {"SLURM_TIME_FORMAT": "%s"}
        if self.configuration:
            variables["SLURM_CONF"] = self.configuration
        return await CommandRunner(self.timeout_s, variables).run(*command, fed=fed)


def _said(done: Printed) -> str:
    return _plain(done.errors or done.output)


def _plain(text: str) -> str:
    return _NOTE.sub("", " ".join(text.split()))[:500]


def _when(reservation: SystemReservation) -> list[str]:
    return [f"EndTime=uts{reservation.end}", f"Users={','.join(reservation.users)}"]


def _what(reservation: SystemReservation) -> list[str]:
    words = [f"Nodes={written(reservation.nodes)}"] if reservation.nodes else []
    if reservation.cores:
        words.append(f"CoreCnt={','.join(map(str, reservation.cores))}")
    if reservation.licences:
        counts = (f"{name}:{count}" for name, count in reservation.licences)
        words.append(f"Licenses={','.join(counts)}")
    return words
