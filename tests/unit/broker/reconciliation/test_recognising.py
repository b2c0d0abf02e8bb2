"""A register that was put back: reminded by its sites, closed until it is compared, and then made good."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol_support import KEY, REGISTER, Site, vote, want
from tests.simulation.disks import _memory
from tests.unit.broker.reconciliation.test_comparing import row

from kalends.broker.coordination.record.decision_record import (
    Ask,
    Begin,
    Commit,
    Record,
    encode_record,
)
from kalends.broker.reconciliation.recognition import LISTEN_MS, Live, Recognition, mark_for
from kalends.broker.register import lives, request_reads, request_writes
from kalends.broker.register.broker_store import KIND
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import LostRace
from kalends.core.identifiers import request_id

SECRET = "the secret of the register"
ONE, TWO = "1" * 32, "2" * 32
RID = request_id(1_800_000_000_000, 1)


def recognition(lives: dict[str, int], *, put_back: bool = False) -> Recognition:
    sites = ("here", "there")
    return Recognition(SECRET, sites, lives.get, put_back=put_back, monotonic_ms=1_000)


def said(life: str, position: int, site: str = "here") -> m.Mark:
    return mark_for(SECRET, site, life, position)


@pytest.mark.parametrize(
    ("lives", "mark", "includes"),
    [
        ({ONE: 7}, (ONE, 7), True),
        ({ONE: 7}, (ONE, 8), False),
        ({ONE: 7}, (TWO, 0), False),
        ({ONE: 7, TWO: 3}, (TWO, 3), True),
    ],
)
def test_a_register_that_was_told_further_than_it_knows_was_put_back(
    lives: dict[str, int], mark: tuple[str, int], includes: bool
) -> None:
    assert recognition(lives).hear("here", [said(*mark)]) == includes


@pytest.mark.parametrize(
    "mark",
    [
        m.Mark(TWO, 9, ""), m.Mark(TWO, 9, "0" * 32), said(TWO, 9, "there"),
        m.Mark(TWO, 9, said(TWO, 8).proof),
    ],
)  # fmt: skip
def test_no_site_can_say_that_a_register_was_put_back(mark: m.Mark) -> None:
    assert recognition({ONE: 7}).hear("here", [mark])


def test_nothing_is_certain_before_all_sites_have_come_or_were_waited_for() -> None:
    one = recognition({ONE: 7})
    one.hear("here", [])
    assert not one.is_certain(1_001)
    assert one.is_certain(1_000 + LISTEN_MS)
    one.hear("there", [])
    assert one.is_certain(1_001)


def test_one_that_was_put_back_is_not_certain_before_it_is_compared_with_all() -> None:
    one = recognition({ONE: 7}, put_back=True)
    one.hear("here", [said(TWO, 9)])
    one.hear("there", [])
    assert one.unsettled() == ["here", "there"]
    one.settle("here")
    assert (one.unsettled(), one.is_certain(1 << 40)) == (["there"], False)
    assert one.accounted() == [Live(TWO, 9)]


@pytest.fixture
def database() -> Any:
    connection = _memory()
    connection.executescript(KIND.schema)
    return connection


def test_a_register_is_made_good_once_and_gives_up_what_was_open(database: Any) -> None:
    committed = row("open", rid=request_id(1_800_000_000_000, 2), key="another")
    request_writes.apply(database, [Begin(row("open", rid=RID)), Begin(committed)])
    request_writes.apply(database, [Commit(committed.rid, 1, "", encode_record(committed))])
    problem = LostRace("it was put back").to_problem()
    assert lives.made_good(database, (), problem) is None
    lives.put_back(database)
    assert lives.is_put_back(database)
    assert lives.made_good(database, (Live(TWO, 9),), problem) == 1
    assert not lives.is_put_back(database)
    assert lives.position_of(database, TWO) == 9
    found = {each.rid: each for each in request_reads.every(database) if isinstance(each, Record)}
    assert (found[RID].public_state, found[RID].done) == ("failed", True)
    assert found[RID].problem is not None
    assert found[RID].problem.detail == "it was put back"
    assert found[committed.rid].state == "commit"
    assert lives.made_good(database, (), problem) is None


def test_what_is_not_certain_leaves_no_tombstone(database: Any) -> None:
    ask = Ask(RID, 1, "a secret of the site", "here", "here", proved=True, certain=False)
    request_writes.apply(database, [ask])
    request_writes.apply(database, [Begin(row("open", rid=RID))])
    assert request_reads.read(database, RID) is not None


@given(st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.integers(0, 9))))
def test_how_far_a_life_has_come_never_goes_back(told: list[tuple[str, int]]) -> None:
    connection = _memory()
    connection.executescript(KIND.schema)
    for life, position in told:
        lives.live(connection, Live(life, position))
    for life in (ONE, TWO):
        positions = [position for of, position in told if of == life]
        assert lives.position_of(connection, life) == (max(positions) if positions else None)


def known_marks(site: Site) -> dict[str, int]:
    known = site.answer(m.Welcome(register=REGISTER, secret=KEY))
    assert isinstance(known, m.Known)
    return {mark.life: mark.position for mark in known.marks}


def test_a_site_remembers_how_far_the_register_was_that_had_it_store_something() -> None:
    site = Site()
    site.participant.registers.mark("broker", said(ONE, 4))
    site.receive(vote(1, want("one", 0, 60)))
    site.participant.registers.mark("broker", said(ONE, 3))
    site.participant.registers.mark("broker", said(ONE, 6))
    assert known_marks(site) == {ONE: 6}
    site.restart()
    assert known_marks(site) == {ONE: 4}, "as of the last thing that was stored"


def test_a_site_remembers_the_last_lives_of_a_register_and_no_more() -> None:
    site = Site()
    lives = [f"{number:032x}" for number in range(limits.MARKS_MAX + 3)]
    for life in lives:
        site.participant.registers.mark("broker", said(life, 1))
    assert list(known_marks(site)) == lives[3:]
