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
from kalends.broker.register.decisions import starts
from kalends.broker.register.decisions.records import commit_at
from kalends.broker.register.decisions.register_decisions import DECISIONS
from kalends.resource_servers.jobs.step_gate import StepGate
from tests.shells.mutations import mutation


@mutation
def whoever_has_come_starts() -> None:
    """The others are not waited for."""
    note = StepStarts._note

    def ready_at_once(self: StepStarts, gathered: Any, ask: Any, now: Any) -> None:
        note(self, gathered, ask, now)
        gathered.ready |= gathered.come

    def assemble(rows: Any, op: Assemble) -> Registered:
        found = commit_at(rows, op)
        if isinstance(found, Registered):
            return found
        if not starts._start_of(rows, found)[1] and op.parts:
            starts._decide_start(rows, found, encode_parts(op.parts), op.begins_ms)
        return starts._decided(rows, op, found)

    StepStarts._note = ready_at_once  # type: ignore[method-assign]
    DECISIONS[Assemble] = assemble


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

    def anyway(rows: Any, op: GiveUp) -> Registered:
        if op.proved:
            rows.starts.pop(op.rid, None)
        return starts.give_up(rows, op)

    DECISIONS[GiveUp] = anyway


@mutation
def nothing_starts_in_step() -> None:
    """Every job is given up before it starts: none of them runs alone."""

    def assemble(rows: Any, op: Assemble) -> Registered:
        return starts.give_up(rows, op)  # type: ignore[arg-type]  # It has what that needs.

    DECISIONS[Assemble] = assemble


@mutation
def parts_start_as_they_hear_of_it() -> None:
    """Nobody waits for the moment that was told to all."""
    let_start = StepGate._let_start

    def at_once(self: StepGate, seat: Any, waits: Any, word: Any) -> None:
        late_ms = 2_000 if seat[0].startswith("site0") else 0
        let_start(self, seat, waits, word._replace(in_ms=late_ms))

    StepGate._let_start = at_once  # type: ignore[method-assign]
