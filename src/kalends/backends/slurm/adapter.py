"""Slurm by its commands: reservations of named nodes for the users that the owner's table names.

Learned from Slurm 22.05: an overlap is found before a name that is taken, a crash undoes the last five
seconds, and what was sent to a frozen controller is carried out when it goes on, for as long as munge
believes the message (five minutes).
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.command_runner import CommandRunner
from kalends.backends.records import SystemReservation, SystemState, Traits
from kalends.backends.slurm import printed
from kalends.backends.slurm.hostlists import written

TRAITS: Final = Traits(late_write_s=330, weak_s=5, unique_names=True, deletes_in_use=False)

COMMAND_S_MAX: Final = 6.0

_AWAY: Final = re.compile(
    r"Unexpected message|Unable to contact|Socket timed out|Communication|Zero Bytes|authentication"
    r"|No route|Connection|Protocol auth|in standby|temporarily|Message receive|not permitted for daemons",
    re.IGNORECASE,
)
_ABSENT: Final = re.compile(r"Requested reservation is invalid|does not exist", re.IGNORECASE)
_IN_USE: Final = re.compile(r"in use|busy", re.IGNORECASE)


@dataclass(frozen=True)
class Slurm:
    """The cluster that `configuration` (a slurm.conf) names; "" for the one of this host."""

    configuration: str = ""
    timeout_s: float = COMMAND_S_MAX
    traits: Traits = TRAITS

    async def state(self) -> SystemState:
        """Return everything; raises as `kalends.backends.adapter.Adapter` says, as all of these do."""
        config, held, running, known = await asyncio.gather(
            self._ask("scontrol", "show", "config"),
            self._ask("scontrol", "show", "reservation", "-o"),
            self._ask("squeue", "-h", "-a", "-t", "R,CG,S", "-o", printed.JOBS_FORMAT),
            self._ask("sinfo", "-h", "-a", "-N", "-o", printed.NODES_FORMAT),
        )
        clock_s, boot_s = printed.clock_and_boot(config)
        nodes, unwell = printed.nodes(known)
        return SystemState(
            clock_s=clock_s,
            boot_s=boot_s,
            nodes=nodes,
            reservations=tuple(printed.reservations(held)),
            jobs=tuple(printed.running_jobs(running)),
            unwell=unwell,
            version=printed.version(config),
        )

    async def find(self, name: str) -> SystemReservation | None:
        """Return the reservation of this name. All are listed: scontrol calls an absent one an error."""
        held = await self._ask("scontrol", "show", "reservation", "-o")
        return next((each for each in printed.reservations(held) if each.name == name), None)

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation; one that should have begun begins now."""
        config, _ = await asyncio.gather(
            self._ask("scontrol", "show", "config"), self._refuse_unwell(reservation)
        )
        clock_s, _ = printed.clock_and_boot(config)
        begins = f"uts{reservation.start}" if reservation.start > clock_s else "now"
        await self._ask(
            "scontrol", "create", "reservation", f"ReservationName={reservation.name}",
            f"StartTime={begins}", *_shape(reservation),
        )  # fmt: skip

    async def change(self, reservation: SystemReservation) -> None:
        """Change times, nodes and users, and take away what lets others in; Slurm keeps what it refuses."""
        found, config = await asyncio.gather(
            self.find(reservation.name), self._ask("scontrol", "show", "config")
        )
        if found is None:
            raise SystemRefused("there is no such reservation")
        clock_s, _ = printed.clock_and_boot(config)
        start = [] if found.start <= clock_s else [f"StartTime=uts{reservation.start}"]
        flags = [f"Flags-={found.broken}"] if found.broken else []
        await self._ask(
            "scontrol", "update", f"ReservationName={reservation.name}", *start,
            *_shape(reservation), *flags,
        )  # fmt: skip

    async def delete(self, name: str) -> None:
        """Delete a reservation; while jobs are in it, they are cancelled, and it is refused."""
        try:
            await self._ask("scontrol", "delete", f"ReservationName={name}")
        except SystemRefused as error:
            if _ABSENT.search(str(error)):
                return
            if _IN_USE.search(str(error)):
                await self._cancel_jobs(name)
            raise

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Send SIGTERM, or SIGKILL, to all steps of all jobs in a reservation."""
        if jobs := await self._jobs_in(name, "R,CG,S"):
            await self._ask("scancel", f"--signal={'KILL' if at_once else 'TERM'}", "--full", *jobs)

    async def _cancel_jobs(self, name: str) -> None:
        if jobs := await self._jobs_in(name, "R,CG,S,PD"):
            await self._ask("scancel", *jobs)

    async def _jobs_in(self, name: str, states: str) -> list[str]:
        queued = await self._ask("squeue", "-h", "-a", "-t", states, "-o", printed.JOBS_FORMAT)
        return [each.id for each in printed.running_jobs(queued) if each.reservation == name]

    async def _refuse_unwell(self, reservation: SystemReservation) -> None:
        """Slurm takes nodes of a partition that is down."""
        known = await self._ask("sinfo", "-h", "-a", "-N", "-o", printed.NODES_FORMAT)
        _, unwell = printed.nodes(known)
        for each in unwell:
            if each.name in reservation.nodes and each.state != "unknown":
                raise SystemRefused(f"{each.name} is {each.state}: {each.detail}")

    async def _ask(self, *command: str) -> str:
        """Return what a command prints; what is away is silent, whatever else fails has refused."""
        variables = {"SLURM_TIME_FORMAT": "%s"}
        if self.configuration:
            variables["SLURM_CONF"] = self.configuration
        done = await CommandRunner(self.timeout_s, variables).run(*command)
        said = " ".join((done.errors or done.output).split())[:500]
        if done.code or "error" in done.errors.lower():
            raise SystemSilent(said) if _AWAY.search(said) else SystemRefused(said)
        return done.output


def _shape(reservation: SystemReservation) -> list[str]:
    return [
        f"EndTime=uts{reservation.end}",
        f"Users={','.join(reservation.users)}",
        f"Nodes={written(reservation.nodes)}",
    ]
