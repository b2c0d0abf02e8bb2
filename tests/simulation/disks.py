"""Durable storage: sites' stores and the brokers' register, both the shipped code on real SQLite.

A batch becomes durable in one commit or not at all. A commit may fail (disk full: nothing is stored;
failed sync: stored or not, nobody knows): the node then starts again from what is there. In file mode
a crash may tear the log: the store's files are copied as a loss of power would leave them, with the
log cut at any byte of the last commit, and the node goes on with the copy.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from kalends.batch.journal.contract import JobOver
from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal
from kalends.batch.queue.facts import JournalEntry
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register.sqlite.broker_store import SCHEMA
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import Result, Write
from kalends.contract.messages import Message
from kalends.resource_servers.journal.contract import Loaded
from kalends.resource_servers.journal.sqlite.site_store import KIND, SiteStore
from kalends.resource_servers.participation.effects import SiteFact
from kalends.stores.sqlite.sqlite_file import StoreFile
from tests.simulation.kernel import Kernel
from tests.support.store_support import store_facts

if TYPE_CHECKING:
    from tests.simulation.nodes import Node


class DiskFailed(Exception):
    """The batch was not reported as stored: only starting again tells whether it is."""


class Watcher(Protocol):
    """Who is told of everything durable (the auditor)."""

    def site_stored(self, site: str, facts: Sequence[SiteFact]) -> None: ...
    def register_changed(self, rids: set[str]) -> None: ...
    def sent(self, node: Node, to: str, message: Message) -> None: ...


class DiskImage(NamedTuple):
    """A copy of a site's store, and how often it had been opened."""

    stored: bytes
    epoch: int


