"""Calendar feeds: a user's reservations at a secret address, for programs that cannot log in.

Only the hash of the secret is stored. Who has the address can read the feed until its user revokes it, and
nothing else. A feed is read at most so often, and an address that leads nowhere costs its sender more.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from aiohttp import web

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.views import view_of
from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.writes import Feed, ForgetFeed, KeepFeed
from kalends.broker.service import BrokerService
from kalends.contract.calendar_files import CONTENT_TYPE, CalendarEntry, calendar_text, entries_of
from kalends.contract.feed_calls import AddFeed, FeedRef, Feeds, FeedView, ListFeeds
from kalends.contract.paths import FEEDS_PATH
from kalends.core.errors import LimitExceeded, NotFound
from kalends.serving.auth.callers import Caller
from kalends.serving.http.application import in_flight
from kalends.serving.http.connections import neighbourhood
from kalends.serving.http.rate_limits import RateLimiter

FEEDS_MAX: Final = 8
"""The most feeds that a user may have: one for each program and device."""

SECRET_BYTES: Final = 32
SECRET: Final = r"[A-Za-z0-9_-]{43}"

BEFORE_S: Final = 30 * 86_400
AFTER_S: Final = 180 * 86_400
EVENTS_MAX: Final = 2_000
"""A feed has the events of this time around now, and at most so many: programs read it again and again."""

PAGE: Final = 500
PAGES_MAX: Final = 10
"""The newest requests of a user, at most so many, are looked at for one feed."""

READS_PER_S: Final = 1 / 15
READS_BURST: Final = 16
"""Programs read a feed every few minutes; so many of one user's may do so at once."""
ASKS_PER_S: Final = 5.0
ASKS_BURST: Final = 200
UNKNOWN_COSTS: Final = 20
"""An address that leads nowhere counts as so many: programs have no such addresses for long."""


class SecretDoor:
    """Bounds how often what is at a secret address is read, and costs those who guess more."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._askers = RateLimiter(per_s=ASKS_PER_S, burst=ASKS_BURST, tracked_max=10_000)
        self._read = RateLimiter(per_s=READS_PER_S, burst=READS_BURST, tracked_max=10_000)

    def opened(self, whose: str) -> None:
        """Count a read for the user or request `whose`; raises `RateLimited`."""
        self._read.take(whose, self._monotonic_s())

    def unknown(self, request: web.Request, detail: str, remedy: str = "") -> NotFound:
        """Return the error for an address that leads nowhere; raises `RateLimited`."""
        # Behind a proxy all come from one address: who guesses stops nobody who knows.
        asker = neighbourhood(request.remote or "")
        self._askers.take(asker, self._monotonic_s())
        self._askers.fine(asker, UNKNOWN_COSTS)
        return NotFound(detail, where="path", remedy=remedy or "ask whoever gave you the address")


class FeedDesk:
    """Each user has feeds of their own, and sees no others. `url` is this server's public one, or ""."""

    def __init__(
        self, service: BrokerService, monotonic_s: Callable[[], float], url: str = ""
    ) -> None:
        self._service = service
        self._url = url.rstrip("/")
        self._door = SecretDoor(monotonic_s)

    def routes(self) -> list[web.AbstractRouteDef]:
        path = f"{FEEDS_PATH}/{{secret:{SECRET}}}.ics"
        return [web.get(path, self._respond, allow_head=False)]

    async def list(self, caller: Caller, body: ListFeeds) -> Feeds:
        user = caller.principal.user
        found = await self._service.replica.read(lambda store: store.feeds(user))
        return Feeds(
            feeds=tuple(FeedView(name=each.name, added_at=each.added_at) for each in found)
        )

    async def add(self, caller: Caller, body: AddFeed) -> FeedView:
        """Make a feed, or give one another address; raises `LimitExceeded`."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        user, now_s = caller.principal.user, self._service.moment().wall_s
        feed = Feed(user, body.name, hash_of(secret), now_s)
        (kept,) = await self._service.runner.stored((KeepFeed(feed, FEEDS_MAX),))
        if not kept:
            raise LimitExceeded(
                f"you have {FEEDS_MAX} calendar feeds, the maximum",
                where="name",
                remedy="revoke a feed first: kalends feed revoke NAME",
            )
        address = f"{self._url}{FEEDS_PATH}/{secret}.ics"
        return FeedView(name=feed.name, added_at=now_s, address=address)

    async def revoke(self, caller: Caller, body: FeedRef) -> FeedView:
        """Forget a feed: its address leads nowhere from now on; raises `NotFound`."""
        user = caller.principal.user
        found = await self._service.replica.read(lambda store: store.feeds(user))
        named = next((each for each in found if each.name == body.name), None)
        if named is None:
            raise NotFound(
                f"you have no calendar feed {body.name}",
                where="name",
                remedy="see `kalends feed list` for your feeds",
            )
        await self._service.runner.stored((ForgetFeed(user, body.name),))
        return FeedView(name=named.name, added_at=named.added_at)

    async def _respond(self, request: web.Request) -> web.Response:
        if (doubt := self._service.replica.doubt()) is not None:
            raise doubt  # Programs keep what they have read, and would remove what is not there now.
        hashed = hash_of(request.match_info["secret"])
        feed = await self._service.replica.read(lambda store: store.feed(hashed))
        if feed is None:
            raise self._door.unknown(
                request,
                "there is no calendar feed at this address",
                "make one, or another address for yours: kalends feed add",
            )
        self._door.opened(feed.user)
        text = await in_flight(request, self._text(feed))
        body = text.encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {
            "ETag": tag,
            "Cache-Control": "private, no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        if tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=CONTENT_TYPE, charset="utf-8", headers=headers)

    async def _text(self, feed: Feed) -> str:
        entries = await self._entries(feed.user, self._service.moment().wall_s)
        return calendar_text(entries, name=f"kalends: {feed.user}", refreshed=True)

    async def _entries(self, user: str, now_s: int) -> Sequence[CalendarEntry]:
        """Return the events around now, in order of start; of too many, those of the newest requests."""
        entries: list[CalendarEntry] = []
        before = ""
        for _ in range(PAGES_MAX):
            # Bound here: the next page has another end.
            page = await self._service.replica.read(
                lambda store, before=before: store.listed(user, before, "", PAGE)  # type: ignore[misc]
            )
            for each in page:
                entries += _entries_of(each, user, now_s)
            if len(page) < PAGE or len(entries) >= EVENTS_MAX:
                break
            before = page[-1].id
        held = await self._service.replica.read(
            lambda store: store.shares_with((f"holder:{user}",), "", PAGE)
        )
        for share in held:
            whole = await self._service.replica.read(
                lambda store, id=share.reservation: store.reservation(id)  # type: ignore[misc]
            )
            entries += _entries_of(whole, user, now_s) if whole is not None else ()
        return sorted(entries[:EVENTS_MAX], key=lambda entry: (entry.start, entry.uid))


def _entries_of(whole: WholeReservation, user: str, now_s: int) -> Iterator[CalendarEntry]:
    """Yield the events around now of a reservation that `user` holds."""
    record = whole.current
    if isinstance(record, Record) and record.user == user:
        for entry in entries_of(view_of(record), now_s):
            if entry.end > now_s - BEFORE_S and entry.start < now_s + AFTER_S:
                yield entry


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
