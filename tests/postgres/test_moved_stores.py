"""Stores that are moved from a file to a database and back: all is there, and one is served at most."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import postgres_clusters
import psycopg
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from store_support import contents, fact, store_facts

from kalends.broker.register.postgres import moved_tables as moved_register
from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.sqlite.broker_store import KIND, BrokerStore
from kalends.broker.register.writes import Write
from kalends.cli import cli
from kalends.core.errors import Conflict, KalendsError, NotFound, StoreDamaged
from kalends.resource_servers.journal.contract import SiteStorage
from kalends.resource_servers.journal.postgres import moved_tables as moved_journal
from kalends.resource_servers.journal.postgres.site_journal import PostgresStorage
from kalends.resource_servers.journal.sqlite.site_journal import SqliteStorage
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.servers.store_moves import FILES, move_store
from kalends.stores.moves.move import CLOSING, OPENING, Moved
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import StoreSchema, open_store
from kalends.stores.sqlite import maintenance, sqlite_file
from kalends.stores.sqlite.file_end import tables_of
from tests.property.resource_servers.journal.test_journal_laws import (
    SITE,
    Compared,
    Query,
    operations,
    queries,
)
from tests.support.register_twin import TwinRegister, TwinRows
from tests.support.register_writes import batches, foreseen
from tests.support.registers import Replica, sqlite
from tests.support.twin_reads import TwinReads, questions

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Plain = psycopg.Connection[Any]
Tell = Callable[[str, str, int], None]


def silent(step: str, table: str, rows: int) -> None:
    """Nothing is told."""


def to_database(file: Path, address: Address, tell: Tell = silent) -> Moved:
    # A law of several lives calls it inside of a loop, where a command has none.
    move = partial(move_store, file, address, to_database=True, tell=tell)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(move).result()


def to_file(address: Address, file: Path, tell: Tell = silent) -> Moved:
    return move_store(file, address, to_database=False, tell=tell)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The store of a site with three requests."""
    path = tmp_path / "sdsc.sqlite"
    store = SiteStore.open(path, SITE)
    store_facts(store, [fact(number) for number in range(3)], 7)
    store.close()
    return path


def requests_in(file: Path) -> int:
    """The number of requests that a site finds when it begins on `file`."""
    store = SiteStore.open(file, SITE)
    try:
        return len(store.load().stakes)
    finally:
        store.close()


def storage_at(address: Address) -> PostgresStorage:
    return PostgresStorage(address, SITE, Path("/nowhere"), {"sdsc/sp2": 1}, "here")


def requests_at(address: Address) -> int:
    """The number of requests that a site finds when it begins at `address`."""

    async def loaded() -> int:
        journal = await storage_at(address).open(lambda committed: None)
        try:
            return len((await journal.load()).stakes)
        finally:
            await journal.close()

    return asyncio.run(loaded())


