"""One call from body to typed answer: checked before it is sent, retried while that is safe and helps.

Every call may be sent again. What can never be told from here is whether a call that broke after
sending was carried out; when that is still open at the end, the error says so (`OutcomeUnknown`)
and brings what it takes to ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kalends.client.transports.retry import (
    CLOSED,
    Backoff,
    ConnectionFailed,
    asked_wait_s,
    is_passing,
)
from kalends.client.transports.transport import Transport
from kalends.contract import codec
from kalends.contract.bodies import Answer, Body
from kalends.contract.calls import OPERATION, Operation
from kalends.core.conversion import convert
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAuthenticated,
    OutcomeUnknown,
    Unavailable,
)

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

A = TypeVar("A", bound=Answer)
T = TypeVar("T")

_CHANGING = frozenset(
    {
        "book", "lock", "release", "cancel", "change", "drain", "reconcile", "reclaim", "reclaim_end",
        "agent_upload", "agent_delete", "agent_tell", "job_submit", "jobs_submit", "job_place",
        "job_place_elsewhere",
        "job_change", "notify_add", "notify_remove", "notify_test",
        "machine_nodes", "machine_policy",
    }
)  # fmt: skip
"""Calls that change something: only for these does a lost answer leave a question."""

_SETTLED_BY_KEY = frozenset({"book", "job_place", "job_place_elsewhere", "change"})
"""Calls whose outcome can be looked up by their key."""

_SAYS_NOTHING_OF_EARLIER_SENDS = (
    ConnectionFailed,
    Unavailable,
    LimitExceeded,
    NotAuthenticated,
    OutcomeUnknown,
)
"""Ends of a call after which an earlier, broken send may still have been carried out."""


class CallSender:
    """Makes calls over `transport`; each takes at most `timeout_s` beyond the wait it asks for.

    Clock, sleep and randomness are parameters: `clock` gives seconds that never go back, `fraction`
    random numbers in [0, 1).
    """

    def __init__(
        self,
        transport: Transport,
        *,
        url: str,
        timeout_s: float,
        backoff: Backoff,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        fraction: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._url = url
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._fraction = fraction

    async def call(self, body: Body, name: str, answer: type[A]) -> A:
        """Return the answer to `body`, sent as operation `name`.

        Raises `InvalidInput` before sending anything that the server would refuse, the error that
        the server answered, `Unavailable` when nothing was done for want of a connection (`InvalidInput`
        where there can be none: an unknown host, a certificate that is not trusted), and
        `OutcomeUnknown` when a change may have been done; its `request_id` is the call's key (for
        `client.resolve`), or the reservation's id where the call has no key.
        """
        operation = OPERATION[name]
        checked = convert(_plain(body), operation.body)
        _check_text(checked)
        deadline_s = self._clock() + self._timeout_s + getattr(checked, "wait_ms", 0) / 1000
        tries, perhaps_done = 0, False
        while True:
            tries += 1
            try:
                raw = await self._transport.call(operation, checked, deadline_s - self._clock())
                break
            except (KalendsError, ConnectionFailed) as error:
                perhaps_done |= isinstance(error, ConnectionFailed) and error.sent
                wait_s = self._backoff.wait_s(tries, self._fraction(), asked_wait_s(error))
                in_time = self._clock() + wait_s < deadline_s
                if not (is_passing(error) and in_time and tries < self._backoff.tries_max):
                    raise self._final(error, operation, checked, perhaps_done) from error
            await self._sleep(wait_s)
        return self._understood(raw, operation, checked, answer)

    async def open_socket(self, path: str) -> ClientWebSocketResponse[bool]:
        """Open a WebSocket; raises as `Transport.call` does."""
        return await self._transport.open_socket(path)

    async def persist(self, attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """Return what `attempt` returns, made again while its failure may pass, for `patience_s` or longer.

        Raises what it raises, and `Unavailable` in the end.
        """
        until_s = self._clock() + patience_s
        tries = 0
        while True:
            tries += 1
            failure: KalendsError | ConnectionFailed
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await attempt()
            except TimeoutError:
                failure = ConnectionFailed(f"no answer within {self._timeout_s:.0f} s", sent=True)
            except (KalendsError, ConnectionFailed) as error:
                failure = error
            if not is_passing(failure) or self._clock() >= until_s:
                raise self._unreached(failure) if isinstance(failure, ConnectionFailed) else failure
            await self._sleep(self._backoff.wait_s(tries, self._fraction(), asked_wait_s(failure)))

    def _final(
        self, error: KalendsError | ConnectionFailed, operation: Operation, body: Body, sent: bool
    ) -> KalendsError:
        changing = operation.name in _CHANGING
        if changing and sent and isinstance(error, _SAYS_NOTHING_OF_EARLIER_SENDS):
            return self._unknown(f"the answer was lost: {_detail(error)}", operation, body)
        if changing and isinstance(error, OutcomeUnknown):
            return self._unknown(error.detail, operation, body)
        return self._unreached(error) if isinstance(error, ConnectionFailed) else error

    def _unreached(self, failure: ConnectionFailed) -> KalendsError:
        if failure.mend:
            return InvalidInput(
                f"no answer: {failure.detail}", where=self._url, remedy=failure.mend
            )
        plain = failure.detail == CLOSED and self._url.startswith("http://")
        https = "write https:// if the server has a certificate; or " if plain else ""
        return Unavailable(
            f"no answer: {failure.detail}",
            where=self._url,
            remedy=f"{https}check the address, and that the server is running there",
        )

    def _understood(self, raw: Any, operation: Operation, body: Body, answer: type[A]) -> A:
        try:
            return convert(raw, answer)
        except InvalidInput as error:
            detail = f"the answer is not a {answer.__name__}: {error.where}: {error.detail}"
            if operation.name in _CHANGING:
                raise self._unknown(detail, operation, body) from error
            raise KalendsError(
                detail, where=self._url, remedy="use the same version of client and server"
            ) from error

    def _unknown(self, detail: str, operation: Operation, body: Body) -> OutcomeUnknown:
        key, id = getattr(body, "key", ""), getattr(body, "id", "")
        if not key:
            remedy = "look at it, or send it again: repeating is safe"
        elif operation.name in _SETTLED_BY_KEY:
            id = key
            remedy = f"ask what became of it by its key {key}, or send it again with the same key"
        else:
            id = ""
            remedy = f"send it again with the same key {key}: then it counts once"
        return OutcomeUnknown(detail, where=self._url, request_id=id, remedy=remedy)


def _plain(body: Body) -> object:
    try:
        return msgspec.to_builtins(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"it cannot be sent: {error}",
            where=type(body).__name__,
            remedy="give texts, numbers and truth values, as the call's signature says",
        ) from error


def _check_text(body: Body) -> None:
    try:
        codec.encode_msgpack(body)
    except UnicodeEncodeError as error:
        raise InvalidInput(
            "a text has a lone surrogate",
            where="body",
            remedy="write it in UTF-8",
        ) from error
    except OverflowError as error:
        raise InvalidInput(
            f"a number is too large: {error}", where="body", remedy="give a smaller one"
        ) from error


def _detail(error: KalendsError | ConnectionFailed) -> str:
    return error.detail
