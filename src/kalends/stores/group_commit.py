"""Group commit: one thread writes, and what was submitted while it wrote goes into one transaction.

Submissions are committed in the order in which they were made, each whole in one transaction, and
reported in that order on the event loop, after their transaction is durable. So a submission of
nothing is a barrier: it is reported when everything before it is durable. What nobody relies on yet may be
stored later: in its place in the order, and with what comes next, which costs no sync of its own.

Nothing is waited for while a transaction is open, but the database itself. How a transaction is made is the
matter of each kind of store (`Transactions`); `stuck_s` tells how long the current one has been under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from kalends.core.errors import Unavailable

OPERATIONS_MAX: Final = 20_000
"""One transaction takes no further submission beyond this many operations: bounds what one costs."""

SPACING_S_MAX: Final = 0.008
SPACING_PER_OPERATION_S: Final = 0.001
"""A commit of several operations is followed by so much time to gather the next ones, counted from its
begin: every commit costs a sync and two changes of thread, whatever is in it. One of a single
operation is followed by none, so that a lone caller never waits for company."""

STUCK_S: Final = 5.0
"""A write takes milliseconds, and seconds on a busy disk, or while a database fails over: after this time it
is stuck, and whoever waits is told so."""

KEPT_OUT_S: Final = 1.0
"""The same while another process keeps the lock: it may have been stopped, for hours."""

STUCK_FILE: Final = "another process keeps it locked, or its disk does not answer"
STUCK_DATABASE: Final = "its database waits for a standby that is not there, or does not answer"
"""Why a write is stuck, by the kind of the store."""

LATER_S_MAX: Final = 1.0
"""What may be stored later is stored after this time, if nothing else was."""

Op = TypeVar("Op")
Result = TypeVar("Result")
Op_contra = TypeVar("Op_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)


class StoreFailed(Unavailable):
    """The store takes no more writes. Reported writes are stored; only reopening shows whether others are."""


class StoreLost(StoreFailed):
    """The store is away, or another process has taken over: nothing is broken, and it is opened again."""


class Contradicted(StoreFailed):
    """The store refuses facts that contradict stored ones: trying again does not help."""


def store_failed(why: str, cause: BaseException | None = None, *, remedy: str = "") -> StoreFailed:
    """Return the failure of a store that takes no more writes, with its `cause` and its `remedy`."""
    return _failure(StoreFailed, why, cause, remedy)


def store_lost(why: str, cause: BaseException, *, remedy: str) -> StoreFailed:
    """Return the same where the store is away, and nothing is broken."""
    return _failure(StoreLost, why, cause, remedy)


def _failure(
    kind: type[StoreFailed], why: str, cause: BaseException | None, remedy: str
) -> StoreFailed:
    failure = kind(
        f"the store accepts no writes: {why}", where="store", remedy=remedy, retry_after_s=1.0
    )
    failure.__cause__ = cause
    return failure


class Committed(NamedTuple):
    """One transaction, for metrics."""

    operations: int
    submissions: int
    seconds: float


class _Submission(NamedTuple, Generic[Op, Result]):
    operations: Sequence[Op]
    done: Callable[[Sequence[Result]], None]
    failed: Callable[[StoreFailed], None]


class Transactions(Protocol[Op_contra, Result_co]):
    """The transactions of one store; called by its writer's thread only."""

    kept_out: bool
    """Whether the current transaction waits for others' locks; read from any thread."""

    def commit(
        self, operations: Sequence[Op_contra], closing: Callable[[], bool]
    ) -> Sequence[Result_co]:
        """Carry out `operations` in one transaction, which is durable when this returns.

        Returns one result for each, or nothing for all. Waits for others' locks, however long that takes,
        until `closing` says that the store is being closed. Raises `StoreFailed` when it is not known to
        be durable; then nothing of it is stored, or all of it.
        """


