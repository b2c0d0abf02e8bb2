"""All parts of a job in step begin, or none does; and the world in which that is tried notices if not."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.jobs.parts.step_starts import StepStarts
from kalends.broker.register import job_starts, request_writes
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

    def assemble(connection: Any, op: r.Assemble) -> r.Registered:
        found = job_starts._step_of(connection, op)
        if isinstance(found, r.Registered):
            return found
        if not found.job.started and op.parts:
            job_starts._decide_start(connection, found, r.encode_parts(op.parts), op.begins_ms)
        return job_starts._decided(connection, op, found)

    patch.setattr(StepStarts, "_note", ready)
    patch.setitem(request_writes._HANDLERS, r.Assemble, assemble)
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
    def anyway(connection: Any, op: r.GiveUp) -> r.Registered:
        if op.proved:
            connection.execute("delete from start where rid = ?", (op.rid,))
        return job_starts.give_up(connection, op)

    patch.setitem(request_writes._HANDLERS, r.GiveUp, anyway)


def what_is_given_up_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def unwritten(connection: Any, op: r.GiveUp) -> r.Registered:
        found = job_starts._step_of(connection, op)
        if isinstance(found, r.Registered) or found.job.started:
            return job_starts.give_up(connection, op)
        found.job = structs.replace(found.job, started=r.GIVEN_UP)
        return r.Registered(op, True, found)

    patch.setitem(request_writes._HANDLERS, r.GiveUp, unwritten)


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
