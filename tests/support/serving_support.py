"""A small server to test with: real aiohttp on a free loopback port, clocks that tests move."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgpack
import structlog

from kalends.contract import calls, credit_calls, owner_calls, site_calls
from kalends.contract.day_calls import DayView, ShowDay
from kalends.contract.feed_calls import AddFeed, FeedRef, Feeds, FeedView, ListFeeds
from kalends.contract.fields import Want
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)
from kalends.contract.server_calls import AskSitePass, SitePass
from kalends.contract.sharing_calls import AddLink, BookFor, LinkView, RevokeLink
from kalends.contract.versions import ServerVersion, own_version
from kalends.core.resources import ResourceInfo
from kalends.serving.auth.callers import Authenticator, Caller, OpenAccess
from kalends.serving.clocks import SystemClock
from kalends.serving.http.application import build_application
from kalends.serving.http.dispatch import Handler, Role, operations_of
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.runner import Listener, Service, listen
from kalends.serving.metrics import Metrics

RID = "01234567-89ab-7def-8123-456789abcdef"
ANNA = {"Kalends-User": "anna"}
REQUEST = {
    "alternatives": [{"terms": [{"resource": "sdsc/sp2", "units": 3}]}],
    "duration_s": 3600,
    "not_before": 1_000_000,
}


class ManualClock:
    """Clocks that stand still until a test moves them."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.wall_now_s = 1_700_000_000

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> int:
        return self.wall_now_s


