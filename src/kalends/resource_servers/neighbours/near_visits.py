"""Agents' visits that another site passes on to this one: one Dispatch in, one Report out.

The other site has the scope ``near`` here, which allows this and nothing else, and each of the two lists
the other. It vouches for nobody: the visit proves by itself which broker sent it this way. The report
leaves when the run has ended, and what it says of promises is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

import msgspec
from aiohttp import web

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAllowed,
    Unavailable,
)
from kalends.core.intervals import Moment
from kalends.resource_servers.service import SiteEngine
from kalends.serving.http.application import caller_of
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.serving.pending_replies import Waiters, answer_to

VISIT_BYTES_MAX: Final = 1024 * 1024
"""The longest source, inbox, asks and starts together are half of it."""

VISITS_MAX: Final = 256
"""Visits that wait for their reports."""

ANSWER_S_MAX: Final = 20.0
"""Longer than any visit without sites near takes; whoever asked has given up by then."""

SOURCE: Final = "visit#"
"""How sources of such visits begin; no broker can have such a name."""


class NearVisits:
    """Visits that are under way.

    `near` are the sites that the owner lists; `engine` gives the running site, or raises `Unavailable`.
    """

    def __init__(
        self,
        engine: Callable[[], SiteEngine],
        moment: Callable[[], Moment],
        serving_limits: ServingLimits,
        near: Collection[str],
    ) -> None:
        self._engine = engine
        self._near = frozenset(near)
        self._moment = moment
        self._limits = msgspec.structs.replace(serving_limits, body_bytes_max=VISIT_BYTES_MAX)
        self._waiters = Waiters(SOURCE)

    async def respond(self, request: web.Request) -> web.Response:
        """Answer one `Dispatch` with one `Report`, both as the whole body."""
        caller = caller_of(request, "near")
        caller.require("near", self._moment().wall_s)
        site = caller.principal.user
        if site not in self._near:
            raise NotAllowed(
                f"the owner of this site does not list {site!a} as near",
                where="site.near",
                remedy="two sites are near when each lists the other",
            )
        body = await read_body(request, self._limits)
        dispatch = codec.decode_msgpack(body, m.Dispatch, bytes_max=VISIT_BYTES_MAX)
        if dispatch.way != site:
            raise NotAllowed(
                f"this visit was passed on by {site}, not by {dispatch.way}", where="way"
            )
        if dispatch.near:
            raise InvalidInput("a visit can be passed on only once", where="near")
        if len(self._waiters) >= VISITS_MAX:
            raise LimitExceeded(
                f"{VISITS_MAX} visits are under way, the maximum", retry_after_s=1.0
            )
        answer = await self._answer(dispatch)
        if not isinstance(answer, m.Report):
            raise Conflict(
                f"attempt {dispatch.att} of this request has ended", where="att",
                request_id=dispatch.rid,
            )  # fmt: skip
        return answer_to(request, answer)

    def answer(self, source: str, message: m.Message) -> None:
        """`message` is for whoever has come as `source`; news of holds later on find nobody there."""
        if isinstance(message, m.Report | m.Stale):
            self._waiters.answer(source, message)

    def fail(self, error: KalendsError) -> None:
        """No visit under way will be answered."""
        self._waiters.fail(error)

    async def _answer(self, dispatch: m.Dispatch) -> m.Message:
        engine = self._engine()
        try:
            with self._waiters.one() as waiter:
                async with asyncio.timeout(ANSWER_S_MAX):
                    engine.receive(waiter.source, (dispatch,))
                    return await waiter.answer
        except TimeoutError as error:
            raise Unavailable("the visit takes too long", retry_after_s=1.0) from error
