"""What a site cannot read of its store is set aside: the site serves, and sells none of that room."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_support import fact, rid, stake, store_facts
from tests.protocol_support import DAY, T0, Site, commit, visit, want
from tests.protocol_support import rid as number_of

from kalends.contract import messages as m
from kalends.core.errors import NotFound
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.journal.sqlite.site_store import SiteStore, problems_of
from kalends.resource_servers.participation.memory.unreadable import (
    SetAside,
    UnreadableReclaim,
    UnreadableStake,
)
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    stored_reclaim,
)

PUMP = Reclaimed("the-key-of-it", "sdsc/sp2", 600, 1_200, 60, 10, "a new pump")


@pytest.fixture
def store(tmp_path: Path) -> SiteStore:
    return SiteStore.open(tmp_path / "sdsc.sqlite", "sdsc", sync="off")


@pytest.mark.parametrize("body", ["x'c1'", "x'c1' || 'text'", "''", "null"])
def test_a_stake_that_cannot_be_read_is_set_aside_and_the_others_are_loaded(
    store: SiteStore, body: str
) -> None:
    store_facts(store, [fact(0), fact(1)], 1)
    spoil = "delete from journal" if body == "null" else f"update journal set body = {body}"
    store.file.connection.execute(f"{spoil} where rid = ?", (rid(0),))
    loaded = store.load()
    assert [each.rid for each in loaded.stakes] == [rid(1)]
    assert rid(0) in loaded.set_aside
    assert loaded.set_aside.closed_until_s == stake(0).ends_at
    assert problems_of(store.file.connection)


def test_a_flipped_bit_in_a_text_of_a_stake_sets_aside_that_stake_alone(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(1)], 1)
    connection = store.file.connection
    (body,) = connection.execute("select body from journal where rid = ?", (rid(0),)).fetchone()
    first = rid(0).encode()
    spoilt = body.replace(first, bytes([first[0] ^ 0x80]) + first[1:])
    connection.execute("update journal set body = ? where rid = ?", (spoilt, rid(0)))
    loaded = store.load()
    assert [each.rid for each in loaded.stakes] == [rid(1)]
    assert rid(0) in loaded.set_aside
    assert problems_of(connection)


def test_a_stake_of_another_request_is_not_believed(store: SiteStore) -> None:
    store_facts(store, [fact(0), fact(1)], 1)
    store.file.connection.execute(
        "update journal set body = (select body from journal where rid = ?) where rid = ?",
        (rid(1), rid(0)),
    )
    loaded = store.load()
    assert [each.rid for each in loaded.stakes] == [rid(1)]
    assert rid(0) in loaded.set_aside


def test_a_reclaim_that_cannot_be_read_closes_all_time_until_it_is_withdrawn(
    store: SiteStore,
) -> None:
    store_facts(store, [stored_reclaim(PUMP)], 1)
    store.file.connection.execute("update reclaim set body = x'c1'")
    loaded = store.load()
    assert loaded.reclaims == []
    assert loaded.set_aside.closed_until_s == TIME_S_MAX
    assert loaded.set_aside.withdraw(PUMP.key)
    assert loaded.set_aside.closed_until_s == 0


def site_with(set_aside: SetAside) -> Site:
    site = Site()
    site.participant.keep_aside(set_aside)
    return site


ENDS = T0 + DAY + 100
LOST = UnreadableStake(number_of(9), ENDS, "nonsense")


def test_nothing_new_begins_before_the_room_of_it_has_surely_ended() -> None:
    site = site_with(SetAside([LOST]))
    early, late = want("one", 40, 50), want("one", 100, 110)
    for mode in ("hold", "vote"):
        answer = site.answer(visit(1, early, mode=mode))
        assert isinstance(answer, m.Visited)
        assert not answer.held
        assert "cannot read" in answer.refusals[0].detail
    answer = site.answer(visit(2, late, mode="vote"))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "yes"


def test_what_was_promised_is_kept_and_decided_all_the_same(site: Site) -> None:
    site.receive(visit(1, want("one", 40, 50), mode="vote"))
    site.restart()
    site.participant.keep_aside(SetAside([LOST]))
    site.receive(commit(1, *site.ids(1)))
    assert site.states(1) == ["locked"]


def test_nothing_is_said_or_begun_about_the_stake_itself_and_its_alarm_names_it() -> None:
    site = site_with(SetAside([LOST]))
    effects = site.receive(visit(9, want("one", 200, 210), mode="vote"))
    assert [alarm for alarm in effects.alarms if number_of(9) in alarm]
    assert effects.sends == []
    assert effects.facts == []
    assert site.stake(9) is None


def test_an_owner_ends_a_reclaim_that_cannot_be_read_by_its_key() -> None:
    site = site_with(SetAside((), [UnreadableReclaim("the-key-of-it", "nonsense")]))
    answer = site.answer(visit(1, want("one", 0, 10), mode="vote"))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "no"
    with pytest.raises(NotFound):
        site.reminders.end("another-key", site.now)
    site.reminders.end("the-key-of-it", site.now)
    assert site.settle().facts == [ReclaimDropped("the-key-of-it")]
    answer = site.answer(visit(1, want("one", 0, 10), mode="vote"))
    assert isinstance(answer, m.Visited)
    assert answer.vote == "yes"
