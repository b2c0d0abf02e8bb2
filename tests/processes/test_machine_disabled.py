"""A machine whose journal no queue can have made: the rest of the site works, and nothing of it is lost."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from kalends.batch.journal.contract import JobEntries
from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal
from kalends.batch.queue import facts as f
from kalends.core.errors import Unavailable
from kalends.resource_servers.journal.sqlite.site_store import SiteStore

from .laboratory import MACHINE, Laboratory, laboratory

__all__ = ["laboratory"]


def spoil(path: Path) -> int:
    """Add the beginning of a job that there never was; return the number of that entry."""
    store = SiteStore.open(path, "lab")
    connection = store.file.connection
    last = list(SqliteJobJournal(connection).entries_after(MACHINE, 0))[-1]
    spoilt = f.JournalEntry(last.number + 1, last.now, f.JobBegun(99, 1))
    connection.execute("begin")
    store.carry_out(connection, [JobEntries(MACHINE, (spoilt,))], 1)
    connection.execute("commit")
    store.close()
    return spoilt.number


async def test_a_machine_whose_journal_cannot_be_followed_is_disabled_and_the_site_begins(
    laboratory: Laboratory,
) -> None:
    store = laboratory.marks.with_name("lab.sqlite")
    async with laboratory.client() as client:
        job = (
            await client.submit(
                laboratory.job("until test -e go; do sleep 0.1; done; echo went on")
            )
        ).job.job
    await laboratory.site.stop()
    number = spoil(store)
    await laboratory.site.start()
    async with laboratory.client() as client:
        with pytest.raises(Unavailable, match="the queue of lab/box does not work"):
            await client.submit(laboratory.job("true"))
        (problem,) = [each for each in (await client.audit()).problems if "is disabled" in each]
        assert f"entry {number} cannot be" in problem
    await laboratory.site.stop()
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("delete from job_entry where number = ?", (number,))
    await laboratory.site.start()
    (laboratory.marks / "go").touch()
    async with laboratory.client() as client:
        assert (await laboratory.over(client, job)).end == "exit"
        assert (await client.job_output(MACHINE, job)).data == b"went on\n"
        assert not [each for each in (await client.audit()).problems if "is disabled" in each]
