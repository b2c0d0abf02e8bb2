"""Reclaims of locked slots: reservations that have not begun are moved to the best other time, or cancelled.

The site says so again and again until the slots are free; so nothing is remembered here that must not
be lost, and whatever goes wrong is tried again. The move is a change like any other: the old stands
until the new is decided everywhere, and a failed change leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.owners.pending_reclaim import PendingReclaim, concerns
from kalends.broker.coordination.owners.relocation import Wants, relocation_of, replacement
from kalends.broker.coordination.parts import CoordinatorPart, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_notices import change_of_slots
from kalends.broker.coordination.record.decision_record import Record, Registered, Spec
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.views import problem_of
from kalends.broker.coordination.search.query_plan import batched
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Transaction, by_site
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.answer_checks import AnswerChecks, SiteQuestion
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.coordination.user_calls import NO_TICKET, UserCalls
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.contract.messages import Want
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.errors import KalendsError, NoCommonTime, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment

LOOK_MS_MAX: Final = 5_000
"""A look that is not answered by then is made again when the site asks again."""

TRIES_MAX: Final = 16
"""Other times that owners' rules refuse before the reservation is cancelled."""

LOST_TRIES_MAX: Final = 128
"""Other times that are refused, for whatever reason, before what cannot be kept is cancelled."""


PASSING: Final = frozenset(
    {
        RefusalCode.BUSY,
        RefusalCode.HELD,
        RefusalCode.SITE_DOWN,
        RefusalCode.SITE_UNUSABLE,
        RefusalCode.BEING_CHANGED,
        RefusalCode.DRAINED,
    }
)
"""Refusals that say nothing against another try."""


ELSEWHERE_EVERY_MS: Final = 50_000
"""A place elsewhere is looked for no more often than that for one job, however often its site asks: each
look leaves a row, and makes others hold places. Sites that mean well ask once a minute at most."""

ELSEWHERE_MAX: Final = 10_000
"""Jobs of which it is known when that was; of more the oldest are forgotten."""

ENDING: Final = {
    RefusalCode.SITE_DOWN,
    RefusalCode.SITE_UNUSABLE,
    RefusalCode.BEING_CHANGED,
    RefusalCode.DRAINED,
}
"""Refusals after which no other time is tried: the site asks again."""


