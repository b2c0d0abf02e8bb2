"""Records of runs: which are kept, and that a backup has them."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_support import contents

from kalends.resource_servers.journal.contract import RunsKept
from kalends.resource_servers.journal.sqlite.runs_store import _PRUNE, RunsStore
from kalends.resource_servers.journal.sqlite.site_store import KIND, SiteStore
from kalends.serving.logs import configure_logging, get_logger
from kalends.stores.sqlite.maintenance import backup
from kalends.stores.sqlite.sqlite_file import runs_path

Runs = list[tuple[str, int]]
"""Users and bytes, oldest first."""


def made(path: Path, runs: Runs) -> sqlite3.Connection:
    store = RunsStore(path, "sdsc", RunsKept(9, 9, 9), get_logger(role="site", name="sdsc"))

    async def make() -> None:
        await store.open()
        await store.close()

    asyncio.run(make())
    connection = sqlite3.connect(path, isolation_level=None)
    for number, (user, size_bytes) in enumerate(runs, 1):
        connection.execute(
            "insert into run values (?, 0, '', ?, '', '', '', '', 0, 0, 0, 0, '', '', 0, ?)",
            (number, user, b"x" * size_bytes),
        )
    return connection


def twin(runs: Runs, kept: RunsKept) -> list[int]:
    """Newest first: a record goes when it is too many of its user or of all, or its bytes are."""
    found = []
    of_user: dict[str, int] = {}
    together = 0
    for place, (number, (user, size_bytes)) in enumerate(reversed(list(enumerate(runs, 1))), 1):
        of_user[user] = of_user.get(user, 0) + 1
        together += size_bytes
        if (
            place > kept.records_max
            or of_user[user] > kept.of_user_max
            or together > kept.bytes_max
        ):
            continue
        found.append(number)
    return found[::-1]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=30),
    st.builds(RunsKept, st.integers(1, 30), st.integers(1, 12), st.integers(1, 600)),
)
@settings(max_examples=60, deadline=None)
def test_the_newest_are_kept_of_all_of_each_user_and_of_what_they_take(
    tmp_path_factory: pytest.TempPathFactory, runs: Runs, kept: RunsKept
) -> None:
    connection = made(tmp_path_factory.mktemp("runs") / "runs", runs)
    connection.execute(_PRUNE, kept._asdict())
    left = [number for (number,) in connection.execute("select number from run order by number")]
    connection.close()
    assert left == twin(runs, kept)


def test_a_backup_has_the_runs_beside_the_copy_of_the_store(tmp_path: Path) -> None:
    path, copy = tmp_path / "sdsc.sqlite", tmp_path / "copy.sqlite"
    SiteStore.open(path, "sdsc").close()
    made(runs_path(path), [("ann", 3)]).close()
    backup(path, copy, [KIND])
    with sqlite3.connect(runs_path(copy)) as connection:
        assert connection.execute("select client, length(record) from run").fetchall() == [
            ("ann", 3)
        ]
    assert runs_path(copy).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("version", [0, 2])
def test_a_file_of_another_version_is_left_as_it_is_and_the_log_names_the_remedy(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "sdsc.sqlite.runs"
    other = made(path, [("anna", 9)])
    other.execute(f"pragma user_version = {version}")
    other.execute("alter table run rename column client to user")
    other.close()
    before = contents(tmp_path)
    log = io.StringIO()
    configure_logging("warning", "json", log)
    asyncio.run(_kept_nothing(path))
    assert contents(tmp_path) == before
    assert f"its version is {version}" in log.getvalue()
    assert "move it away" in log.getvalue()


async def _kept_nothing(path: Path) -> None:
    store = RunsStore(path, "sdsc", RunsKept(9, 9, 9), get_logger(role="site", name="sdsc"))
    await store.open()
    assert await store.newest(None, "", 9) == []
    await store.close()
