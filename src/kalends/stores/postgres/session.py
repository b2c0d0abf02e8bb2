"""The writer's session: one connection, used by one thread, whose messages are pipelines.

A message is one round trip, whatever number of statements it holds. When a statement fails, the server
passes over the rest of its message. Success is believed only where the server has said that it committed,
and gave no warning: a wait for the standby that was cancelled is reported as a success with a warning, and
after a failover the transaction is gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import RawCursor

from kalends.core.errors import Unavailable
from kalends.stores.group_commit import StoreFailed, store_failed, store_lost
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.connection_faults import fault_of

Row = tuple[Any, ...]

SESSION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "synchronous_commit": "on",
        "default_transaction_isolation": "read committed",
        # Warnings tell of a wait for the standby that was cancelled.
        "client_min_messages": "warning",
        # Plans made for each value turned as tables grew; every statement here finds rows by an index.
        "plan_cache_mode": "force_generic_plan",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        "enable_seqscan": "off",
        "jit": "off",
        # Whoever keeps a row for so long may be stopped: then its session is to be ended.
        "lock_timeout": "150ms",
        # A batch that the server cancels while it waits for the standby would look like a success.
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "idle_session_timeout": "0",
    }
)

REMEDY: Final = "see that the database can be reached; the server then continues automatically"


class Statement(NamedTuple):
    """SQL with ``$1``, ``$2`` ..., and the values of these."""

    sql: str
    values: Sequence[object] = ()


BEGIN: Final = Statement("begin")
COMMIT: Final = Statement("commit")

COMMIT_S_MAX: Final = 10.0
"""A commit that nobody but a start waits for is given up after this time."""

SOUNDING: Final = Statement("select pg_logical_emit_message(true, 'kalends', '')")
"""It changes nothing, and is committed as any change: at the standbys, too."""


class WriterSession:
    """An open session of a writer; `pid` is that of its process at the server."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self.connection = connection
        self.pid = connection.info.backend_pid
        self._warnings: list[str] = []
        connection.add_notice_handler(self._warned)

    @classmethod
    def open(
        cls, address: Address, settings: Mapping[str, str] = SESSION, **others: str
    ) -> WriterSession:
        """Connect to the primary itself; raises `Unavailable` if there is none, or a pooler answers.

        `settings` are those of the session; `others` go before the parameters of the address.
        """
        try:
            connection = psycopg.connect(
                address.conninfo(**others),
                autocommit=True,
                prepare_threshold=0,
                cursor_factory=RawCursor,
            )
        except psycopg.Error as error:
            raise unreachable(address, error) from error
        session = cls(connection)
        try:
            # Before anything is prepared: behind a pooler it would be met by other sessions.
            row = connection.execute("select pg_backend_pid()", prepare=False).fetchone()
            if row != (session.pid,):
                raise _pooled(address)
            session.message(settings_of(settings))
        except psycopg.Error as error:
            session.close()
            raise unreachable(address, error) from error
        except Unavailable:
            session.close()
            raise
        return session

    def message(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send `statements` together, and return the rows of each; raises `psycopg.Error`."""
        return [_rows(cursor) for cursor in self._send(statements)]

    def commit(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Send `statements` and commit: all is durable when this returns, at the standby too.

        Raises `StoreFailed` where the server does not say so; then nobody knows.
        """
        self._warnings.clear()
        *cursors, committed = self._send([*statements, COMMIT])
        if committed.statusmessage != "COMMIT":
            raise store_failed(f"the transaction ended with {committed.statusmessage}")
        if self._warnings:
            raise store_failed(
                f"it is not known to be durable: {'; '.join(self._warnings)}",
                remedy="cancel no statement of kalends that waits for a standby",
            )
        return [_rows(cursor) for cursor in cursors]

    def roll_back(self) -> None:
        """End the transaction without its effects; raises `psycopg.Error`."""
        self.connection.execute("rollback")

    def cut(self) -> None:
        """End the line at once, from any thread: a message under way fails, and may be committed or not."""
        cut(self.connection)

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self.connection.close()

    def _send(self, statements: Sequence[Statement]) -> list[RawCursor[Row]]:
        cursors = []
        with self.connection.pipeline():
            for statement in statements:
                cursor = RawCursor(self.connection)
                cursor.execute(statement.sql, statement.values, binary=True)
                cursors.append(cursor)
        return cursors

    def _warned(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(f"{notice.message_primary} ({notice.sqlstate})")


def settings_of(settings: Mapping[str, str]) -> list[Statement]:
    return [Statement("select set_config($1, $2, false)", each) for each in settings.items()]


def cut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End the line of `connection` at once: each wait for an answer on it fails, even at a frozen server."""
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


def _rows(cursor: RawCursor[Row]) -> list[Row]:
    return cursor.fetchall() if cursor.description is not None else []


@contextlib.contextmanager
def asked(address: Address) -> Iterator[None]:
    """Raise `Unavailable` where a message to the database at `address` fails."""
    try:
        yield
    except psycopg.Error as error:
        raise unreachable(address, error) from error


@contextlib.contextmanager
def committing(session: WriterSession, address: Address) -> Iterator[None]:
    """Give up what is committed here, and `session`, after `COMMIT_S_MAX`; raises `Unavailable` then.

    It may be committed later: it has to be something that may be done again.
    """
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        session.cut()

    late = threading.Timer(COMMIT_S_MAX, give_up)
    late.start()
    try:
        yield
    except psycopg.Error as error:
        if is_late.is_set():
            raise does_not_commit(address) from error
        raise
    finally:
        late.cancel()


def does_not_commit(address: Address) -> Unavailable:
    return Unavailable(
        "the database answers, but it does not commit: it waits for a standby that is not there",
        where=address.shown,
        remedy="start the standbys that synchronous_standby_names names; pg_stat_replication lists those that"
        " are connected",
        retry_after_s=1.0,
    )


def sound(session: WriterSession, address: Address) -> None:
    """Commit nothing, at the standbys too; raises `Unavailable` where that does not work."""
    with asked(address), committing(session, address):
        session.commit([BEGIN, SOUNDING])


def unreachable(address: Address, error: Exception) -> Unavailable:
    fault = fault_of(error, address.user)
    return Unavailable(
        f"the database cannot be used: {fault.detail}",
        where=address.shown,
        remedy=fault.remedy,
        retry_after_s=1.0,
    )


def _pooled(address: Address) -> Unavailable:
    return Unavailable(
        "a pooler stands in between: locks and settings of a session would go to other clients",
        where=address.shown,
        remedy="name the database's own hosts and ports in the URL",
        retry_after_s=1.0,
    )


def failed(error: Exception) -> StoreFailed:
    """Return the failure of a store whose session met `error`."""
    if isinstance(error, StoreFailed):
        return error
    if isinstance(error, psycopg.OperationalError):
        return store_lost(fault_of(error).detail, error, remedy=REMEDY)
    return store_failed(" ".join(str(error).split()), error, remedy=REMEDY)
