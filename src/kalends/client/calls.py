"""One call from body to typed answer: checked before it is sent, retried while that is safe and helps.

Every call may be sent again. Only the server knows whether a call that broke after sending was carried
out. If that is still open at the end, the error is `OutcomeUnknown`, with the key to ask by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kalends.client.inputs.zones import answer_in_zone, error_in_zone
from kalends.client.transports.retry import (
    CLOSED,
    SAYS_NOTHING_OF_EARLIER_SENDS,
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
    OutcomeUnknown,
    Unavailable,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from aiohttp import ClientWebSocketResponse

A = TypeVar("A", bound=Answer)
T = TypeVar("T")


class CallSender:
    """Sender of calls over `transport`; each takes at most `timeout_s` beyond the wait that it asks for.

    Clock, sleep and randomness are parameters: `clock` gives seconds that never go back, `fraction`
    random numbers in [0, 1). With `zone` the times in texts of the server are converted to it.
    While a call that may change something has no answer, its name is in `unanswered`; it stays there if
    the call is cancelled, or its answer is lost.
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
        zone: ZoneInfo | None = None,
        unanswered: list[str] | None = None,
    ) -> None:
        self._transport = transport
        self._url = url
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._fraction = fraction
        self._zone = zone
        self._unanswered = [] if unanswered is None else unanswered

    async def call(self, body: Body, name: str, answer: type[A]) -> A:
        """Return the answer to `body`, sent as operation `name`.

        Raises `InvalidInput` before sending anything that the server would refuse, the error that
        the server answered, `Unavailable` if nothing was done for want of a connection (`InvalidInput`
        if there can be none: an unknown host, a certificate that is not trusted), and
        `OutcomeUnknown` if a change may have been done; its `request_id` is the call's key (for
        `client.resolve`), or the reservation's id if the call has no key.
        """
        operation = OPERATION[name]
        checked = convert(_plain(body), operation.body)
        _check_text(checked)
        if operation.changes == "nothing":
            raw = await self._answered(operation, checked)
        else:
            # Noted before, not at a cancellation: whoever cancels may not wait until this coroutine knows.
            self._unanswered.append(name)
            try:
                raw = await self._answered(operation, checked)
            except KalendsError as error:
                if not isinstance(error, OutcomeUnknown):
                    self._unanswered.remove(name)
                raise
            self._unanswered.remove(name)
        return self._understood(raw, operation, checked, answer)

    async def _answered(self, operation: Operation, checked: Body) -> Any:
        """Return the answer as it arrives; raises the errors of `call`."""
        deadline_s = self._clock() + self._timeout_s + getattr(checked, "wait_ms", 0) / 1000
        tries, perhaps_done = 0, False
        while True:
            tries += 1
            try:
                return await self._transport.call(operation, checked, deadline_s - self._clock())
            except (KalendsError, ConnectionFailed) as error:
                perhaps_done |= isinstance(error, ConnectionFailed) and error.sent
                wait_s = self._backoff.wait_s(tries, self._fraction(), asked_wait_s(error))
                in_time = self._clock() + wait_s < deadline_s
                if not (is_passing(error) and in_time and tries < self._backoff.tries_max):
                    raise self._told(
                        self._final(error, operation, checked, perhaps_done)
                    ) from error
            await self._sleep(wait_s)

    async def open_socket(self, path: str) -> ClientWebSocketResponse[bool]:
        """Open a WebSocket; raises like `Transport.call`."""
        return await self._transport.open_socket(path)

    async def persist(self, attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
        """Return the result of `attempt`, retried while its failure may pass, for `patience_s` or longer.

        Raises its errors, and `Unavailable` at the end.
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
                if isinstance(failure, ConnectionFailed):
                    raise self._unreached(failure)
                raise self._told(failure)
            await self._sleep(self._backoff.wait_s(tries, self._fraction(), asked_wait_s(failure)))

    def _final(
        self, error: KalendsError | ConnectionFailed, operation: Operation, body: Body, sent: bool
    ) -> KalendsError:
        changing = operation.changes != "nothing"
        if changing and sent and isinstance(error, SAYS_NOTHING_OF_EARLIER_SENDS):
            return self._unknown(f"the answer was lost: {error.detail}", operation, body)
        if changing and isinstance(error, OutcomeUnknown):
            return self._unknown(error.detail, operation, body)
        return self._unreached(error) if isinstance(error, ConnectionFailed) else error

    def _told(self, error: KalendsError) -> KalendsError:
        return error if self._zone is None else error_in_zone(error, self._zone)

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
            return convert(raw if self._zone is None else answer_in_zone(raw, self._zone), answer)
        except InvalidInput as error:
            detail = f"the answer is not a {answer.__name__}: {error.where}: {error.detail}"
            if operation.changes != "nothing":
                raise self._unknown(detail, operation, body) from error
            raise KalendsError(
                detail, where=self._url, remedy="use the same version of client and server"
            ) from error

    def _unknown(self, detail: str, operation: Operation, body: Body) -> OutcomeUnknown:
        key, id = getattr(body, "key", ""), getattr(body, "id", "")
        if not key:
            remedy = "check the outcome, or repeat the call, which is safe"
        elif operation.changes == "request":
            id = key
            remedy = f"ask for the outcome by the key {key}, or repeat the call with the same key"
        else:
            id = ""
            remedy = f"repeat the call with the same key {key}: then it counts once"
        return OutcomeUnknown(detail, where=self._url, request_id=id, remedy=remedy)


def _plain(body: Body) -> object:
    try:
        return msgspec.to_builtins(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"the call cannot be sent: {error}",
            where=type(body).__name__,
            remedy="give texts, numbers and truth values, as in the call's signature",
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