@contextmanager
def changing(file: Path) -> Iterator[sqlite3.Connection]:
    """Change a store by hand."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        yield connection


# All there is comes along


@contextmanager
def places() -> Iterator[tuple[Path, Address]]:
    """A directory for a file, and an empty schema."""
    memory = Path("/dev/shm")  # Whether a sync reaches a disk is not what is asked here.
    place = memory if memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="kalends-move-", dir=place) as directory,
        postgres_clusters.in_a_schema() as address,
    ):
        yield Path(directory), address


@given(st.lists(st.lists(batches, max_size=4), min_size=3, max_size=3), st.randoms())
@settings(max_examples=12, deadline=None)
def test_a_register_answers_every_read_alike_in_a_file_a_database_and_the_file_again(
    stays: list[list[list[Write]]], random: Random
) -> None:
    with places() as (directory, address):
        asyncio.run(_register_goes_there_and_back(directory, address, stays, random))


async def _register_goes_there_and_back(
    directory: Path, address: Address, stays: list[list[list[Write]]], random: Random
) -> None:
    from tests.support.postgres_registers import PostgresReplica

    @asynccontextmanager
    async def in_the_database() -> Any:
        with psycopg.connect(address.conninfo(), autocommit=True) as plain:
            replica = PostgresReplica(address, "test-0", plain)
            try:
                yield [replica]
            finally:
                await replica.close()

    file, rows = directory / "register.sqlite", TwinRows()
    async with sqlite(directory, 1) as (replica,):
        await _works(replica, rows, stays[0], random)
    identity = _identity(file)
    to_database(file, address)
    async with in_the_database() as (replica,):
        await _works(replica, rows, stays[1], random)
    to_file(address, file)
    assert _identity(file) == identity
    async with sqlite(directory, 1) as (replica,):
        await _works(replica, rows, stays[2], random)
    to_database(file, address)
    async with in_the_database() as (replica,):
        await _works(replica, rows, [], random)


async def _works(
    replica: Replica, rows: TwinRows, work: Sequence[list[Write]], random: Random
) -> None:
    """Compare all there is with the twin before and after some writes of both."""
    for batch in ([], *work):
        now = foreseen(batch, rows.posted)
        assert [*await replica.run(now)] == TwinRegister(rows).carry_out(now)
        assert await replica.tables() == rows.tables()
    for question in questions(random):
        assert await question.to(replica.reads) == await question.to(TwinReads(rows)), question


def _identity(file: Path) -> tuple[object, ...]:
    with sqlite_file.reading(file) as connection:
        return tuple(sqlite_file.read_meta(connection, name) for name in ("register", "secret"))


@given(st.lists(st.lists(operations, min_size=1, max_size=9), min_size=3, max_size=3), queries)
@settings(max_examples=12, deadline=None)
def test_a_site_finds_all_of_its_past_in_a_file_a_database_and_the_file_again(
    stays: list[list[Any]], asked: Sequence[Query]
) -> None:
    with places() as (directory, address):
        asyncio.run(_site_goes_there_and_back(directory / "site.sqlite", address, stays, asked))


async def _site_goes_there_and_back(
    file: Path, address: Address, stays: list[list[Any]], asked: Sequence[Query]
) -> None:
    def in_the_file() -> SiteStorage:
        return SqliteStorage(file, SITE)

    site = Compared(in_the_file)

    async def works(submission: Sequence[Any]) -> None:
        # Each life begins with all that was stored before, knows the earlier ones, and has a higher epoch.
        await site.begin()
        if submission:
            await site.store(submission)
        for query in asked:
            await site.look_back(query)
        await site.end()

    await works(stays[0])
    to_database(file, address)
    site._storage = lambda: storage_at(address)
    await works(stays[1])
    to_file(address, file)
    site._storage = in_the_file
    await works(stays[2])
    to_database(file, address)
    site._storage = lambda: storage_at(address)
    await works([])


def test_the_epochs_of_a_site_that_was_accepted_go_on_in_the_database(
    file: Path, address: Address
) -> None:
    for _ in range(3):
        maintenance.reconcile(file, [FILES["site"].kind])
    store = SiteStore.open(file, SITE)
    epoch = store.epoch
    store.close()
    to_database(file, address)
    journal = asyncio.run(storage_at(address).open(lambda committed: None))
    assert journal.epoch > epoch
    assert [*journal.past.ended] == [*_lives(file)]


def _lives(file: Path) -> list[str]:
    with sqlite_file.reading(file) as connection:
        return [name for (name,) in connection.execute("select life from life order by number")]


async def test_the_openings_and_the_clock_of_a_register_go_on_there_and_back(
    tmp_path: Path, address: Address
) -> None:
    path = tmp_path / "register.sqlite"
    for _ in range(3):
        store = await BrokerStore.open(path, "npaci", lambda committed: None)
        await store.close()
    with changing(path) as connection:
        sqlite_file.write_meta(connection, "clock", 1 << 50)
    await asyncio.to_thread(to_database, path, address)
    register = await _at(address)
    identity = register.identity
    assert (register.epoch, (await register.look()).clock_bound) == (4, 1 << 50)
    await register.close()
    await asyncio.to_thread(to_file, address, path)
    store = await BrokerStore.open(path, "npaci", lambda committed: None)
    assert (store.epoch, store.identity) == (5, identity)
    assert (await store.look()).clock_bound == 1 << 50
    await store.close()


async def _at(address: Address) -> PostgresRegister:
    return await PostgresRegister.open(
        address, "npaci", "npaci-1", lambda committed: None, lease_s=60
    )


def test_each_byte_of_a_text_and_of_a_script_comes_along(tmp_path: Path, address: Address) -> None:
    path = tmp_path / "register.sqlite"
    source = "print('ä\0\\')\n\t\r\x7f"
    sqlite_file.open_store(path, KIND, "npaci").close()
    address_row = ("ä\\N\t", "\n", "", 1, b"\0\xff\\", 3_600, 7)
    with changing(path) as connection:
        connection.execute("insert into script values ('h', ?)", (source,))
        connection.execute("insert into notice_address values (?, ?, ?, ?, ?, ?, ?)", address_row)
    before = _everything(path)
    to_database(path, address)
    to_file(address, path)
    assert _everything(path) == before


def _everything(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite_file.reading(path) as connection:
        return {
            name: connection.execute(f"select * from {name} order by 1, 2").fetchall()
            for name in ("script", "notice_address")
        }


# Both schemas are known as a whole

NOT_IN_FILES: Final = {
    "schema_version": "the version of a file is in its header",
    "store": "kind and owner are in the header and in `meta`; the cluster is where the store is now",
    "replica": "owners that are enrolled: nobody is, while a store is moved",
    "known_resource": "the second guard finds the resources when a life begins",
    "exempt": "requests that were moved, which the second guard does not know",
    "booked": "bookings that the second guard knows: those since the move",
    "booked_units": "the same, of resources of several units",
    "revoked": "for a file, the owner lists what is revoked in another file",
    "request_old": "its requests are moved with all others",
}
"""Tables of databases that are not moved, each with the reason."""

KEPT_BY: Final = {
    "meta": {"setting", "site_secret", "register", "clock", "opening"},
    "replica": {"lease"},
    "site": {"site"},
    "request": {"request"},
    "start": set[str](),
    "ending": set[str](),
    "script_use": set[str](),
}
"""Tables of files that have another form in a database, and the tables that keep them there."""


@pytest.mark.parametrize(
    ("kind", "database"), [("broker", moved_register.MOVED), ("site", moved_journal.MOVED)]
)
def test_each_table_and_column_of_both_schemas_is_moved_or_said_not_to_be(
    address: Address, plain: Plain, kind: str, database: Any
) -> None:
    schema: StoreSchema = database.schema
    open_store(address, schema, "sdsc")
    columns: dict[str, set[str]] = {}
    for table, column in plain.execute(
        "select table_name, column_name from information_schema.columns where table_schema = current_schema()"
    ):
        columns.setdefault(table, set()).add(column)
    columns.pop("any_request", None)  # A view of two tables.
    assert {*schema.tables} == {*columns}, "the names are read out of the scripts"
    tables = tables_of(FILES[kind])
    assert {*database.forms} <= {table.name for table in tables}
    same = [table for table in tables if table.name not in database.forms]
    for table in same:
        assert {*table.columns} == columns[table.name], table.name
    kept = {table.name for table in same}.union(*(KEPT_BY[name] for name in database.forms))
    assert {*columns} - kept - NOT_IN_FILES.keys() == set()
    if kind == "broker":
        merged = {"uses", "start_site", "start_places", "start_again", "ended_at", "ended"}
        plain_columns = next(table.columns for table in tables if table.name == "request")
        assert columns["request"] == {*plain_columns} | merged
        assert columns["site"] == {"name", "replica", "change", "life", "position", "proof"}
        assert columns["register"] == {"identity", "secret", "put_back"}
        assert columns["lease"] == {"owner", "beats"}
        assert columns["clock"] == {"replica", "bound"}
    else:
        assert columns["setting"] == {"name", "value"}
        assert columns["site_secret"] == {"secret"}


# One of both is served at most


def test_a_file_that_was_moved_is_refused_and_names_the_database(
    file: Path, address: Address
) -> None:
    to_database(file, address)
    before = contents(file.parent)
    for refused in (
        lambda: SiteStore.open(file, SITE),
        lambda: maintenance.reconcile(file, [FILES["site"].kind]),
        lambda: to_database(file, address),
    ):
        with pytest.raises(StoreDamaged, match="the store was moved to postgresql://") as error:
            refused()
        assert "kalends admin move-store postgresql://" in error.value.remedy
    assert contents(file.parent) == before
    (problem,) = maintenance.doctor(file, [FILES["site"].kind])
    assert "the store was moved to" in problem
    assert requests_at(address) == 3


def test_a_database_that_was_moved_is_refused_and_names_the_file(
    file: Path, address: Address, tmp_path: Path
) -> None:
    to_database(file, address)
    assert requests_at(address) == 3
    other = tmp_path / "other.sqlite"
    to_file(address, other)
    with pytest.raises(StoreDamaged, match=f"the store was moved to {other}"):
        requests_at(address)
    found = run("admin", "doctor", url_of(address))
    assert found.exit_code == 1
    assert f"the store was moved to {other}" in found.stdout
    assert run("admin", "reconcile", url_of(address)).exit_code == 1
    assert requests_in(other) == 3
    with pytest.raises(StoreDamaged, match="the store was moved to"):
        SiteStore.open(file, SITE)


async def test_a_standby_does_not_begin_on_a_store_that_is_moved_while_it_waits(
    file: Path, address: Address
) -> None:
    await asyncio.to_thread(to_database, file, address)
    served = await storage_at(address).open(lambda committed: None)
    standby = storage_at(address)
    with pytest.raises(KalendsError, match="another process serves this store"):
        await standby.open(lambda committed: None)
    await served.close()
    await asyncio.to_thread(to_file, address, file)
    with pytest.raises(StoreDamaged, match="the store was moved to"):
        await standby.open(lambda committed: None)
    assert await asyncio.to_thread(requests_in, file) == 3


def test_an_owner_that_comes_late_cannot_enrol_in_a_closed_store(
    file: Path, address: Address, plain: Plain
) -> None:
    to_database(file, address)
    to_file(address, file)
    with pytest.raises(psycopg.errors.CheckViolation):
        plain.execute("insert into replica values ('late', 1, 0, 0, 1, now())")


# Interrupted moves


class Interrupted(Exception):
    pass


class Interrupting:
    """Ends the move at one of the steps that it tells."""

    def __init__(self, at: int, how: Callable[[], None]) -> None:
        self.told: list[str] = []
        self._at = at
        self._how = how

    def __call__(self, step: str, table: str, rows: int) -> None:
        self.told.append(step)
        if len(self.told) == self._at:
            self._how()


def raising() -> None:
    raise Interrupted


def killing() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def number_of_steps(file: Path) -> list[str]:
    told = Interrupting(0, raising)
    with postgres_clusters.in_a_schema() as address:
        to_database(file, address, told)
        to_file(address, file)
    return told.told


@pytest.mark.parametrize("killed", [False, True])
def test_a_move_to_a_database_that_is_interrupted_anywhere_is_ended_by_the_same_move(
    file: Path, killed: bool
) -> None:
    steps = number_of_steps(file)
    for at in sorted({*range(1, len(steps) + 1, 14), *range(len(steps) - 3, len(steps) + 1)}):
        with postgres_clusters.in_a_schema() as address:
            _interrupt(lambda tell: to_database(file, address, tell), at, killed)
            with pytest.raises(KalendsError):
                requests_at_if_any(address)
            if steps[at - 1] == OPENING:
                with pytest.raises(StoreDamaged, match="the store was moved to"):
                    SiteStore.open(file, SITE)
                assert to_database(file, address).rows is None
            else:
                assert requests_in(file) == 3
                assert to_database(file, address).rows
            assert requests_at(address) == 3
            to_file(address, file)


@pytest.mark.parametrize("killed", [False, True])
def test_a_move_to_a_file_that_is_interrupted_anywhere_is_ended_by_the_same_move(
    file: Path, killed: bool
) -> None:
    steps = number_of_steps(file)
    for at in sorted({*range(1, len(steps) + 1, 14), *range(len(steps) - 3, len(steps) + 1)}):
        with postgres_clusters.in_a_schema() as address:
            to_database(file, address)
            new = file.with_name(f"new{at}.sqlite")
            _interrupt(lambda tell: to_file(address, new, tell), at, killed)  # noqa: B023  # called here
            assert new.exists() == (steps[at - 1] in (CLOSING, OPENING))
            if new.exists():
                with pytest.raises(StoreDamaged, match="an interrupted move"):
                    SiteStore.open(new, SITE)
            if steps[at - 1] == OPENING:
                with pytest.raises(StoreDamaged, match="the store was moved to"):
                    requests_at(address)
                assert to_file(address, new).rows is None
            else:
                assert requests_at(address) == 3
                assert to_file(address, new).rows
            assert requests_in(new) == 3
            with postgres_clusters.in_a_schema() as elsewhere:
                to_database(new, elsewhere)
                to_file(elsewhere, file)


def requests_at_if_any(address: Address) -> int:
    """As `requests_at`; raises `NotFound` if there is no store, and makes none."""
    with psycopg.connect(address.conninfo()) as plain:
        if plain.execute("select to_regclass('store')").fetchone() == (None,):
            raise NotFound("there is no store")
    return requests_at(address)


def _interrupt(moving: Callable[[Tell], object], at: int, killed: bool) -> None:
    if not killed:
        with pytest.raises(Interrupted):
            moving(Interrupting(at, raising))
        return
    child = os.fork()
    if not child:
        try:
            moving(Interrupting(at, killing))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_target_of_an_interrupted_move_is_not_ended_after_its_source_went_elsewhere(
    file: Path, tmp_path: Path
) -> None:
    steps = number_of_steps(file)
    with postgres_clusters.in_a_schema() as one, postgres_clusters.in_a_schema() as other:
        with pytest.raises(Interrupted):
            to_database(file, one, Interrupting(steps.index(CLOSING) + 1, raising))
        to_database(file, other)
        with pytest.raises(StoreDamaged, match="the store was moved to"):
            to_database(file, one)
        with pytest.raises(StoreDamaged, match="the target of an interrupted move"):
            requests_at(one)


# Refusals


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def url_of(address: Address) -> str:
    given = psycopg.conninfo.conninfo_to_dict(address.conninfo())
    schema = str(given["options"]).partition("=")[2]
    return f"postgresql:///postgres?host={given['host']}&user={given['user']}&options=-csearch_path%3D{schema}"


def test_the_command_says_what_was_moved_and_what_comes_next(file: Path, address: Address) -> None:
    jobs = file.with_name("main.sp2.jobs")
    jobs.mkdir()
    file = file.rename(file.with_name("main.sqlite"))
    sqlite_file.side_path(file.with_name("sdsc.sqlite")).rename(sqlite_file.side_path(file))
    url = f"{url_of(address)}&password=hunter2"
    there = run("admin", "move-store", str(file), url)
    assert there.exit_code == 0, there.output
    first, *following = there.stdout.splitlines()
    assert first.startswith(f"moved the store of the site {SITE} from {file} to postgresql://")
    assert f'set folder = "{file.parent}"' in following[1]
    assert f"rename {jobs} to {file.parent / 'sdsc.sp2.jobs'}" in following[2]
    assert there.stderr.splitlines()[0].startswith("copying")
    back = run("admin", "move-store", url, str(file), "--json")
    report = json.loads(back.stdout)["data"]
    assert (report["kind"], report["name"], report["rows"]["stake"]) == ("site", SITE, 3)
    assert report["to"] == str(file)
    assert back.stderr == ""
    assert "hunter2" not in there.output + back.output
    assert requests_in(file) == 3


def test_a_file_that_a_server_uses_is_not_moved(file: Path, address: Address) -> None:
    store = SiteStore.open(file, SITE)
    refused = run("admin", "move-store", str(file), url_of(address))
    store.close()
    assert refused.exit_code == Conflict.exit_code
    assert "another process has this store open" in refused.stderr
    assert "stop the server that uses it, then run the move again" in refused.stderr
    assert to_database(file, address).rows


async def test_a_database_that_a_server_uses_is_not_moved(file: Path, address: Address) -> None:
    await asyncio.to_thread(to_database, file, address)
    served = await storage_at(address).open(lambda committed: None)
    refused = await asyncio.to_thread(run, "admin", "move-store", url_of(address), str(file))
    assert refused.exit_code == Conflict.exit_code
    assert "a server uses this store" in refused.stderr
    # The refusal leaves the server as it was.
    await served.writer.run([fact(4)])
    await served.close()
    await asyncio.to_thread(to_file, address, file)
    assert await asyncio.to_thread(requests_in, file) == 4


@pytest.mark.parametrize("there", ["another store", "tables of others", "a store of another kind"])
def test_a_database_that_is_not_empty_is_left_as_it_is(
    file: Path, address: Address, plain: Plain, there: str
) -> None:
    if there == "tables of others":
        plain.execute("create table theirs (n integer)")
    else:
        kind = moved_journal if there == "another store" else moved_register
        open_store(address, kind.MOVED.schema, SITE)
    before = plain.execute("select count(*) from pg_class").fetchone()
    refused = run("admin", "move-store", str(file), url_of(address))
    assert refused.exit_code == 1
    assert "is not empty" in refused.stderr or "not of kalends" in refused.stderr
    assert plain.execute("select count(*) from pg_class").fetchone() == before
    assert requests_in(file) == 3


def test_a_file_that_is_not_empty_is_left_as_it_is(
    file: Path, address: Address, tmp_path: Path
) -> None:
    to_database(file, address)
    other = tmp_path / "other.sqlite"
    SiteStore.open(other, SITE).close()
    before = other.read_bytes()
    with pytest.raises(Conflict, match="the target is not empty"):
        to_file(address, other)
    note = tmp_path / "note.txt"
    note.write_text("of somebody")
    with pytest.raises(StoreDamaged, match="not a store of kalends"):
        to_file(address, note)
    assert (other.read_bytes(), note.read_text()) == (before, "of somebody")
    assert requests_at(address) == 3


def test_a_damaged_file_is_not_moved(file: Path, address: Address) -> None:
    data = bytearray(file.read_bytes())
    data[4096 * 2 : 4096 * 3] = b"\xa5" * 4096
    file.write_bytes(data)
    refused = run("admin", "move-store", str(file), url_of(address))
    assert refused.exit_code == StoreDamaged.exit_code
    assert "is damaged" in refused.stderr
    with pytest.raises(NotFound):
        requests_at_if_any(address)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("insert into meta values ('copied', 1)", "a copy that was made by a backup"),
        ("update meta set value = 0 where name = 'epoch'", "it is an old copy"),
        ("pragma user_version = 1", "its version is 1"),
        ("insert into slot_read values ('a' || char(0), 1)", "does not keep the NUL"),
        ("insert into slot_read values (x'ff', 1)", "a value is of the type bytes"),
    ],
)
def test_a_file_that_may_not_be_served_or_cannot_be_kept_is_not_moved(
    file: Path, address: Address, change: str, says: str
) -> None:
    with changing(file) as connection:
        connection.execute(change)
    with pytest.raises(StoreDamaged, match=says):
        to_database(file, address)
    with pytest.raises(NotFound):
        requests_at_if_any(address)
    with sqlite_file.reading(file) as connection:
        assert sqlite_file.read_meta(connection, "move") == 0


def test_a_database_of_another_version_or_from_another_cluster_is_not_moved(
    file: Path, address: Address, plain: Plain
) -> None:
    to_database(file, address)
    plain.execute("update store set system_identifier = 'another'")
    with pytest.raises(StoreDamaged, match="another database cluster"):
        to_file(address, file)
    plain.execute("insert into schema_version values (99, 1, 'x')")
    with pytest.raises(StoreDamaged, match="version 99"):
        to_file(address, file)


def test_a_database_that_does_not_keep_what_is_committed_is_no_target(file: Path) -> None:
    unsafe = {"fsync": "off", "full_page_writes": "off"}
    with postgres_clusters.cluster(postgres_clusters.shared_template(), unsafe) as cluster:
        refused = run("admin", "move-store", str(file), cluster.url())
        assert refused.exit_code == 75
        assert "fsync" in refused.stderr
        with pytest.raises(NotFound):
            requests_at_if_any(cluster.address())
    assert requests_in(file) == 3


@pytest.mark.parametrize("words", [("a.sqlite", "b.sqlite"), ("postgresql://h/d",) * 2])
def test_two_files_or_two_databases_are_no_move(tmp_path: Path, words: tuple[str, str]) -> None:
    (tmp_path / "a.sqlite").touch()
    given = [word if "://" in word else str(tmp_path / word) for word in words]
    refused = run("admin", "move-store", *given)
    assert refused.exit_code == 2
    assert "between a file and a database" in refused.stderr


def test_an_empty_database_is_no_source(tmp_path: Path, address: Address) -> None:
    refused = run("admin", "move-store", url_of(address), str(tmp_path / "new.sqlite"))
    assert refused.exit_code == NotFound.exit_code
    assert "there is no store" in refused.stderr
    assert not (tmp_path / "new.sqlite").exists()
