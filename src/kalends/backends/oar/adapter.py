"""OAR by its commands: advance reservations of whole nodes, as containers in which their users run jobs.

Learned from OAR 2.5.9: a reservation is a job of its user, so it is made as that user; a name may be
given twice; a minute and a second must lie between two; requests made while the server was away are carried
out when it is back; a deletion takes effect some time after the request. The commands read OAR's
database: they work even while the server is away, and show no clock.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.command_runner import CommandRunner, after
from kalends.backends.kinds import Reach, SystemKind
from kalends.backends.oar import printed
from kalends.backends.oar.printed import Inventory
from kalends.backends.records import (
    FinishedJob,
    ListFinishedJobs,
    SystemReservation,
    SystemState,
    Traits,
)

TRAITS: Final = Traits(
    gap_s=61,
    unique_names=False,
    changes_in_place=False,
    asks_jobs=False,
    tells_clock=False,
)

COMMAND_S_MAX: Final = 22.0
LOOK_EVERY_S: Final = 0.5
OWN_CONFIGURATION: Final = Path("/etc/oar/oar.conf")
"""The configuration file that the commands always read."""

BEGINS_IN_S: Final = 3
"""OAR refuses a start that has passed when it reads the request."""

_AWAY: Final = re.compile(
    r"DBI|database|connect|Connection|cannot (?:open|reach)|not found|timed? ?out|No such file",
    re.IGNORECASE,
)
_GOING: Final = "already killed"
"""OAR also prints this about reservations that are being deleted."""
_SECURITY_TIME: Final = re.compile(
    r"^\s*SCHEDULER_JOB_SECURITY_TIME\s*=\s*\"?([0-9]{1,6})\"?\s*$", re.MULTILINE
)


def traits_here() -> Traits:
    """Return the traits of this host's OAR, as far as its configuration contains them."""
    try:
        found = _SECURITY_TIME.search(OWN_CONFIGURATION.read_text())
    except OSError:
        return TRAITS
    return structs.replace(TRAITS, gap_s=int(found.group(1)) + 1) if found is not None else TRAITS


