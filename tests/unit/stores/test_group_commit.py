"""Group commit: order, one transaction for all that waits, durable before reported, typed failure."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kalends.core.errors import Unavailable
from kalends.stores import group_commit
from kalends.stores.group_commit import Committed, GroupCommit, StoreFailed
from kalends.stores.sqlite.transactions import SqliteTransactions


class Recording:
    """A connection that notes what happens to it, and can hold up or break its commits."""

    def __init__(self, connection: sqlite3.Connection, log: list[str]) -> None:
        self._connection = connection
        self.log = log
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.breaks_at = ""
        self.has_begun = threading.Event()
        self.at_commit = threading.Event()
        self._locked = asyncio.Queue[None]()
        self._loop = asyncio.get_running_loop()

    async def has_met_a_lock(self, times: int) -> None:
        """Return when it was refused so many times more, for another had the lock."""
        for _ in range(times):
            await self._locked.get()

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        if statement == "commit":
            self.at_commit.set()
            self.may_commit.wait()
        if statement == self.breaks_at:
            raise sqlite3.OperationalError("database or disk is full")
        try:
            cursor = self._connection.execute(statement, values)
        except sqlite3.OperationalError:
            self._loop.call_soon_threadsafe(self._locked.put_nowait, None)
            raise
        if statement == "begin immediate":
            self.has_begun.set()
        if statement in ("begin immediate", "commit"):
            self.log.append(statement)
        return cursor

    def rollback(self) -> None:
        self.log.append("rollback")
        self._connection.rollback()


def insert(connection: Any, numbers: Sequence[int]) -> list[str]:
    for number in numbers:
        connection.execute("insert into numbers values (?)", (number,))
    return [f"stored {number}" for number in numbers]


class Bench:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.log: list[str] = []
        plain = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        plain.execute("pragma journal_mode = wal")
        plain.execute("create table numbers (number integer unique)")
        self.plain = plain
        self.connection = Recording(plain, self.log)
        self.observed: list[Committed] = []
        self.committer: GroupCommit[int, str] = GroupCommit(
            SqliteTransactions(
                self.connection,  # type: ignore[arg-type]  # records, and passes everything on
                insert,
            ),
            observe=self.observed.append,
        )

    def submit(self, *numbers: int) -> None:
        self.committer.submit(
            numbers,
            lambda results: self.log.append(f"done {list(numbers)} {list(results)}"),
            lambda error: self.log.append(f"failed {list(numbers)}"),
        )

    def stored(self) -> list[int]:
        other = sqlite3.connect(self.path)
        try:
            return [row[0] for row in other.execute("select number from numbers order by rowid")]
        finally:
            other.close()


@asynccontextmanager
async def bench(path: Path) -> AsyncIterator[Bench]:
    made = Bench(path / "numbers")
    try:
        yield made
    finally:
        made.connection.may_commit.set()
        await made.committer.close()
        made.plain.close()


async def test_a_result_is_reported_only_after_its_transaction_is_durable(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        assert await it.committer.run([1, 2]) == ["stored 1", "stored 2"]
        it.submit(3)
        await it.committer.run(())
        assert it.stored() == [1, 2, 3]
    assert it.log == [
        "begin immediate", "commit", "begin immediate", "commit", "done [3] ['stored 3']",
    ]  # fmt: skip


async def test_nothing_is_reported_while_the_disk_is_still_at_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.connection.may_commit.clear()
        it.submit(1)
        barrier = asyncio.ensure_future(it.committer.run(()))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert it.stored() == []
        assert "commit" not in it.log
        assert not any(line.startswith("done") for line in it.log)
        assert not barrier.done()
        assert not it.committer.idle
        it.connection.may_commit.set()
        await barrier
        assert it.stored() == [1]
        assert it.committer.idle


async def test_what_may_wait_is_stored_with_what_comes_next_and_before_it(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.committer.submit_later([1], pytest.fail)
        it.committer.submit_later([2, 3], pytest.fail)
        assert it.committer.idle, "nobody has to wait for it"
        assert await it.committer.run([4]) == ["stored 4"]
        assert it.stored() == [1, 2, 3, 4]
        assert it.log.count("commit") == 1
        it.committer.submit_later([5], pytest.fail)
        it.committer.hasten()
        await it.committer.run(())
        assert it.stored() == [1, 2, 3, 4, 5]
        it.committer.submit_later([6], pytest.fail)
    assert it.stored() == [1, 2, 3, 4, 5, 6], "at the latest when it is closed"


async def test_what_may_wait_is_stored_soon_though_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LATER_S_MAX", 0.0)
    stored = asyncio.Event()
    async with bench(tmp_path) as it:
        it.committer._observe = lambda committed: stored.set()
        it.committer.submit_later([1], pytest.fail)
        await stored.wait()
        assert it.stored() == [1]


async def test_what_waits_during_a_commit_goes_into_one_transaction(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.connection.may_commit.clear()
        it.submit(0)
        await asyncio.to_thread(it.connection.has_begun.wait)
        for number in range(1, 101):
            it.submit(number)
        it.connection.may_commit.set()
        await it.committer.run(())
        assert it.log.count("commit") == 2
        assert [(each.operations, each.submissions) for each in it.observed] == [(1, 1), (100, 101)]


async def test_reports_come_in_the_order_of_submission_and_each_with_its_own(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it:
        for number in range(0, 3_000, 3):
            it.submit(number, number + 1)
            it.submit()
        await it.committer.run(())
        done = [line for line in it.log if line.startswith("done")]
        expected = []
        for number in range(0, 3_000, 3):
            pair = [number, number + 1]
            expected += [f"done {pair} {[f'stored {each}' for each in pair]}", "done [] []"]
        assert done == expected
        assert it.stored() == [each for first in range(0, 3_000, 3) for each in (first, first + 1)]


async def test_submissions_beyond_one_transaction_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalends.stores.group_commit.OPERATIONS_MAX", 10)
    async with bench(tmp_path) as it:
        it.connection.may_commit.clear()
        for number in range(100):
            it.submit(number)
        it.connection.may_commit.set()
        await it.committer.run(())
        assert it.stored() == list(range(100))
        assert max(each.operations for each in it.observed) <= 10


@pytest.mark.parametrize("breaks_at", ["begin immediate", "commit"])
async def test_a_failing_disk_fails_the_batch_and_everything_after_it(
    tmp_path: Path, breaks_at: str
) -> None:
    async with bench(tmp_path) as it:
        await it.committer.run([1])
        it.connection.breaks_at = breaks_at
        with pytest.raises(StoreFailed, match="disk is full") as caught:
            await it.committer.run([2])
        assert isinstance(caught.value, Unavailable)
        it.connection.breaks_at = ""
        it.submit(3)
        it.submit()
        with pytest.raises(StoreFailed):
            await it.committer.run([4])
        assert it.log[-2:] == ["failed [3]", "failed []"]
        assert it.stored() == [1]


async def test_an_operation_that_cannot_be_applied_fails_like_the_disk_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as it:
        with pytest.raises(StoreFailed):
            await it.committer.run([5, 6, 5])
        assert "rollback" in it.log
        assert it.stored() == []


async def test_closing_commits_and_reports_what_was_submitted(tmp_path: Path) -> None:
    it = Bench(tmp_path / "numbers")
    for number in range(50):
        it.submit(number)
    await it.committer.close()
    assert it.stored() == list(range(50))
    assert len([line for line in it.log if line.startswith("done")]) == 50
    assert it.committer.idle
    it.plain.close()


async def test_one_who_stops_waiting_disturbs_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        it.connection.may_commit.clear()
        impatient = asyncio.ensure_future(it.committer.run([1]))
        await asyncio.sleep(0)
        impatient.cancel()
        it.connection.may_commit.set()
        assert await it.committer.run([2]) == ["stored 2"]
        assert it.stored() == [1, 2]


async def test_a_lock_that_another_keeps_is_waited_for_however_long_and_told_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "KEPT_OUT_S", 1e-9)
    async with bench(tmp_path) as made:
        made.plain.execute("pragma busy_timeout = 1")
        other = sqlite3.connect(made.path, isolation_level=None)
        other.execute("begin immediate")
        stored = asyncio.create_task(made.committer.run((1,)))
        await made.connection.has_met_a_lock(3)
        assert made.committer.stuck_s > 0
        assert not stored.done()
        other.execute("rollback")
        assert await stored == ["stored 1"]
        assert made.committer.stuck_s == 0
        other.close()


@pytest.mark.parametrize("limit", ["STUCK_S", "KEPT_OUT_S"])
async def test_a_slow_disk_is_not_taken_for_a_lock_that_another_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(group_commit, limit, 1e-9)
    async with bench(tmp_path) as made:
        made.connection.may_commit.clear()
        stored = asyncio.create_task(made.committer.run((1,)))
        await asyncio.to_thread(made.connection.at_commit.wait)
        assert (made.committer.stuck_s > 0) == (limit == "STUCK_S")
        made.connection.may_commit.set()
        assert await stored == ["stored 1"]
        assert made.committer.stuck_s == 0


async def test_a_stop_does_not_wait_for_ever_for_who_keeps_the_lock(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        made.plain.execute("pragma busy_timeout = 1")
        other = sqlite3.connect(made.path, isolation_level=None)
        other.execute("begin immediate")
        stored = asyncio.create_task(made.committer.run((1,)))
        await made.connection.has_met_a_lock(1)
        await made.committer.close()
        with pytest.raises(StoreFailed):
            await stored
        other.close()


async def test_a_report_that_fails_keeps_no_other_from_being_made(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        told: list[Sequence[str]] = []
        faults: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))

        def fails(results: Sequence[str]) -> None:
            raise ValueError("a fault of ours")

        made.committer.submit((1,), fails, pytest.fail)
        made.committer.submit((2,), told.append, pytest.fail)
        await made.committer.run(())
        assert told == [["stored 2"]]
        assert [str(fault) for fault in faults] == ["a fault of ours"]


class Erring:
    """Transactions with a fault that they do not name."""

    kept_out = False

    def commit(self, operations: Sequence[int], closing: Callable[[], bool]) -> Sequence[str]:
        raise LookupError("a fault of ours")


async def test_whatever_goes_wrong_in_a_transaction_nobody_is_told_of_success() -> None:
    committer: GroupCommit[int, str] = GroupCommit(Erring())
    with pytest.raises(StoreFailed, match="a fault of ours") as caught:
        await committer.run([1])
    assert isinstance(caught.value.__cause__, LookupError)
    with pytest.raises(StoreFailed):
        await committer.run(())
    await committer.close()
