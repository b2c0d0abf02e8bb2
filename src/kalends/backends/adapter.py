"""The protocol of all adapters of batch systems: seven calls, none of which keeps state."""

from __future__ import annotations

import re
from typing import Final, Protocol, runtime_checkable

from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    EndJobs,
    Errand,
    FinishedJob,
    ListFinishedJobs,
    SystemAnswer,
    SystemReservation,
    SystemState,
    Traits,
    Write,
)

UNKNOWN_USER: Final = re.compile(
    r"\b(?:invalid|unknown|no such) user\b|\bnot known as a user\b|\buser \S+ does not exist",
    re.IGNORECASE,
)
"""In the words of Slurm, Grid Engine and OAR: another time would not help."""


class SystemRefused(Exception):
    """The system has answered with a refusal."""


class SystemSilent(Exception):
    """No readable answer: the request may have been carried out, or may be carried out later."""


class Adapter(Protocol):
    """One batch system, through its own commands. All calls raise `SystemRefused` and `SystemSilent`."""

    @property
    def traits(self) -> Traits:
        """The properties in which this system differs from others."""

    async def state(self) -> SystemState:
        """Return everything that the system has."""

    async def find(self, name: str) -> SystemReservation | None:
        """Return the reservation of this name, or None."""

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation."""

    async def change(self, reservation: SystemReservation) -> None:
        """Make the reservation of this name as it is here, in one update."""

    async def delete(self, name: str) -> None:
        """End the reservation of this name, and the jobs in it; a missing one is not an error."""

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Ask the jobs in the reservation of this name to end, or kill them; no jobs are not an error."""

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Return ended jobs, at least the requested ones; see `Traits.tells_use`."""


@runtime_checkable
class LooksAtOnce(Protocol):
    """An adapter that writes and reads back in one call, which costs less than two."""

    async def do_and_look(self, errand: Write) -> tuple[str, SystemReservation | None]:
        """Carry out `errand`; return the reason of a refusal, or "", and what has its name then."""


async def carry_out(adapter: Adapter, errand: Errand) -> SystemAnswer:
    """Carry out `errand`, and read what is there then; raises nothing.

    Refused errands are read back, too: Slurm calls the repetition of a successful creation an overlap.
    """
    try:
        if isinstance(errand, Write):
            if isinstance(adapter, LooksAtOnce):
                refused, found = await adapter.do_and_look(errand)
                return _looked(refused, found)
            return await _do_and_look(adapter, errand)
        if isinstance(errand, EndJobs):
            await adapter.end_jobs(errand.name, at_once=errand.at_once)
            return SystemAnswer("done")
        if isinstance(errand, ListFinishedJobs):
            return await _finished_jobs(adapter, errand)
        return SystemAnswer("done", state=await adapter.state())
    except SystemSilent as error:
        return SystemAnswer("unknown", str(error))
    except SystemRefused as error:
        return SystemAnswer("unknown", f"it does not do what it always does: {error}")


async def _finished_jobs(adapter: Adapter, errand: ListFinishedJobs) -> SystemAnswer:
    """A system may keep no accounts: that is an answer."""
    try:
        return SystemAnswer("done", jobs=await adapter.finished_jobs(errand))
    except SystemRefused as error:
        return SystemAnswer("refused", str(error))


async def _do_and_look(adapter: Adapter, errand: Write) -> SystemAnswer:
    refused = ""
    name = errand.name if isinstance(errand, DeleteReservation) else errand.reservation.name
    if not adapter.traits.unique_names and isinstance(errand, CreateReservation):
        found = await adapter.find(name)
        if found is not None:
            return SystemAnswer("refused", "there is a reservation of this name", found)
    try:
        if isinstance(errand, CreateReservation):
            await adapter.create(errand.reservation)
        elif isinstance(errand, ChangeReservation):
            await adapter.change(errand.reservation)
        else:
            await adapter.delete(errand.name)
    except SystemRefused as error:
        refused = str(error)
    found = await adapter.find(name)
    return _looked(refused, found)


def _looked(refused: str, found: SystemReservation | None) -> SystemAnswer:
    return SystemAnswer(
        "refused" if refused else "done",
        refused,
        found,
        no_account=UNKNOWN_USER.search(refused) is not None,
    )
