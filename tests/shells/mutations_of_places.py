"""Bids gone wrong, one line at a time: what the stories of jobs that are left to brokers must notice."""

from __future__ import annotations

from typing import Any

from kalends.batch.queue.offers import PlaceOffers
from kalends.broker.coordination.decision_record import Permit, Record, Registered
from kalends.broker.coordination.prepare_phase import PreparePhase
from kalends.broker.coordination.register_results import RegisterResults
from kalends.broker.coordination.start_answers import StartAnswers
from kalends.resource_servers.participation.claims import Claims
from kalends.resource_servers.participation.places import Places
from kalends.resource_servers.place_desk import PlaceDesk
from kalends.resource_servers.start_gate import StartGate
from kalends.stores.sqlite import register
from tests.shells.mutations import mutation


@mutation
def offered_jobs_begin_at_once() -> None:
    """The queue does not wait for what becomes of the place."""
    give = PlaceDesk._give

    def taken(self: PlaceDesk, ask: Any, machine: str, hold_id: int) -> int:
        number = give(self, ask, machine, hold_id)
        self._service.step(machine, lambda queue, now: PlaceOffers(queue).take(number, now))
        return number

    PlaceDesk._give = taken  # type: ignore[method-assign]


@mutation
def free_nodes_are_promised_for_now() -> None:
    """It is not counted that a place is taken when the broker has decided."""
    start_by = PlaceOffers.start_by
    PlaceOffers.start_by = lambda self, number, decided_s=0: start_by(self, number)  # type: ignore[method-assign]


@mutation
def places_of_earlier_lives_are_forgotten() -> None:
    """After a restart nobody looks what has become of the claims."""
    PlaceDesk.begin = lambda self: None  # type: ignore[method-assign]


@mutation
def places_that_were_not_taken_stay() -> None:
    """A hold that has ended leaves its job in the queue."""
    follow = PlaceDesk._follow

    def locked_only(self: PlaceDesk, hold_id: int, place: Any) -> None:
        if self._claim_of(hold_id, place) != "none":
            follow(self, hold_id, place)

    PlaceDesk._follow = locked_only  # type: ignore[method-assign]


@mutation
def places_are_held_for_ever() -> None:
    """A hold on a place does not end by itself."""
    hold_place = Claims.hold_place

    def for_ever(self: Claims, stake: Any, until_ms: int) -> None:
        hold_place(self, stake, until_ms + 10**12)

    Claims.hold_place = for_ever  # type: ignore[method-assign]


@mutation
def jobs_are_placed_before_the_vote() -> None:
    """The register is asked to commit as soon as there is a bid."""
    prepare = PreparePhase.prepare

    def at_once(self: PreparePhase, case: Any, now: Any) -> None:
        prepare(self, case, now)
        if case.record.spec.job is not None and case.phase == "preparing":
            self.commit(case, now)

    PreparePhase.prepare = at_once  # type: ignore[method-assign]


@mutation
def a_cancelled_place_leaves_its_job() -> None:
    """Who cancels is told so, and the job runs."""
    follow = PlaceDesk._follow

    def all_but_cancelled(self: PlaceDesk, hold_id: int, place: Any) -> None:
        if self._claim_of(hold_id, place) != "cancelled":
            follow(self, hold_id, place)

    PlaceDesk._follow = all_but_cancelled  # type: ignore[method-assign]


@mutation
def every_attempt_makes_new_places() -> None:
    """What was held for the attempt before is not kept."""
    ask = Places._ask

    def anew(self: Places, source: str, solicit: Any, stake: Any, now: Any) -> None:
        ask(self, source, solicit, None, now)

    Places._ask = anew  # type: ignore[method-assign]


@mutation
def jobs_start_without_asking() -> None:
    """A job at two sites starts where it comes up, whoever was first."""
    StartGate._passes = lambda self, machine, action: True  # type: ignore[method-assign]


@mutation
def every_site_may_start() -> None:
    """The register writes down the last site that asks, and not the first."""

    def last(connection: Any, op: Any) -> Registered:
        found = register.row(connection, op.rid)
        return Registered(op, isinstance(found, Record) and found.state == "commit", found)

    register._HANDLERS[Permit] = last


@mutation
def a_site_that_was_left_may_start() -> None:
    """Who asks for the start of a job that is placed elsewhere is told to start it."""
    stored = register._permit

    def whatever_was_decided(connection: Any, op: Any) -> Registered:
        found = register.row(connection, op.rid)
        if isinstance(found, Record) and found.state == "replaced":
            return Registered(op, True, found)
        return stored(connection, op)

    register._HANDLERS[Permit] = whatever_was_decided


@mutation
def a_moved_job_does_not_wait_for_its_end() -> None:
    """It starts at its new place as soon as that comes up."""
    register._waits_for_an_end = lambda connection, record, op: False


@mutation
def a_moved_job_runs_on_where_it_was() -> None:
    """Its first site is not told that it has another place."""
    adopted = RegisterResults._adopted

    def untold(self: RegisterResults, case: Any, result: Registered, now: Any) -> None:
        if case.record.state == "replaced":
            self.table.drop(case, result.record)
        else:
            adopted(self, case, result, now)

    RegisterResults._adopted = untold  # type: ignore[method-assign]


@mutation
def ends_of_moved_jobs_are_not_written_down() -> None:
    """Whoever has another place may have ended as it likes."""
    may_end_at = Record.may_end_at

    def only_what_stands(self: Record, att: int, site: str) -> bool:
        return self.state != "replaced" and may_end_at(self, att, site)

    Record.may_end_at = only_what_stands  # type: ignore[method-assign]


@mutation
def all_sites_are_taken_for_lost() -> None:
    """A job that may run twice does, wherever it is moved."""
    asked = StartAnswers.asked

    def impatient(self: StartAnswers, reply_to: str, ask: Any, now: Any) -> None:
        self.lost = lambda now: ("site0", "site1", "site2", "site3")
        asked(self, reply_to, ask, now)

    StartAnswers.asked = impatient  # type: ignore[method-assign]
