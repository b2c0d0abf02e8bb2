"""Questions of sites: what was decided (``POST /v1/inquire``), and whether a job may start (``/v1/start``).

No token is asked for: the secret in the question proves that the asker takes part. The answer is the
register's, written before it is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.paths import INQUIRE_PATH, START_PATH
from kalends.core.errors import KalendsError, NotAllowed, Unavailable
from kalends.serving.http.application import check_server
from kalends.serving.http.connections import neighbourhood
from kalends.serving.http.rate_limits import RateLimiter, ServingLimits
from kalends.serving.http.request_fields import read_body
from kalends.serving.pending_replies import Waiters, answer_to

INQUIRE_BYTES_MAX: Final = 1024
INQUIRE_S_MAX: Final = 10.0
INQUIRIES_PER_S: Final = 500.0
INQUIRIES_BURST: Final = 2_000
"""A site that comes back after a crash asks about everything in doubt at once."""
UNPROVED_COSTS: Final = 50
"""A question without a true secret counts as so many: sites that take part have no such questions."""

Question = m.Inquire | m.StartAsk

_PREFIX: Final = "inquiry:"
_LIMITS: Final = ServingLimits(body_bytes_max=INQUIRE_BYTES_MAX)


class Inquiries:
    """Inquiries by HTTP that wait for the register. `inquire` hands one on, with where to answer."""

    def __init__(
        self, inquire: Callable[[str, Question], None], monotonic_s: Callable[[], float]
    ) -> None:
        self._inquire = inquire
        self._monotonic_s = monotonic_s
        self._waiters = Waiters(_PREFIX)
        self._limiter = RateLimiter(
            per_s=INQUIRIES_PER_S, burst=INQUIRIES_BURST, tracked_max=10_000
        )

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.post(INQUIRE_PATH, partial(self._respond, m.Inquire)),
            web.post(START_PATH, partial(self._respond, m.StartAsk)),
        ]

    def answer(self, to: str, message: m.Message) -> None:
        """The coordinator's answer; whatever else it says to an asker is for sessions only."""
        if isinstance(message, m.Outcome | m.StartSays):
            self._waiters.answer(to, message)

    def settled(self, to: str, *, proved: bool) -> None:
        """Refuse an asker that the register has not answered: for now, or for a wrong secret."""
        if proved:
            self.refuse(to, _ask_later("the register has no answer yet"))
        else:
            self.refuse(to, NotAllowed("the secret is not that of this request", where="secret"))

    def refuse(self, to: str, error: KalendsError) -> None:
        """The asker at `to` cannot be answered."""
        self._waiters.refuse(to, error)

    def fail(self, error: KalendsError) -> None:
        """Fail all pending inquiries."""
        self._waiters.fail(error)

    async def _respond(self, kind: type[Question], request: web.Request) -> web.Response:
        check_server(request)
        asker = neighbourhood(request.remote or "")
        self._limiter.take(asker, self._monotonic_s())
        body = await read_body(request, _LIMITS)
        question = codec.decode_msgpack(body, kind, bytes_max=INQUIRE_BYTES_MAX)
        try:
            answer = await self._answer_to(question)
        except NotAllowed:
            self._limiter.fine(asker, UNPROVED_COSTS)
            raise
        return answer_to(request, answer)

    async def _answer_to(self, question: Question) -> m.Message:
        try:
            with self._waiters.one() as waiter:
                self._inquire(waiter.source, question)
                async with asyncio.timeout(INQUIRE_S_MAX):
                    return await waiter.answer
        except TimeoutError:
            raise _ask_later("the register is busy") from None


def _ask_later(detail: str) -> Unavailable:
    return Unavailable(detail, remedy="ask again later", retry_after_s=1.0)
