"""An executor of `concurrent.futures` whose functions are jobs on machines.

A result is unpickled here: whoever can write the output of the job can run code in this process. That is the
job itself, whose function is yours, and the owner of the machine that it ran on. Use it only at owners whom
you trust with that; others' output is never taken for a result.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from msgspec.structs import replace

from kalends.client.functions.result_frames import Frame, ResultReader, script_of
from kalends.client.sync import SyncClient, in_background
from kalends.contract.job_calls import JobView, end_text
from kalends.contract.request_views import RequestView
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    TooLarge,
    Unavailable,
)
from kalends.core.jobs import JobRequest
from kalends.extras import install_command

if TYPE_CHECKING:
    from kalends.client.client import Client

P = ParamSpec("P")
T = TypeVar("T")

RESULT_BYTES_MAX: Final = 16 << 20
"""The largest result: it comes as text, and is held in memory at both ends."""

AGAIN_S: Final = 1.0
"""Delay after a call that failed while a job is followed: the job goes on meanwhile."""

NAME: Final = "function {}"
"""Names of jobs, by which those of a key are found again."""


class RemoteTraceback(Exception):
    """The traceback of an exception at the machine, as its cause here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class JobFuture(Future[T]):
    """The result of a function that runs as a job; `key` finds it again, also in another process.

    `result` raises what the function raised, with the traceback of the machine as its cause; `Conflict` for a
    job that ended without a result, with the reason; and `TooLarge`.
    """

    def __init__(self, key: str, kill: Callable[[JobFuture[T]], bool]) -> None:
        super().__init__()
        self.key = key
        self.machine = ""
        """Where the job is; "" until that is known."""
        self.number = 0
        self.output = b""
        """The last of what the job has printed, once it has ended."""
        self._kill = kill

    def cancel(self) -> bool:
        """Withdraw the job, or end it while it runs; False if it has ended already."""
        if self.done():
            return self.cancelled()
        if not self._kill(self):
            return False
        return super().cancel()


