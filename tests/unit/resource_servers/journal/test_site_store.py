"""A site's store against a dictionary: what was applied is what is loaded, after any restart."""

from __future__ import annotations

import shutil
import sqlite3
import time
from pathlib import Path

import msgspec
import pytest
from store_support import fact, rid, stake, store_facts

from kalends.resource_servers.journal.contract import DRAINING, Prune, Setting
from kalends.resource_servers.journal.sqlite.site_store import KIND, SiteStore
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeDropped,
    StakeForgotten,
    TimeClosed,
    stored,
)
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    decode_reclaim,
    stored_reclaim,
)
from kalends.stores.sqlite.maintenance import doctor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sdsc.sqlite"


@pytest.fixture
def store(path: Path) -> SiteStore:
    return SiteStore.open(path, "sdsc", sync="off")


def reopened(store: SiteStore) -> SiteStore:
    store.close()
    return SiteStore.open(store.file.path, "sdsc", sync="off")


def by_rid(store: SiteStore) -> dict[str, Stake]:
    return {each.rid: each for each in store.load().stakes}


def test_stakes_come_back_as_they_were_stored_last(store: SiteStore) -> None:
    locked = stake(1, "locked", chosen={"sdsc": (2,)}, refused=1)
    store_facts(store, [fact(0), fact(1)], 1)
    store_facts(store, [stored(locked, "commit-chosen")], 2)
    store = reopened(store)
    assert by_rid(store) == {rid(0): stake(0), rid(1): locked}
    store.check()


def test_a_store_and_older_images_of_it_have_their_first_life_in_common(
    store: SiteStore, tmp_path: Path
) -> None:
    first = store.past.life
    assert store.past.first_life == first
    store.close()
    image = tmp_path / "image.sqlite"
    shutil.copy(store.file.path, image)
    shutil.copy(f"{store.file.path}.epoch", f"{image}.epoch")
    for each in (store.file.path, store.file.path, image):
        again = SiteStore.open(each, "sdsc", sync="off")
        assert (again.past.first_life, again.past.life != first) == (first, True)
        again.close()


def test_within_one_transaction_the_last_fact_of_a_stake_stands(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(0, "locked"), StakeDropped(rid(1)), fact(1)], 1)
    store_facts(store, [fact(2), StakeDropped(rid(2))], 2)
    store = reopened(store)
    assert {key: each.claims[0].state for key, each in by_rid(store).items()} == {
        rid(0): "locked",
        rid(1): "prepared",
    }
    store.check()


def test_a_dropped_stake_is_gone_and_its_history_is_not(store: SiteStore) -> None:
    store_facts(store, [fact(0)], 1)
    store_facts(store, [StakeDropped(rid(0))], 2)
    assert by_rid(store) == {}
    events = store.file.connection.execute("select event from journal order by seq").fetchall()
    assert events == [("visit-vote",), ("dropped",)]
    store.check()


def test_the_last_word_on_closed_and_passed_time_counts(store: SiteStore) -> None:
    assert store.load().passed == TimePassed()
    store_facts(store, [TimeClosed(500), TimePassed(7, 8, 9)], 1)
    store_facts(store, [TimeClosed(400), TimePassed(4, 5, 6)], 1)
    store = reopened(store)
    assert store.load().horizon_s == 400
    assert store.load().passed == TimePassed(4, 5, 6)


def test_what_all_have_locked_stays_so_over_later_facts_and_openings(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(1)], 1)
    store_facts(store, [StakeForgotten(rid(0))], 2)
    store_facts(store, [fact(0, "cancel")], 3)
    store = reopened(store)
    assert store.load().forgotten == [rid(0)]
    store.check()
    store_facts(store, [StakeDropped(rid(0))], 4)
    assert reopened(store).load().forgotten == []


def test_a_reclaim_is_stored_anew_and_dropped_by_its_key(store: SiteStore) -> None:
    pump = Reclaimed("the-key", "sdsc/sp2", 600, 1_200, 60, 10, "a new pump", (rid(0),))
    other = Reclaimed("another-key", "sdsc/sp2", 0, 60, 0, 10)
    store_facts(store, [stored_reclaim(pump), stored_reclaim(other)], 1)
    later = Reclaimed("the-key", "sdsc/sp2", 600, 1_200, 60, 10, "a new pump", (rid(0), rid(1)))
    store_facts(store, [stored_reclaim(later), ReclaimDropped("another-key")], 2)
    assert reopened(store).load().reclaims == [later]
    assert decode_reclaim(stored_reclaim(later).body) == later


