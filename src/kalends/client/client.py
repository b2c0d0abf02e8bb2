"""The asynchronous client: one method per call, driven by the table in `kalends.contract.calls`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from kalends.client.calls import CallSender
from kalends.client.client_settings import ClientSettings
from kalends.client.inputs.given_values import by_name, milliseconds
from kalends.client.inputs.request_builder import (
    ArgumentValues,
    Duration,
    Preferred,
    Time,
    Window,
    length_s,
    period_s,
    request_from,
    start_s,
    time_s,
)
from kalends.client.inputs.scripts import Agent, named_script
from kalends.client.methods.answers import NewLength, check_kept, settled
from kalends.client.methods.approval_calls import ApprovalCalls
from kalends.client.methods.follower import Follower
from kalends.client.methods.job_calls import JobCalls
from kalends.client.methods.notice_calls import NoticeCalls
from kalends.client.methods.request_calls import RequestCalls
from kalends.client.transports.call_line import CallLine
from kalends.contract import calls
from kalends.contract.reclaim_calls import ListReclaims, Reclaim, ReclaimRef, Reclaims, ReclaimView
from kalends.core.errors import error_from_problem
from kalends.core.requests import Request

CALENDAR_S: Final = 86_400
"""The length of a calendar whose end is not said."""


class Client(RequestCalls, JobCalls, NoticeCalls, ApprovalCalls):
    """Calls to one server. `connect` makes one; it connects at its first call, and `close` ends that.

    For the id of a request, its beginning or its end will do, or the beginning of what `kalends list` shows.

    Bookings carry a key that this client makes (or `key`, to be kept by the caller over its own
    crashes), so that every retry is safe. Times in answers are integer seconds UTC; see
    `kalends.as_datetime`. All methods raise the typed errors of `kalends.core.errors`; after
    `Unavailable` nothing was done, after `OutcomeUnknown` ask `resolve`. Cancelling a call gives
    up its answer, not what was asked.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._line = CallLine(settings)
        around = settings.surroundings
        self._follows = Follower(self, clock=around.clock, sleep=around.sleep)

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

    @property
    def _caller(self) -> CallSender:
        return self._line.sender()

    @property
    def _follower(self) -> Follower:
        return self._follows

    async def health(self) -> calls.Health:
        """Return whether the server is up and able to work."""
        return await self._caller.call(calls.Nothing(), "health", calls.Health)

    async def whoami(self) -> calls.CallerView:
        """Return whom the server takes you for, what your token allows there, and until when."""
        return await self._caller.call(calls.Nothing(), "whoami", calls.CallerView)

    async def at_site(self, site: str) -> Client:
        """Return a client of `site`, which this broker books at, as the same user; it is to be closed.

        The broker gives it a pass for that site alone, and the next one before that runs out: your own token
        stays here. It is sent only where an older broker gives none, and the token names the site. Raises
        `NotFound`, and `NotAuthenticated` where there is neither pass nor such a token.
        """
        # Imported here because few programs go to a site by its broker.
        from kalends.client.logins.site_ways import settings_at

        return Client(await settings_at(site, self.settings, self._caller))

    async def resources(self) -> calls.Resources:
        """Return the resources that the caller may see, and which sites answer."""
        return await self._caller.call(calls.ListResources(), "resources", calls.Resources)

    async def calendar(
        self, resource: str, *, start: Time = "now", end: Time | None = None
    ) -> calls.CalendarView:
        """Return the free and taken slots of `resource` in ``[start, end)`` that the caller may see.

        Without `end` it is a day from `start`. A notebook shows what is returned as a drawing.
        """
        start_s = self.time_s(start)
        end_s = start_s + CALENDAR_S if end is None else self.period_s(start_s, end)[1]
        body = calls.ShowCalendar(resource=resource, start=start_s, end=end_s)
        return await self._caller.call(body, "calendar", calls.CalendarView)

    def request(
        self,
        request: Request | str,
        *,
        duration: Duration | None = None,
        at: Time | None = None,
        window: Window = (None, None),
        note: str = "",
        priority: int = 0,
        prefer: Preferred = (),
        agent: Agent = "",
        arguments: ArgumentValues | None = None,
        agent_must_run: bool = False,
    ) -> Request:
        """Return the request that `find`, `book` and `hold` would send; send nothing.

        `request` is a `Request`, taken as it is, or the text form of its terms together with
        `duration` and either `at` (the start) or `window` (earliest start, latest end, None leaves
        an end open; or a text such as ``next week``). `prefer` are times to rather start at: phrases such
        as ``mornings`` or ``fri -2`` (see `kalends.core.language.preferences`) or `TimePreference`s.
        `priority` gives a head start in lines, as far as the broker allows it. `agent` chooses among the
        slots at each site: a script by name or hash, ``ready:NAME``, or the `Path` of a file, which `book`
        and `hold` upload; `arguments` are handed to it. With `agent_must_run` nothing is booked where it
        fails at a site. Raises `InvalidInput`, and `TooLarge` for a script's file.
        """
        return request_from(
            request,
            duration=duration,
            at=at,
            window=window,
            note=note,
            priority=priority,
            prefer=prefer,
            agent=named_script(agent).name,
            arguments=arguments,
            agent_must_run=agent_must_run,
            now_s=int(self.settings.surroundings.wall_clock()),
            zone=self.settings.zone,
        )

    def new_key(self) -> str:
        """Return a key for one booking or change, to note down before sending it."""
        return self.settings.surroundings.new_key()

    def time_s(self, when: Time, *, where: str = "time", exact: bool = False) -> int:
        """Return `when` (text in this client's zone, aware datetime, or seconds) in seconds UTC.

        With `exact` a text that names a day needs a time of day, too. `where` is the place in errors.
        """
        now_s = int(self.settings.surroundings.wall_clock())
        return time_s(when, now_s=now_s, zone=self.settings.zone, where=where, exact=exact)

    def period_s(self, start: Time, end: Time) -> tuple[int, int]:
        """Return both ends of a period in seconds UTC: ``17:00`` as `end` is the first one after the start.

        Raises `InvalidInput`, also for an end, as it was understood, that is not after the start.
        """
        now_s = int(self.settings.surroundings.wall_clock())
        return period_s(start, end, now_s=now_s, zone=self.settings.zone)

    def start_s(self, at: Time, *, where: str = "at", exact: bool = True) -> int:
        """As `time_s`, for a start: a time counted from now (``now+10m``) becomes a full minute."""
        now_s = int(self.settings.surroundings.wall_clock())
        return start_s(at, now_s=now_s, zone=self.settings.zone, where=where, exact=exact)

    async def find(
        self,
        request: Request | str,
        *,
        duration: Duration | None = None,
        at: Time | None = None,
        window: Window = (None, None),
        prefer: Preferred = (),
        count: int = 5,
        explain: bool = False,
    ) -> calls.Found:
        """Return the best `count` starts at present, or the refusals if there are none; book nothing.

        With `explain` each start is priced, and the answer tells what stands in the way of better
        ones and how candidates would be polled.
        """
        wanted = self.request(request, duration=duration, at=at, window=window, prefer=prefer)
        body = calls.Find(request=wanted, count=count, explain=explain)
        return await self._caller.call(body, "find", calls.Found)

    async def lock(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Lock all that request `id` holds, or nothing; raises `Expired` when the hold ran out."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return settled(await self._caller.call(body, "lock", calls.RequestView))

    async def release(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Give up what request `id` holds, and its places in lines and on waiting lists."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return await self._caller.call(body, "release", calls.RequestView)

    async def cancel(self, id: str, *, wait_s: float = 30.0) -> calls.RequestView:
        """Cancel reservation `id` at all its sites; a hold or an open request ends, too."""
        body = calls.Finish(id=await self.full_id(id), wait_ms=milliseconds(wait_s))
        return await self._caller.call(body, "cancel", calls.RequestView)

    async def move(
        self, id: str, to: Time, *, key: str = "", wait_s: float = 30.0
    ) -> calls.RequestView:
        """Move reservation `id` to start at `to`; it stands as it was when that is refused."""
        return await self._change(id, key, wait_s, start=self.start_s(to, where="to"))

    async def place_elsewhere(
        self, id: str, *, key: str = "", wait_s: float = 30.0
    ) -> calls.RequestView:
        """Find another site for the job of request `id`.

        It starts at most once, and has not started, or it may run again (`rerun`). It keeps its place until
        it has another, and where there is none. One that runs goes only where it starts within minutes; it
        is ended then, and starts anew once it has. Raises `Conflict` where it has ended, or has started and
        must not start again, and what stood in the way elsewhere.
        """
        body = calls.PlaceElsewhere(
            id=await self.full_id(id), key=key or self.new_key(), wait_ms=milliseconds(wait_s)
        )
        return settled(await self._caller.call(body, "job_place_elsewhere", calls.RequestView))

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

        `units` names what each changed resource (``site/name``) keeps; raises `InvalidInput` for more than
        it has.
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
        return await self._caller.call(calls.Audit(after=after), "audit", calls.Audited)

    async def bidders(self) -> calls.Bidders:
        """Say how each site of a broker answers when it is asked for bids. Needs the scope ``audit``."""
        return await self._caller.call(calls.ListBidders(), "bidders", calls.Bidders)

    async def drain(self, on: bool = True) -> calls.Health:
        """Take no new claims, or (`on` false) take them again; what is promised is kept."""
        return await self._caller.call(calls.Drain(on=on), "drain", calls.Health)

    async def reconcile(self, *, wait_s: float = 30.0, go_on: bool = False) -> calls.Reconciled:
        """Compare a broker's register with all its sites, and mend what differs.

        Asked of a site: what it has not compared yet. With `go_on` a server whose store was restored takes
        new bookings though not all has been compared.
        """
        body = calls.Reconcile(wait_ms=milliseconds(wait_s), go_on=go_on)
        return await self._caller.call(body, "reconcile", calls.Reconciled)

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
        """Take `resource` back from `at` for `duration`: asks its site, and needs the scope ``admin``.

        Nothing new is taken there. What is locked, and begins later than `notice` from now, is moved
        by its broker, or cancelled, and its user is told the `reason`. With `units`, only so many are taken
        back, and as few reservations are moved as have those; 0 is all. With `dry_run` nothing is done: the
        answer says what would be.
        """
        length = length_s(duration)
        # Whole days are taken back from the begin of a day.
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
        return await self._caller.call(body, "reclaim", ReclaimView)

    async def reclaims(self) -> tuple[ReclaimView, ...]:
        """List the periods reclaimed by the owner of this site, with their reservations."""
        return (await self._caller.call(ListReclaims(), "reclaims", Reclaims)).reclaims

    async def end_reclaim(self, key: str) -> ReclaimView:
        """Withdraw a reclaim: the period can be booked again; moved reservations stay moved."""
        return await self._caller.call(ReclaimRef(key=key), "reclaim_end", ReclaimView)

    async def _change(self, id: str, key: str, wait_s: float, **fields: Any) -> calls.RequestView:
        body = calls.Change(
            id=await self.full_id(id),
            key=key or self.new_key(),
            wait_ms=milliseconds(wait_s),
            **fields,
        )
        answer = await self._caller.call(body, "change", calls.RequestView)
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
        """Look how long `id` is, so that nothing grows by a slip in `shrink` or the other way round."""
        wanted = NewLength(by, duration, direction)
        id = await self.full_id(id)
        wanted_s = wanted.length_s(await self.show(id))
        return await self._change(
            id, key, wait_s, duration_s=wanted_s, units=dict(units) if units else {}
        )
