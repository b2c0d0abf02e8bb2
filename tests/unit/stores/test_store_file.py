"""Store files: what is refused, that a refused file is not touched, and epochs that only rise."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from store_support import contents, fact, store_facts

from kalends.core.errors import Conflict, KalendsError, StoreDamaged, Unavailable
from kalends.resource_servers.journal.sqlite.site_store import KIND, SiteStore
from kalends.stores.sqlite import maintenance, sqlite_file
from kalends.stores.sqlite.sqlite_file import StoreKind, open_store, side_path

SHARED = StoreKind(
    "broker", 0x6B6C7399, 1, "create table meta (name text primary key, value not null);", True
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sdsc.sqlite"


def made(path: Path, facts: int = 3) -> None:
    store = SiteStore.open(path, "sdsc")
    store_facts(store, [fact(number) for number in range(facts)], 1)
    store.close()


def other_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table mine (x)")
    connection.commit()
    connection.close()


def other_program_with_a_log(path: Path) -> None:
    """A database in WAL mode whose program was killed."""
    elsewhere = path.with_name("elsewhere")
    connection = sqlite3.connect(elsewhere)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table mine (x)")
    connection.commit()
    shutil.copy(elsewhere, path)
    shutil.copy(f"{elsewhere}-wal", f"{path}-wal")
    connection.close()
    elsewhere.unlink()


def empty(path: Path) -> None:
    path.touch()


def text(path: Path) -> None:
    path.write_text("SQLite is a fine program\n" * 1000)


def cut_off(path: Path) -> None:
    made(path, 500)
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    made(path)
    os.truncate(path, 60)


def newer(path: Path) -> None:
    made(path)
    connection = sqlite3.connect(path)
    connection.execute(f"pragma user_version = {KIND.version + 1}")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()


def overwritten(path: Path) -> None:
    """Garbage in the middle, as a failing disk leaves it."""
    made(path, 500)
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(40 * 4096))


def without_side_file(path: Path) -> None:
    made(path)
    side_path(path).unlink()


def with_garbage_beside(path: Path) -> None:
    made(path)
    side_path(path).write_text("many\n")


@pytest.mark.parametrize(
    "make",
    [
        other_program, other_program_with_a_log, empty, text, cut_off, cut_in_the_header, newer,
        overwritten, without_side_file, with_garbage_beside,
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_or_damaged_is_refused_and_no_byte_changes(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    lock = sqlite_file.lock_path(path).name
    before = contents(path.parent)
    with pytest.raises(StoreDamaged) as caught:
        SiteStore.open(path, "sdsc")
    assert caught.value.remedy
    after = contents(path.parent)
    after.pop(lock, None)
    before.pop(lock, None)
    assert after == before


@pytest.mark.parametrize("make", [other_program, other_program_with_a_log, empty, text, newer])
def test_beside_a_file_of_others_not_even_a_lock_is_left(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    before = contents(path.parent)
    with pytest.raises(StoreDamaged):
        SiteStore.open(path, "sdsc")
    assert contents(path.parent) == before


def test_a_directory_is_refused(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreDamaged, match="not a file"):
        SiteStore.open(path, "sdsc")


def test_a_missing_directory_is_told_from_damage(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SiteStore.open(tmp_path / "nowhere" / "sdsc.sqlite", "sdsc")


def test_the_store_of_another_site_is_refused(path: Path) -> None:
    made(path)
    with pytest.raises(StoreDamaged, match="belongs to 'sdsc', not to 'ctc'"):
        SiteStore.open(path, "ctc")


def test_a_site_whose_name_looks_like_a_number_keeps_its_store(path: Path) -> None:
    for _ in range(2):
        SiteStore.open(path, "007").close()


def test_a_second_opening_of_a_site_store_is_refused_until_the_first_is_closed(path: Path) -> None:
    store = SiteStore.open(path, "sdsc")
    with pytest.raises(Conflict, match="another process"):
        SiteStore.open(path, "sdsc")
    store.close()
    SiteStore.open(path, "sdsc").close()


def test_the_lock_of_a_killed_process_is_gone_with_it(path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path;"
        "from kalends.resource_servers.journal.sqlite.site_store import SiteStore;"
        "SiteStore.open(Path(sys.argv[1]), 'sdsc'); print('open', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(Conflict):
            SiteStore.open(path, "sdsc")
        process.kill()
        process.wait()
    store = SiteStore.open(path, "sdsc")
    assert store.epoch == 2
    store.close()


def test_replicas_share_a_store_that_says_so_and_count_every_opening(path: Path) -> None:
    first = open_store(path, SHARED, "npaci")
    second = open_store(path, SHARED, "npaci")
    assert (first.epoch, second.epoch) == (1, 2)
    first.close()
    second.close()


def test_the_epoch_rises_at_every_opening(path: Path) -> None:
    epochs = []
    for _ in range(3):
        store = SiteStore.open(path, "sdsc")
        epochs.append(store.epoch)
        store.close()
    assert epochs == [1, 2, 3]
    assert side_path(path).read_text() == "3\n"


def test_a_crash_between_database_and_side_file_is_no_alarm(path: Path) -> None:
    made(path)
    made(path)
    side_path(path).write_text("1\n")
    store = SiteStore.open(path, "sdsc")
    assert store.epoch == 3
    store.close()


def test_a_database_older_than_its_side_file_is_refused_until_reconciled(
    path: Path, tmp_path: Path
) -> None:
    made(path)
    old = tmp_path / "kept"
    shutil.copy(path, old)
    made(path)
    shutil.copy(old, path)
    with pytest.raises(StoreDamaged, match="old copy") as caught:
        SiteStore.open(path, "sdsc")
    assert "forgotten" in caught.value.detail
    assert "kalends admin reconcile" in caught.value.remedy
    assert maintenance.reconcile(path, [KIND]) == 3
    store = SiteStore.open(path, "sdsc")
    assert store.epoch == 4
    store.close()


def test_a_store_that_is_gone_is_not_silently_begun_anew(path: Path) -> None:
    made(path)
    path.unlink()
    with pytest.raises(StoreDamaged, match="gone"):
        SiteStore.open(path, "sdsc")
    assert not path.exists()


def test_a_crash_while_a_store_is_made_leaves_nothing_in_the_way(path: Path) -> None:
    path.with_name(path.name + ".new").write_bytes(b"half")
    side_path(path).write_text("0\n")
    store = SiteStore.open(path, "sdsc")
    assert store.epoch == 1
    store.close()


def test_after_a_kill_what_is_only_in_the_log_is_still_there(path: Path, tmp_path: Path) -> None:
    store = SiteStore.open(path, "sdsc")
    store_facts(store, [fact(1)], 1)
    crashed = tmp_path / "crashed" / path.name
    crashed.parent.mkdir()
    for name in (path.name, f"{path.name}-wal", f"{path.name}.epoch"):
        shutil.copy(path.parent / name, crashed.parent / name)
    store.close()
    again = SiteStore.open(crashed, "sdsc")
    assert [stake.rid for stake in again.load().stakes] == [fact(1).rid]
    again.close()


def test_a_reader_sees_only_what_is_committed(path: Path) -> None:
    store = SiteStore.open(path, "sdsc")
    reader = store.file.reader()
    store.file.connection.execute("begin immediate")
    store.carry_out(store.file.connection, [fact(1)], 1)
    assert reader.execute("select count(*) from stake").fetchone() == (0,)
    store.file.connection.execute("commit")
    assert reader.execute("select count(*) from stake").fetchone() == (1,)
    reader.close()
    store.close()


# Copies and checks


def test_a_backup_of_a_running_store_is_whole_and_leaves_the_store_alone(
    path: Path, tmp_path: Path
) -> None:
    store = SiteStore.open(path, "sdsc")
    store_facts(store, [fact(1)], 1)
    copy = tmp_path / "copies" / "sdsc.sqlite"
    copy.parent.mkdir()
    maintenance.backup(path, copy, [KIND])
    store_facts(store, [fact(2)], 2)
    store.close()
    assert maintenance.doctor(copy, [KIND]) == []
    assert maintenance.doctor(path, [KIND]) == []
    assert sorted(contents(copy.parent)) == [copy.name]


def test_a_backup_overwrites_nothing(path: Path, tmp_path: Path) -> None:
    made(path)
    there = tmp_path / "there"
    there.write_text("precious")
    with pytest.raises(Conflict):
        maintenance.backup(path, there, [KIND])
    assert there.read_text() == "precious"


def test_a_backup_that_cannot_be_made_leaves_nothing(path: Path, tmp_path: Path) -> None:
    made(path)
    with pytest.raises(Unavailable):
        maintenance.backup(path, tmp_path / "nowhere" / "copy", [KIND])
    damaged = tmp_path / "damaged"
    overwritten(damaged)
    before = sorted(contents(tmp_path))
    with pytest.raises(KalendsError):
        maintenance.backup(damaged, tmp_path / "copy", [KIND])
    assert sorted(contents(tmp_path)) == before


def test_a_backup_in_the_place_of_its_store_is_refused_even_within_one_epoch(
    path: Path, tmp_path: Path
) -> None:
    store = SiteStore.open(path, "sdsc")
    store_facts(store, [fact(1)], 1)
    copy = tmp_path / "copy"
    maintenance.backup(path, copy, [KIND])
    store_facts(store, [fact(2)], 2)
    store.close()
    shutil.copy(copy, path)
    with pytest.raises(StoreDamaged, match="backup"):
        SiteStore.open(path, "sdsc")
    assert any("reconcile" in problem for problem in maintenance.doctor(path, [KIND]))
    epoch = maintenance.reconcile(path, [KIND])
    restored = SiteStore.open(path, "sdsc")
    assert restored.epoch == epoch + 1
    assert len(restored.load().stakes) == 1
    restored.close()


def test_reconcile_waits_for_the_server_to_be_stopped(path: Path) -> None:
    store = SiteStore.open(path, "sdsc")
    with pytest.raises(Conflict):
        maintenance.reconcile(path, [KIND])
    store.close()


def test_the_doctor_writes_nothing(path: Path) -> None:
    made(path)
    before = contents(path.parent)
    assert maintenance.doctor(path, [KIND]) == []
    assert contents(path.parent) == before


@pytest.mark.parametrize(
    "make",
    [other_program, empty, text, cut_off, newer, overwritten, without_side_file,
     with_garbage_beside],
)  # fmt: skip
def test_the_doctor_finds_what_a_server_would_refuse(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    before = contents(path.parent)
    assert maintenance.doctor(path, [KIND])
    assert contents(path.parent) == before


def test_the_doctor_finds_a_stake_that_points_at_the_wrong_row(path: Path) -> None:
    made(path)
    connection = sqlite3.connect(path)
    connection.execute("update stake set seq = 1")
    connection.commit()
    connection.close()
    assert len(maintenance.doctor(path, [KIND])) == 2


def test_nobody_else_may_read_a_store_its_log_or_its_backup(path: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SiteStore.open(path, "sdsc")
        store_facts(store, [fact(1)], 1)
        maintenance.backup(path, tmp_path / "copy", [KIND])
        names = (path.name, f"{path.name}-wal", f"{path.name}-shm", "copy")
        rights = {name: (tmp_path / name).stat().st_mode & 0o777 for name in names}
        store.close()
    finally:
        os.umask(before)
    assert rights == dict.fromkeys(names, 0o600)


def test_a_store_that_everybody_could_read_is_closed_to_them_and_to_nobody_else(path: Path) -> None:
    made(path)
    path.chmod(0o644)
    SiteStore.open(path, "sdsc").close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_kind_of_a_site_is_its_own() -> None:
    assert KIND.application_id != SHARED.application_id
    assert not KIND.shared