@dataclass(frozen=True)
class Oar:
    """The OAR of this host; `configuration` is a shell file to read before its commands, "" for none."""

    configuration: str = ""
    timeout_s: float = COMMAND_S_MAX
    traits: Traits = TRAITS

    async def state(self) -> SystemState:
        """Return everything; raises as `kalends.backends.adapter.Adapter` says, as all of these do."""
        listing = await self._listing()
        now_s = int(time.time())
        return SystemState(
            clock_s=now_s,
            boot_s=0,
            nodes=listing.nodes(),
            reservations=listing.reservations(),
            jobs=tuple(listing.running_jobs()),
            unwell=listing.unwell(now_s),
            version="OAR",
        )

    async def find(self, name: str) -> SystemReservation | None:
        """Return the reservation of this name; several of one name are returned as one that is broken."""
        return _named(await self._listing(), name)

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation; one whose start has passed begins now. Waits for the decision."""
        _refuse_unwell(reservation, await self._listing())
        await self._submit(reservation)

    async def change(self, reservation: SystemReservation) -> None:
        """Replace the reservation of this name by a new one, unless that would delete jobs.

        It is refused without a change if others have reserved its nodes. If OAR refuses the new
        reservation, the old one is restored.
        """
        listing = await self._listing()
        old = _named(listing, reservation.name)
        if old is None:
            raise SystemRefused("there is no such reservation")
        _refuse_unwell(reservation, listing)
        _refuse_reserved(reservation, listing, self.traits.gap_s)
        if jobs := listing.inside(listing.numbers(reservation.name)):
            raise SystemRefused(f"it cannot be changed while jobs are in it: {jobs[:5]}")
        if not await self._deleted(reservation.name, listing):
            # Later calls would see a reservation that will still be deleted.
            raise SystemSilent("it has not deleted the reservation that is to be recreated")
        try:
            await self._submit(reservation)
        except SystemRefused:
            if old.nodes:
                await self._submit(old)
            raise

    async def delete(self, name: str) -> None:
        """Delete all reservations of this name, with the jobs in them, and wait until they have vanished."""
        await self._deleted(name, await self._listing())

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Kill the jobs in a reservation."""
        listing = await self._listing()
        jobs = listing.inside(listing.numbers(name))
        if at_once and jobs:
            await self._oardel(jobs)

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Raise `SystemRefused`: OAR sums up use by user, not by reservation."""
        raise SystemRefused("OAR does not report what jobs used in a reservation")

    # Parts of the calls above

    async def _listing(self) -> Inventory:
        resources, jobs = await asyncio.gather(
            self._ask("oarnodes", "-J"), self._ask("oarstat", "-f", "-J")
        )
        return printed.listing(resources, jobs)

    async def _deleted(self, name: str, listing: Inventory) -> bool:
        """Delete all listed reservations of this name; return whether they have vanished from the list."""
        numbers = listing.numbers(name)
        if not numbers:
            return True
        await self._oardel([*listing.inside(numbers), *numbers])
        return await self._seen(lambda listing: not listing.numbers(name))

    async def _oardel(self, numbers: list[int]) -> None:
        try:
            await self._ask("oardel", *map(str, numbers))
        except SystemRefused as error:
            if _GOING not in str(error):
                raise

    async def _submit(self, reservation: SystemReservation) -> None:
        start = max(reservation.start, int(time.time()) + BEGINS_IN_S)
        if start >= reservation.end:
            raise SystemRefused("that time has passed")
        (user,) = reservation.users
        names = ",".join(f"'{node}'" for node in reservation.nodes)
        await self._ask(
            "oarsub", "-n", reservation.name, "-t", "container", "-t", "noop", "-d", "/",
            "-r", datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%d %H:%M:%S"), "-l",
            f"{{network_address in ({names})}}/nodes={len(reservation.nodes)}"
            f",walltime={_length(reservation.end - start)}",
            user=user,
        )  # fmt: skip
        if start > reservation.start:
            # OAR moves a passed start on, repeatedly, until the reservation has begun.
            await self._seen(lambda listing: listing.has_begun(reservation.name))

    async def _seen(self, holds: Callable[[Inventory], bool]) -> bool:
        """Read all for at most the time of a command, until `holds`; return whether it did."""
        until_s = time.monotonic() + self.timeout_s
        while time.monotonic() < until_s:
            if holds(await self._listing()):
                return True
            await asyncio.sleep(LOOK_EVERY_S)
        return False

    async def _ask(self, program: str, *arguments: str, user: str = "") -> str:
        """Return a command's output; raises `SystemSilent` if the system is away, else `SystemRefused`."""
        as_user = ("runuser", "-u", user, "--") if user else ()
        command = after(self.configuration, *as_user, program, *arguments)
        done = await CommandRunner(self.timeout_s).run(*command)
        said = " ".join(f"{done.errors} {done.output}".split())[-500:]
        if done.code:
            raise SystemSilent(said) if _AWAY.search(said) else SystemRefused(said)
        return done.output


def _named(listing: Inventory, name: str) -> SystemReservation | None:
    return next((each for each in listing.reservations() if each.name == name), None)


def _refuse_unwell(reservation: SystemReservation, listing: Inventory) -> None:
    """Raise for absent nodes, which OAR would reserve because they may come back."""
    if gone := sorted(set(reservation.nodes) - set(listing.nodes())):
        raise SystemRefused(f"there is no node {gone[0]}")
    for each in listing.unwell(int(time.time())):
        if each.name in reservation.nodes:
            raise SystemRefused(f"{each.name} is {each.state}: {each.detail}")


def _refuse_reserved(reservation: SystemReservation, listing: Inventory, gap_s: int) -> None:
    for each in listing.reservations():
        meets = each.start < reservation.end + gap_s and reservation.start < each.end + gap_s
        if each.name != reservation.name and meets and set(each.nodes) & set(reservation.nodes):
            raise SystemRefused(f"{each.name} is in its way")


def _length(length_s: int) -> str:
    minutes, seconds = divmod(length_s, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _adapter(reach: Reach, _: msgspec.Struct) -> Oar:
    return Oar(reach.configuration, reach.timeout_s, traits_here())


KIND: Final = SystemKind(msgspec.Struct, _adapter)