class JobExecutor(Executor):
    """Runs functions as jobs like `job`, by the `client` for its site, or for a broker without a machine.

    `job` has the machine, the limit, the directory and so on, and no program. `python` is the interpreter
    there; it needs cloudpickle, in a version like the one here. Raises `KalendsError` without cloudpickle.
    """

    def __init__(
        self,
        client: SyncClient,
        job: JobRequest,
        *,
        on: str = "",
        python: str = "python3",
        result_bytes_max: int = RESULT_BYTES_MAX,
    ) -> None:
        if job.command or job.script or job.indices or job.terminal or job.output or job.error:
            raise InvalidInput(
                "the job of a function has no program, array, terminal or output file of its own",
                where="job",
                remedy="leave out command, script, indices, terminal, output and error",
            )
        if on and job.machine:
            raise InvalidInput(
                "`on` chooses a machine, and one is named", where="on", remedy="give one of them"
            )
        self._pickle = _cloudpickle()
        self._client = client
        self._job = job
        self._on = on
        self._python = python
        self._result_bytes_max = result_bytes_max
        self._futures: dict[str, JobFuture[Any]] = {}
        self._changing = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> JobFuture[T]:
        """Submit ``function(*args, **named)``; returns once its job is durable.

        Raises as `Client.submit` or `Client.place_job`, `TooLarge` for large arguments, and `InvalidInput`
        for those that cannot be pickled.
        """
        return self.submit_keyed(self._client.new_key(), function, *args, **named)

    def submit_keyed(
        self, key: str, function: Callable[P, T], /, *args: P.args, **named: P.kwargs
    ) -> JobFuture[T]:
        """Submit as `submit` does, once for each `key`; for a known one, return the future of its job."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        script = script_of(
            key, (function, args, named), self._python, self._result_bytes_max, self._dumps
        )
        job = replace(self._job, script=script, name=NAME.format(key))
        future: JobFuture[T] = JobFuture(key, self._kill)
        try:
            self._take_place(future, self._submitted(job, key))
        except KeyReused:
            # The same call, pickled by another process, need not be the same bytes.
            return self.find(key)
        return self._followed(future)

    def find(self, key: str) -> JobFuture[Any]:
        """Return the future of the function that was submitted with `key`, by whatever process.

        Raises `NotFound` if there is no such job.
        """
        with self._changing:
            if (known := self._futures.get(key)) is not None:
                return known
        future: JobFuture[Any] = JobFuture(key, self._kill)
        self._take_place(future, self._known(key))
        return self._followed(future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions. Jobs go on, unless they are cancelled; with `wait`, wait for their ends."""
        self._closed = True
        with self._changing:
            futures = [*self._futures.values()]
        for each in futures:
            if cancel_futures:
                each.cancel()
        for each in futures:
            if wait and not each.cancelled():
                try:
                    each.exception()
                except CancelledError:
                    continue

    def _dumps(self, call: Any) -> bytes:
        try:
            content = self._pickle.dumps(call)
        except Exception as error:
            raise InvalidInput(
                f"the function or its arguments cannot be pickled: {error}",
                where="function",
                remedy="pass plain data, and open files and connections in the function",
            ) from error
        return bytes(content)

    # Places of jobs

    def _submitted(self, job: JobRequest, key: str) -> tuple[str, int]:
        """Submit the job, and return its place; "" while the broker looks for one."""
        if job.machine:
            view = self._client.submit(job, key=key).job
            return view.machine, view.job
        return _place(self._client.place_job(job, on=self._on, key=key))

    def _known(self, key: str) -> tuple[str, int]:
        """Return the place of the job with this key; raises `NotFound`."""
        if not self._job.machine:
            return _place(self._client.resolve(key))
        machine, name = self._job.machine, NAME.format(key)
        for view in self._client.jobs(machine).jobs:
            if view.name == name:
                return machine, view.job
        before = 0
        while page := self._client.jobs(machine, state="over", before=before).jobs:
            for view in page:
                if view.name == name:
                    return machine, view.job
            before = min(view.job for view in page)
        raise NotFound(
            f"{machine} knows no job of a function with this key",
            where="key",
            remedy="give the key with which the function was submitted, as the same user",
        )

    def _take_place(self, future: JobFuture[Any], place: tuple[str, int]) -> None:
        future.machine, future.number = place

    def _kill(self, future: JobFuture[Any]) -> bool:
        try:
            if self._job.machine:
                view = self._client.kill_job(future.machine, future.number)
                return view.end in ("", "killed", "withdrawn")
            self._client.cancel(self._client.resolve(future.key).id)
        except Conflict:
            return False
        return True

    # Following jobs

    def _followed(self, future: JobFuture[T]) -> JobFuture[T]:
        with self._changing:
            known = self._futures.setdefault(future.key, future)
        if known is future:
            following = in_background(self._client, lambda client: self._follow(client, future))
            following.add_done_callback(lambda ended: _failed(future, ended))
        return known

    async def _follow(self, client: Client, future: JobFuture[Any]) -> None:
        """Wait until the job has ended, and give its result to the future."""
        while True:
            try:
                ended, reader = await self._ending(client, future)
                break
            except (Unavailable, OutcomeUnknown):
                # The site or the broker is away for a while: the job is not.
                await asyncio.sleep(AGAIN_S)
        frame = reader.frame()
        future.output = frame.output if frame is not None else reader.output
        await asyncio.to_thread(self._settle, future, ended, frame)

    async def _ending(self, client: Client, future: JobFuture[Any]) -> tuple[JobView, ResultReader]:
        """Return how the job has ended, and its output; raises as the calls."""
        if self._job.machine:
            return await self._ending_at(client, future)
        while True:
            view = await client.resolve(future.key)
            if view.state == "open":
                view = await client.wait(view.id)
            if view.placed is None:
                why = view.problem.detail if view.problem is not None else view.state
                raise Conflict(
                    f"the job of the function has no place: {why}",
                    where="function",
                    remedy="submit it again, with another key",
                )
            self._take_place(future, _place(view))
            site = future.machine.split("/")[0]
            async with await client.at_site(site) as there:
                ended, reader = await self._ending_at(there, future)
            if reader.frame() is not None or ended.end not in ("withdrawn", "lost", "node-failed"):
                return ended, reader
            # It may have another place by now.
            again = await client.resolve(future.key)
            if again.state != "open" and _place(again) == (future.machine, future.number):
                return ended, reader

    async def _ending_at(
        self, client: Client, future: JobFuture[Any]
    ) -> tuple[JobView, ResultReader]:
        machine, number = future.machine, future.number
        async for view in client.watch_job(machine, number):
            last = view
        reader = ResultReader(future.key, self._result_bytes_max)
        async for piece in client.follow_output(machine, number):
            reader.feed(piece)
        return last, reader

    def _settle(self, future: JobFuture[Any], ended: JobView, frame: Frame | None) -> None:
        """Give the result to the future; it is unpickled here."""
        if frame is None:
            error: BaseException = Conflict(
                f"job {ended.job} on {ended.machine} ended without a result: {end_text(ended)}",
                where="function",
                remedy="see the output of the future; the machine may lack its interpreter or cloudpickle",
            )
        elif frame.kind == "too-large":
            error = TooLarge(
                f"the result has {frame.content.decode()} bytes, and {self._result_bytes_max} are the most",
                where="function",
                remedy="let the function write it to a file, or raise result_bytes_max",
            )
        else:
            try:
                value = self._pickle.loads(frame.content)
            except Exception as fault:
                error = Conflict(
                    f"the result of job {ended.job} on {ended.machine} cannot be unpickled here: {fault}",
                    where="function",
                    remedy="use the same versions of Python and of packages here and there",
                )
            else:
                if frame.kind == "returned":
                    _set(future, value)
                    return
                error = _raised(*value)
        _set(future, error=error)


def _place(view: RequestView) -> tuple[str, int]:
    """Return where the broker has put a job; ("", 0): nowhere yet."""
    if view.placed is None:
        return "", 0
    return view.placed.machine, view.placed.number


def _raised(error: BaseException | None, text: str) -> BaseException:
    if error is None:
        error = Conflict(
            f"the function raised what cannot be pickled: {text.strip().splitlines()[-1]}",
            where="function",
            remedy="raise an exception of plain data",
        )
    error.__cause__ = RemoteTraceback(text)
    return error


def _set(future: Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    """Settle the future, unless it was cancelled meanwhile."""
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def _failed(future: Future[Any], ended: Future[None]) -> None:
    """Give the future the error that has ended the following of its job."""
    if ended.cancelled():
        lost = "the client was closed before the job has ended; `find` finds it by its key"
        _set(future, error=OutcomeUnknown(lost, where="client"))
    elif (error := ended.exception()) is not None:
        _set(future, error=error)


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError as error:
        raise KalendsError(
            "functions as jobs need cloudpickle, which is not installed",
            where="function",
            remedy=f"install it: {install_command('functions')}",
        ) from error
    return cloudpickle
