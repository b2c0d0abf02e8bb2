"""Jobs that are to be looked after because their sites are lost."""

from __future__ import annotations

import sqlite3
from functools import partial

import pytest
from tests.unit.broker.register.test_register_promises import (
    ask,
    commit,
    ended,
    job,
    started_in_the_east,
)

from kalends.broker.register.sqlite import job_reads, request_writes
from kalends.broker.register.sqlite.broker_store import SCHEMA


@pytest.fixture
def connection() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.executescript(SCHEMA)
    return made


@pytest.mark.parametrize("at_most_once", [True, False])
def test_stranded_are_jobs_that_wait_at_lost_sites_and_those_that_run_there_and_may_run_twice(
    connection: sqlite3.Connection, at_most_once: bool
) -> None:
    write = partial(request_writes.apply, connection)
    commit(write, 0, "east", job(at_most_once=at_most_once))
    assert len(job_reads.stranded(connection, ["east"], (), 10)) == 1
    write([ask("east")])
    assert len(job_reads.stranded(connection, ["east"], (), 10)) == (not at_most_once)
    assert job_reads.stranded(connection, ["west"], (), 10) == []
    write([ended("killed")])
    assert job_reads.stranded(connection, ["east"], (), 10) == []


def test_a_job_that_has_ended_by_itself_while_it_was_moved_is_not_stranded(
    connection: sqlite3.Connection,
) -> None:
    write = partial(request_writes.apply, connection)
    started_in_the_east(write, job())
    commit(write, 1, "west", job())
    assert len(job_reads.stranded(connection, ["east", "west"], (), 10)) == 1
    write([ended("exit")])
    assert job_reads.stranded(connection, ["east", "west"], (), 10) == []
