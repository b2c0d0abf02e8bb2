"""Recalls by agents: a holder's agent is asked to give back what an older request needs.

Only holds are asked for, never promises; only of younger requests, so that no two wait for each
other; only where everything that stands in the way might be given back. The agent answers for its
holder (Ramamoorthi et al. 1997, section 3); whatever it does but say yes means that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, recalled
from kalends.agents.world.views import Asker, recall_arguments
from kalends.agents.world.visible_calendar import reached
from kalends.agents.world.zones import zones_of
from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.scripts import HeldChoice
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.contention.room import FreeRoom, have_room
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.runs import RunTable
from kalends.resource_servers.participation.this_site import ThisSite
from kalends.resource_servers.participation.visits.agent_visits import (
    AgentVisit,
    AgentVisits,
    Blocker,
    PendingRecall,
    received,
)

RECALL_MS_MAX: Final = 2_000
"""The wait of an older request for the agents of younger ones; runs take milliseconds."""

ASK_AGAIN_MS: Final = 10_000
"""The rest of an agent that keeps its slots before it is asked again: its user pays for every answer."""

BLOCKERS_MAX: Final = 4
"""Held slots that one request asks back: more of them are never all given back."""


@dataclass(eq=False)
class AgentRecalls:
    """The requests that wait for answers of younger requests' agents."""

    here: ThisSite
    book: ClaimTable
    claims: Claims
    room: FreeRoom
    runs: RunTable
    visits: AgentVisits
    outbox: ParticipantOutbox
    held_max: int
    _waiting: dict[str, PendingRecall] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._waiting)

    def att_of(self, rid: str) -> int:
        """Return the attempt of `rid` that waits for other agents, or 0."""
        waiting = self._waiting.get(rid)
        return waiting.att if waiting is not None else 0

    def end(self, rid: str, att: int) -> None:
        """End the wait of attempts of `rid` up to `att`."""
        waiting = self._waiting.get(rid)
        if waiting is not None and waiting.att <= att:
            self._stop_waiting(rid)

    def ask(
        self, wanted: m.Visit | m.Dispatch, needs: Sequence[Piece], now: Moment,
        resume: Callable[[Moment], None],
    ) -> bool:  # fmt: skip
        """Ask for what stands in the way of `needs`; then `resume` is called, once, later.

        False when that is hopeless: nobody is asked, and `resume` is not called.
        """
        blockers = self._blockers(wanted, needs, now) if self.visits else []
        if not blockers:
            return False
        waiting = PendingRecall(wanted.att, {}, [], resume)
        self._waiting[wanted.rid] = waiting

        def then(number: int, outcome: RunOutcome, now: Moment) -> None:
            self._recall_answered(wanted.rid, waiting, number, outcome, now)

        for blocker in blockers:
            job = self._recall_job(blocker, now)
            number = self.runs.set_out(blocker.rid, job, now, RECALL_MS_MAX, then)
            waiting.asked[number] = blocker
        return True

    def _recall_answered(
        self, rid: str, waiting: PendingRecall, number: int, outcome: RunOutcome, now: Moment
    ) -> None:
        blocker = waiting.asked.pop(number)
        if not _gives_back(outcome):
            if (visit := self.visits.get(blocker.rid)) is not None:
                visit.keeps_until_ms = now.monotonic_ms + ASK_AGAIN_MS
            self._stop_waiting(rid)
            waiting.resume(now)
            return
        waiting.given.append(blocker)
        if not waiting.asked:
            del self._waiting[rid]
            self.give_back(waiting.given)
            waiting.resume(now)

    def _stop_waiting(self, rid: str) -> None:
        for number in self._waiting.pop(rid).asked:
            self.runs.drop(number)

    def _visit_of(self, rid: str) -> AgentVisit:
        visit = self.visits.get(rid)
        assert visit is not None, rid
        return visit

    def _blockers(
        self, wanted: m.Visit | m.Dispatch, needs: Sequence[Piece], now: Moment
    ) -> list[Blocker]:
        """Return the fewest of the youngest holds that make room for `needs`, or none."""
        rid = wanted.rid
        calendars = {name: self.book.calendars[name].calendar.copy() for name, _, _, _ in needs}
        asked = {blocker.rid for each in self._waiting.values() for blocker in each.asked.values()}
        booked: dict[str, list[tuple[str, int]]] = {}
        for resource, start, end, _ in needs:
            for booking in calendars[resource].listing(start, end):
                holder = booking.reservation
                if booking.state == "held" and holder not in (rid, *asked):
                    booked.setdefault(holder, []).append((resource, booking.id))
        found: list[Blocker] = []
        for holder in sorted(booked, key=self._seniority, reverse=True):
            if self._seniority(holder) <= (wanted.stamp, rid):
                break
            visit = self._visit_of(holder)
            if not visit.answers_recalls or visit.keeps_until_ms > now.monotonic_ms:
                continue
            for resource, booking_id in set(booked[holder]):
                calendars[resource].release(booking_id)
            found += self._in_the_way(holder, needs)
            if len(found) > BLOCKERS_MAX:
                break
            if have_room(calendars, needs):
                return found
        return []

    def _seniority(self, rid: str) -> tuple[int, str]:
        visit = self.visits.get(rid)
        return (visit.dispatch.stamp if visit else -1, rid)

    def _in_the_way(self, holder: str, needs: Sequence[Piece]) -> list[Blocker]:
        found = []
        for claim in self.book.stakes[holder].claims:
            for piece in needs:
                resource, start, end, _ = piece
                if claim.resource == resource and claim.start < end and start < claim.end:
                    found.append(Blocker(holder, claim, piece))
                    break
        return found

    def _recall_job(self, blocker: Blocker, now: Moment) -> ScriptRun:
        visit = self._visit_of(blocker.rid)
        dispatch = visit.dispatch
        held = visit.report(self.book.stakes[blocker.rid].claims).sites[0].held
        _, first, last, units = blocker.piece
        start = min(first, *(slot.start for slot in held))
        end = max(last, *(slot.end for slot in held))
        shown = self.room.show(
            dispatch.principal, [slot.resource for slot in held], start, end, now.wall_s
        )
        asker = Asker(start=first, end=last, units=units)
        return ScriptRun(
            dispatch.principal.user,
            dispatch.source,
            "recall",
            recall_arguments(
                self.here.name, reached(shown, visit.through), held, blocker.claim.hold_id, asker,
                self.held_max, now.wall_s,
            ),
            received(dispatch.inbox),
            zones_of(shown, start, end, dispatch.arguments),
        )  # fmt: skip

    def give_back(self, given: Sequence[Blocker]) -> None:
        """Free the holds that were given back, and inform the holders' brokers.

        Those that were released, renewed or promised meanwhile stay as they are.
        """
        by_rid: dict[str, set[int]] = {}
        for blocker in given:
            by_rid.setdefault(blocker.rid, set()).add(blocker.claim.hold_id)
        for rid, hold_ids in by_rid.items():
            stake, visit = self.book.stakes.get(rid), self.visits.get(rid)
            if stake is None or visit is None or not stake.has("held"):
                continue
            if not visit.answers_recalls:
                continue
            before = {claim.hold_id for claim in stake.claims}
            if not before & hold_ids:
                continue
            held = visit.report(stake.claims).sites[0].held
            kept = _useful(held, [slot for slot in held if slot.hold_id not in hold_ids])
            renewed = m.Renewed(
                rid=rid,
                att=stake.att,
                epoch=self.here.epoch,
                kept=tuple(sorted(kept)),
                lost=tuple(sorted(before - kept)),
            )
            if kept:
                self.claims.keep_only(stake, kept)
            else:
                self.claims.end_hold(stake, "release")
            self.outbox.send(visit.asker, renewed)


def _gives_back(outcome: RunOutcome) -> bool:
    if outcome.code != "ok":
        return False
    try:
        return recalled(outcome.answer)
    except BadResult:
        return False


def _useful(held: Sequence[HeldChoice], left: Sequence[HeldChoice]) -> set[int]:
    """The ids of `left`, if some common start there serves as many terms as the best one of `held`."""
    if not left or _terms_served(left) < _terms_served(held):
        return set()
    return {slot.hold_id for slot in left}


def _terms_served(held: Sequence[HeldChoice]) -> int:
    terms: dict[int, set[int]] = {}
    for slot in held:
        terms.setdefault(slot.common, set()).add(slot.term)
    return max(map(len, terms.values()))
