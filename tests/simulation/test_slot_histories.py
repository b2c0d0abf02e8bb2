"""Histories of slots, from messages made by hand."""

from __future__ import annotations

import pytest

from kalends.contract import messages as m
from kalends.core.principals import Principal
from kalends.core.scripts import Ask
from tests.simulation.clocks import EPOCH_S
from tests.simulation.histories import Recorder

HOUR_S = 3_600
START = EPOCH_S + HOUR_S
END = START + HOUR_S
ANN = Principal(user="ann")


class Site:
    """What is heard of argo, 10 ms apart."""

    def __init__(self) -> None:
        self.ms = 0
        self.recorder = Recorder(lambda: self.ms)
        self.recorder.singles = frozenset(("argo/x",))

    def asked(self, message: m.Message) -> None:
        self.ms += 10
        self.recorder.delivered("argo", "red~1", message)

    def says(self, message: m.Message) -> None:
        self.ms += 10
        self.recorder.left("argo", "red~1", message)

    def agent_comes(self, att: int) -> None:
        self.asked(
            m.Dispatch(
                rid="agent", att=att, stamp=20, principal=ANN, script="0" * 64,
                starts=m.Starts(first=START, last=START, step_s=60),
                asks=(Ask(0, "argo/x", HOUR_S),),
                parts=(m.Part("argo", "sim://argo"),), need=1, secret="s" * 16, hold_ms=30_000,
            )
        )  # fmt: skip

    def agent_holds(self, att: int) -> None:
        choice = m.HeldChoice(
            hold_id=att, term=0, resource="argo/x", start=START, end=END, units=1, common=START,
        )  # fmt: skip
        self.says(m.Report(rid="agent", att=att, sites=(m.SiteReport("argo", 1, held=(choice,)),)))

    def owner_is_asked(self, *hold_ids: int) -> None:
        self.asked(m.OwnerAsk(rid="agent", att=1, secret="s" * 16, hold_ids=hold_ids))

    def grants_to_ben(self) -> None:
        want = m.Want("argo/x", START, END, 1)
        self.asked(
            m.Visit(
                rid="ben", att=1, stamp=30, mode="hold", principal=Principal(user="ben"),
                wants=(want,), parts=(m.Part("argo", "sim://argo"),), need=1, secret="t" * 16,
                hold_ms=30_000, queue=True,
            )
        )  # fmt: skip
        held = (m.HeldSlot(index=0, hold_id=9),)
        self.says(m.Visited(rid="ben", att=1, epoch=1, vote="none", held=held))

    def shows_all_as_free(self) -> None:
        self._shows(((START, END, 1),))

    def shows_all_as_taken(self) -> None:
        self._shows(())

    def _shows(self, steps: tuple[tuple[int, int, int], ...]) -> None:
        want = m.Want("argo/x", START, END, 1)
        self.asked(m.Query(query_id=self.ms, principal=ANN, wants=(want,)))
        free = m.FreeSteps("argo/x", steps=steps, until=END)
        self.says(m.View(query_id=self.ms - 10, epoch=1, views=(free,)))


@pytest.fixture
def site() -> Site:
    return Site()


def test_an_agent_that_comes_again_holds_nothing_until_it_has_run(site: Site) -> None:
    site.agent_comes(1)
    site.agent_holds(1)
    site.agent_comes(2)
    site.shows_all_as_free()
    site.agent_holds(2)
    assert site.recorder.finish() == []
    assert site.recorder.numbers.operations > 3


def test_what_an_agent_holds_is_not_shown_as_free(site: Site) -> None:
    site.agent_comes(1)
    site.agent_holds(1)
    site.shows_all_as_free()
    site.agent_comes(2)
    site.agent_holds(2)
    [complaint] = site.recorder.finish()
    assert "wrong" in complaint


def test_what_an_agent_holds_unreported_is_held_on_while_the_site_stands_still(site: Site) -> None:
    site.agent_comes(1)
    site.ms += 60_000
    site.shows_all_as_taken()
    site.agent_comes(2)
    site.agent_holds(2)
    assert site.recorder.finish() == []


def stale(att: int) -> m.Stale:
    return m.Stale(rid="agent", att=att, seen=att + 1)


def test_a_repeat_that_is_called_stale_does_not_undo_what_the_first_visit_ended(site: Site) -> None:
    site.agent_comes(1)
    site.agent_holds(1)
    site.agent_comes(2)
    site.shows_all_as_free()
    site.agent_comes(2)
    site.says(stale(2))
    assert site.recorder.finish() == []


def test_what_an_agent_held_unreported_excuses_a_refusal_though_its_repeat_is_called_stale(
    site: Site,
) -> None:
    site.agent_comes(1)
    site.shows_all_as_taken()
    site.agent_comes(2)
    site.agent_comes(1)
    site.says(stale(1))
    site.agent_holds(2)
    assert site.recorder.finish() == []


def test_alternatives_to_what_an_owner_is_asked_for_are_held_no_longer(site: Site) -> None:
    site.agent_comes(1)
    site.agent_holds(1)
    site.owner_is_asked(2)
    site.grants_to_ben()
    assert site.recorder.finish() == []


def test_what_an_owner_is_asked_for_goes_on_being_held(site: Site) -> None:
    site.agent_comes(1)
    site.agent_holds(1)
    site.owner_is_asked(1)
    site.grants_to_ben()
    [complaint] = site.recorder.finish()
    assert "wrong" in complaint


def test_without_an_agent_what_is_free_is_not_shown_as_taken(site: Site) -> None:
    site.shows_all_as_taken()
    site.agent_comes(2)
    site.agent_holds(2)
    [complaint] = site.recorder.finish()
    assert "wrong" in complaint