class Deeds:
    """Handlers that answer what they were asked, and remember it; single ones can be replaced."""

    def __init__(self) -> None:
        self.seen: list[tuple[Caller, Any]] = []

    def handlers(self, role: Role) -> dict[str, Handler]:
        names = {operation.name for operation in operations_of(role)} - {"whoami"}
        return {name: getattr(self, name) for name in names}

    def health(self, caller: Caller, body: calls.Nothing) -> calls.Answer:
        return calls.Health(status="ok", role="broker", name="npaci", version="1")

    async def resources(self, caller: Caller, body: calls.ListResources) -> calls.Answer:
        self.seen.append((caller, body))
        return calls.Resources(resources=())

    def _view(self, rid: str, caller: Caller, note: str = "") -> calls.RequestView:
        return calls.RequestView(
            id=rid, state="open", user=caller.principal.user, text="t", created_at=1, note=note
        )

    def book(self, caller: Caller, body: calls.Book) -> calls.Answer:
        self.seen.append((caller, body))
        return self._view(RID, caller, body.request.note)

    def book_for(self, caller: Caller, body: BookFor) -> calls.Answer:
        self.seen.append((caller, body))
        return self._view(RID, caller)

    def job_place(self, caller: Caller, body: calls.PlaceJob) -> calls.Answer:
        self.seen.append((caller, body))
        return self._view(RID, caller)

    def job_place_elsewhere(self, caller: Caller, body: calls.PlaceElsewhere) -> calls.Answer:
        self.seen.append((caller, body))
        return self._view(body.id, caller)

    async def by_id(self, caller: Caller, body: Any) -> calls.Answer:
        self.seen.append((caller, body))
        return self._view(body.id, caller)

    async def of_job(self, caller: Caller, body: Any) -> calls.Answer:
        self.seen.append((caller, body))
        return calls.JobView(
            job=1, machine="sdsc/sp2", user=caller.principal.user, phase="queued", nodes=1, limit_s=60,
            submitted=1,
        )  # fmt: skip

    jobs_watch = jobs_submit = slots = of_job
    job_submit = jobs = job = job_watch = job_change = job_output = job_usage = job_history = of_job
    machine_plan = machine_gaps = machine_delays = machine_nodes = machine_policy = (
        machine_replan
    ) = host_lost = of_job

    async def series_book(self, caller: Caller, body: calls.BookSeries) -> calls.Answer:
        self.seen.append((caller, body))
        return self._series(RID, caller)

    async def series_show(self, caller: Caller, body: Any) -> calls.Answer:
        self.seen.append((caller, body))
        return self._series(body.id, caller)

    series_retry = series_cancel = series_change = series_show

    async def series_find(self, caller: Caller, body: calls.FindSeries) -> calls.Answer:
        self.seen.append((caller, body))
        return calls.SeriesHours(hours=(), step_s=1_800)

    def _series(self, id: str, caller: Caller) -> calls.SeriesView:
        return calls.SeriesView(
            id=id, user=caller.principal.user, text="t", rule="FREQ=DAILY;COUNT=1", zone="UTC", mode="all",
            duration_s=60, created_at=1, occurrences=(),
        )  # fmt: skip

    show = lock = release = cancel = change = by_id
    share = unshare = give = accept = decline = by_id

    async def why(self, caller: Caller, body: calls.ById) -> calls.Answer:
        return calls.Story(request=self._view(body.id, caller), events=())

    async def by_key(self, caller: Caller, body: calls.ByKey) -> calls.Answer:
        return self._view(RID, caller, body.key)

    async def calendar(self, caller: Caller, body: calls.ShowCalendar) -> calls.Answer:
        info = ResourceInfo(name=body.resource)
        return calls.CalendarView(
            resource=info, start=body.start, end=body.end, until=body.end, free=(), slots=()
        )

    async def find(self, caller: Caller, body: calls.Find) -> calls.Answer:
        return calls.Found(candidates=())

    async def ids(self, caller: Caller, body: calls.FindIds) -> calls.Answer:
        return calls.Ids(ids=(RID,))

    async def list(self, caller: Caller, body: calls.ListRequests) -> calls.Answer:
        return calls.Requests(requests=())

    async def watch(self, caller: Caller, body: calls.Watch) -> calls.Answer:
        return calls.Events(events=(), next=body.after + 1)

    async def notify_list(self, caller: Caller, body: ListNoticeAddresses) -> calls.Answer:
        return NoticeAddresses(addresses=())

    async def notify_add(self, caller: Caller, body: AddNoticeAddress) -> calls.Answer:
        return NoticeAddressView(to=body.to, kind="mail", zone=body.zone, added_at=1)

    async def notify_remove(self, caller: Caller, body: NoticeAddressRef) -> calls.Answer:
        return NoticeAddressView(to=body.to, kind="mail", zone="UTC", added_at=1)

    notify_test = notify_remove

    async def link_add(self, caller: Caller, body: AddLink) -> calls.Answer:
        return LinkView(id=body.id, address="/shared/secret")

    async def link_revoke(self, caller: Caller, body: RevokeLink) -> calls.Answer:
        return LinkView(id=body.id)

    async def feed_list(self, caller: Caller, body: ListFeeds) -> calls.Answer:
        return Feeds(feeds=())

    async def feed_add(self, caller: Caller, body: AddFeed) -> calls.Answer:
        return FeedView(name=body.name, added_at=1, address="/feed/secret.ics")

    async def feed_revoke(self, caller: Caller, body: FeedRef) -> calls.Answer:
        return FeedView(name=body.name, added_at=1)

    async def site_pass(self, caller: Caller, body: AskSitePass) -> calls.Answer:
        return SitePass(site=body.site, url="http://127.0.0.1:1", why="none are given here")

    async def agent_upload(self, caller: Caller, body: calls.UploadAgent) -> calls.Answer:
        return self._agent(body.name)

    async def agent_by_name(self, caller: Caller, body: calls.AgentRef) -> calls.Answer:
        return self._agent(body.name)

    agent_show = agent_delete = agent_by_name
    agent_tell = by_id

    def _agent(self, name: str) -> calls.AgentView:
        return calls.AgentView(name=name, script="0" * 64, size_bytes=1, uploaded_at=1)

    async def agent_list(self, caller: Caller, body: calls.ListAgents) -> calls.Answer:
        return calls.Agents(agents=())

    async def agent_runs(self, caller: Caller, body: calls.ListRuns) -> calls.Answer:
        return calls.Runs(runs=())

    async def agent_run(self, caller: Caller, body: calls.RunRef) -> calls.Answer:
        return calls.RunView(
            run=body.run, at_ms=1, id=RID, user=caller.principal.user, script="0" * 64,
            function="choose", code="ok",
        )  # fmt: skip

    async def audit(self, caller: Caller, body: calls.Audit) -> calls.Answer:
        return calls.Audited()

    async def bidders(self, caller: Caller, body: calls.ListBidders) -> calls.Answer:
        return calls.Bidders(bidders=())

    async def sites_list(self, caller: Caller, body: site_calls.ListBrokerSites) -> calls.Answer:
        return site_calls.BrokerSites(sites=())

    async def sites_announce(self, caller: Caller, body: site_calls.AnnounceSite) -> calls.Answer:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="announced")

    async def sites_add(self, caller: Caller, body: site_calls.AddSite) -> calls.Answer:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="joined")

    async def sites_remove(self, caller: Caller, body: site_calls.RemoveSite) -> calls.Answer:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="leaving")

    async def credits_grant(self, caller: Caller, body: credit_calls.GrantCredits) -> calls.Answer:
        return credit_calls.CreditAccount(account=body.account, balance=body.amount)

    async def credits(self, caller: Caller, body: credit_calls.ListCredits) -> calls.Answer:
        return credit_calls.CreditAccounts(accounts=())

    async def credit_entries(self, caller: Caller, body: credit_calls.ListEntries) -> calls.Answer:
        return credit_calls.CreditEntries(entries=())

    async def reclaim(self, caller: Caller, body: owner_calls.Reclaim) -> calls.Answer:
        return self._reclaim(body.key)

    async def reclaim_end(self, caller: Caller, body: owner_calls.ReclaimRef) -> calls.Answer:
        return self._reclaim(body.key)

    async def reclaims(self, caller: Caller, body: owner_calls.ListReclaims) -> calls.Answer:
        return owner_calls.Reclaims(reclaims=(self._reclaim("the-key-of-it"),))

    def _reclaim(self, key: str) -> owner_calls.ReclaimView:
        return owner_calls.ReclaimView(key=key, resource="sdsc/sp2", start=0, end=60)

    async def check_in(self, caller: Caller, body: owner_calls.CheckIn) -> calls.Answer:
        return owner_calls.CheckedIn(id=RID, user=caller.principal.user, came_at=1, slots=())

    async def close(self, caller: Caller, body: owner_calls.CloseSite) -> calls.Answer:
        part = self._reclaim(f"{body.key}:0")
        return owner_calls.ClosureView(
            key=body.key, start=0, end=60, standing=body.standing, parts=(part,)
        )

    async def open(self, caller: Caller, body: owner_calls.OpenSite) -> calls.Answer:
        return owner_calls.Closures(closures=())

    async def today(self, caller: Caller, body: ShowDay) -> calls.Answer:
        return DayView(site="here", zone="UTC", day="2027-03-01", start=0, end=86_400, now=1)

    async def approvals(self, caller: Caller, body: owner_calls.ListApprovals) -> calls.Answer:
        return owner_calls.Approvals(requests=(self._approval("pending"),))

    async def approval_decide(
        self, caller: Caller, body: owner_calls.DecideApproval
    ) -> calls.Answer:
        return self._approval("approved" if body.approve else "declined")

    def _approval(self, state: owner_calls.ApprovalState) -> owner_calls.ApprovalView:
        slots = (Want("here/one", 3_600, 7_200, 1),)
        return owner_calls.ApprovalView(
            id=RID, revision=1, state=state, user="ann", slots=slots, since=0, until=3_600
        )

    async def reconcile(self, caller: Caller, body: calls.Reconcile) -> calls.Answer:
        return calls.Reconciled()

    async def drain(self, caller: Caller, body: calls.Drain) -> calls.Answer:
        return calls.Health(status="draining", role="broker", name="npaci", version="1")


