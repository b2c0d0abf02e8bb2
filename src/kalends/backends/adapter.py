"""What every adapter of a batch system can do: seven calls, none of which remembers anything."""

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
    """The system has answered: it will not."""


class SystemSilent(Exception):
    """No answer, or none that can be read: what was asked for may have been carried out, or may yet be."""


class Adapter(Protocol):
    """One batch system, by its own means. All calls raise `SystemRefused` and `SystemSilent`."""

    @property
    def traits(self) -> Traits:
        """In what this system differs from others."""
        ...

    async def state(self) -> SystemState:
        """Return everything that the system has."""
        ...

    async def find(self, name: str) -> SystemReservation | None:
        """Return the reservation of this name, or None."""
        ...

    async def create(self, reservation: SystemReservation) -> None:
        """Make a reservation."""
        ...

    async def change(self, reservation: SystemReservation) -> None:
        """Make the reservation of this name as it is here, in one update."""
        ...

    async def delete(self, name: str) -> None:
        """End the reservation of this name, and the jobs in it; one that is not there is no error."""
        ...

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        """Ask the jobs in the reservation of this name to end, or kill them; none are no error."""
        ...

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Return jobs that are over, at least those that are asked for; see `Traits.tells_use`."""
        ...


@runtime_checkable
class LooksAtOnce(Protocol):
    """An adapter that reads what is there together with what it writes, for less than both cost."""

    async def do_and_look(self, errand: Write) -> tuple[str, SystemReservation | None]:
        """Carry out `errand`; return why it was refused, or "", and what has its name then."""
        ...


async def carry_out(adapter: Adapter, errand: Errand) -> SystemAnswer:
    """Do what `errand` says, and look what there is then; raises nothing.

    Whatever is refused is looked at, too: Slurm calls the repeat of a creation that has succeeded an overlap.
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
