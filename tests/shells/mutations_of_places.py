"""Bids gone wrong, one line at a time: what the stories of jobs that are left to brokers must notice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
from msgspec import structs

from kalends.batch.queue.offers import PlaceOffers
from kalends.broker.coordination.record.decision_record import Permit, Record, Registered
from kalends.broker.coordination.register_results import RegisterResults
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.broker.jobs.parts import solicitation
from kalends.broker.jobs.parts.job_ends import JobEnds
from kalends.broker.jobs.parts.solicitation import Solicitation
from kalends.broker.jobs.parts.start_answers import StartAnswers
from kalends.broker.register.decisions import starts
from kalends.broker.register.decisions.records import row
from kalends.broker.register.decisions.register_decisions import DECISIONS
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.errors import Conflict
from kalends.federation.back_off import BackOff
from kalends.resource_servers.jobs import way_choice
from kalends.resource_servers.jobs.place_desk import PlaceDesk
from kalends.resource_servers.jobs.start_gate import StartGate
from kalends.resource_servers.jobs.start_trust import StartTrust
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.placed_jobs.places import Places
from kalends.virtual_sites import relayed_sessions
from kalends.virtual_sites.members import Members
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
def ways_that_were_tried_stay() -> None:
    """A job that was offered a place only to learn its start is not withdrawn."""
    way_choice.withdraw = lambda number, queue, now: None


@mutation
def free_nodes_are_promised_for_now() -> None:
    """It is not counted that a place is taken when the broker has decided: by no site, nor by the broker."""
    solicitation.counted_from = lambda bid, asked_s, hold_ms: bid  # type: ignore[assignment]
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
        if case.record.spec.placement is not None and case.phase == "preparing":
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
def jobs_that_could_not_start_stay() -> None:
    """A job ends where its site could not start it."""
    JobEnds._placed_elsewhere = lambda self, row, site, now: True  # type: ignore[method-assign]


@mutation
def a_black_hole_bids_on() -> None:
    """A site takes no notice of jobs that it could not start."""
    StartTrust.why_not = lambda self, user, now_ms: ""  # type: ignore[method-assign]


@mutation
def a_black_hole_never_bids_again() -> None:
    """A site that could not start a job has no way to show that it can."""
    why_not = StartTrust.why_not

    def for_ever(self: StartTrust, user: str, now_ms: int) -> str:
        return why_not(self, user, now_ms) or ("no" if self.doubted else "")

    StartTrust.why_not = for_ever  # type: ignore[method-assign]


@mutation
def jobs_start_without_asking() -> None:
    """A job at two sites starts where it comes up, whoever was first."""
    StartGate._passes = lambda self, machine, action: True  # type: ignore[method-assign]


@mutation
def permits_are_not_written() -> None:
    """The register says that a job may start to every site that asks, and writes nothing down."""

    def said(rows: Any, op: Any) -> Registered:
        found = row(rows, op.rid)
        return Registered(op, isinstance(found, Record) and found.state == "commit", found)

    DECISIONS[Permit] = said


@mutation
def a_site_that_was_left_may_start() -> None:
    """Who asks for the start of a job that is placed elsewhere is told to start it."""
    stored = starts.permit

    def whatever_was_decided(rows: Any, op: Any) -> Registered:
        found = row(rows, op.rid)
        if isinstance(found, Record) and found.state == "replaced":
            return Registered(op, True, found)
        return stored(rows, op)

    DECISIONS[Permit] = whatever_was_decided


@mutation
def a_moved_job_does_not_wait_for_its_end() -> None:
    """It starts at its new place as soon as that comes up."""
    starts._waits_for_an_end = lambda rows, record, op: False


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


@mutation
def the_second_best_is_released_at_once() -> None:
    """Nobody keeps a place until the winner has voted."""
    choose = Solicitation._choose

    def alone(self: Solicitation, case: Any, ranked: Any) -> None:
        choose(self, case, ranked)
        self.release_reserve(case)

    Solicitation._choose = alone  # type: ignore[method-assign]


@mutation
def a_late_bid_wins() -> None:
    """What is bid once the others were compared takes the place of the winner."""
    heard = Solicitation.heard

    def too_late(self: Solicitation, site: str, bid: Any, now: Any) -> None:
        case, bidding = self.ground.table.cases.get(bid.rid), self.rounds.get(bid.rid)
        placed = case.record.job.placed if case is not None else None
        late = placed and case.phase not in ("bidding", "solicit") and bid.offers
        if late and bidding is not None and site in bidding.machines:
            offer = bid.offers[0]
            place = structs.replace(
                placed, machine=offer.machine, number=offer.job, start_by=offer.start_by
            )
            case.record.job = structs.replace(case.record.job, placed=place)
        heard(self, site, bid, now)

    Solicitation.heard = too_late  # type: ignore[method-assign]


@mutation
def rests_never_end() -> None:
    """A site that was silent is never asked again."""
    failed = BackOff.failed

    def for_ever(self: BackOff, now_ms: int, jitter: float) -> BackOff:
        return failed(self, now_ms, jitter)._replace(until_ms=1 << 60)

    BackOff.failed = for_ever  # type: ignore[method-assign]


@mutation
def places_are_rectangles() -> None:
    """What a place would have taken stays taken for a minute, though it was given up."""
    follow = PlaceDesk._follow

    def later(self: PlaceDesk, hold_id: int, place: Any) -> None:
        if self._claim_of(hold_id, place) == "none":
            asyncio.get_running_loop().call_later(60.0, follow, self, hold_id, place)
        else:
            follow(self, hold_id, place)

    PlaceDesk._follow = later  # type: ignore[method-assign]


@mutation
def jobs_ask_when_they_have_started() -> None:
    """A job that starts at most once starts, and asks then."""
    passes = StartGate._passes

    def asked_too(self: StartGate, machine: Any, action: Any) -> bool:
        passes(self, machine, action)
        return True

    StartGate._passes = asked_too  # type: ignore[method-assign]


@mutation
def a_virtual_site_decides() -> None:
    """It promises in the name of its members, and does not ask them."""
    pass_on = relayed_sessions._pass_on

    async def promised(source: Any, target: Any, *more: Any) -> Any:
        return await pass_on(source, _Promising(source, target), *more)

    relayed_sessions._pass_on = promised


class _Promising:
    """What is said to a member, but for what it is asked to promise: that is answered to the `broker`."""

    def __init__(self, broker: Any, member: Any) -> None:
        self._broker = broker
        self._member = member

    async def send_bytes(self, frame: bytes) -> None:
        if b"prepare" not in frame:
            await self._member.send_bytes(frame)
            return
        messages = codec.decode_frame(frame, msgspec.msgpack.Decoder(m.FrameToSite)).messages
        for each in messages:
            if isinstance(each, m.Prepare):
                vote = m.Voted(rid=each.rid, att=each.att, epoch=1, vote="yes")
                site = each.parts[0].site
                said = m.FrameToBroker(v=2, source=site, lc=0, messages=[vote])
                await self._broker.send_bytes(codec.encode_msgpack(said))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)


@mutation
def ways_are_not_checked() -> None:
    """A virtual site hands on what has come through it already."""
    way = Members._way

    def any_way(self: Members, request: Any) -> str:
        with contextlib.suppress(Conflict):
            return way(self, request)
        return self.name

    Members._way = any_way  # type: ignore[method-assign]
