"""A store file: made, checked, locked, and never older than this server has known it.

A store is one SQLite file in WAL mode with full sync. Beside it lie `<store>.lock`, which keeps a
second process out, and `<store>.epoch`, which remembers how often the store was opened. The database
counts the same in its table `meta`, and counts first; so a database that is behind its side file is
an old copy of itself, and promises made since then are forgotten in it. Such a store is refused, and
so is anything that is not ours, damaged or newer: by looking only, without a byte written.

Only the Unix user of its server may read a store, because it holds programs of users.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from kalends.core.errors import Conflict, StoreDamaged, Unavailable
from kalends.stores.moves.closures import OPEN, MoveMark, closed

MAGIC: Final = b"SQLite format 3\x00"
HEADER_BYTES: Final = 100
BUSY_MS_MAX: Final = 10_000
"""Replicas that share a store wait for each other's transactions, which take milliseconds."""

READER_BUSY_MS_MAX: Final = 200
"""Readers meet a lock only while another process repairs the log after a crash."""

CHECKPOINT_PAGES: Final = 4_000
"""The log goes into the database every 16 MiB: seldom enough not to be felt, soon enough to be short."""

CHECK_BYTES_MAX: Final = 256 * 1024 * 1024
"""Larger stores are not read through at every start: loading reads what matters, `doctor` all."""

LOG_ENDS: Final = ("-wal", "-shm")
"""What SQLite appends to the name of a database for its log, and the index of that."""

RECONCILE: Final = "kalends admin reconcile"


class StoreKind(NamedTuple):
    """A kind of stores; `schema` has a table ``meta(name primary key, value)``.

    `shared`: several processes of one host may have it open (replicas of a broker). `upgrades` holds,
    for each older version, the statements that make a store of it one of the next version. `problems_of`
    lists what is wrong in the tables.
    """

    name: str
    application_id: int
    version: int
    schema: str
    shared: bool = False
    upgrades: Mapping[int, str] = MappingProxyType({})
    problems_of: Callable[[sqlite3.Connection], list[str]] = lambda connection: []


