"""A store with one owner, who alone may write: its session keeps others out for as long as it lasts.

The lock tells others at once that an owner was killed, and its beats tell that it hangs. The fence is what
protects: a promoted standby of the database knows nothing of locks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import psycopg

from kalends.stores.postgres import fence, migrations, settings
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.migrations import OpenedStore, StoreSchema
from kalends.stores.postgres.session import (
    BEGIN,
    SESSION,
    Row,
    Statement,
    WriterSession,
    asked,
    failed,
    sound,
)
from kalends.stores.postgres.stillness import StillOwners
from kalends.stores.served_elsewhere import ServedElsewhere

BEAT_S: Final = 1.0
"""An owner that has nothing to store beats this often."""

LEASE_S: Final = 5.0
"""An owner that has not beaten for so long is taken for dead; if it lives after all, it begins anew."""

END_MS_MAX: Final = 2_000

_ON: Final = "kalends on "

_OPENING: Final[Mapping[str, str]] = {
    **SESSION,
    # The server has to notice within seconds that the host of an owner is gone.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}

_LOCK: Final = "$1::integer, current_schema()::regnamespace::oid::integer"
_NUMBER: Final = 0x6B616C31  # "kal1"

_TRY: Final = Statement(f"select pg_try_advisory_lock({_LOCK})", (_NUMBER,))
"""It ends with the session, after the last transaction of that."""

_LEAVE: Final = Statement("select pg_advisory_unlock_all()")

_OWNER: Final = """
from pg_locks as held join pg_stat_activity as session using (pid)
left join replica on replica.pid = session.pid and replica.session_began = session.backend_start
where held.locktype = 'advisory' and held.granted and held.objsubid = 2
    and held.database = (select oid from pg_database where datname = current_database())
    and held.classid = $1::integer::oid and held.objid = current_schema()::regnamespace::oid
"""

_LOOK: Final = Statement(
    "select session.pid, session.backend_start::text, coalesce(replica.beats, 0),"
    f" session.application_name {_OWNER}",
    (_NUMBER,),
)

# A session that waits for a standby, or for a lock, belongs to somebody who is alive, or comes to its end.
_END: Final = f"""
select pg_terminate_backend(session.pid, {END_MS_MAX}) {_OWNER}
    and session.pid = $2 and session.backend_start::text = $3 and coalesce(replica.beats, 0) = $4::bigint
    and session.wait_event_type = 'Client'
"""

_OTHERS: Final = Statement("delete from replica")


class StoreOwner(NamedTuple):
    """The session that owns a store; the server gives the number of a process to others later."""

    pid: int
    began: str
    beats: int
    application: str

    @property
    def host(self) -> str:
        """The host of its process; "" if that is not known."""
        return self.application.removeprefix(_ON) if self.application.startswith(_ON) else ""


class StoreCandidate:
    """A process that wants a store for itself: it looks again and again whether it can have it.

    Its `session` is open, the settings of the database are checked, and the tables of `store` are up to date.
    One thread at a time uses it.
    """

    def __init__(self, session: WriterSession, address: Address, store: OpenedStore) -> None:
        self.session = session
        self.store = store
        self._address = address
        self._still_owners = StillOwners(LEASE_S)

    @classmethod
    def open(
        cls, session: WriterSession, address: Address, schema: StoreSchema, owner: str
    ) -> StoreCandidate:
        """Open or make the store of `owner`, with a session of `connected`, which is closed if that fails.

        Raises as `settings.check` and `migrations.open_store`.
        """
        try:
            settings.check(session, address)
            sound(session, address)
            return cls(session, address, migrations.open_store(address, schema, owner))
        except BaseException:
            session.close()
            raise

    def take(self) -> None:
        """Keep all others out from now on; raises `ServedElsewhere` while another owner lives.

        An owner lives until its session ends, or its beats stand still for `LEASE_S` by the clock of this
        process. Then its session is ended, which may have locked rows. Raises `Unavailable`.
        """
        with asked(self._address):
            (((is_ours,),), owners) = self.session.message([_TRY, _LOOK])
            if is_ours:
                return
            if not owners:
                # It has just ended.
                raise ServedElsewhere("", self._address.shown)
            owner = StoreOwner(*owners[0])
            named = f"{owner.pid} {owner.began}"
            if not self._still_owners.look({named: owner.beats}, time.monotonic()):
                raise ServedElsewhere(owner.host, self._address.shown)
            end = Statement(_END, (_NUMBER, owner.pid, owner.began, owner.beats))
            _, ((is_ours,),) = self.session.message([end, _TRY])
            if not is_ours:
                raise ServedElsewhere(owner.host, self._address.shown)

    def close(self) -> None:
        self.session.close()


def connected(address: Address, host: str) -> WriterSession:
    """Return the session of a process on `host` that wants the store; raises `Unavailable`."""
    return WriterSession.open(address, _OPENING, application_name=_ON + host)


def leave(session: WriterSession) -> None:
    """Close `session`, and let the next one have its store at once: the server ends sessions later."""
    with contextlib.suppress(psycopg.Error):
        session.message([_LEAVE])
    session.close()


def owner_of(address: Address) -> StoreOwner | None:
    """Return who has the store at `address` open; raises `Unavailable`."""
    session = WriterSession.open(address)
    try:
        with asked(address):
            there = session.message([Statement("select to_regclass('replica') is not null")])[0]
            found = session.message([_LOOK])[0] if there == [(True,)] else []
            return StoreOwner(*found[0]) if found else None
    finally:
        session.close()


def begin(
    session: WriterSession, life: str, statements: Sequence[Statement]
) -> Sequence[Sequence[Row]]:
    """Let `life` alone write from now on; gives the rows of `statements`, of the same transaction.

    Raises `StoreFailed`; then the session is closed.
    """
    # Others first: what one of them still commits is there before `statements`, or never.
    before = [BEGIN, _OTHERS, fence.enrol(life, OwnerMark())]
    try:
        return session.commit([*before, *statements])[len(before) :]
    except Exception as error:
        session.close()
        raise failed(error) from error