class GroupCommit(Generic[Op, Result]):
    """The writer of one store; `submit` and `run` are called on the event loop it was made on.

    When a transaction fails, its submissions and all later ones fail with `StoreFailed`, and the committer
    writes no more: its owner closes it and opens the store again.
    """

    def __init__(
        self,
        transactions: Transactions[Op, Result],
        *,
        observe: Callable[[Committed], None] | None = None,
        stuck_because: str = STUCK_FILE,
    ) -> None:
        self.stuck_because = stuck_because
        self._transactions = transactions
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Submission[Op, Result] | None] = queue.SimpleQueue()
        self._later: list[Op] = []
        self._later_failed: Callable[[StoreFailed], None] = lambda failure: None
        self._later_timer: asyncio.TimerHandle | None = None
        self.unreported = 0
        """Submissions that have not been reported yet."""
        self._failure: StoreFailed | None = None
        self._began_s = 0.0
        """When the transaction that is being written was begun (monotonic); 0 when none is."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Everything that was submitted has been reported."""
        return self.unreported == 0

    @property
    def stuck_s(self) -> float:
        """Seconds that the current transaction has taken, if they are too many; else 0."""
        began_s = self._began_s
        took_s = time.monotonic() - began_s if began_s else 0.0
        return took_s if took_s >= (KEPT_OUT_S if self._transactions.kept_out else STUCK_S) else 0.0

    def submit(
        self,
        operations: Sequence[Op],
        done: Callable[[Sequence[Result]], None],
        failed: Callable[[StoreFailed], None],
    ) -> None:
        """Store `operations` together; exactly one of `done` and `failed` is called, later.

        `operations` may not be changed any more.
        """
        self.hasten()
        self._put(operations, done, failed)

    def submit_later(self, operations: Sequence[Op], failed: Callable[[StoreFailed], None]) -> None:
        """Store `operations` before the next ones, or within `LATER_S_MAX`; no caller waits for it."""
        self._later += operations
        self._later_failed = failed
        if self._later_timer is None:
            self._later_timer = self._loop.call_later(LATER_S_MAX, self.hasten)

    def hasten(self) -> None:
        """Store at once what was to be stored later."""
        if self._later_timer is not None:
            self._later_timer.cancel()
            self._later_timer = None
            later, self._later = self._later, []
            self._put(later, lambda results: None, self._later_failed)

    def _put(
        self,
        operations: Sequence[Op],
        done: Callable[[Sequence[Result]], None],
        failed: Callable[[StoreFailed], None],
    ) -> None:
        self.unreported += 1
        self._queue.put(_Submission(operations, done, failed))

    async def run(self, operations: Sequence[Op]) -> Sequence[Result]:
        """The results of `operations` once they are durable; raises `StoreFailed`."""
        future: asyncio.Future[Sequence[Result]] = self._loop.create_future()

        def done(results: Sequence[Result]) -> None:
            if not future.done():
                future.set_result(results)

        def failed(error: StoreFailed) -> None:
            if not future.done():
                future.set_exception(error)

        self.submit(operations, done, failed)
        return await future

    async def close(self) -> None:
        """Commit and report everything that was submitted, then end the thread.

        What the transactions are made with is its owner's to close. Submitting afterwards fails nobody: it
        is never done.
        """
        self.hasten()
        self._queue.put(None)
        self._closing.set()
        await asyncio.to_thread(self._thread.join)
        # What the thread has handed over before its end is reported before this goes on.
        await asyncio.sleep(0)

    # On the writer's thread

    def _write(self) -> None:
        submissions: list[_Submission[Op, Result]] = []
        while self._collect(submissions):
            began_s = time.perf_counter()
            self._commit(submissions)
            count = sum(len(submission.operations) for submission in submissions)
            gather_s = min((count - 1) * SPACING_PER_OPERATION_S, SPACING_S_MAX)
            self._closing.wait(max(began_s + gather_s - time.perf_counter(), 0))
            submissions = []
        if submissions:
            self._commit(submissions)

    def _collect(self, into: list[_Submission[Op, Result]]) -> bool:
        """Wait for a submission and take all that are there; False when these are the last."""
        size = 0
        submission = self._queue.get()
        while submission is not None:
            into.append(submission)
            size += len(submission.operations)
            if size >= OPERATIONS_MAX:
                return True
            try:
                submission = self._queue.get_nowait()
            except queue.Empty:
                return True
        return False

    def _commit(self, submissions: list[_Submission[Op, Result]]) -> None:
        operations = [each for submission in submissions for each in submission.operations]
        results: Sequence[Result] = ()
        committed = None
        if operations and self._failure is None:
            began_s = time.perf_counter()
            self._began_s = time.monotonic()
            try:
                results = self._transactions.commit(operations, self._closing.is_set)
            except StoreFailed as failure:
                self._failure = failure
            except Exception as error:
                # The boundary of the thread: whatever it was, nobody may be told of success.
                self._failure = store_failed(str(error), error)
            else:
                seconds = time.perf_counter() - began_s
                committed = Committed(len(operations), len(submissions), seconds)
            self._began_s = 0.0
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            self._loop.call_soon_threadsafe(
                self._report, submissions, results, self._failure, committed
            )

    # On the event loop

    def _report(
        self,
        submissions: list[_Submission[Op, Result]],
        results: Sequence[Result],
        failure: StoreFailed | None,
        committed: Committed | None,
    ) -> None:
        self.unreported -= len(submissions)
        if committed is not None and self._observe is not None:
            self._observe(committed)
        taken = 0
        for submission in submissions:
            upto = taken + len(submission.operations)
            try:
                if failure is not None:
                    submission.failed(failure)
                else:
                    submission.done(results[taken:upto])
            except Exception as error:
                # The boundary of one submission: those behind it are reported all the same.
                self._loop.call_exception_handler(
                    {"message": "a submission's report failed", "exception": error}
                )
            taken = upto
