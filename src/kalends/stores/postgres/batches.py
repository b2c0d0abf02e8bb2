"""Batches: a transaction in two messages. The first locks rows, the second writes and commits.

What is written is decided between them, by pure code on rows that nobody else can change. Each batch begins
with the owner's fence. Rows are locked in one order; should two owners lock each other out all the same,
the server ends one of the two transactions, and its batch is run again.

Another owner may be stopped between its two messages: then it keeps its rows, and no time-out of the server
runs. Whoever waits for these rows ends that session, if the owner's beats stand still.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from psycopg import errors

from kalends.stores.group_commit import (
    Contradicted,
    Op,
    Op_contra,
    Result,
    StoreFailed,
    store_lost,
)
from kalends.stores.postgres import fence
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.session import BEGIN, Row, Statement, WriterSession, failed

AGAIN_MAX: Final = 3
"""A batch that collided with another's is run again so many times."""


def now_s() -> float:
    """Return the time since the start of this host: where it sleeps, too, and others take over."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


Rows = Sequence[Sequence[Row]]
"""The rows of each statement of a message."""

Results = TypeVar("Results")


class Collided(Exception):
    """Others have changed what a batch is about while it was locked: it is run again."""


class DecidedBatch(NamedTuple, Generic[Result]):
    """The writes of a batch, and the results of its operations.

    `results` gives one result for each operation, or nothing for all, from the rows that `statements` bring.
    """

    statements: Sequence[Statement]
    results: Callable[[Rows], Sequence[Result]]


class BatchedStore(Protocol[Op_contra, Result]):
    """The tables of one kind of store. All of it is pure: a batch may be run again from the beginning."""

    def mark(self, operations: Sequence[Op_contra]) -> OwnerMark:
        """Return how far the owner has come with `operations`."""

    def lock(self, operations: Sequence[Op_contra]) -> Sequence[Statement]:
        """Return what brings and locks the rows that `operations` are about, in one order for all owners.

        Where this is empty, nothing is decided by rows, and the whole batch is one message.
        """

    def decide(self, rows: Rows, operations: Sequence[Op_contra]) -> DecidedBatch[Result]:
        """Return what becomes of `operations`, one after the other, on the `rows` that were locked.

        Raises `Collided` where these rows are not all that was to be locked.
        """


class Batches(Generic[Op, Result]):
    """The transactions of `owner` (`group_commit.Transactions`), on a session of the writer's thread.

    `still` is called on that thread, and gives the owners whose beats stand still, with the beats that were
    seen. After a failure the session is closed: whoever is told `StoreFailed` begins anew from the rows.
    """

    def __init__(
        self,
        session: WriterSession,
        owner: str,
        part: BatchedStore[Op, Result],
        still: Callable[[], Mapping[str, int]],
    ) -> None:
        self._session = session
        self._owner = owner
        self._part = part
        self._still = still
        self.kept_out = False
        self.fenced_s = -math.inf
        """When the last batch that was stored was sent: after this its owner's beats were seen (`now_s`)."""

    def enrol(self, mark: OwnerMark) -> None:
        """Let this owner's batches in; raises `StoreFailed`."""
        try:
            self._session.commit([BEGIN, fence.enrol(self._owner, mark)])
        except Exception as error:
            raise self._given_up(error) from error

    def commit(self, operations: Sequence[Op], closing: Callable[[], bool]) -> Sequence[Result]:
        collisions = 0
        try:
            while True:
                try:
                    sent_s = now_s()
                    results = self._run(operations)
                    self.fenced_s = sent_s
                    return results
                except (Collided, errors.SerializationFailure, errors.DeadlockDetected):
                    collisions += 1
                    if collisions > AGAIN_MAX:
                        raise
                    self._session.roll_back()
                except errors.LockNotAvailable:
                    self.kept_out = True
                    if closing():
                        raise
                    self._session.roll_back()
                    if still := self._still():
                        self._session.message([fence.end_sessions(still)])
        except Exception as error:
            raise self._given_up(error) from error
        finally:
            self.kept_out = False

    def _run(self, operations: Sequence[Op]) -> Sequence[Result]:
        begin = [BEGIN, fence.fence(self._owner, self._part.mark(operations))]
        rows: Rows = ()
        if locks := self._part.lock(operations):
            rows = self._session.message([*begin, *locks])[len(begin) :]
            begin = []
        decided = self._part.decide(rows, operations)
        written = self._session.commit([*begin, *decided.statements])
        return decided.results(written[len(begin) :])

    def _given_up(self, error: Exception) -> StoreFailed:
        self._session.close()
        if isinstance(error, errors.DivisionByZero):
            return store_lost(
                "another process has taken over, and retired this one",
                error,
                remedy="nothing needs to be done: this one begins anew",
            )
        if isinstance(error, errors.ExclusionViolation):
            contradicted = Contradicted(
                f"the store refuses what cannot be true: {' '.join(str(error).split())}",
                where="store",
                remedy="report this fault, with the log",
            )
            contradicted.__cause__ = error
            return contradicted
        return failed(error)