class SiteDisk:
    """What one site keeps over its lives."""

    def __init__(self, kernel: Kernel, watcher: Watcher, site: str, *, files: bool) -> None:
        self._kernel = kernel
        self._watcher = watcher
        self._site = site
        self._epoch = 0
        self._lives = 0
        self._directory = _temporary() if files else None
        self._store: SiteStore | None = None
        self._connection = None if files else _memory()
        if self._connection is not None:
            self._connection.executescript(KIND.schema)

    def open(self) -> tuple[Loaded, int]:
        """Begin a life; returns what is stored, and the new epoch."""
        if self._directory is not None:
            if self._store is not None:
                self._store.close()
            path = Path(self._directory.name) / "site.db"
            self._store = SiteStore.open(path, self._site, sync="off", life=self._life())
        else:
            assert self._connection is not None
            self._epoch += 1
            file = StoreFile(Path(), self._connection, self._epoch, None)
            self._store = SiteStore(file, self._life())
        self._store.check()
        return self._store.load(), self._store.epoch

    def _life(self) -> str:
        """A name for the life that begins: like a random one, but replayed."""
        self._lives += 1
        return life_of(f"{self._site} {self._lives}")

    def store(self, facts: Sequence[SiteFact], wall_ms: int, *, full: float, sync: float) -> None:
        """Make `facts` durable together; raises `DiskFailed`."""
        assert self._store is not None
        if self._kernel.chance(full):
            self._kernel.fault("disk full", self._site)
            raise DiskFailed
        store_facts(self._store, facts, wall_ms)
        self._watcher.site_stored(self._site, facts)
        if self._kernel.chance(sync):
            self._kernel.fault("failed sync", self._site)
            raise DiskFailed

    @property
    def position(self) -> int:
        """The number of the last row of the journal: what the site tells brokers must be just that."""
        assert self._store is not None
        connection = self._store.file.connection
        return int(connection.execute("select coalesce(max(seq), 0) from journal").fetchone()[0])

    def job_entries(self, machine: str) -> list[JournalEntry]:
        """Return all facts of a queue."""
        assert self._store is not None
        return list(SqliteJobJournal(self._store.file.connection).entries_after(machine, 0))

    def jobs_over(self, machine: str) -> list[JobOver]:
        """Return the jobs of a machine that are over."""
        assert self._store is not None
        rows = self._store.file.connection.execute(
            "select cast(body as blob) from job where machine = ? order by number desc", (machine,)
        )
        return [msgspec.msgpack.decode(body, type=JobOver) for (body,) in rows]

    def tear(self, facts: Sequence[SiteFact], wall_ms: int) -> None:
        """Lose power while `facts` are being written; the log is cut at any byte of them."""
        assert self._store is not None
        self._kernel.fault("torn write", self._site)
        if self._directory is None:
            return
        path = Path(self._directory.name) / "site.db"
        log = path.with_name(path.name + "-wal")
        before = log.read_bytes() if log.exists() else b""
        store_facts(self._store, facts, wall_ms)
        after = log.read_bytes()
        written = len(after)
        image = _temporary()
        for file in sorted(Path(self._directory.name).iterdir()):
            if not file.name.endswith(("-shm", ".lock")):
                shutil.copy(file, image.name)
        # A log that begins anew overwrites old frames, and facts may change nothing: what differs tells.
        floor = next(
            (at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
            min(len(before), written),
        )
        cut = self._kernel.random.randrange(floor, written) if written > floor else floor
        with (Path(image.name) / log.name).open("r+b") as torn:
            torn.truncate(cut)
        self._store.close()
        self._store = None
        self._directory.cleanup()
        self._directory = image
        self._kernel.fault("torn log", f"{self._site} at {cut - floor} of {written - floor}")

    def image(self) -> DiskImage:
        """Return what is stored now; of a disk in memory."""
        assert self._connection is not None
        return DiskImage(self._connection.serialize(), self._epoch)

    def put_back(self, image: DiskImage) -> None:
        """Have what was stored when `image` was made, and nothing else, at the next opening."""
        assert self._connection is not None
        self._connection = _copied(self._connection, image.stored)
        self._epoch = image.epoch

    def close(self) -> None:
        if self._directory is not None:
            if self._store is not None:
                self._store.close()
            self._directory.cleanup()
        elif self._connection is not None:
            self._connection.close()


class RegisterDisk:
    """The register that all replicas share; a transaction is one event, so they never interleave."""

    promoted = False
    """Whether its database has another timeline than when it was last believed."""

    def __init__(self, kernel: Kernel, watcher: Watcher) -> None:
        self._kernel = kernel
        self._watcher = watcher
        self.connection = _memory()
        self.connection.executescript(SCHEMA)
        self.connection.execute("update meta set value = ? where name = 'register'", ("0" * 32,))
        self.connection.execute("update meta set value = ? where name = 'secret'", ("5" * 64,))
        self.reads = RegisterReads(self.connection, self.connection)

    def write(self, writes: Sequence[Write]) -> list[Result]:
        """Carry out `writes` in one transaction, without trouble."""
        self.connection.execute("begin immediate")
        results = carry_out(self.connection, writes)
        self.connection.execute("commit")
        return results

    def apply(
        self,
        operations: Sequence[r.Operation],
        who: str,
        memories: Iterable[r.Remember],
        live: Live,
        *,
        full: float,
        sync: float,
    ) -> list[r.Registered]:
        """Carry out `operations` in one transaction; raises `DiskFailed`."""
        if self._kernel.chance(full):
            self._kernel.fault("register disk full", who)
            raise DiskFailed
        results = _registered(self.write([*memories, live, *operations]))
        for result in results:
            op = result.operation
            self._kernel.note(f"{who} {type(op).__name__} {rid_of(op)[-6:]} won={result.won}")
        self._watcher.register_changed(touched(operations))
        if self._kernel.chance(sync):
            self._kernel.fault("register failed sync", who)
            raise DiskFailed
        return results

    def foresee(self, operations: Sequence[r.Operation]) -> list[r.Registered]:
        """What `apply` would answer now; nothing is stored. Only a broken broker believes it."""
        self.connection.execute("begin immediate")
        try:
            return _registered(carry_out(self.connection, operations))
        finally:
            self.connection.execute("rollback")

    def put_back(self, image: bytes) -> None:
        """Have what was stored when `image` was made, and nothing else."""
        self.connection = _copied(self.connection, image)
        self.reads = RegisterReads(self.connection, self.connection)

    def close(self) -> None:
        self.connection.close()


def life_of(owner: str) -> str:
    """Return a name for the life of `owner`: like a random one, but replayed."""
    return sha256(owner.encode()).hexdigest()[:32]


def _registered(results: Iterable[Result]) -> list[r.Registered]:
    return [each for each in results if isinstance(each, r.Registered)]


def rid_of(operation: r.Operation) -> str:
    return operation.record.rid if isinstance(operation, r.Begin | r.Recover) else operation.rid


def touched(operations: Sequence[r.Operation]) -> set[str]:
    """The requests whose rows may have changed."""
    rids = {rid_of(operation) for operation in operations if _may_write(operation)}
    rids |= {op.replaces for op in operations if isinstance(op, r.Commit) and op.replaces}
    for op in operations:
        if isinstance(op, r.CommitSeries):
            rids.remove(op.rid)
            rids |= {each.rid for each in (*op.commits, *op.moved)}
            rids |= {each.replaces for each in op.commits if each.replaces}
    return rids


def _may_write(operation: r.Operation) -> bool:
    """An inquiry that proves nothing is told nothing, and leaves nothing behind."""
    return not isinstance(operation, r.Ask) or (operation.proved and operation.certain)


def _memory() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def _copied(replaced: sqlite3.Connection, image: bytes) -> sqlite3.Connection:
    """Return `image` in place of a connection, whose prepared statements SQLite would run into the void."""
    replaced.close()
    connection = _memory()
    connection.deserialize(image)
    return connection


def _temporary() -> tempfile.TemporaryDirectory[str]:
    shared_memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(
        prefix="kalends-simulation-", dir=shared_memory if shared_memory.is_dir() else None
    )