class Server:
    """A running server, its log, and what is needed to talk to it."""

    def __init__(self, url: str, client: aiohttp.ClientSession, log: io.StringIO) -> None:
        self.url = url
        self.client = client
        self.log = log
        self.metrics: Metrics
        self.listening: Listener | None = None

    async def stop(self) -> None:
        """Stop gracefully; a second time there is nothing left to do."""
        listening, self.listening = self.listening, None
        if listening is not None:
            await listening.stop()

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any, Any]:
        """Status, headers and the body's JSON."""
        headers = {**ANNA, **options.pop("headers", {})}
        async with self.client.request(
            method, self.url + path, headers=headers, **options
        ) as response:
            body = await response.json(content_type=None)
            return response.status, response.headers, body

    async def raw(self, data: bytes, *, then_close: bool = False) -> bytes:
        """The server's one answer to these bytes; nothing if it closes the connection instead."""
        host, port = self.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(data)
        await writer.drain()
        if then_close:
            writer.write_eof()
        answer = b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", answer)
            answer += await reader.readexactly(int(length[1]) if length else 0)
        writer.close()
        await writer.wait_closed()
        return answer

    def session(self, **options: Any) -> Any:
        headers = {**ANNA, **options.pop("headers", {})}
        return self.client.ws_connect(self.url + "/v1/calls", headers=headers, **options)


@asynccontextmanager
async def serving(
    deeds: Deeds | None = None,
    *,
    role: Role = "broker",
    authenticator: Authenticator | None = None,
    limits: ServingLimits | None = None,
    clock: ManualClock | SystemClock = SystemClock(),  # noqa: B008  immutable
    version: ServerVersion = own_version("1"),  # noqa: B008  immutable
    **options: Any,
) -> AsyncIterator[Server]:
    log = io.StringIO()
    logger = structlog.wrap_logger(
        structlog.WriteLogger(log),
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    metrics = Metrics(role=role, name="npaci", version="1")
    application = build_application(
        role=role,
        name="npaci",
        version=version,
        handlers=(deeds or Deeds()).handlers(role),
        authenticator=authenticator or OpenAccess(),
        limits=limits or ServingLimits(),
        metrics=metrics,
        logger=logger,
        clock=clock,
        **options,
    )
    listening = await listen(Service("broker npaci", application, "127.0.0.1:0"))
    async with aiohttp.ClientSession() as client:
        server = Server(listening.url, client, log)
        server.metrics = metrics
        server.listening = listening
        try:
            yield server
        finally:
            await client.close()
            await server.stop()


def frame(*calls: Any) -> bytes:
    return bytes(msgpack.packb(list(calls)))


def call(number: int, name: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"number": number, "name": name, "body": body or {}}


async def replies(socket: aiohttp.ClientWebSocketResponse, count: int) -> list[dict[str, Any]]:
    """The next `count` replies, over however many frames."""
    got: list[dict[str, Any]] = []
    while len(got) < count:
        got += msgpack.unpackb(await socket.receive_bytes())
    return got
