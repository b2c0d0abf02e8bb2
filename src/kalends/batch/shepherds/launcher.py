"""The door of this room: begins attempts, hears what becomes of them, and ends them.

Its caller makes the records (`prepare`), commits the decision to start, and only then launches. Whatever
is killed in between, `adopt` finds out after a restart what became of each attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from typing import Any, Final

from kalends.batch.shepherds import conclusion, shepherd_line
from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.control_group import usable
from kalends.batch.shepherds.folders import Folders, is_name, job_of
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.order_check import check_name, check_order
from kalends.batch.shepherds.output_file import read_output
from kalends.batch.shepherds.record import create
from kalends.batch.shepherds.shepherd_line import Attachment
from kalends.batch.shepherds.watch import AttemptWatch, Failed, Heard
from kalends.batch.shepherds.zygote_supervisor import ZYGOTE, ZygoteSupervisor
from kalends.core.errors import Conflict, InvalidInput, NotFound, Unavailable

LOOK_S: Final = 0.02
"""How long to wait for a shepherd that is deciding right now."""

ADOPTED_AT_ONCE: Final = 100
REASON_CHARACTERS_MAX: Final = 500


class Launcher:
    """The attempts of one machine, below the folder `top`."""

    def __init__(
        self,
        top: str,
        heard: Heard,
        *,
        failed: Failed = lambda name, error: None,
        groups: str = "",
        program: str = ZYGOTE,
    ) -> None:
        """`groups` is the control group below which each attempt gets its own; "": none has one."""
        self.folders = Folders(os.path.abspath(top))
        self._groups = groups
        self._watch = AttemptWatch(self.folders, groups, heard, failed)
        self._zygotes = ZygoteSupervisor(
            self.folders, groups, self._watch.forked, self._watch.zygote_gone, program
        )
        self._lock = -1

    async def start(self) -> None:
        """Make the folders, lock them for this server alone, and start the zygote.

        Raises `InvalidInput` for a path that is too long, or a control group that cannot be used,
        `Unavailable` for anything else that is missing.
        """
        if self.folders.too_long:
            raise InvalidInput(
                f"{self.folders.top} is too long for the paths of sockets",
                where="jobs",
                remedy="choose a folder with a shorter path",
            )
        if self._groups and not usable(self._groups):
            raise InvalidInput(
                f"cannot make and kill a control group below {self._groups}",
                where="control_group",
                remedy="name a folder of the cgroup2 file system that this user may write to, or none",
            )
        try:
            self.folders.make()
            self._lock = _lock(f"{self.folders.top}/lock")
            self._watch.start()
        except OSError as error:
            raise Unavailable(
                f"cannot use the folder for jobs: {error}", where=self.folders.top
            ) from None
        await self._zygotes.start()

    async def close(self) -> None:
        """Stop watching. Running attempts continue; others may still begin."""
        await self._zygotes.close()
        await self._watch.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # To begin

    async def prepare(self, names: Iterable[str]) -> None:
        """Make empty records for new attempts, durably, with one sync for all of them.

        Raises `InvalidInput` for a name that is none, `Unavailable` when they cannot be stored: nothing
        has begun then, and nothing can.
        """
        listed = list(names)
        for name in listed:
            check_name(name)
        try:
            await asyncio.to_thread(self._prepare, listed)
        except OSError as error:
            raise Unavailable(f"no job can be recorded: {error}", where=self.folders.jobs) from None

    def launch(self, orders: Iterable[JobOrder]) -> None:
        """Have each attempt begin, once; it must have been prepared. Asking again does no harm.

        Raises `InvalidInput` before anything is asked for, if an order could not be carried out.
        """
        listed = list(orders)
        for order in listed:
            check_order(order)
        for order in listed:
            self._watch.add(order.name)
            self._zygotes.order(order)

    # To know

    def look(self, name: str) -> Conclusion:
        """Return how an attempt stands; raises `InvalidInput`, `Unavailable`."""
        check_name(name)
        try:
            return conclusion.look(self.folders.record(name))
        except OSError as error:
            raise Unavailable(f"its record cannot be read: {error}", where=f"job {name}") from None

    def attempts_from(self, number: int) -> list[str]:
        """Return the attempts that have a record, of jobs with this number or a higher one; in order.

        Raises `Unavailable` where they cannot be listed.
        """
        try:
            listed = os.listdir(self.folders.jobs)
        except OSError as error:
            raise Unavailable(f"it cannot be read: {error}", where=self.folders.jobs) from None
        found = [name for name in listed if is_name(name) and job_of(name) >= number]
        return sorted(found, key=lambda name: tuple(map(int, name.split("."))))

    async def void(self, name: str) -> Conclusion:
        """Make an attempt void unless it has begun, and return how it stands then.

        Raises `Unavailable` when that cannot be written: ask again. A state of `State.STARTING` means that
        its shepherd is deciding right now.
        """
        check_name(name)
        self._zygotes.withdraw(name)
        try:
            found = await asyncio.to_thread(self._watch.make_void, name)
        except OSError as error:
            raise Unavailable(
                f"its start cannot be withdrawn: {error}", where=f"job {name}"
            ) from None
        self._watch.look(name)
        return found

    async def adopt(self, names: Iterable[str]) -> dict[str, Conclusion]:
        """Watch the attempts of an earlier life, and return how they stood.

        What had not begun is made void, and of the lost nothing is left when their end is heard.
        """
        listed = list(names)
        for name in listed:
            check_name(name)
        found = {}
        for number, name in enumerate(listed):
            found[name] = self.look(name)
            self._watch.adopt(name, found[name])
            if number % ADOPTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    # While it runs

    async def kill(self, name: str, reason: str, grace_s: float | None = None) -> None:
        """End an attempt: void it if it has not begun, else as its order says, or after `grace_s`.

        Returns once that is under way, or if it is over. Raises `Unavailable`; `reason` is for its user.
        """
        what = {"do": "kill", "reason": reason[:REASON_CHARACTERS_MAX], "grace_s": grace_s}
        while (state := (await self.void(name)).state) in (State.STARTING, State.RUNNING):
            if state is State.RUNNING:
                # It may be ending at this moment.
                with contextlib.suppress(Conflict):
                    await self._command(name, what)
                    return
            await asyncio.sleep(LOOK_S)

    async def stop(self, name: str, number: int) -> None:
        """Have all of an attempt stand still: its stop `number`, above the last. Void it if it has not begun.

        What becomes of it is heard as `Stopped` or `NotStopped`. A repeated number does no harm. Raises
        `Conflict` and `Unavailable`.
        """
        while (state := (await self.void(name)).state) in (State.STARTING, State.RUNNING):
            if state is State.RUNNING:
                await self._command(name, {"do": "stop", "number": number})
                return
            await asyncio.sleep(LOOK_S)

    async def go_on(self, name: str, number: int, cores: tuple[int, ...]) -> None:
        """Let an attempt go on after its stop `number`, on `cores`; raises as `stop` does."""
        await self._command(name, {"do": "go on", "number": number, "cores": list(cores)})

    async def prolong(self, name: str, limit_s: float) -> None:
        """Let the attempt run for `limit_s` in all; raises `Conflict`."""
        await self._command(name, {"do": "prolong", "limit_s": limit_s})

    async def change(
        self, name: str, number: int, to: int, cores: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Ask a malleable program to go on with `to` ranks on `cores`: its change `number`, above the last.

        Recorded before it is asked; the answer is heard as `ChangeAnswered`. A repeated number does no harm.
        Returns the sizes that it says it can have, () if it has not said. Raises `Conflict`.
        """
        what = {"do": "change", "number": number, "to": to, "cores": list(cores)}
        return tuple((await self._command(name, what))["sizes"])

    async def withdraw(self, name: str, number: int, to: int, cores: tuple[int, ...]) -> None:
        """Take change `number` back unless it has been answered: `to` ranks on `cores`, as before.

        It is heard as refused then; the next number is used up. Raises `Conflict`.
        """
        what = {"do": "withdraw", "number": number, "to": to, "cores": list(cores)}
        await self._command(name, what)

    async def deny(self, name: str, ranks: int, why: str) -> None:
        """Tell a program that it does not get the ranks that it wants; raises `Conflict`."""
        await self._command(name, {"do": "deny", "ranks": ranks, "why": why})

    async def attach(self, name: str) -> Attachment:
        """Return a place at the terminal of an attempt; raises `Conflict` if it does not run."""
        check_name(name)
        return await shepherd_line.attach(self.folders.socket(name), name)

    def read_output(self, name: str, path: str, start: int, bytes_max: int) -> bytes:
        """Return what an attempt has written to its absolute `path`, or ("") to the file kept for it.

        Raises `NotFound`, `NotAllowed`; also before its program is about to start.
        """
        main = self.look(name).main
        if main is None:
            raise NotFound("nothing has been written yet", where=f"job {name}")
        return read_output(path or self.folders.kept(name), main, start, bytes_max)

    def unchanged_since(self, before_s: float) -> list[str]:
        """Return the attempts whose records were last written before `before_s` (UTC); raises `OSError`."""
        found = []
        with os.scandir(self.folders.jobs) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if (
                        is_name(entry.name)
                        and entry.stat(follow_symlinks=False).st_mtime < before_s
                    ):
                        found.append(entry.name)
        return found

    async def forget(self, name: str) -> None:
        """Remove the record and the kept output of an attempt that is over."""
        check_name(name)
        self._watch.forget(name)
        await asyncio.to_thread(self._remove, name)

    async def _command(self, name: str, what: dict[str, Any]) -> dict[str, Any]:
        check_name(name)
        return await shepherd_line.command(self.folders.socket(name), name, what)

    def _prepare(self, names: list[str]) -> None:
        for name in names:
            create(self.folders.record(name))
        conclusion.sync_folder(self.folders.jobs)

    def _remove(self, name: str) -> None:
        shutil.rmtree(self.folders.own(name), ignore_errors=True)
        for path in (self.folders.socket(name), self.folders.record(name)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _lock(path: str) -> int:
    """Return a descriptor that holds the lock; raises `BlockingIOError` if another server has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BlockingIOError("another server uses it") from None
    return descriptor
