"""Common starts gone wrong, one line at a time: what the stories of jobs in step must notice."""

from __future__ import annotations

from typing import Any

from kalends.broker.coordination.record.decision_record import (
    Assemble,
    GiveUp,
    Registered,
    encode_parts,
)
from kalends.broker.jobs.parts.step_starts import StepStarts
from kalends.broker.register import job_starts, request_writes
from kalends.resource_servers.jobs.step_gate import StepGate
from tests.shells.mutations import mutation


@mutation
def whoever_has_come_starts() -> None:
    """The others are not waited for."""
    note = StepStarts._note

    def ready_at_once(self: StepStarts, gathered: Any, ask: Any, now: Any) -> None:
        note(self, gathered, ask, now)
        gathered.ready |= gathered.come

    def assemble(connection: Any, op: Assemble) -> Registered:
        found = job_starts._step_of(connection, op)
        if isinstance(found, Registered):
            return found
        if not found.job.started and op.parts:
            job_starts._decide_start(connection, found, encode_parts(op.parts), op.begins_ms)
        return job_starts._decided(connection, op, found)

    StepStarts._note = ready_at_once  # type: ignore[method-assign]
    request_writes._HANDLERS[Assemble] = assemble


@mutation
def a_part_gives_up_unasked() -> None:
    """By its own timer, while the register still counts on it."""

    def end(self: StepGate, seat: Any, start: Any) -> None:
        waits = self._waiting.get(seat)
        if waits is not None and waits.start is start:
            self._end(seat, waits, "it has waited long enough")

    StepGate._waited_enough = end  # type: ignore[method-assign]


@mutation
def giving_up_undoes_a_start() -> None:
    """It does not look whether the others are told to start."""

    def anyway(connection: Any, op: GiveUp) -> Registered:
        if op.proved:
            connection.execute("delete from start where rid = ?", (op.rid,))
        return job_starts.give_up(connection, op)

    request_writes._HANDLERS[GiveUp] = anyway


@mutation
def nothing_starts_in_step() -> None:
    """Every job is given up before it starts: none of them runs alone."""

    def assemble(connection: Any, op: Assemble) -> Registered:
        return job_starts.give_up(connection, op)  # type: ignore[arg-type]  # It has what that needs.

    request_writes._HANDLERS[Assemble] = assemble


@mutation
def parts_start_as_they_hear_of_it() -> None:
    """Nobody waits for the moment that was told to all."""
    let_start = StepGate._let_start

    def at_once(self: StepGate, seat: Any, waits: Any, word: Any) -> None:
        late_ms = 2_000 if seat[0].startswith("site0") else 0
        let_start(self, seat, waits, word._replace(in_ms=late_ms))

    StepGate._let_start = at_once  # type: ignore[method-assign]
