"""A small real server of the table of calls, in memory, with faults on demand; for the client's tests.

It speaks HTTP and sessions on a loopback port, in a thread of its own, so that asynchronous,
synchronous and command line clients can be tested against it alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from aiohttp import WSMsgType, web

from kalends.contract import calls, codec, credit_calls, owner_calls, site_calls
from kalends.contract import sharing_calls as sharing
from kalends.contract.day_calls import DaySlot, DayView, ShowDay
from kalends.contract.feed_calls import AddFeed, FeedRef, Feeds, FeedView, ListFeeds
from kalends.contract.fields import Want
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
)
from kalends.contract.request_views import SharedWith, SharingView
from kalends.contract.server_calls import AskSitePass, SitePass
from kalends.core.conversion import convert
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    KeyReused,
    LimitExceeded,
    NoCommonTime,
    NotAuthenticated,
    NotFound,
    Refusal,
)
from kalends.core.identifiers import is_part, request_id
from kalends.core.language import format_alternatives
from kalends.core.money import CREDIT
from kalends.core.near_names import near
from kalends.core.resources import ResourceInfo, Slot

NOW_S = 1_800_000_000
BEFORE_OWNER = request_id(NOW_S * 1_000, 7)
"""The request that waits for the owner here."""

RESOURCES = (
    ResourceInfo(name="sdsc/sp2", capacity=64, attributes={"kind": "sp2"}, hours="always"),
    ResourceInfo(name="caltech/onyx", attributes={"kind": "onyx", "memory": 4}, zone="UTC"),
)

BUSY = Refusal(
    where="caltech/onyx", code="busy", detail="taken from 08:00\x1b[2J to 10:00", rule="day-shift"
)

BROKEN = (
    Refusal(where="line 1, column 1", code="no-import", detail="`import` is not in the language"),
    Refusal(where="line 3, column 5", code="no-try", detail="`try` is not in the language"),
)


class Drop(Exception):
    """Cut the connection instead of answering."""


class Broker:
    """The calls, on dictionaries. `faults` happen one for each call, in order; None is no fault.

    ``drop-before`` cuts the connection and does nothing, ``drop-after`` does the call and cuts the
    connection, ``garbled`` answers nonsense; an error is answered as it is.
    """

    def __init__(self) -> None:
        self.faults: deque[str | KalendsError | None] = deque()
        self.seen: list[tuple[str, calls.Body]] = []
        self.users: list[str] = []
        self.token = ""
        self.requests: dict[str, calls.RequestView] = {}
        self.by_key: dict[str, tuple[calls.Body, str]] = {}
        self.events: list[calls.Event] = []
        self.draining = False
        self.drained_until = 0
        self.reclaimed: dict[str, owner_calls.ReclaimView] = {}
        self.watched = threading.Event()
        self.url = ""
        self.frames: list[int] = []
        """How many calls each session frame had."""
        self.agents: dict[str, calls.AgentView] = {}
        self.addresses: dict[str, NoticeAddressView] = {}
        self.feeds: dict[str, FeedView] = {}
        self.told: dict[str, calls.TellAgent] = {}
        """What agents were told, by key."""
        self.runs: list[calls.RunView] = []
        self.site_urls = {"sdsc": ""}
        """Where sites are; "": here."""
        self.passes: deque[str] = deque()
        """What is given as passes, one by one; none is given when they have run out."""
        self.courses: deque[list[dict[str, Any]]] = deque()
        """What the next bookings, one by one, go through while they wait: changes of their views."""
        self.ahead: dict[str, deque[dict[str, Any]]] = {}
        """What is still to come of each course, by id."""

    def caller(self, headers: Any) -> str:
        if self.token:
            if headers.get("Authorization") != f"Bearer {self.token}":
                raise NotAuthenticated("the token is not ours", remedy="get another")
            return "token-user"
        return headers.get("Kalends-User", "") or "nobody"

    def call(self, user: str, name: str, fields: dict[str, Any]) -> object:
        operation = calls.OPERATION[name]
        body = convert(fields, operation.body)
        self.seen.append((name, body))
        self.users.append(user)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, KalendsError):
            raise fault
        if fault == "drop-before":
            raise Drop
        handler = getattr(self, f"do_{name}", None)
        if handler is None:
            raise NotFound("that is asked of the site of a machine", where=name)
        answer: object = handler(user, body)
        if fault == "drop-after":
            raise Drop
        return ["nonsense"] if fault == "garbled" else answer

    def do_health(self, user: str, body: calls.Nothing) -> calls.Health:
        status = "draining" if self.draining else "ok"
        return calls.Health(
            status=status, role="broker", name="test", version="1", until=self.drained_until
        )

    def do_whoami(self, user: str, body: calls.Nothing) -> calls.CallerView:
        return calls.CallerView(
            server="test", role="broker", user=user, scopes=("use",), key="open", now=NOW_S
        )

    def do_site_pass(self, user: str, body: AskSitePass) -> SitePass:
        """Of a broker whose site ``sdsc`` it is itself, and that gives passes where it has some to give."""
        if body.site not in self.site_urls:
            meant = near(body.site, self.site_urls)
            raise NotFound(f"the broker knows no site {body.site}", where="site", remedy=meant)
        url = self.site_urls[body.site] or self.url
        token = self.passes.popleft() if self.passes else ""
        return SitePass(
            site=body.site, url=url, token=token, id="1", expires_at=NOW_S + 3_600, now=NOW_S,
            why="" if token else "it has no key to sign passes with",
        )  # fmt: skip

    def do_drain(self, user: str, body: calls.Drain) -> calls.Health:
        body.check(int(time.time()))
        self.draining, self.drained_until = body.on, body.until
        return self.do_health(user, calls.Nothing())

    def do_reconcile(self, user: str, body: calls.Reconcile) -> calls.Reconciled:
        """Of a broker that compares with one of three sites, or does not reach it if nobody waits."""
        return calls.Reconciled(
            sites=(calls.SiteReconciled(site="sdsc", relocked=1),),
            comparing={"npaci": 1_200},
            unreached=("caltech",) if body.wait_ms else (),
        )

    def do_reclaim(self, user: str, body: owner_calls.Reclaim) -> owner_calls.ReclaimView:
        """Of a site with one reservation there that is to go."""
        self.reclaimed[body.key] = owner_calls.ReclaimView(
            key=body.key, resource=body.resource, start=body.start, end=body.end,
            reason=body.reason, waiting=(str(uuid.UUID(int=1)),), units=body.units,
        )  # fmt: skip
        if body.units:
            self.reclaimed[body.key] = part_of(self.reclaimed[body.key])
        return self.reclaimed[body.key]

    def do_reclaims(self, user: str, body: owner_calls.ListReclaims) -> owner_calls.Reclaims:
        return owner_calls.Reclaims(reclaims=tuple(self.reclaimed.values()))

    def do_series_book(self, user: str, body: calls.BookSeries) -> calls.SeriesView:
        """Of a broker that has booked no occurrence yet."""
        return self._series("01900000-0000-7000-8000-000000010000", user, body.rule, body.zone)

    def do_series_find(self, user: str, body: calls.FindSeries) -> calls.SeriesHours:
        hour = calls.SeriesHour(
            first="2027-03-02T14:00",
            last="2027-03-02T15:30",
            start=NOW_S,
            fits=1,
            of=2,
            missed=("2027-03-09",),
        )
        return calls.SeriesHours(hours=(hour,) * min(body.count, 2), step_s=1_800)

    def do_series_show(self, user: str, body: calls.SeriesRef) -> calls.SeriesView:
        return self._series(body.id, user)

    def do_series_retry(self, user: str, body: calls.RetrySeries) -> calls.SeriesView:
        return self._series(body.id, user)

    def do_series_cancel(self, user: str, body: calls.CancelSeries) -> calls.SeriesView:
        return self._series(body.id, user)

    def do_series_change(self, user: str, body: calls.ChangeSeries) -> calls.SeriesView:
        return self._series(body.id, user)

    def _series(
        self, id: str, user: str, rule: str = "FREQ=DAILY;COUNT=2", zone: str = "UTC"
    ) -> calls.SeriesView:
        return calls.SeriesView(
            id=id, user=user, text="sdsc/sp2", rule=rule, zone=zone, mode="all", duration_s=3_600,
            created_at=NOW_S, occurrences=(),
        )  # fmt: skip

    def do_credits_grant(self, user: str, body: credit_calls.GrantCredits) -> object:
        """Of a site where each account has what was granted last."""
        amount = -body.amount if body.take else body.amount
        return credit_calls.CreditAccount(account=body.account, balance=amount)

    def do_credits(self, user: str, body: credit_calls.ListCredits) -> object:
        mine = credit_calls.CreditAccount(account=f"user:{user}", balance=CREDIT)
        return credit_calls.CreditAccounts(accounts=(mine,))

    def do_credit_entries(self, user: str, body: credit_calls.ListEntries) -> object:
        entry = credit_calls.CreditEntryView(
            number=body.after + 1, at=0, account=body.account, kind="grant", amount=CREDIT,
            balance=CREDIT,
        )  # fmt: skip
        return credit_calls.CreditEntries(entries=(entry,), more=not body.after)

    def do_reclaim_end(self, user: str, body: owner_calls.ReclaimRef) -> owner_calls.ReclaimView:
        return self.reclaimed.pop(body.key)

    def do_check_in(self, user: str, body: owner_calls.CheckIn) -> owner_calls.CheckedIn:
        slots = (Want("sdsc/sp2", NOW_S, NOW_S + 3_600, 8),)
        return owner_calls.CheckedIn(id=BEFORE_OWNER, user=user, came_at=NOW_S, slots=slots)

    def do_close(self, user: str, body: owner_calls.CloseSite) -> owner_calls.ClosureView:
        """Of a site with one reservation there."""
        asked = owner_calls.Reclaim(
            key=f"{body.key}:0", resource="sdsc/sp2", start=body.start, end=body.end
        )
        part = self.do_reclaim(user, asked)
        return owner_calls.ClosureView(
            key=body.key, start=body.start, end=body.end, standing=body.standing, parts=(part,),
            reason=body.reason,
        )  # fmt: skip

    def do_open(self, user: str, body: owner_calls.OpenSite) -> owner_calls.Closures:
        return owner_calls.Closures(closures=())

    def do_today(self, user: str, body: ShowDay) -> DayView:
        slot = DaySlot(
            id=BEFORE_OWNER, user="ada", resource="sdsc/sp2", start=NOW_S, end=NOW_S + 3_600, units=8,
        )  # fmt: skip
        return DayView(
            site="sdsc", zone=body.zone or "UTC", day=body.day, start=NOW_S, end=NOW_S + 86_400,
            now=NOW_S, comes=(slot,), waiting=(self._before_owner("pending", "", 2),),
        )  # fmt: skip

    def do_approvals(self, user: str, body: owner_calls.ListApprovals) -> owner_calls.Approvals:
        return owner_calls.Approvals(requests=(self._before_owner("pending", "", 2),))

    def do_approval_decide(
        self, user: str, body: owner_calls.DecideApproval
    ) -> owner_calls.ApprovalView:
        state: owner_calls.ApprovalState = "approved" if body.approve else "declined"
        return self._before_owner(state, body.word, body.revision)

    def _before_owner(
        self, state: owner_calls.ApprovalState, word: str, revision: int
    ) -> owner_calls.ApprovalView:
        return owner_calls.ApprovalView(
            id=BEFORE_OWNER, revision=revision, state=state, user="ada", word=word, note="run 7",
            slots=(Want("sdsc/sp2", NOW_S, NOW_S + 3_600, 8),), since=NOW_S - 600, until=NOW_S,
        )  # fmt: skip

    def do_resources(self, user: str, body: calls.ListResources) -> calls.Resources:
        down = calls.SiteStatus(
            site="ncsa", url="http://127.0.0.1:1", state="down", detail="no answer"
        )
        return calls.Resources(resources=RESOURCES, sites=(down,))

    def do_calendar(self, user: str, body: calls.ShowCalendar) -> calls.CalendarView:
        info = self.resource(body.resource)
        middle = (body.start + body.end) // 2
        return calls.CalendarView(
            resource=info, start=body.start, end=body.end, until=body.end,
            free=((max(body.start, NOW_S), middle, info.capacity),), now=NOW_S,
            slots=(Slot(middle, middle + 3_600, info.capacity, "locked", "ada"),),
        )  # fmt: skip

    def resource(self, name: str) -> ResourceInfo:
        for resource in RESOURCES:
            if resource.name == name:
                return resource
        raise NotFound("there is no such resource", where=name, remedy="see kalends resources")

    def claims(self, request: Any) -> tuple[calls.ClaimView, ...]:
        start = request.not_before
        return tuple(
            calls.ClaimView(
                resource=term.resource, start=start, end=start + request.duration_s,
                units=term.units, confirmed=True,
            )
            for term in request.alternatives[0].terms
        )  # fmt: skip

    def do_find(self, user: str, body: calls.Find) -> calls.Found:
        if body.request.note == "" and body.request.duration_s > 86_400:
            return calls.Found(candidates=(), refusals=(BUSY,))
        claims = self.claims(body.request)
        found = calls.Candidate(start=claims[0].start, end=claims[0].end, claims=claims)
        if not body.explain:
            return calls.Found(candidates=(found,) * min(body.count, 2))
        taken = Slot(claims[0].start - 7_200, claims[0].end - 7_200, 64, "locked", "ada")
        obstacle = calls.Obstacle(start=taken.start, resource=claims[0].resource, slot=taken)
        priced = msgspec.structs.replace(found, price=calls.Price(idle_unit_s=1_800), weight=1.5)
        return calls.Found(candidates=(priced, found), obstacles=(obstacle,), fewest=False)

    def do_book(self, user: str, body: calls.Book) -> calls.RequestView:
        if body.key in self.by_key:
            known, id = self.by_key[body.key]
            if known != body:
                raise KeyReused("this key was used with another body", where="key")
            return self.requests[id]
        if self.draining:
            raise LimitExceeded("no new claims are taken", where="test")
        id = request_id(NOW_S * 1000, len(self.requests) + 1)
        claims = self.claims(body.request)
        view = calls.RequestView(
            id=id, state="held" if body.hold else "reserved", user=user, created_at=NOW_S,
            text=format_alternatives(body.request.alternatives), note=body.request.note,
            start=claims[0].start, end=claims[0].end, claims=claims,
            expires_at=NOW_S + body.hold_s if body.hold else 0,
            agent=body.request.agent, script=self.script_of(body.request.agent),
        )  # fmt: skip
        if body.request.duration_s > 86_400:
            problem = NoCommonTime("no start suits all", refusals=(BUSY,)).to_problem()
            view = msgspec.structs.replace(view, state="failed", claims=(), problem=problem)
        if self.courses and body.patience != "none":
            self.ahead[id] = deque(self.courses.popleft())
            now = {"state": "open", "claims": (), "start": 0, "end": 0, **self.ahead[id].popleft()}
            self.ahead[id][-1] = {
                "claims": claims, "start": view.start, "end": view.end, **self.ahead[id][-1]
            }  # fmt: skip
            view = msgspec.structs.replace(view, **now)
        elif body.wait_ms == 0:
            view = msgspec.structs.replace(view, state="open")
        self.by_key[body.key] = (body, id)
        return self.keep(view, "booked")

    def script_of(self, agent: str) -> str:
        if not agent or agent.startswith("ready:"):
            return "e" * 64 if agent else ""
        return self.do_agent_show("", calls.AgentRef(name=agent)).script

    def keep(self, view: calls.RequestView, kind: str) -> calls.RequestView:
        """Let `view` be what the request is now, and tell it as an event of this kind."""
        self.requests[view.id] = view
        refusals = view.problem.refusals if view.problem else ()
        self.events.append(
            calls.Event(number=len(self.events), at_ms=NOW_S * 1000, id=view.id, kind=kind,
                      detail=view.text, refusals=refusals)
        )  # fmt: skip
        return view

    def known(self, id: str) -> calls.RequestView:
        if id not in self.requests:
            raise NotFound("there is no such request", where=id)
        return self.requests[id]

    def do_by_key(self, user: str, body: calls.ByKey) -> calls.RequestView:
        if body.key not in self.by_key:
            raise NotFound("nothing arrived with this key", where="key", remedy="send it again")
        return self.requests[self.by_key[body.key][1]]

    def do_show(self, user: str, body: calls.ById) -> calls.RequestView:
        return self.known(body.id)

    def do_why(self, user: str, body: calls.ById) -> calls.Story:
        events = tuple(event for event in self.events if event.id == body.id)
        return calls.Story(request=self.known(body.id), events=events)

    def do_ids(self, user: str, body: calls.FindIds) -> calls.Ids:
        known = [view.id for view in self.requests.values()]
        known += [view.changing for view in self.requests.values() if view.changing]
        found = sorted((id for id in known if is_part(body.part, id)), reverse=True)
        return calls.Ids(ids=tuple(found))

    def do_list(self, user: str, body: calls.ListRequests) -> calls.Requests:
        newest = sorted(self.requests.values(), key=lambda view: view.id, reverse=True)
        chosen = [
            view
            for view in newest
            if body.state in ("", view.state) and (not body.before or view.id < body.before)
        ]
        return calls.Requests(requests=tuple(chosen[: body.count]))

    def finish(self, id: str, state: Any, was: tuple[str, ...]) -> calls.RequestView:
        view = self.known(id)
        if view.state != state and view.state not in was:
            raise Conflict(f"it is {view.state}", where=id)
        return self.keep(msgspec.structs.replace(view, state=state, expires_at=0), state)

    def do_lock(self, user: str, body: calls.Finish) -> calls.RequestView:
        return self.finish(body.id, "reserved", ("held",))

    def do_release(self, user: str, body: calls.Finish) -> calls.RequestView:
        return self.finish(body.id, "cancelled", ("held", "open"))

    def do_cancel(self, user: str, body: calls.Finish) -> calls.RequestView:
        return self.finish(body.id, "cancelled", ("reserved", "held", "open"))

    def do_change(self, user: str, body: calls.Change) -> calls.RequestView:
        if body.key in self.by_key:
            return self.requests[self.by_key[body.key][1]]
        view = self.known(body.id)
        start = body.start or view.start
        length_s = body.duration_s or view.end - view.start
        if length_s > 86_400:
            problem = NoCommonTime("no room", refusals=(BUSY,)).to_problem()
            return msgspec.structs.replace(view, problem=problem)
        claims = tuple(
            msgspec.structs.replace(
                claim, start=start, end=start + length_s,
                units=body.units.get(claim.resource, claim.units),
            )
            for claim in view.claims
        )  # fmt: skip
        self.by_key[body.key] = (body, view.id)
        changed = msgspec.structs.replace(view, start=start, end=start + length_s, claims=claims)
        return self.keep(changed, "changed")

    def go_on(self, id: str) -> None:
        """The next step of a request's course, each time that somebody waits for its events."""
        if not self.ahead.get(id) or self.requests[id].state != "open":
            return
        changed = {"waiting": None, **self.ahead[id].popleft()}
        kind = "waiting" if changed["waiting"] else str(changed["state"])
        self.keep(msgspec.structs.replace(self.requests[id], **changed), kind)

    def do_watch(self, user: str, body: calls.Watch) -> calls.Events:
        self.watched.set()
        if body.after >= 0:
            self.go_on(body.id)
        after = len(self.events) - 1 if body.after == -1 else body.after
        chosen = [e for e in self.events[after + 1 :] if body.id in ("", e.id)]
        return calls.Events(events=tuple(chosen), next=len(self.events) - 1)

    def do_notify_list(self, user: str, body: ListNoticeAddresses) -> NoticeAddresses:
        return NoticeAddresses(addresses=tuple(self.addresses.values()))

    def do_notify_add(self, user: str, body: AddNoticeAddress) -> NoticeAddressView:
        webhook = "://" in body.to
        view = NoticeAddressView(
            to=body.to or f"{user}@example.org", kind="webhook" if webhook else "mail", zone=body.zone,
            added_at=NOW_S, secret="whsec_c2VjcmV0" if webhook else "",
        )  # fmt: skip
        self.addresses[view.to] = msgspec.structs.replace(view, secret="")
        return view

    def do_notify_remove(self, user: str, body: NoticeAddressRef) -> NoticeAddressView:
        return self.addresses.pop(self.do_notify_test(user, body).to)

    def do_notify_test(self, user: str, body: NoticeAddressRef) -> NoticeAddressView:
        view = self.addresses.get(body.to or f"{user}@example.org")
        if view is None:
            raise NotFound("no notices go to this address", where="to")
        return view

    def do_book_for(self, user: str, body: sharing.BookFor) -> calls.RequestView:
        view = msgspec.structs.replace(self.do_book(body.user, body), booked_by=user)
        self.requests[view.id] = view
        return view

    def do_share(self, user: str, body: sharing.ShareWith) -> calls.RequestView:
        may: Literal["look", "change"] = "change" if body.may_change else "look"
        told = SharingView(parties=(SharedWith(party=body.party, may=may, at=NOW_S),))
        return msgspec.structs.replace(self.known(body.id), sharing=told)

    def do_unshare(self, user: str, body: sharing.Unshare) -> calls.RequestView:
        return self.known(body.id)

    def do_give(self, user: str, body: sharing.OfferTo) -> calls.RequestView:
        told = SharingView(offered_to=body.to, offered_until=NOW_S + body.days * 86_400)
        return msgspec.structs.replace(self.known(body.id), sharing=told)

    def do_accept(self, user: str, body: sharing.Accept) -> calls.RequestView:
        return msgspec.structs.replace(self.known(body.id), given_by="ann")

    def do_decline(self, user: str, body: sharing.Decline) -> calls.RequestView:
        return self.known(body.id)

    def do_link_add(self, user: str, body: sharing.AddLink) -> sharing.LinkView:
        return sharing.LinkView(id=body.id, address=f"/shared/{'s' * 43}")

    def do_link_revoke(self, user: str, body: sharing.RevokeLink) -> sharing.LinkView:
        return sharing.LinkView(id=body.id)

    def do_feed_list(self, user: str, body: ListFeeds) -> Feeds:
        return Feeds(feeds=tuple(self.feeds.values()))

    def do_feed_add(self, user: str, body: AddFeed) -> FeedView:
        self.feeds[body.name] = FeedView(name=body.name, added_at=NOW_S)
        return msgspec.structs.replace(self.feeds[body.name], address=f"/feed/{'s' * 43}.ics")

    def do_feed_revoke(self, user: str, body: FeedRef) -> FeedView:
        if body.name not in self.feeds:
            raise NotFound("no such feed", where="name")
        return self.feeds.pop(body.name)

    def do_agent_upload(self, user: str, body: calls.UploadAgent) -> calls.AgentView:
        if "import" in body.source:
            raise InvalidInput(
                "it breaks 2 rules of the language", where=body.name, refusals=BROKEN
            )
        self.agents[body.name] = calls.AgentView(
            name=body.name, script=hashlib.sha256(body.source.encode()).hexdigest(),
            size_bytes=len(body.source.encode()), uploaded_at=NOW_S, functions=("choose",),
            source=body.source,
        )  # fmt: skip
        return msgspec.structs.replace(self.agents[body.name], source="")

    def do_agent_list(self, user: str, body: calls.ListAgents) -> calls.Agents:
        agents = [msgspec.structs.replace(self.agents[n], source="") for n in sorted(self.agents)]
        return calls.Agents(agents=tuple(agents))

    def do_agent_show(self, user: str, body: calls.AgentRef) -> calls.AgentView:
        for agent in self.agents.values():
            if body.name in (agent.name, agent.script):
                return agent
        raise NotFound("you have no such script", where=body.name, remedy="see kalends agent list")

    def do_agent_delete(self, user: str, body: calls.AgentRef) -> calls.AgentView:
        return self.agents.pop(self.do_agent_show(user, body).name)

    def do_agent_tell(self, user: str, body: calls.TellAgent) -> calls.RequestView:
        view = self.known(body.id)
        if view.state != "open":
            raise Conflict(f"it is {view.state}", where=body.id)
        self.told[body.key] = body
        return view

    def do_agent_runs(self, user: str, body: calls.ListRuns) -> calls.Runs:
        chosen = [run for run in reversed(self.runs) if body.id in ("", run.id)]
        plain = [msgspec.structs.replace(run, record=b"") for run in chosen[: body.count]]
        return calls.Runs(runs=tuple(plain))

    def do_agent_run(self, user: str, body: calls.RunRef) -> calls.RunView:
        for run in self.runs:
            if run.run == body.run:
                return run
        raise NotFound("there is no such run of yours here", where=body.run)

    def do_sites_list(self, user: str, body: site_calls.ListBrokerSites) -> object:
        return site_calls.BrokerSites(sites=())

    def do_sites_announce(self, user: str, body: site_calls.AnnounceSite) -> object:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="announced")

    def do_sites_add(self, user: str, body: site_calls.AddSite) -> object:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="joined")

    def do_sites_remove(self, user: str, body: site_calls.RemoveSite) -> object:
        return site_calls.BrokerSiteView(site=body.site, url="https://s", state="leaving")

    def do_bidders(self, user: str, body: calls.ListBidders) -> calls.Bidders:
        status = calls.SiteStatus(site="sdsc", url="http://sdsc", state="up")
        return calls.Bidders(bidders=(calls.BidderView(status=status, asked=2),))

    def do_audit(self, user: str, body: calls.Audit) -> calls.Audited:
        ids = sorted(id for id in self.requests if id > body.after)
        claims = tuple(
            calls.AuditClaim(id=id, att=1, resource=claim.resource, start=claim.start,
                           end=claim.end, units=claim.units, state="locked")
            for id in ids[:1]
            for claim in self.requests[id].claims
        )  # fmt: skip
        problems = ("sdsc/sp2 is overbooked",) if self.draining else ()
        return calls.Audited(claims=claims, problems=problems, more=len(ids) > 1)


