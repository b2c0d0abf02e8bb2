"""Batches on a real PostgreSQL: whole, in order, behind a fence, and never stuck behind who is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.stores.group_commit import GroupCommit, StoreFailed, StoreLost
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.batches import AGAIN_MAX
from kalends.stores.postgres.session import Statement
from tests.postgres import accounts
from tests.postgres.accounts import Add, Note, Op, Owner, Retire

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

ROOT = Path(__file__).parents[2]
Plain = psycopg.Connection[Any]


@pytest.fixture
def owner(address: Address) -> Iterator[Callable[[str], Owner]]:
    """Makes writers, whose sessions are closed at the end."""
    accounts.make(address)
    with contextlib.ExitStack() as sessions:

        def make(name: str) -> Owner:
            made = Owner(address, name)
            sessions.callback(made.session.close)
            return made

        yield make


Make = Callable[[str], Owner]


def balance(plain: Plain, account: int = 1) -> int:
    found = plain.execute("select balance from account where id = %s", (account,)).fetchone()
    return found[0] if found else 0


def wait_until(plain: Plain, condition: str, *values: object) -> None:
    while plain.execute(condition.encode(), values).fetchone() is None:
        time.sleep(0.005)


# Decisions


def test_operations_are_decided_one_after_the_other_on_the_rows_that_were_locked(
    owner: Make, plain: Plain
) -> None:
    one = owner("one")
    assert one.do(Add(1, 5), Add(1, -6), Add(2, 3), Add(1, -5), Add(1, -1)) == [5, None, 3, 0, None]
    assert (balance(plain, 1), balance(plain, 2)) == (0, 3)


def test_of_two_who_take_the_last_only_one_gets_it_however_they_meet(
    owner: Make, plain: Plain
) -> None:
    one, two = owner("one"), owner("two")
    for _ in range(20):
        one.do(Add(1, 1))
        answers: list[int | None] = []

        def takes(who: Owner, told: list[int | None] = answers) -> None:
            told += who.do(Add(1, -1))

        threads = [threading.Thread(target=takes, args=(who,)) for who in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers, key=str) == [0, None]
        assert balance(plain) == 0


def test_a_batch_that_reads_nothing_is_one_message_and_behind_the_fence_too(
    owner: Make, plain: Plain
) -> None:
    one = owner("one")
    assert one.do(Note(7)) == [None]
    assert plain.execute("select account from told").fetchall() == [(7,)]
    owner("two").do(Retire("one"))
    with pytest.raises(StoreFailed, match="retired"):
        one.do(Note(8))
    assert plain.execute("select account from told").fetchall() == [(7,)]


def test_a_fault_of_ours_leaves_nothing_and_keeps_no_row_locked(owner: Make, plain: Plain) -> None:
    one = owner("one")
    one.do(Add(1, 1))

    def fails() -> None:
        raise ValueError("a fault of ours")

    one.part.before_deciding = fails
    with pytest.raises(StoreFailed, match="a fault of ours"):
        one.do(Add(1, 1))
    assert owner("two").do(Add(1, -1)) == [0]


# The writer's thread


async def test_reports_come_in_order_and_each_submission_is_whole_in_one_transaction(
    owner: Make, plain: Plain
) -> None:
    writer: GroupCommit[Op, int | None] = GroupCommit(owner("one").batches)
    told: list[int] = []
    for number in range(200):
        writer.submit([Note(number)] * 3, lambda _, number=number: told.append(number), pytest.fail)
        if number % 50 == 0:
            await asyncio.sleep(0.01)
    await writer.run(())
    assert told == list(range(200))
    rows = plain.execute(
        "select account, count(*), count(distinct xact) from told group by account order by account"
    ).fetchall()
    assert rows == [(number, 3, 1) for number in range(200)]
    order = plain.execute("select account from told order by id").fetchall()
    assert order == [(number,) for number in range(200) for _ in range(3)]
    await writer.close()


async def test_an_empty_submission_is_told_when_everything_before_it_is_durable(
    owner: Make, plain: Plain
) -> None:
    one = owner("one")
    writer: GroupCommit[Op, int | None] = GroupCommit(one.batches)
    may_go_on = threading.Event()
    one.part.before_deciding = may_go_on.wait  # type: ignore[assignment]
    writer.submit([Add(1, 4)], lambda results: None, pytest.fail)
    barrier = asyncio.ensure_future(writer.run(()))
    await asyncio.sleep(0.05)
    assert not barrier.done()
    assert balance(plain) == 0
    may_go_on.set()
    await barrier
    assert balance(plain) == 4
    await writer.close()


async def test_a_lost_connection_ends_the_writer_and_all_that_waits_is_told(
    owner: Make, plain: Plain
) -> None:
    one = owner("one")
    writer: GroupCommit[Op, int | None] = GroupCommit(one.batches)
    assert await writer.run([Add(1, 4)]) == [4]
    plain.execute("select pg_terminate_backend(%s)", (one.session.pid,))
    outcomes = await asyncio.gather(
        *(writer.run([Add(1, 1)]) for _ in range(3)), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [StoreLost] * 3, "nothing is broken"
    with pytest.raises(StoreFailed):
        await writer.run(())
    assert balance(plain) == 4
    await writer.close()


# Collisions


def test_a_deadlock_costs_a_second_run_and_nothing_else(owner: Make, plain: Plain) -> None:
    one = owner("one")
    one.do(Add(1, 1), Add(2, 1))
    # The server looks for a deadlock once, later than we give up waiting; the other one is not to look.
    one.session.connection.execute(
        "set deadlock_timeout = '10ms'; set lock_timeout = 0", prepare=False
    )
    plain.execute("set deadlock_timeout = '600s'")
    plain.execute("begin")
    plain.execute("update account set balance = 9 where id = 2")

    def goes_on() -> None:
        plain.execute("update account set balance = 8 where id = 1")
        plain.execute("commit")

    other = threading.Thread(target=goes_on)

    def meets_the_other() -> None:
        if one.part.runs == 2:
            other.start()
            with plain_like(plain) as watch:
                query = "select 1 from pg_locks where not granted and pid = %s"
                wait_until(watch, query, plain.info.backend_pid)

    lock = one.part.lock

    def after_the_other(operations: Sequence[Op]) -> list[Statement]:
        if one.part.runs == 2:
            other.join()  # Or we might be faster again, and collide once more.
        return lock(operations)

    one.part.before_deciding = meets_the_other
    one.part.lock = after_the_other  # type: ignore[method-assign]
    one.part.writes = [Statement("update account set balance = balance + 1 where id = 2")]
    assert one.do(Add(1, 1)) == [9]
    assert one.part.runs == 3
    assert (balance(plain, 1), balance(plain, 2)) == (9, 10)


def test_a_batch_that_collides_again_and_again_is_a_failure_in_the_end(owner: Make) -> None:
    one = owner("one")

    def collides() -> None:
        raise psycopg.errors.SerializationFailure("could not serialize access")

    one.part.before_deciding = collides
    with pytest.raises(StoreFailed, match="could not serialize"):
        one.do(Add(1, 1))
    assert one.part.runs == 1 + AGAIN_MAX


def test_a_lock_of_who_is_alive_is_waited_for(owner: Make, plain: Plain) -> None:
    one = owner("one")
    one.do(Add(1, 1))
    plain.execute("begin")
    plain.execute("update account set balance = 7 where id = 1")
    answers: list[int | None] = []
    thread = threading.Thread(target=lambda: answers.extend(one.do(Add(1, 1))))
    thread.start()
    time.sleep(0.5)
    assert thread.is_alive()
    plain.execute("commit")
    thread.join()
    assert answers == [8]


def test_who_closes_waits_for_no_lock(owner: Make, plain: Plain) -> None:
    one = owner("one")
    one.do(Add(1, 1))
    plain.execute("begin")
    plain.execute("update account set balance = 7 where id = 1")
    one.closing.set()
    with pytest.raises(StoreFailed, match="lock timeout"):
        one.do(Add(1, 1))
    plain.execute("rollback")


# The fence


def test_who_was_retired_adds_nothing_any_more(owner: Make, plain: Plain) -> None:
    one, two = owner("one"), owner("two")
    one.do(Add(1, 1))
    two.do(Retire("one"))
    with pytest.raises(StoreFailed, match="retired"):
        one.do(Add(1, 1))
    assert balance(plain) == 1
    assert two.do(Add(1, 1)) == [2]


def test_an_operation_of_nothing_passes_the_fence_and_so_tells_who_is_retired(owner: Make) -> None:
    one, two = owner("one"), owner("two")
    assert one.do(Retire("nobody")) == [None]
    two.do(Retire("one"))
    with pytest.raises(StoreFailed, match="retired"):
        one.do(Retire("nobody"))


def test_each_batch_is_a_beat_and_moves_the_mark_forward_only(owner: Make, plain: Plain) -> None:
    one = owner("one")
    before = plain.execute("select beats, position from replica").fetchone()
    one.do(Add(1, 1), Add(1, 1))
    one.do(Add(1, 1))
    assert before == (1, 0)
    assert plain.execute("select beats, position from replica").fetchone() == (3, 2)


@pytest.mark.parametrize("where", ["inside", "between"])
def test_a_stopped_owner_stands_in_nobodys_way_and_adds_nothing_when_it_goes_on(
    owner: Make, cluster: Cluster, schema: str, plain: Plain, where: str
) -> None:
    two = owner("two")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.zombie", cluster.url(schema=schema), "one", where],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as zombie:
        try:
            assert zombie.stdout is not None
            assert zombie.stdout.readline() == "enrolled\n"
            os.waitid(os.P_PID, zombie.pid, os.WSTOPPED | os.WNOWAIT)
            beats = plain.execute("select beats from replica where owner = 'one'").fetchone()
            assert beats is not None
            # As long as its beats may go on, its rows are its own.
            two.still = {"one": beats[0] - 1}
            answers: list[int | None] = []
            thread = threading.Thread(
                target=lambda: answers.extend(two.do(Retire("one"), Add(1, 1)))
            )
            thread.start()
            time.sleep(0.4)
            assert thread.is_alive()
            two.still = {"one": beats[0]}
            thread.join()
            assert answers == [None, 2]
            os.kill(zombie.pid, signal.SIGCONT)
            assert zombie.wait() == 3, zombie.stdout.read()
        finally:
            zombie.kill()
    assert balance(plain) == 2
    assert plain.execute("select owner from replica").fetchall() == [("two",)]


@contextlib.contextmanager
def plain_like(plain: Plain) -> Iterator[Plain]:
    """A further session to the same place."""
    with psycopg.connect(plain.info.dsn, autocommit=True) as session:
        yield session