class StoreFile:
    """An open store: its writing `connection` and its `epoch`, higher than at any earlier opening."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, epoch: int, lock: int | None
    ) -> None:
        self.path = path
        self.connection = connection
        self.epoch = epoch
        self._lock = lock

    def reader(self) -> sqlite3.Connection:
        """A further connection that only reads; it sees what is durable, and nothing else.

        It waits for nobody long: writers do not stand in its way, and an event loop may use it.
        """
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        return _connect(address, busy_ms_max=READER_BUSY_MS_MAX)

    def close(self) -> None:
        """Put the log into the database where that can be done, and let others open the store."""
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        # A connection that cannot even be closed is abandoned: what it promised is in the log.
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def open_store(
    path: Path, kind: StoreKind, owner: str, *, sync: Literal["full", "off"] = "full"
) -> StoreFile:
    """Open the store of `owner` at `path`, or make it; count this opening in its epoch, durably.

    One of an older version is brought to that of `kind` first, all at once or not at all. `sync` "off"
    is for simulations: nothing then survives a loss of power. Raises `Conflict` when another process
    has the store open, `StoreDamaged` for a file that is not ours, damaged, newer, of another owner,
    or restored from a copy (then not a byte was changed), and `Unavailable` when the disk does not
    take it.
    """
    if path.exists():
        check_header(path, kind)  # Before a lock file is put beside what is not ours.
    try:
        # The directory first: who upgrades a shared store must not meet one who waits to open it.
        with _directory_locked(path):
            lock = _lock(path, shared=kind.shared)
            try:
                return _open_locked(path, kind, owner, sync, lock)
            except BaseException:
                os.close(lock)
                raise
    except (OSError, sqlite3.Error) as error:
        raise _unavailable(path, error) from error


def _open_locked(path: Path, kind: StoreKind, owner: str, sync: str, lock: int) -> StoreFile:
    if not exists(path):
        _create(path, kind, owner)
    check(path, kind, owner)
    shut_others_out(path)
    connection = _connect(str(path))
    try:
        connection.execute(f"pragma synchronous = {sync}")
        _upgrade(path, kind, connection, lock)
        epoch = _begin_epoch(path, connection)
    except BaseException:
        connection.close()
        raise
    return StoreFile(path, connection, epoch, lock)


def check(path: Path, kind: StoreKind, owner: str = "") -> None:
    """Raise `StoreDamaged` unless `path` is a whole store of `kind` and `owner`, and not an old copy."""
    check_header(path, kind)
    with reading(path) as connection:
        if path.stat().st_size <= CHECK_BYTES_MAX:
            for problem in quick_check(connection):
                raise _damaged(path, f"it is damaged: {problem}")
        try:
            named = read_meta(connection, "owner")
            epoch = read_meta(connection, "epoch")
            copied = read_meta(connection, "copied")
            closure = read_closure(connection)
        except sqlite3.Error as error:
            raise _damaged(path, f"it is damaged: {error}") from error
    if owner and str(named) != owner:
        raise StoreDamaged(
            f"it belongs to {named!r}, not to {owner!r}",
            where=str(path),
            remedy="name another file as `store`, or serve under the name it belongs to",
        )
    if closure != OPEN:
        raise closed(str(path), closure)
    if problem := epoch_problem(path, epoch, copied):
        raise _restored(path, problem)


def check_header(path: Path, kind: StoreKind) -> None:
    """Raise `StoreDamaged` for damage that the first bytes of the file, or its size, show."""
    header, size = read_header(path)
    if not header.startswith(MAGIC) or len(header) < HEADER_BYTES:
        what = "it is empty" if not size else "it is not a SQLite database"
        raise _damaged(path, what)
    application_id = int.from_bytes(header[68:72], "big")
    version = int.from_bytes(header[60:64], "big")
    if application_id != kind.application_id:
        raise StoreDamaged(
            f"it is a SQLite database, but not the store of a {kind.name}",
            where=str(path),
            remedy="name another file as `store`; this one was left as it is",
        )
    _check_version(path, kind, version)
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    pages = int.from_bytes(header[28:32], "big")
    # After a crash the end of the database may still be in its log.
    if size < page_bytes * pages and not _has_log(path):
        raise _damaged(path, f"it is cut off: {size} bytes, where {page_bytes * pages} belong")


def _check_version(path: Path, kind: StoreKind, version: int) -> None:
    if version > kind.version:
        raise StoreDamaged(
            f"a newer kalends wrote it (version {version}; this one knows up to {kind.version})",
            where=str(path),
            remedy="use that newer kalends",
        )
    if any(older not in kind.upgrades for older in range(version, kind.version)):
        raise _damaged(path, f"its version is {version}, which no released kalends wrote")


def read_header(path: Path) -> tuple[bytes, int]:
    """The first bytes of a file and its size; raises `StoreDamaged` when it cannot be read at all."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreDamaged(
                "it is not a file", where=str(path), remedy="name a file as the store"
            )
        with path.open("rb") as file:
            return file.read(HEADER_BYTES), path.stat().st_size
    except OSError as error:
        raise StoreDamaged(
            f"it cannot be read: {error.strerror}",
            where=str(path),
            remedy="let the server's user read and write it",
        ) from error


def quick_check(connection: sqlite3.Connection) -> list[str]:
    """Return the faults that SQLite finds in the file; empty if it is whole."""
    return _faults(connection, "quick_check")


def whole_check(connection: sqlite3.Connection) -> list[str]:
    """Return the faults that SQLite finds in the file and in its indexes; empty if it is whole."""
    return _faults(connection, "integrity_check")


def _faults(connection: sqlite3.Connection, check: str) -> list[str]:
    try:
        found = [row[0] for row in connection.execute(f"pragma {check}(10)")]
    except sqlite3.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def read_meta(connection: sqlite3.Connection, name: str) -> int | str:
    """A value of the table ``meta``; 0 when there is none."""
    row = connection.execute("select value from meta where name = ?", (name,)).fetchone()
    return row[0] if row else 0


def write_meta(connection: sqlite3.Connection, name: str, value: int | str) -> None:
    connection.execute(
        "insert into meta values (?, ?) on conflict (name) do update set value = excluded.value",
        (name, value),
    )