async def _respond(
    request: web.Request, broker: Broker, operation: calls.Operation
) -> web.Response:
    try:
        raw = await request.read()
        fields = codec.decode_msgpack(raw, dict[str, Any]) if operation.method == "POST" else {}
        user = broker.caller(request.headers)
        answer = broker.call(user, operation.name, {**fields, **request.match_info})
    except Drop:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()
    except KalendsError as error:
        problem = error.to_problem()
        return web.Response(
            status=problem.status, body=codec.encode_msgpack(problem),
            content_type=codec.PROBLEM_MSGPACK,
        )  # fmt: skip
    return web.Response(body=codec.encode_msgpack(answer), content_type=codec.MSGPACK)


async def _session(request: web.Request, broker: Broker) -> web.WebSocketResponse:
    try:
        user = broker.caller(request.headers)
    except NotAuthenticated as error:
        raise web.HTTPUnauthorized from error
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        assert message.type is WSMsgType.BINARY
        replies = []
        for call in codec.decode_msgpack(message.data, list[calls.Call]):
            try:
                answer = broker.call(user, call.name, call.body)
                replies.append(calls.Reply(call.number, answer=msgspec.to_builtins(answer)))
            except Drop:
                assert request.transport is not None
                request.transport.abort()
                return socket
            except KalendsError as error:
                replies.append(calls.Reply(call.number, problem=error.to_problem()))
        broker.frames.append(len(replies))
        await socket.send_bytes(codec.encode_msgpack(replies))
    return socket


