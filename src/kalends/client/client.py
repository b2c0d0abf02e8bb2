"""The asynchronous client: one method per call, driven by the table in `kalends.contract.calls`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, Literal, ParamSpec, Self, TypeVar

import kalends.client.notebooks  # noqa: F401 (so that notebooks draw its answers)
from kalends.client.client_settings import ClientSettings
from kalends.client.inputs.given_values import by_name, every, milliseconds
from kalends.client.inputs.request_builder import (
    BySite,
    Duration,
    Preferred,
    Time,
    Window,
    length_s,
)
from kalends.client.methods.agent_calls import AgentCalls
from kalends.client.methods.answers import NewLength, check_kept, settled
from kalends.client.methods.approval_calls import ApprovalCalls
from kalends.client.methods.calendar_files import CalendarFiles
from kalends.client.methods.credit_calls import CreditCalls
from kalends.client.methods.job_calls import JobCalls
from kalends.client.methods.listing_calls import ListingCalls
from kalends.client.methods.notice_calls import NoticeCalls
from kalends.client.methods.request_calls import RequestCalls
from kalends.client.methods.series_calls import SeriesCalls
from kalends.client.methods.sharing_calls import SharingCalls
from kalends.client.methods.site_calls import SiteCalls
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.contract.owner_calls import (
    CloseSite,
    Closures,
    ClosureView,
    ListReclaims,
    OpenSite,
    Reclaim,
    ReclaimRef,
    Reclaims,
    ReclaimView,
    Standing,
)
from kalends.core.errors import error_from_problem
from kalends.core.local_clocks import begins_day
from kalends.core.requests import Request

P = ParamSpec("P")
T = TypeVar("T")

CALENDAR_S: Final = 86_400
"""The length of a calendar without a given end."""


def _of(part: str, method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Client, P], T]:
    @wraps(method)
    def call(self: Client, /, *args: P.args, **keywords: P.kwargs) -> T:
        return method(getattr(self, part), *args, **keywords)

    return call


class Client:
    """A client of one server. `connect` makes one; it connects at its first call, until `close`.

    The id of a request may be given by its beginning or its end, or by the beginning of the id in `kalends
    list`.

    Bookings carry a key that this client makes (or `key`, for callers that must survive their own
    crashes), so that every retry is safe. Times in answers are integer seconds UTC; see
    `kalends.as_datetime`. All methods raise the typed errors of `kalends.core.errors`; after
    `Unavailable` nothing was done, after `OutcomeUnknown` call `resolve`. Cancelling a call gives
    up its answer, not its effect.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._line = CallLine(settings)
        self._listing = ListingCalls(self._line)
        self._agents = AgentCalls(self._line, self._listing)
        self._requests = RequestCalls(self._line, self._listing, self._agents)
        self._series = SeriesCalls(self._line, self._listing)
        self._sharing = SharingCalls(self._line, self._listing)
        self._jobs = JobCalls(self._line)
        self._notices = NoticeCalls(self._line)
        self._calendars = CalendarFiles(self._line)
        self._approvals = ApprovalCalls(self._line)
        self._sites = SiteCalls(self._line)
        self._credits = CreditCalls(self._line, settings)

    def __repr__(self) -> str:
        return f"<kalends client of {self.settings.access.url}>"

    async def __aenter__(self) -> Self:
        self._line.sender()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls in flight fail. A later call connects again."""
        await self._line.close()

    new_key = _of("settings", ClientSettings.new_key)
    time_s = _of("settings", ClientSettings.time_s)
    period_s = _of("settings", ClientSettings.period_s)
    start_s = _of("settings", ClientSettings.start_s)
    request = _of("_requests", RequestCalls.request)
    book = _of("_requests", RequestCalls.book)
    hold = _of("_requests", RequestCalls.hold)
    submit_in_step = _of("_requests", RequestCalls.submit_in_step)
    place_job = _of("_requests", RequestCalls.place_job)
    book_copies = _of("_requests", RequestCalls.book_copies)
    book_series = _of("_series", SeriesCalls.book_series)
    find_series = _of("_series", SeriesCalls.find_series)
    series = _of("_series", SeriesCalls.series)
    series_id = _of("_series", SeriesCalls.series_id)
    retry_series = _of("_series", SeriesCalls.retry_series)
    cancel_series = _of("_series", SeriesCalls.cancel_series)
    move_series = _of("_series", SeriesCalls.move_series)
    extend_series = _of("_series", SeriesCalls.extend_series)
    shrink_series = _of("_series", SeriesCalls.shrink_series)
    share = _of("_sharing", SharingCalls.share)
    unshare = _of("_sharing", SharingCalls.unshare)
    give = _of("_sharing", SharingCalls.give)
    accept_offer = _of("_sharing", SharingCalls.accept_offer)
    decline_offer = _of("_sharing", SharingCalls.decline_offer)
    add_link = _of("_sharing", SharingCalls.add_link)
    revoke_link = _of("_sharing", SharingCalls.revoke_link)
    wait = _of("_requests", RequestCalls.wait)
    resolve = _of("_requests", RequestCalls.resolve)
    by_key = resolve
    full_id = _of("_listing", ListingCalls.full_id)
    show = _of("_listing", ListingCalls.show)
    why = _of("_listing", ListingCalls.why)
    reservations = _of("_listing", ListingCalls.reservations)
    list = _of("_listing", ListingCalls.list)
    feeds = _of("_calendars", CalendarFiles.feeds)
    add_feed = _of("_calendars", CalendarFiles.add_feed)
    revoke_feed = _of("_calendars", CalendarFiles.revoke_feed)
    ics = _of("_calendars", CalendarFiles.ics)
    waiting_list = _of("_listing", ListingCalls.waiting_list)
    watch = _of("_listing", ListingCalls.watch)
    events = _of("_listing", ListingCalls.events)
    upload_agent = _of("_agents", AgentCalls.upload_agent)
    agents = _of("_agents", AgentCalls.agents)
    agent = _of("_agents", AgentCalls.agent)
    delete_agent = _of("_agents", AgentCalls.delete_agent)
    tell_agent = _of("_agents", AgentCalls.tell_agent)
    agent_runs = _of("_agents", AgentCalls.agent_runs)
    agent_run = _of("_agents", AgentCalls.agent_run)
    submit = _of("_jobs", JobCalls.submit)
    submit_many = _of("_jobs", JobCalls.submit_many)
    jobs = _of("_jobs", JobCalls.jobs)
    job = _of("_jobs", JobCalls.job)
    job_news = _of("_jobs", JobCalls.job_news)
    watch_job = _of("_jobs", JobCalls.watch_job)
    moved_jobs = _of("_jobs", JobCalls.moved_jobs)
    watch_jobs = _of("_jobs", JobCalls.watch_jobs)
    hold_job = _of("_jobs", JobCalls.hold_job)
    release_job = _of("_jobs", JobCalls.release_job)
    kill_job = _of("_jobs", JobCalls.kill_job)
    job_output = _of("_jobs", JobCalls.job_output)
    follow_output = _of("_jobs", JobCalls.follow_output)
    attach = _of("_jobs", JobCalls.attach)
    job_usage = _of("_jobs", JobCalls.job_usage)
    slots = _of("_jobs", JobCalls.slots)
    job_history = _of("_jobs", JobCalls.job_history)
    past_jobs = _of("_jobs", JobCalls.past_jobs)
    past_slots = _of("_jobs", JobCalls.past_slots)
    machine_plan = _of("_jobs", JobCalls.machine_plan)
    machine_gaps = _of("_jobs", JobCalls.machine_gaps)
    machine_delays = _of("_jobs", JobCalls.machine_delays)
    serve_nodes = _of("_jobs", JobCalls.serve_nodes)
    host_lost = _of("_jobs", JobCalls.host_lost)
    set_policy = _of("_jobs", JobCalls.set_policy)
    replan = _of("_jobs", JobCalls.replan)
    notice_addresses = _of("_notices", NoticeCalls.notice_addresses)
    add_notice_address = _of("_notices", NoticeCalls.add_notice_address)
    remove_notice_address = _of("_notices", NoticeCalls.remove_notice_address)
    test_notice_address = _of("_notices", NoticeCalls.test_notice_address)
    check_in = _of("_approvals", ApprovalCalls.check_in)
    today = _of("_approvals", ApprovalCalls.today)
    approvals = _of("_approvals", ApprovalCalls.approvals)
    approve = _of("_approvals", ApprovalCalls.approve)
    decline = _of("_approvals", ApprovalCalls.decline)
    grant_credits = _of("_credits", CreditCalls.grant_credits)
    take_credits = _of("_credits", CreditCalls.take_credits)
    credits = _of("_credits", CreditCalls.credits)
    credit_entries = _of("_credits", CreditCalls.credit_entries)
    broker_sites = _of("_sites", SiteCalls.broker_sites)
    announce_site = _of("_sites", SiteCalls.announce_site)
    add_site = _of("_sites", SiteCalls.add_site)
    remove_site = _of("_sites", SiteCalls.remove_site)

    async def health(self) -> calls.Health:
        """Return whether the server is up and able to work."""
        return await self._line.call(calls.Nothing(), "health", calls.Health)

    async def whoami(self) -> calls.CallerView:
        """Return your identity at the server, and the rights and the end of your token."""
        return await self._line.call(calls.Nothing(), "whoami", calls.CallerView)

    async def at_site(self, site: str) -> Client:
        """Return a client of `site`, at which this broker books, for the same user; close it after use.

        The broker gives the client a pass for that site alone, and renews it. Your own token is sent only if
        the broker gives no pass and the token names the site. Raises `NotFound`, and `NotAuthenticated`
        if there is neither a pass nor such a token.
        """
        # Imported here because few programs call a site by way of its broker.
        from kalends.client.logins.site_ways import settings_at

        return Client(await settings_at(site, self.settings, self._line.sender()))

    async def resources(self) -> calls.Resources:
        """Return the resources that the caller may see, and which sites answer."""
        return await self._line.call(calls.ListResources(), "resources", calls.Resources)

    async def calendar(
        self, resource: str, *, start: Time = "now", end: Time | None = None
    ) -> calls.CalendarView:
        """Return the free and taken slots of `resource` in ``[start, end)`` that the caller may see.

        Without `end`, a day from `start`. A notebook shows the result as a drawing.
        """
        start_s = self.time_s(start)
        end_s = start_s + CALENDAR_S if end is None else self.period_s(start_s, end)[1]
        body = calls.ShowCalendar(resource=resource, start=start_s, end=end_s)
        return await self._line.call(body, "calendar", calls.CalendarView)

    async def find(
        self,
        request: Request | str,
        *,
        duration: Duration | None = None,
        at: Time | None = None,
        window: Window = (None, None),
        prefer: Preferred = (),
        at_most: BySite = "",
        rates: BySite = "",
        project: str | Mapping[str, str] = "",
        traffic: str = "",
        count: int = 5,
        explain: bool = False,
        free_for: Path | str | None = None,
    ) -> calls.Found:
        """Return the best `count` starts at present, or the refusals if there are none; book nothing.

        The starts keep clear of the events of a calendar file `free_for`, as far as 180 days ahead.

        With `explain`, each start is priced, and the answer lists the bookings in the way of better
        ones and how candidates would be polled.
        """
        wanted = self.request(
            request,
            duration=duration,
            at=at,
            window=window,
            prefer=prefer,
            at_most=at_most,
            rates=rates,
            project=project,
            traffic=traffic,
        )
        body = calls.Find(request=wanted, count=count, explain=explain)
        if free_for is None:
            return await self._found(body)
        # Imported here because few calls read a calendar.
        from kalends.client.methods.free_finds import free_starts

        return await free_starts(self._found, body, free_for, self.settings.zone)

    async def _found(self, body: calls.Find) -> calls.Found:
        return await self._line.call(body, "find", calls.Found)

    async def lock(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Lock all that request `id` holds, or nothing; raises `Expired` when the hold ran out."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return settled(await self._line.call(body, "lock", calls.RequestView))

    async def release(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Release all slots that request `id` holds, and its places in wait queues and on waiting lists."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "release", calls.RequestView)

    async def cancel(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Cancel reservation `id` at all its sites; a hold or an open request ends, too."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "cancel", calls.RequestView)

    async def move(
        self, id: str, to: Time, *, key: str = "", wait_s: float = 30.0
    ) -> calls.RequestView:
        """Move reservation `id` to start at `to`; if that is refused, it stays as it was."""
        start_s = await self.start_after_move_s(id, to)
        return await self._change(id, key, wait_s, start=start_s)

    async def start_after_move_s(self, id: str, to: Time, *, where: str = "to") -> int:
        """Return the start of reservation `id` after a move to `to`: a day alone, if it lasts whole days.

        Whole days are those of this client's zone.
        """
        zone = self.settings.zone
        start_s = self.start_s(to, where=where, exact=False)
        if isinstance(to, str) and begins_day(start_s, zone):
            found = await self.show(id)
            if begins_day(found.start, zone) and begins_day(found.end, zone):
                return start_s
        return self.start_s(to, where=where)

    async def place_elsewhere(
        self, id: str, *, key: str = "", wait_s: float = 30.0
    ) -> calls.RequestView:
        """Find another site for the job of request `id`.

        The job must be one that starts at most once and has not started, or that may run again (`rerun`). It
        keeps its place until it has another. A running job moves only if it starts there within minutes: it
        is ended, and then restarts. Raises `Conflict` if the job has ended, or has started and must not
        start again, and the error of the search if there is no other place.
        """
        body = calls.PlaceElsewhere(
            id=await self.full_id(id), key=key or self.new_key(), wait_ms=milliseconds(wait_s)
        )
        return settled(await self._line.call(body, "job_place_elsewhere", calls.RequestView))

    async def extend(
        self,
        id: str,
        *,
        by: Duration | None = None,
        duration: Duration | None = None,
        key: str = "",
        wait_s: float = 30.0,
    ) -> calls.RequestView:
        """Lengthen reservation `id` `by` some time or to `duration`, from the same start."""
        return await self._resize(id, by, duration, 1, key=key, wait_s=wait_s)

    async def shrink(
        self,
        id: str,
        *,
        by: Duration | None = None,
        duration: Duration | None = None,
        units: Mapping[str, int] | None = None,
        key: str = "",
        wait_s: float = 30.0,
    ) -> calls.RequestView:
        """Shorten reservation `id` `by` some time or to `duration`, or give back units.

        `units` are the units that each changed resource (``site/name``) keeps; raises `InvalidInput` for more
        than it has.
        """
        id = await self.full_id(id)
        units = by_name(units, where="units")
        if units:
            check_kept(units, await self.show(id))
        if units and by is None and duration is None:
            return await self._change(id, key, wait_s, units=dict(units))
        return await self._resize(id, by, duration, -1, key=key, wait_s=wait_s, units=units)

    async def audit(self, after: str = "") -> calls.Audited:
        """Return a page of all claims or decisions, and any invariant that does not hold."""
        return await self._line.call(calls.Audit(after=after), "audit", calls.Audited)

    async def bidders(self) -> calls.Bidders:
        """Return statistics of the bids of a broker's sites. Needs the scope ``audit``."""
        return await self._line.call(calls.ListBidders(), "bidders", calls.Bidders)

    async def drain(self, on: bool = True, *, until: Time | None = None) -> calls.Health:
        """Refuse new claims, or (`on` false) accept them again; promises are kept.

        With `until`, e.g. ``"in 2h"``, the server accepts them again by itself at that time.
        """
        end = self.time_s(until, where="until") if until is not None else 0
        return await self._line.call(calls.Drain(on=on, until=end), "drain", calls.Health)

    async def reconcile(self, *, wait_s: float = 30.0, go_on: bool = False) -> calls.Reconciled:
        """Compare a broker's register with all its sites, and repair differences.

        A site returns the registers that are not compared yet. With `go_on`, a server whose store was
        restored accepts new bookings before all is compared.
        """
        body = calls.Reconcile(wait_ms=milliseconds(wait_s), go_on=go_on)
        return await self._line.call(body, "reconcile", calls.Reconciled)

    async def reclaim(
        self,
        resource: str,
        *,
        at: Time,
        duration: Duration,
        notice: Duration | None = None,
        reason: str = "",
        units: int = 0,
        dry_run: bool = False,
        key: str = "",
    ) -> ReclaimView:
        """Reclaim `resource` from `at` for `duration`; calls its site, and needs the scope ``admin``.

        The period accepts nothing new. Reservations that begin later than `notice` from now are moved by
        their broker, or cancelled, and their users get the `reason`. With `units`, only so many are
        reclaimed (0: all), and as few reservations are moved as free them. With `dry_run` nothing is
        changed: the answer shows the expected outcome.
        """
        length = length_s(duration)
        # Whole days are reclaimed from the start of a day.
        start = self.start_s(at, exact=length % CALENDAR_S != 0)
        body = Reclaim(
            key=key or self.new_key(),
            resource=resource,
            start=start,
            end=start + length,
            notice_s=0 if notice is None else length_s(notice, where="notice"),
            reason=reason,
            units=units,
            dry_run=dry_run,
        )
        return await self._line.call(body, "reclaim", ReclaimView)

    async def reclaims(self) -> tuple[ReclaimView, ...]:
        """List the periods reclaimed by the owner of this site, with their reservations."""
        return (await self._line.call(ListReclaims(), "reclaims", Reclaims)).reclaims

    async def end_reclaim(self, key: str) -> ReclaimView:
        """Withdraw a reclaim: the period can be booked again; moved reservations stay moved."""
        return await self._line.call(ReclaimRef(key=key), "reclaim_end", ReclaimView)

    async def close_site(
        self,
        resources: Sequence[str] = (),
        *,
        at: Time = "now",
        duration: Duration | None = None,
        standing: Standing = "keep",
        reason: str = "",
        dry_run: bool = False,
        key: str = "",
    ) -> ClosureView:
        """Close `resources` (none: the whole site) from `at` for `duration`: nothing new is taken there.

        By `standing`, reservations in that time are kept, moved as in `reclaim`, or cancelled as a whole,
        also if they have begun; their users get the `reason`. With the `key` of a closure that stands, and no
        `duration`, only `standing` and `reason` change. With `dry_run` nothing is changed.
        """
        length = length_s(duration) if duration is not None else 0
        start = self.start_s(at, exact=length % CALENDAR_S != 0) if length else 0
        body = CloseSite(
            key=key or self.new_key(), resources=every(resources, where="resources"),
            start=start, end=start + length, standing=standing, reason=reason, dry_run=dry_run,
        )  # fmt: skip
        return await self._line.call(body, "close", ClosureView)

    async def open_site(self, key: str = "") -> tuple[ClosureView, ...]:
        """End the closure of `key`, or all of them; return them as they were. Raises `NotFound`."""
        return (await self._line.call(OpenSite(key=key), "open", Closures)).closures

    async def _change(self, id: str, key: str, wait_s: float, **fields: Any) -> calls.RequestView:
        body = calls.Change(
            id=await self.full_id(id),
            key=key or self.new_key(),
            wait_ms=milliseconds(wait_s),
            **fields,
        )
        answer = await self._line.call(body, "change", calls.RequestView)
        if answer.problem is not None:
            raise error_from_problem(answer.problem)
        return answer

    async def _resize(
        self,
        id: str,
        by: Duration | None,
        duration: Duration | None,
        direction: Literal[1, -1],
        *,
        key: str,
        wait_s: float,
        units: Mapping[str, int] | None = None,
    ) -> calls.RequestView:
        """Change `id` from its present length: `shrink` cannot lengthen it, nor `extend` shorten it."""
        wanted = NewLength(by, duration, direction)
        id = await self.full_id(id)
        wanted_s = wanted.length_s(await self.show(id))
        return await self._change(
            id, key, wait_s, duration_s=wanted_s, units=dict(units) if units else {}
        )