def read_closure(connection: sqlite3.Connection) -> MoveMark:
    """Return whether a move has closed the store, and why."""
    return MoveMark(*(str(read_meta(connection, name) or "") for name in MoveMark._fields))


def epoch_problem(path: Path, epoch: int | str, copied: int | str) -> str:
    """Return the reason why the database at `path` may have forgotten promises, or ""."""
    side = read_side_file(path)
    if copied:
        return "it is a copy that was made by a backup"
    if side is None:
        return (
            f"{side_path(path).name} is missing, so that nobody can tell whether it is an old copy"
        )
    if not isinstance(epoch, int) or epoch < side:
        return f"it was opened {epoch} times, but {side_path(path).name} says {side}: it is an old copy"
    return ""


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read: SQLite gives its log the same rights."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def shut_others_out(path: Path) -> None:
    """Remove all other users' rights to a store and its log, if we may change them."""
    for each in (path, *(path.with_name(path.name + end) for end in LOG_ENDS)):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            rights = stat.S_IMODE(each.stat().st_mode)
            if rights & stat.S_IRWXO:
                each.chmod(rights & ~stat.S_IRWXO)


def side_path(path: Path) -> Path:
    return path.with_name(path.name + ".epoch")


def runs_path(path: Path) -> Path:
    """Return the path of the records of runs, next to the site's store."""
    return path.with_name(path.name + ".runs")


def lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def read_side_file(path: Path) -> int | None:
    """The epoch in the side file of the store at `path`; None when there is no such file.

    Raises `StoreDamaged` when it holds anything but a number.
    """
    try:
        text = side_path(path).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _side_file_damaged(path) from error
    if not text.isdigit() or len(text) > 18:
        raise _side_file_damaged(path)
    return int(text)