def application(broker: Broker) -> web.Application:
    app = web.Application()
    for operation in calls.OPERATIONS:

        async def respond(request: web.Request, operation: calls.Operation = operation) -> Any:
            return await _respond(request, broker, operation)

        app.router.add_route(operation.method, operation.path, respond)

    async def session(request: web.Request) -> web.WebSocketResponse:
        return await _session(request, broker)

    app.router.add_get("/v1/calls", session)
    return app


@contextmanager
def serving(app: web.Application, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address of `app`, served on a loopback port from a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[web.AppRunner, str]:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        return runner, f"{'https' if tls else 'http'}://{host}:{port}"

    runner, url = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def serving_broker(tls: ssl.SSLContext | None = None) -> Iterator[Broker]:
    broker = Broker()
    with serving(application(broker), tls) as url:
        broker.url = url
        yield broker


def part_of(view: owner_calls.ReclaimView) -> owner_calls.ReclaimView:
    """As a site tells of a part that was reclaimed: one of each that can become of a reservation."""
    states: tuple[tuple[owner_calls.ReclaimedState, str], ...] = (
        ("waiting", ""), ("moved", ""), ("cancelled", ""), ("gone", ""),
        ("stays", "it begins within the notice"),
    )  # fmt: skip
    reservations = tuple(
        owner_calls.ReclaimedReservation(
            id=str(uuid.UUID(int=number)), user="ann", start=view.start, end=view.end, units=4,
            state=state, why=why, to_start=view.end if state == "moved" else 0,
            to_resource="sdsc/onyx" if state == "moved" else "",
        )
        for number, (state, why) in enumerate(states, 1)
    )  # fmt: skip
    return msgspec.structs.replace(
        view, beside=3, exact=False, lacking=((view.start, view.end, 2),), reservations=reservations
    )