@dataclass(eq=False)
class OwnerReclaims:
    """From `Reclaim` to a change, or a cancellation, of all of the reservation that has not begun.

    `owner_alive` tells whether another replica's lease runs. `give_back` is what becomes of a reclaimed place
    in a queue: it returns the request that takes its place, "" for none.
    """

    identity: Identity
    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    checks: AnswerChecks
    in_flight: RequestsInFlight
    decide: DecidePhase
    _: KW_ONLY
    new_query_id: Callable[[], int]
    owner_alive: Callable[[str], bool]
    calls: UserCalls
    give_back: Callable[[PendingReclaim, Record, Moment], str]
    _recoveries: dict[str, PendingReclaim] = field(init=False, default_factory=dict)
    """By the request that an owner reclaims."""
    _recovering: dict[int, PendingReclaim] = field(init=False, default_factory=dict)
    """By the number of a query."""
    _looks: int = field(init=False, default=0)
    _elsewhere_ms: dict[str, int] = field(init=False, default_factory=dict)
    """When a place elsewhere was looked for (monotonic), by the request; the oldest first."""

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            handles=(on(m.Reclaim, self.reclaimed),), follows=(after(r.Examine, self.examined),),
            committed=self.changed, closed=self.refused, broke=self.give_up,
        )  # fmt: skip

    def request_of(self, query_id: int) -> str:
        """The reservation that this query is about, "" for none."""
        recovery = self._recovering.get(query_id)
        return next(iter(recovery.reclaims.values())).rid if recovery is not None else ""

    def asked(self, query_id: int) -> bool:
        return query_id in self._recovering

    def reclaimed(self, site: str, reclaim: m.Reclaim, now: Moment) -> None:
        """What becomes of it is decided when it is known what stands: see `examined`."""
        looked_ms = self._elsewhere_ms.get(reclaim.rid)
        if looked_ms is not None and now.monotonic_ms < looked_ms + ELSEWHERE_EVERY_MS:
            return
        recovery = self._recoveries.get(reclaim.rid)
        if recovery is not None:
            recovery.reclaims[site] = reclaim
            if recovery.record is not None:
                self._drop_unfounded(recovery, recovery.record, now)
            under_way = recovery.change in self.table.cases
            if not (recovery.reclaims or under_way):
                self._end_recovery(recovery)
                return
            if under_way or now.monotonic_ms < recovery.began_ms + LOOK_MS_MAX:
                return
            self._stop_looking(recovery)
            recovery.began_ms = now.monotonic_ms
        else:
            recovery = PendingReclaim(reclaim.rid, {site: reclaim}, now.monotonic_ms)
            self._recoveries[reclaim.rid] = recovery
        self._examine(recovery)

    def viewed(self, site: str, view: m.View, now: Moment) -> None:
        """Take the answer to one of our queries, and move the reservation once all are there."""
        recovery = self._recovering[view.query_id]
        asked = recovery.queries[view.query_id]
        if asked.site != site:
            return
        del self._recovering[view.query_id], recovery.queries[view.query_id]
        for of_one in self.checks.view(site, view, asked, now).views:
            recovery.free[of_one.resource] = of_one.steps
        if not recovery.queries:
            self._move(recovery, now)

    # What stands, and what is free

    def _examine(self, recovery: PendingReclaim, taken_from: str = "") -> None:
        """Look what stands; with the dead replica that owned it, take it over."""
        self._looks += 1
        recovery.look = self._looks
        self.outbox.write(r.Examine(recovery.rid, recovery.look, self.identity.owner, taken_from))

    def examined(self, op: r.Examine, result: Registered, now: Moment) -> None:
        """Only what is reserved everywhere, is not being changed, and has not begun can be moved.

        Each slot begins at its own time: an earlier stage that has begun is no reason to keep a later one.
        Of the replicas that are asked, the one that owns it moves it; another takes over from the dead.
        """
        rid, record = op.rid, result.record
        recovery = self._recoveries.get(rid)
        if recovery is None or op.look != recovery.look:
            return
        if record is not None:
            self._drop_unfounded(recovery, record, now)
        cancels = record is not None and recovery.cancels(_not_over(record, now))
        if (
            record is None
            or not recovery.reclaims
            or record.state != "commit"
            or not (record.done and result.won)
            # A job that waits may start later than was foreseen.
            or not (
                record.spec.placement is not None
                or cancels
                or recovery.concerns(_to_come(record, now))
            )
            or any(case.record.replaces == rid for case in self.table.cases.values())
        ):
            self._end_recovery(recovery)
            return
        if record.owner != self.identity.owner:
            if recovery.taking_over or self.owner_alive(record.owner):
                self._end_recovery(recovery)
                return
            recovery.taking_over = True
            self._examine(recovery, record.owner)
            return
        if record.spec.placement is not None:
            self._give_back(recovery, record, now)
            return
        recovery.record = record
        recovery.stamp = 0
        if cancels:
            self._cancel_for(recovery, record, now, at_once=True)
        else:
            self._look_for(recovery, record, now)

    def _give_back(self, recovery: PendingReclaim, record: Record, now: Moment) -> None:
        self._end_recovery(recovery)
        rid = self.give_back(recovery, record, now)
        if rid:
            self._elsewhere_ms.pop(record.rid, None)
            self._elsewhere_ms[record.rid] = now.monotonic_ms
            if len(self._elsewhere_ms) > ELSEWHERE_MAX:
                del self._elsewhere_ms[next(iter(self._elsewhere_ms))]
            why = "; ".join(f"{site}: {each.reason}" for site, each in recovery.reclaims.items())
            self.log.add(self.table.cases[rid], "reclaimed", why, now)

    def _drop_unfounded(self, recovery: PendingReclaim, record: Record, now: Moment) -> None:
        """A site may have back what the record has claimed of it, at that time, and nothing else."""
        for site, reclaim in list(recovery.reclaims.items()):
            if not concerns(reclaim, record.wants):
                del recovery.reclaims[site]
                self.checks.complain(site, "reclaims time that is not booked there", now)

    def _look_for(self, recovery: PendingReclaim, record: Record, now: Moment) -> None:
        """Ask every site concerned; without one of them nothing is said about other times."""
        reclaimed = {name for each in recovery.reclaims.values() for name in each.resources}
        moved = relocation_of(record, reclaimed, self.directory.resources, now.wall_s)
        sites = {split_resource(want.resource)[0] for want in record.wants}
        if not all(self.directory.is_up(site) for site in sites):
            self._end_recovery(recovery)
            return
        recovery.moved = moved
        recovery.began_ms = now.monotonic_ms
        recovery.free = {}
        up = [n for n in moved.resources if self.directory.is_up(split_resource(n)[0])]
        last = max(moved.last, moved.first + 1)
        wants = tuple(Want(name, moved.first, last, 1) for name in up)
        for site, of_site in by_site(wants).items():
            for part in batched(of_site):
                query_id = self.new_query_id()
                recovery.queries[query_id] = SiteQuestion(site, part)
                self._recovering[query_id] = recovery
                query = m.Query(
                    query_id=query_id,
                    stamp=recovery.stamp,
                    principal=record.principal,
                    wants=part,
                    replaces=record.rid,
                )
                self.outbox.send(site, query)

    def _move(self, recovery: PendingReclaim, now: Moment) -> None:
        """To the best time: first without room that others wait for, then with that of younger ones.

        Where there is none it is cancelled.
        """
        record, moved = recovery.record, recovery.moved
        assert record is not None
        assert moved is not None
        infos, tried = self.directory.resources, recovery.tried
        calm = self.in_flight.less_unanswered(recovery.free, record.rid)
        wants = replacement(moved, infos, calm, tried) or replacement(
            moved, infos, recovery.free, tried
        )
        if wants is not None:
            self._change_for(recovery, record, wants, now)
        elif not recovery.stamp:
            recovery.stamp = max(record.stamp, 1)
            self._look_for(recovery, record, now)
        else:
            self._cancel_for(recovery, record, now)

    # The change, or the end

    def _change_for(
        self, recovery: PendingReclaim, record: Record, wants: Wants, now: Moment
    ) -> None:
        """Ask for exactly these slots, in the name of the reservation's user and by its old stamp."""
        assert recovery.moved is not None
        recovery.tried.add(wants)
        wants = recovery.moved.whole(wants)
        made = change_of_slots(record.wants, wants, recovery.owners, recovery.reason, now)
        request, text = record.spec.request, record.spec.text
        spec = Spec(
            request, text, wants=wants, patience="none", by_others=made, series=record.spec.series
        )
        key = f"reclaim:{record.rid}:{now.wall_ms}:{len(recovery.tried)}"
        try:
            recovery.change = self.calls.submit(
                record.principal, key, "reclaim", spec, NO_TICKET, now, replaces=record,
                stamp=record.stamp,
            )  # fmt: skip
        except KalendsError:
            # Draining, or too much of this user is open: the site asks again.
            self._end_recovery(recovery)
            return
        case = self.table.cases[recovery.change]
        self.log.add(case, "reclaimed", recovery.in_words, now, recovery.refusals)

    def _try_another(self, recovery: PendingReclaim, failed: Record, now: Moment) -> None:
        """The change was refused, and the old stands: look again, at what is free now."""
        refusals = failed.problem.refusals if failed.problem is not None else ()
        codes = {refusal.code for refusal in refusals}
        recovery.change = ""
        if not recovery.reclaims or codes & ENDING:
            self._end_recovery(recovery)
            return
        if codes - PASSING:
            recovery.refused += 1
        lost = any(each.lost for each in recovery.reclaims.values())
        enough = recovery.refused >= TRIES_MAX or (lost and len(recovery.tried) >= LOST_TRIES_MAX)
        if enough and recovery.record is not None:
            self._cancel_for(recovery, recovery.record, now)
        else:
            self._examine(recovery)

    def _cancel_for(
        self, recovery: PendingReclaim, record: Record, now: Moment, *, at_once: bool = False
    ) -> None:
        """Cancel for want of another time; the user learns which owner needs the slots, and why.

        What runs is not ended for a later part: the site asks again, until it is over. If an owner cancels
        `at_once`, no other time has been looked for, and what runs ends.
        """
        self._end_recovery(recovery)
        coming = _to_come(record, now)
        runs = any(want not in coming for want in _not_over(record, now))
        if not at_once and (not coming or runs):
            return
        case = self.table.cases.get(record.rid)
        if case is None:
            case = self.decide.open(record, now)
        elif case.phase != "telling":
            return
        told = recovery.in_words
        error = NoCommonTime(
            told if at_once else f"{told}; no other time suits all parts of the reservation",
            remedy="ask the owner, or book another time or resource",
            refusals=recovery.refusals,
        )
        case.record.problem = problem_of(error, record.reservation)
        self.log.add(case, "reclaimed", error.detail, now, error.refusals)
        made = ChangeByOthers(
            made="cancelled", by=recovery.owners, at=now.wall_s, reason=recovery.reason,
            was=record.wants,
        )  # fmt: skip
        self.calls.cancel(case.record, NO_TICKET, now, by=made, reclaimed=True)

    # Recoveries

    def changed(self, case: Transaction, now: Moment) -> None:
        """If `case` is a change for an owner, it stands."""
        if (recovery := self._recovery_by(case)) is not None:
            self._end_recovery(recovery)

    def refused(self, case: Transaction, now: Moment) -> None:
        """If `case` is a change for an owner, another time is tried."""
        if (recovery := self._recovery_by(case)) is not None:
            self._try_another(recovery, case.record, now)

    def _recovery_by(self, case: Transaction) -> PendingReclaim | None:
        recovery = self._recoveries.get(case.record.replaces)
        return recovery if recovery is not None and recovery.change == case.rid else None

    def give_up(self, rid: str) -> None:
        """A step broke at `rid`: its site asks again for what it reclaims."""
        recovery = self._recoveries.get(rid)
        if recovery is not None:
            self._end_recovery(recovery)

    def _end_recovery(self, recovery: PendingReclaim) -> None:
        self._stop_looking(recovery)
        self._recoveries.pop(recovery.rid, None)

    def _stop_looking(self, recovery: PendingReclaim) -> None:
        for query_id in recovery.queries:
            self._recovering.pop(query_id, None)
        recovery.queries = {}


def _to_come(record: Record, now: Moment) -> Wants:
    return tuple(want for want in record.wants if want.start > now.wall_s)


def _not_over(record: Record, now: Moment) -> Wants:
    return tuple(want for want in record.wants if want.end > now.wall_s)
