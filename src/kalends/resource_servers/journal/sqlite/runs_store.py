"""Records of agents' runs, in their own file next to the site's store.

Nothing of the protocol rests on them: they may be lost in a crash, deleted, or not written at all
when the disk does not take them; the site goes on. Everything that touches the file happens on one
thread, in the order of the calls.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from kalends.agents import records
from kalends.agents.records import RunRecord
from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.contract import calls
from kalends.core.errors import StoreDamaged
from kalends.resource_servers.journal.contract import RunsKept
from kalends.serving.logs import Logger
from kalends.stores.sqlite.sqlite_file import make_private, shut_others_out
from kalends.stores.sqlite.upserts import upsert

APPLICATION_ID: Final = 0x6B6C7272
"""``klrr``: a file with another one is not ours, and left alone."""

VERSION: Final = 1
"""The schema of the file; one of another version is left alone, too."""

WAITING_MAX: Final = 64
"""Records on their way to the file; further ones are lost, so that a slow disk costs no memory."""

NUMBER_MAX: Final = (1 << 63) - 1
"""SQLite's largest; no run has a greater number."""

PRUNE_SLACK: Final = 100
"""Runs stored between two checks of the total."""

_PRUNE: Final = """
delete from run where number in (
    select number from (
        select number,
            row_number() over (order by number desc) as of_all,
            row_number() over (partition by client order by number desc) as of_user,
            sum(length(record)) over (order by number desc) as bytes
        from run
    ) where of_all > :records_max or of_user > :of_user_max or bytes > :bytes_max
)
"""
"""`bytes` counts those that are newer, and the record itself."""

_SCHEMA: Final = """
create table run (
    number    integer primary key,
    at_ms     integer not null,
    rid       text not null,
    client    text not null,
    script    text not null,
    function  text not null,
    code      text not null,
    detail    text not null,
    line      integer not null,
    steps     integer not null,
    cpu_us    integer not null,
    wall_us   integer not null,
    engine    text not null,
    view_hash text not null,
    chosen    integer not null,
    record    blob not null
);
create index run_of_client on run (client, number);
create index run_of_request on run (rid, number);
"""

_VIEW: Final = (
    "number, at_ms, rid, client, script, function, code, detail, line, steps, cpu_us, wall_us,"
    " engine, view_hash, chosen"
)

_KEEP: Final = upsert("run", ("number",), (*_VIEW.split(", ")[1:], "record"))

Result = TypeVar("Result")


class RunsStore:
    """See `RunRecords`: the newest records as `kept` says; without any nothing is kept.

    Used on the event loop, from `open` to `close`.
    """

    def __init__(self, path: Path, site: str, kept: RunsKept, logger: Logger) -> None:
        self._path = path
        self._site = site
        self._kept = kept
        self._logger = logger
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="runs")
        self._connection: sqlite3.Connection | None = None
        self._since_pruned = PRUNE_SLACK
        self._waiting = 0
        self._failing = False

    async def open(self) -> None:
        """Open or make the file; where that fails, nothing is kept, and the log says so."""
        if self._kept.records_max:
            await self._call(self._open, None)

    def keep(self, number: int, at_ms: int, rid: str, job: ScriptRun, outcome: RunOutcome) -> None:
        """Write down a run, soon."""
        if not self._kept.records_max or self._waiting >= WAITING_MAX:
            return
        self._waiting += 1
        written = asyncio.get_running_loop().run_in_executor(
            self._thread, self._write, number, at_ms, rid, job, outcome
        )
        written.add_done_callback(self._written)

    async def newest(self, user: str | None, rid: str, count: int) -> list[calls.RunView]:
        """Runs of `user` (None: of everybody) for the request `rid` ("" for any), newest first."""
        wanted = {"client": user, "rid": rid or None}
        return await self._call(lambda: self._select(_VIEW, wanted, count), [])

    async def one(self, number: int, user: str | None) -> calls.RunView | None:
        """A run of `user` (None: of anybody) with its record; None when there is no such here."""
        if number > NUMBER_MAX:
            return None
        wanted = {"number": number, "client": user}
        found: list[calls.RunView] = []
        found = await self._call(lambda: self._select(f"{_VIEW}, record", wanted, 1), found)
        return found[0] if found else None

    async def close(self) -> None:
        """Write what waits, and close the file."""
        await self._call(self._close, None)
        self._thread.shutdown()

    # On the thread

    def _open(self) -> None:
        make_private(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            (application_id,) = connection.execute("pragma application_id").fetchone()
            (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
            (version,) = connection.execute("pragma user_version").fetchone()
            if tables and application_id != APPLICATION_ID:
                raise sqlite3.DatabaseError("the file holds something else")
            if tables and version != VERSION:
                raise StoreDamaged(
                    f"its version is {version}, and this kalends keeps runs in version {VERSION}",
                    where=str(self._path),
                    remedy="use the kalends that wrote it, or move it away: then a new one is made",
                )
            shut_others_out(self._path)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            if not tables:
                connection.executescript(
                    f"begin; {_SCHEMA} pragma application_id = {APPLICATION_ID};"
                    f" pragma user_version = {VERSION}; commit"
                )
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _write(
        self, number: int, at_ms: int, rid: str, job: ScriptRun, outcome: RunOutcome
    ) -> None:
        if self._connection is None:
            return
        record = records.record_of(
            job, outcome, number=number, at_ms=at_ms, rid=rid, site=self._site
        )
        self._connection.execute("begin immediate")
        try:
            self._connection.execute(_KEEP, _row(record))
            self._prune()
            self._connection.execute("commit")
        except BaseException:
            self._connection.rollback()
            raise

    def _prune(self) -> None:
        """Let the oldest go, once enough have come: of a user, of all, and beyond the bytes."""
        assert self._connection is not None
        self._since_pruned += 1
        if self._since_pruned < PRUNE_SLACK:
            return
        self._since_pruned = 0
        self._connection.execute(_PRUNE, self._kept._asdict())

    def _select(
        self, columns: str, wanted: Mapping[str, str | int | None], count: int
    ) -> list[calls.RunView]:
        """Rows that have the `wanted` values (None: any), newest first."""
        if self._connection is None:
            return []
        given = {name: value for name, value in wanted.items() if value is not None}
        condition = " and ".join(f"{name} = :{name}" for name in given) or "true"
        rows = self._connection.execute(
            f"select {columns} from run where {condition} order by number desc limit :count",
            {**given, "count": count},
        )
        return [_view(row) for row in rows]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Failure

    async def _call(self, work: Callable[[], Result], otherwise: Result) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError, StoreDamaged) as error:
            self._failed(error)
            return otherwise

    def _written(self, written: asyncio.Future[None]) -> None:
        self._waiting -= 1
        error = written.exception()
        if error is not None:
            self._failed(error)
        else:
            self._failing = False

    def _failed(self, error: BaseException) -> None:
        """Log the fault once, until the file works again."""
        if not self._failing:
            self._logger.warning("runs_not_kept", file=str(self._path), reason=str(error))
        self._failing = True


def _row(record: RunRecord) -> tuple[object, ...]:
    return (
        record.number, record.at_ms, record.rid, record.user, record.script, record.function,
        record.code, record.detail, record.line, record.steps, record.cpu_us, record.wall_us,
        record.engine, record.view_hash, record.chosen, records.encode(record),
    )  # fmt: skip


def _view(row: tuple[Any, ...]) -> calls.RunView:
    """Its columns are the fields of a view, in order, with or without the record."""
    fields = zip(calls.RunView.__struct_fields__, (str(row[0]), *row[1:]), strict=False)
    return calls.RunView(**dict(fields))
