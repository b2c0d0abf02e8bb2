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
    Begin,
    Commit,
    Record,
    encode_record,
)
from kalends.broker.reconciliation.recognition import LISTEN_MS, Live, Recognition, mark_for
from kalends.broker.register.sqlite import lives, request_reads, request_writes
from kalends.broker.register.sqlite.broker_store import KIND
from kalends.broker.register.writes import MadeGood, PutBack
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import LostRace
from kalends.core.identifiers import request_id

SECRET = "the secret of the register"
ONE, TWO = "1" * 32, "2" * 32
RID = request_id(1_800_000_000_000, 1)


def recognition(*, put_back: bool = False, promoted: bool = False) -> Recognition:
    sites = ("here", "there")
    return Recognition(SECRET, sites, put_back=put_back, promoted=promoted, monotonic_ms=1_000)


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
    assert recognition().hear("here", [said(*mark)], lives) == includes


@pytest.mark.parametrize(
    "mark",
    [
        m.Mark(TWO, 9, ""), m.Mark(TWO, 9, "0" * 32), said(TWO, 9, "there"),
        m.Mark(TWO, 9, said(TWO, 8).proof),
    ],
)  # fmt: skip
def test_no_site_can_say_that_a_register_was_put_back(mark: m.Mark) -> None:
    assert recognition().hear("here", [mark], {ONE: 7})


def test_nothing_is_certain_before_all_sites_have_come_or_were_waited_for() -> None:
    one = recognition()
    one.hear("here", [], {})
    assert not one.is_certain(1_001)
    assert one.is_certain(1_000 + LISTEN_MS)
    one.hear("there", [], {})
    assert one.is_certain(1_001)


def test_after_a_failover_sites_are_waited_for_to_the_last_one() -> None:
    one = recognition(promoted=True)
    one.hear("here", [], {})
    later_ms = 1_000 + LISTEN_MS
    assert (one.has_listened(later_ms), one.is_certain(1 << 40)) == (True, False)
    assert one.unheard() == ["there"]
    one.hear("there", [], {})
    assert one.is_certain(1_001)


def test_one_that_was_put_back_is_not_certain_before_it_is_compared_with_all() -> None:
    one = recognition(put_back=True)
    one.hear("here", [said(TWO, 9)], {ONE: 7})
    one.hear("there", [], {})
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
    assert request_writes.carry_out(database, [MadeGood((), problem), PutBack()]) == [None, None]
    assert lives.is_put_back(database)
    good = MadeGood((Live(TWO, 9),), problem)
    assert request_writes.carry_out(database, [good]) == [1]
    assert not lives.is_put_back(database)
    assert lives.position_of(database, TWO) == 9
    found = {each.rid: each for each in request_reads.every(database) if isinstance(each, Record)}
    assert (found[RID].public_state, found[RID].done) == ("failed", True)
    assert found[RID].problem is not None
    assert found[RID].problem.detail == "it was put back"
    assert found[committed.rid].state == "commit"
    assert request_writes.carry_out(database, [good]) == [None]


@given(st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.integers(0, 9))))
def test_how_far_a_life_has_come_never_goes_back(told: list[tuple[str, int]]) -> None:
    connection = _memory()
    connection.executescript(KIND.schema)
    for life, position in told:
        request_writes.carry_out(connection, [Live(life, position)])
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
