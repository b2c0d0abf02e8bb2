"""All parts of a job in step begin, or none does; and the world in which that is tried notices if not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.jobs.parts.step_starts import StepStarts
from kalends.broker.register.decisions import starts
from kalends.broker.register.decisions.records import commit_at
from kalends.broker.register.decisions.register_decisions import DECISIONS
from tests.simulation.start_world import soak
from tests.simulation.step_world import StepSite, StepWorld

SCHEDULES = 150
UNTIL_IT_SHOWS = 300


def test_no_part_begins_without_the_others_and_most_jobs_run() -> None:
    tally, wrong = soak(SCHEDULES, 1, StepWorld)
    assert not wrong
    assert tally["whole"] > SCHEDULES / 2, "nothing that never runs runs alone"
    assert tally["given up"] > SCHEDULES / 4
    assert tally["asked to give up"] > SCHEDULES / 2


def whoever_has_come_starts(patch: pytest.MonkeyPatch) -> None:
    note = StepStarts._note

    def ready(self: StepStarts, gathered: Any, ask: Any, now: Any) -> None:
        note(self, gathered, ask, now)
        gathered.ready |= gathered.come

    def assemble(rows: Any, op: r.Assemble) -> r.Registered:
        found = commit_at(rows, op)
        if isinstance(found, r.Registered):
            return found
        if not starts._start_of(rows, found)[1] and op.parts:
            starts._decide_start(rows, found, r.encode_parts(op.parts), op.begins_ms)
        return starts._decided(rows, op, found)

    patch.setattr(StepStarts, "_note", ready)
    patch.setitem(DECISIONS, r.Assemble, assemble)
    take = StepSite.take

    def if_named(self: StepSite, word: Any) -> None:
        if word.says != "start" or self.part(word.rid) in word.parts:
            take(self, word)

    patch.setattr(StepSite, "take", if_named)


def a_part_gives_up_unasked(patch: pytest.MonkeyPatch) -> None:
    def waited_enough(self: StepSite, rid: str) -> None:
        if rid in self.waiting and rid not in self.begins:
            self.waiting.discard(rid)
            self.end(rid, "withdrawn")

    patch.setattr(StepSite, "_waited_enough", waited_enough)


def giving_up_undoes_a_start(patch: pytest.MonkeyPatch) -> None:
    def anyway(rows: Any, op: r.GiveUp) -> r.Registered:
        if op.proved:
            rows.starts.pop(op.rid, None)
        return starts.give_up(rows, op)

    patch.setitem(DECISIONS, r.GiveUp, anyway)


def what_is_given_up_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def unwritten(rows: Any, op: r.GiveUp) -> r.Registered:
        found = commit_at(rows, op)
        if isinstance(found, r.Registered) or starts._start_of(rows, found)[1]:
            return starts.give_up(rows, op)
        found.job = structs.replace(found.job, started=r.GIVEN_UP)
        return r.Registered(op, True, found)

    patch.setitem(DECISIONS, r.GiveUp, unwritten)


@pytest.mark.parametrize(
    "mutation",
    [
        whoever_has_come_starts,
        a_part_gives_up_unasked,
        giving_up_undoes_a_start,
        what_is_given_up_is_forgotten,
    ],
)
def test_a_common_start_gone_wrong_shows(mutation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    _, wrong = soak(UNTIL_IT_SHOWS, 1, StepWorld)
    assert any("alone" in each for each in wrong)
