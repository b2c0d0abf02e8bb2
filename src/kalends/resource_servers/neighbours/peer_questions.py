"""Questions of other sites to this one, without a session and without a token.

The secret in the question proves that the asker takes part in the request. The answer may be a
refusal for ever, so it leaves only when that is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, NotAllowed, Unavailable
from kalends.core.intervals import Moment
from kalends.resource_servers.service import SiteEngine
from kalends.serving.http.application import check_server
from kalends.serving.http.connections import neighbourhood
from kalends.serving.http.rate_limits import RateLimiter, ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.serving.pending_replies import Waiters, answer_to

ASK_BYTES_MAX: Final = 4_096
ASKS_PER_S: Final = 50.0
ASKS_BURST: Final = 200
"""For each address: peers ask a few times a minute about each promise that nobody decides."""
UNPROVED_COSTS: Final = 20
"""A question without a true secret counts as so many: sites that take part have no such questions."""

SOURCE: Final = "peer#"
"""How sources of questions begin; no broker can have such a name."""


class PeerQuestions:
    """Questions that are being answered; `engine` gives the running site, or raises `Unavailable`."""

    def __init__(
        self,
        engine: Callable[[], SiteEngine],
        moment: Callable[[], Moment],
        serving_limits: ServingLimits,
    ) -> None:
        self._engine = engine
        self._moment = moment
        self._limits = msgspec.structs.replace(serving_limits, body_bytes_max=ASK_BYTES_MAX)
        self._limiter = RateLimiter(per_s=ASKS_PER_S, burst=ASKS_BURST, tracked_max=10_000)
        self._waiters = Waiters(SOURCE)

    async def respond(self, request: web.Request) -> web.Response:
        """Answer one `PeerAsk` with one `PeerSays`, both as the whole body."""
        check_server(request)
        asker = neighbourhood(request.remote or "")
        self._limiter.take(asker, self._moment().monotonic_ms / 1000)
        body = await read_body(request, self._limits)
        ask = codec.decode_msgpack(body, m.PeerAsk, bytes_max=ASK_BYTES_MAX)
        if ask.until > self._moment().wall_s + limits.WINDOW_S_MAX:
            raise InvalidInput("the end is after the last possible time", where="until")
        engine = self._engine()
        site = engine.participant
        with self._waiters.one() as waiter:
            if not any(send.to == waiter.source for send in engine.receive(waiter.source, (ask,))):
                if site.in_doubt.takes_part(ask, site.book.stakes.peek(ask.rid)):
                    raise Unavailable(
                        "there is no answer yet", remedy="ask again later", retry_after_s=1.0
                    )
                self._limiter.fine(asker, UNPROVED_COSTS)
                raise NotAllowed(
                    "the secret is not that of this request",
                    where="secret",
                    remedy="only sites that take part in a request can ask about it",
                )
            says = await waiter.answer
        return answer_to(request, says)

    def answer(self, source: str, message: m.Message) -> None:
        """`message` is durable: whoever asked as `source` may hear it."""
        self._waiters.answer(source, message)

    def fail(self, error: KalendsError) -> None:
        """No question under way will be answered."""
        self._waiters.fail(error)