def write_side_file(path: Path, epoch: int) -> None:
    """Write the side file so that after a crash the old or the new one is there, whole."""
    fresh = side_path(path).with_name(side_path(path).name + ".new")
    with fresh.open("w", encoding="ascii") as file:
        file.write(f"{epoch}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(side_path(path))
    sync_directory(path)


def sync_directory(path: Path) -> None:
    """Make renames in the folder of `path` durable."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the store at `path` that leaves no trace in its directory."""
    shared_memory = path.with_name(path.name + "-shm")
    had_shared_memory = shared_memory.exists()
    lone = not _has_log(path) and not had_shared_memory
    connection = _connect(f"{path.absolute().as_uri()}?{'immutable=1' if lone else 'mode=ro'}")
    try:
        yield connection
    finally:
        connection.close()
        if not had_shared_memory:
            shared_memory.unlink(missing_ok=True)


@contextlib.contextmanager
def kept(path: Path) -> Iterator[None]:
    """Keep others from opening the store at `path` meanwhile; raises `Conflict` if another has it open."""
    lock = _lock(path, shared=False)
    try:
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep others also from opening or making a store in the same directory; raises as `kept`."""
    with kept(path), _directory_locked(path):
        yield


def is_open(path: Path) -> bool:
    """Return whether a process has the store at `path` open; writes nothing."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(path: Path, *, shared: bool) -> int:
    """Keep others out (`shared`: those who want the store alone) until the result is closed."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unavailable(path, error) from error
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(
            "another process has this store open",
            where=str(path),
            remedy="stop that process, or name another file as `store`",
        ) from None
    return descriptor


@contextlib.contextmanager
def _directory_locked(path: Path) -> Iterator[None]:
    """One at a time makes stores and counts epochs in a directory; the others wait."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def exists(path: Path) -> bool:
    """Whether there is a store; raises `StoreDamaged` when there was one and it is gone."""
    if path.exists() or path.is_symlink():
        return True
    if read_side_file(path):
        raise StoreDamaged(
            f"it is gone, but {side_path(path).name} says that it was there",
            where=str(path),
            remedy=f"bring it back from a backup and run: {RECONCILE} {path};"
            f" to begin anew and forget all promises, remove {side_path(path).name}",
        )
    return False


def _create(path: Path, kind: StoreKind, owner: str) -> None:
    """Make an empty store: complete, or not there at all."""
    fresh = fresh_path(path)
    connection = make_fresh(fresh, kind)
    try:
        write_meta(connection, "owner", owner)
        write_meta(connection, "epoch", 0)
        connection.execute("pragma wal_checkpoint(truncate)")
    finally:
        connection.close()
    write_side_file(path, 0)
    fresh.replace(path)
    sync_directory(path)


def fresh_path(path: Path) -> Path:
    """Return the path of a store that is not complete yet, and gets the name of `path` then."""
    return path.with_name(path.name + ".new")


def make_fresh(fresh: Path, kind: StoreKind) -> sqlite3.Connection:
    """Make a file with the tables of `kind`, in place of what a crash has left there, and connect to it."""
    for leftover in (fresh, *(fresh.with_name(fresh.name + end) for end in LOG_ENDS)):
        leftover.unlink(missing_ok=True)
    make_private(fresh)
    connection = _connect(str(fresh))
    try:
        connection.execute("pragma journal_mode = wal")
        connection.executescript(f"begin; {kind.schema} commit;")
        connection.execute(f"pragma application_id = {kind.application_id}")
        connection.execute(f"pragma user_version = {kind.version}")
    except BaseException:
        connection.close()
        raise
    return connection


def _upgrade(path: Path, kind: StoreKind, connection: sqlite3.Connection, lock: int) -> None:
    """Bring a store of an older version to that of `kind`, in one transaction, alone.

    The connection is asked for the version: that in the header may be older than what the log holds.
    """
    version = int(connection.execute("pragma user_version").fetchone()[0])
    _check_version(path, kind, version)
    if version == kind.version:
        return
    if kind.shared:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                "an older kalends has this store open, and it is to be upgraded",
                where=str(path),
                remedy="stop all processes that use it, then start the new ones",
            ) from None
    statements = " ".join(kind.upgrades[older] for older in range(version, kind.version))
    connection.executescript(
        f"begin immediate; {statements} pragma user_version = {kind.version}; commit;"
    )
    # An older kalends looks at the header only: it must find the new version there.
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    if kind.shared:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _begin_epoch(path: Path, connection: sqlite3.Connection) -> int:
    connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute("begin immediate")
    epoch = int(read_meta(connection, "epoch")) + 1
    write_meta(connection, "epoch", epoch)
    connection.execute("commit")
    write_side_file(path, epoch)
    return epoch


def _connect(database: str, *, busy_ms_max: int = BUSY_MS_MAX) -> sqlite3.Connection:
    """Return a connection without implicit transactions; several threads must take turns with it."""
    connection = sqlite3.connect(
        database,
        timeout=busy_ms_max / 1000,
        isolation_level=None,
        check_same_thread=False,
        uri=database.startswith("file:"),
    )
    connection.execute("pragma trusted_schema = off")
    return connection


def _has_log(path: Path) -> bool:
    try:
        return path.with_name(path.name + "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _damaged(path: Path, detail: str) -> StoreDamaged:
    return StoreDamaged(
        detail,
        where=str(path),
        remedy=f"bring it back from a backup and run: {RECONCILE} {path};"
        " or name another file as `store`",
    )


def _restored(path: Path, detail: str) -> StoreDamaged:
    return StoreDamaged(
        f"{detail}; promises that were made since then may be forgotten in it",
        where=str(path),
        remedy=f"run: {RECONCILE} {path}; then start this server: it takes nothing new until what it has"
        " forgotten is made good or named",
    )


def _side_file_damaged(path: Path) -> StoreDamaged:
    return StoreDamaged(
        "it does not hold a number, so that nobody can tell whether the store is an old copy",
        where=str(side_path(path)),
        remedy=f"remove this file, and run: {RECONCILE} {path}; then start this server: it takes nothing new"
        " until what it may have forgotten is made good or named",
    )


def _unavailable(path: Path, error: Exception) -> Unavailable:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return Unavailable(
        f"the store cannot be opened: {reason}",
        where=str(path),
        remedy="see that its directory exists, may be written to, and has room",
    )
