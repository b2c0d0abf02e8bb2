"""The calls that people make of a site: health, resources, one calendar, audit, drain, reclaim."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol

from kalends.calendars import ResourceCalendar, unknown_resource
from kalends.contract import calls, owner_calls
from kalends.core import limits
from kalends.core.errors import NotFound
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.journal.contract import DRAINING, WITHOUT_END, RunRecords
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.attendance.attendance import Attendance
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.petitions import Petition
from kalends.resource_servers.participation.reclaims.closures import close, reopen
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.service import SiteEngine
from kalends.resource_servers.setup.assembly import auditor
from kalends.serving.alarms import Alarms
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Handler


class Site(Protocol):
    """Parts of the running site that the operations use."""

    @property
    def alarms(self) -> Alarms: ...

    def engine(self) -> SiteEngine:
        """The site as it runs now; raises `Unavailable` when its store does not work."""

    def health(self) -> calls.Health: ...

    @property
    def records(self) -> RunRecords:
        """Records of agents' runs."""


class SiteOperations:
    """One handler for each operation of a site."""

    def __init__(self, site: Site, moment: Callable[[], Moment]) -> None:
        self._site = site
        self._moment = moment

    def handlers(self) -> dict[str, Handler]:
        return {
            "health": self.health,
            "resources": self.resources,
            "calendar": self.calendar,
            "audit": self.audit,
            "drain": self.drain,
            "reconcile": self.reconcile,
            "reclaim": self.reclaim,
            "reclaims": self.reclaims,
            "reclaim_end": self.reclaim_end,
            "check_in": self.check_in,
            "close": self.close,
            "open": self.open,
            "approvals": self.approvals,
            "approval_decide": self.approval_decide,
            "agent_runs": self.agent_runs,
            "agent_run": self.agent_run,
        }

    def health(self, caller: Caller, body: calls.Nothing) -> calls.Health:
        return self._site.health()

    def resources(self, caller: Caller, body: calls.ListResources) -> calls.Resources:
        principal = _seen_as(caller)
        calendars = self._site.engine().participant.book.calendars.values()
        return calls.Resources(
            resources=tuple(each.info for each in calendars if each.visible_to(principal))
        )

    def calendar(self, caller: Caller, body: calls.ShowCalendar) -> calls.CalendarView:
        """What is free follows the caller's rules; the slots are as they may be seen."""
        calendar = self._visible(caller, body.resource)
        participant = self._site.engine().participant
        free, until = calendar.free_steps(
            caller.principal,
            body.start,
            body.end,
            self._moment().wall_s,
            limits.VIEW_STEPS_MAX,
        )
        slots, listed_until = calendar.slots_until(
            _seen_as(caller), body.start, body.end, limits.LISTING_MAX
        )
        until = min(until, listed_until)
        return calls.CalendarView(
            resource=calendar.info,
            start=body.start,
            end=body.end,
            until=until,
            free=tuple(
                (start, min(end, until), units) for start, end, units in free if start < until
            ),
            slots=tuple(slots),
            as_of=participant.guard.as_of(body.resource),
            rules=participant.book.rules_for(
                caller.principal, body.resource, self._moment().wall_s
            ),
            now=self._moment().wall_s,
        )

    def audit(self, caller: Caller, body: calls.Audit) -> calls.Audited:
        """Claims by request id, a page at a time; the first page also checks all invariants."""
        participant = self._site.engine().participant
        stakes = participant.book.stakes
        page = heapq.nsmallest(limits.LISTING_MAX + 1, (rid for rid in stakes if rid > body.after))
        claims: list[calls.AuditClaim] = []
        more = False
        for number, rid in enumerate(page):
            if number == limits.LISTING_MAX or len(claims) >= limits.LISTING_MAX:
                more = True
                break
            stake = stakes.peek(rid)
            assert stake is not None
            claims += (_audited(stake, claim) for claim in stake.claims)
        problems = list(self._site.alarms.problems)
        if not body.after:
            try:
                participant.check()
            except AssertionError as error:
                problems.append(f"an invariant of the calendars does not hold: {error}")
        return calls.Audited(
            claims=tuple(claims),
            problems=tuple(problems),
            settled=self._site.alarms.settled,
            more=more,
        )

    async def drain(self, caller: Caller, body: calls.Drain) -> calls.Health:
        """Holds over a restart: an operator who drains a site means it. Raises `InvalidInput`."""
        engine = self._site.engine()
        body.check(self._moment().wall_s)
        engine.drain(on=body.on, until_s=body.until)
        await engine.set(DRAINING, (body.until or WITHOUT_END) if body.on else 0)
        return self._site.health()

    async def reconcile(self, caller: Caller, body: calls.Reconcile) -> calls.Reconciled:
        """Return the brokers that have not compared yet; with `go_on`, stop waiting for them."""
        engine = self._site.engine()
        at_risk = (
            engine.participant.recovery.unsettled()
            if engine.participant.recovery.recovering
            else {}
        )
        if body.go_on:
            await engine.called(lambda participant, now: participant.recovery.go_on())
        return calls.Reconciled(recovering=engine.participant.recovery.recovering, at_risk=at_risk)

    async def reclaim(self, caller: Caller, body: owner_calls.Reclaim) -> owner_calls.ReclaimView:
        """Answers once it is durable: from then on nothing new is taken there."""
        engine = self._site.engine()
        return await engine.called(
            lambda participant, now: participant.wing(ReclaimReminders).reclaim(body, now)
        )

    async def reclaim_end(
        self, caller: Caller, body: owner_calls.ReclaimRef
    ) -> owner_calls.ReclaimView:
        """The reclaim as it was when it was withdrawn."""
        engine = self._site.engine()
        return await engine.called(
            lambda participant, now: participant.wing(ReclaimReminders).end(body.key, now)
        )

    def reclaims(self, caller: Caller, body: owner_calls.ListReclaims) -> owner_calls.Reclaims:
        reminders = self._site.engine().participant.wing(ReclaimReminders)
        return owner_calls.Reclaims(reclaims=reminders.views())

    async def check_in(self, caller: Caller, body: owner_calls.CheckIn) -> owner_calls.CheckedIn:
        """Answers once it is durable: from then on the slots are not given back."""
        user = "" if "admin" in caller.scopes else caller.principal.user
        return await self._site.engine().called(
            lambda participant, now: participant.wing(Attendance).check_in(body, user, now)
        )

    async def close(self, caller: Caller, body: owner_calls.CloseSite) -> owner_calls.ClosureView:
        """Answers once it is durable: from then on nothing new is taken there."""
        engine = self._site.engine()
        return await engine.called(
            lambda participant, now: close(participant.wing(ReclaimReminders), body, now)
        )

    async def open(self, caller: Caller, body: owner_calls.OpenSite) -> owner_calls.Closures:
        """The closures as they were when they were ended."""
        engine = self._site.engine()
        return await engine.called(
            lambda participant, now: reopen(participant.wing(ReclaimReminders), body.key, now)
        )

    def approvals(self, caller: Caller, body: owner_calls.ListApprovals) -> owner_calls.Approvals:
        return owner_calls.Approvals(requests=self.pending())

    def pending(self) -> tuple[owner_calls.ApprovalView, ...]:
        """Return what waits for the owner, the earliest deadline first."""
        pending = self._site.engine().participant.wing(OwnerApproval).pending()
        views = (_approval_view(stake, petition) for stake, petition in pending)
        return tuple(sorted(views, key=lambda view: (view.until, view.id)))

    async def approval_decide(
        self, caller: Caller, body: owner_calls.DecideApproval
    ) -> owner_calls.ApprovalView:
        """Answers once the word is durable."""
        by = caller.principal.user
        stake, petition = await self._site.engine().called(
            lambda participant, now: participant.wing(OwnerApproval).decide(body, by, now)
        )
        return _approval_view(stake, petition)

    async def agent_runs(self, caller: Caller, body: calls.ListRuns) -> calls.Runs:
        views = await self._site.records.newest(_runs_of(caller), body.id, body.count)
        return calls.Runs(runs=tuple(views))

    async def agent_run(self, caller: Caller, body: calls.RunRef) -> calls.RunView:
        view = await self._site.records.one(int(body.run), _runs_of(caller))
        if view is None:
            raise NotFound(
                f"this site has no record of a run {body.run} of yours, or no longer",
                where="run",
                remedy="kalends agent runs lists the stored runs",
            )
        return view

    def _visible(self, caller: Caller, resource: str) -> ResourceCalendar:
        calendar = self._site.engine().participant.book.calendars.get(resource)
        if calendar is None or not calendar.visible_to(_seen_as(caller)):
            raise NotFound(
                unknown_resource(resource).detail,
                where="resource",
                remedy="kalends resources lists those that you may see",
            )
        return calendar


def _approval_view(stake: Stake, petition: Petition) -> owner_calls.ApprovalView:
    return owner_calls.ApprovalView(
        id=stake.rid,
        revision=petition.revision,
        state=petition.state,
        user=stake.principal.user,
        groups=stake.principal.groups,
        slots=petition.wants,
        since=petition.asked_s,
        until=petition.until_s,
        reservation=petition.reservation,
        note=petition.note,
        change=bool(stake.replaces),
        word=petition.word,
        by=petition.by,
        first=petition.first,
    )


def _runs_of(caller: Caller) -> str | None:
    """Return the user whose runs the caller may see; None for all users."""
    return None if "audit" in caller.scopes else caller.principal.user


def _seen_as(caller: Caller) -> Principal:
    return auditor(caller.principal) if "audit" in caller.scopes else caller.principal


def _audited(stake: Stake, claim: Claim) -> calls.AuditClaim:
    """A claim that another reservation replaced is as free as a cancelled one, and shown so."""
    state = claim.state
    return calls.AuditClaim(
        id=stake.rid,
        att=stake.att,
        resource=claim.resource,
        start=claim.start,
        end=claim.end,
        units=claim.units,
        state=state if state in ("held", "prepared", "locked") else "cancelled",
    )