def test_settings_are_kept(store: SiteStore) -> None:
    assert store.setting(DRAINING) == 0
    connection = store.file.connection
    connection.execute("begin")
    assert store.carry_out(connection, [Setting(DRAINING, 1), fact(0)], 1) == [None, None]
    connection.execute("commit")
    store = reopened(store)
    assert store.setting(DRAINING) == 1
    assert by_rid(store).keys() == {rid(0)}


def test_a_transaction_that_fails_stores_nothing_and_the_next_one_works(store: SiteStore) -> None:
    broken = msgspec.structs.replace(fact(1), event=None)
    with pytest.raises(sqlite3.IntegrityError):
        store_facts(store, [fact(0), broken], 1)
    assert by_rid(store) == {}
    store_facts(store, [fact(2)], 2)
    store = reopened(store)
    assert by_rid(store).keys() == {rid(2)}
    store.check()


def pruned(store: SiteStore, before_ms: int) -> list[int]:
    """Prune as the server does; return how many rows went in each step."""
    connection = store.file.connection
    removed = []
    while True:
        connection.execute("begin")
        (step,) = store.carry_out(connection, [Prune(before_ms)], 100)
        connection.execute("commit")
        if step is None:
            return removed
        removed.append(step)
        store.check()


def test_pruning_keeps_what_is_true_and_what_is_young(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(1), fact(2)], 1_000)
    store_facts(store, [fact(0, "locked"), StakeDropped(rid(1))], 2_000)
    store_facts(store, [fact(2, "locked")], 9_000)
    assert pruned(store, 5_000) == [4]
    rows = store.file.connection.execute("select rid, at_ms from journal order by seq").fetchall()
    assert rows == [(rid(0), 2_000), (rid(2), 9_000)]
    store.check()


def test_pruning_goes_through_all_rows_in_bounded_steps(
    store: SiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kalends.resource_servers.journal.sqlite.site_store.PRUNE_ROWS_MAX", 7)
    for at_ms in range(10):
        store_facts(store, [fact(number) for number in range(5)], at_ms)
    removed = pruned(store, 100)
    assert sum(removed) == 45
    assert max(removed) <= 7
    assert len(by_rid(store)) == 5


def test_a_clock_that_was_set_back_makes_pruning_stop_early_and_harms_nothing(
    store: SiteStore,
) -> None:
    store_facts(store, [fact(0)], 9_000)
    store_facts(store, [StakeDropped(rid(0))], 1_000)
    assert not pruned(store, 5_000)
    store.check()
    assert by_rid(store) == {}


@pytest.mark.parametrize(
    "damage",
    [
        "update stake set seq = seq - 1",
        "update stake set ends_at = ends_at + 1",
        "update journal set body = x'c1' where seq = 3",
        "delete from stake",
        "delete from journal where seq = 3",
        "update stake set rid = rid || 'x'",
    ],
)
def test_check_notices_tables_that_are_not_what_the_journal_says(
    store: SiteStore, damage: str
) -> None:
    store_facts(store, [fact(0), fact(1), fact(0, "locked")], 1)
    store.check()
    store.file.connection.execute(damage)
    with pytest.raises(AssertionError):
        store.check()


def test_what_many_stakes_have_in_common_is_loaded_once(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(1)], 1)
    one, other = store.load().stakes
    assert one.principal is other.principal
    assert one.parts is other.parts
    assert one.coords is other.coords
    assert one.claims[0].resource is other.claims[0].resource


def test_doctor_finds_a_clock_that_is_behind_what_the_site_has_counted(store: SiteStore) -> None:
    store_facts(store, [TimePassed(int(time.time() * 1_000), 1, 1)], 1)
    assert doctor(store.file.path, [KIND]) == []
    store_facts(store, [TimePassed(int(time.time() * 1_000) + 3_600_000, 1, 1)], 1)
    (found,) = doctor(store.file.path, [KIND])
    assert "behind" in found
