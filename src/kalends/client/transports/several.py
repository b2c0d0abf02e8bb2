"""Servers that stand for each other: the replicas of a broker, or a site and its standby."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import structs

from kalends.client.transports.retry import SAYS_NOTHING_OF_EARLIER_SENDS, ConnectionFailed
from kalends.client.transports.transport import Transport
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation
from kalends.core.errors import KalendsError, OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

CONNECT_S_MAX: Final = 3.0
"""Seconds for a connection to one of several servers: another one may answer sooner."""

SILENT_S_MAX: Final = 10.0
"""Seconds that one of several servers may be silent beyond the wait that a call asks for."""


class SeveralServers:
    """A `Transport` to those of `servers`, by address. It asks the one first that answered last.

    A call goes on at the next server if one has no answer, or says that it cannot answer now. Every call can
    be repeated, because a booking carries its key; so one whose answer was lost is asked again. All servers
    together have the time of one call. If none answers, the error names each with its reason.
    """

    def __init__(self, servers: Mapping[str, Transport], clock: Callable[[], float]) -> None:
        self._servers = dict(servers)
        self._clock = clock
        self.address = next(iter(servers))
        """The server to ask first."""

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        begun_s = self._clock()

        async def ask(server: Transport, others: int) -> Any:
            spent_s = self._clock() - begun_s
            left_s, asked = timeout_s - spent_s, _with_wait_left(body, spent_s)
            if others:
                wait_s = getattr(asked, "wait_ms", 0) / 1000
                share_s = max(left_s - wait_s, 0.0) / (others + 1)
                left_s = min(left_s, wait_s + min(share_s, SILENT_S_MAX))
            return await server.call(operation, asked, left_s)

        return await self._in_turn(ask)

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        async def open_there(
            server: Transport, others: int
        ) -> aiohttp.ClientWebSocketResponse[bool]:
            try:
                async with asyncio.timeout(CONNECT_S_MAX if others else None):
                    return await server.open_socket(path)
            except TimeoutError as error:
                detail = f"no connection within {CONNECT_S_MAX:.0f} s"
                raise ConnectionFailed(detail, sent=False) from error

        return await self._in_turn(open_there)

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    def abandon(self) -> None:
        for server in self._servers.values():
            server.abandon()

    async def _in_turn(self, ask: Callable[[Transport, int], Awaitable[T]]) -> T:
        """Return what `ask` returns at the first server that answers; it gets the number of those left."""
        failures: dict[str, ConnectionFailed | KalendsError] = {}
        first = self.address
        order = sorted(self._servers, key=lambda address: address != first)
        for others, address in zip(range(len(order) - 1, -1, -1), order, strict=True):
            try:
                answer = await ask(self._servers[address], others)
            except (ConnectionFailed, KalendsError) as error:
                if not _goes_on(error):
                    if isinstance(error, SAYS_NOTHING_OF_EARLIER_SENDS) and _sent(failures):
                        failures[address] = error
                        break
                    self.address = address
                    raise
                failures[address] = error
            else:
                self.address = address
                return answer
        raise _of_all(failures)


def _with_wait_left(body: Body, spent_s: float) -> Body:
    """Return `body` as it is sent `spent_s` after its first send: it waits only for the rest."""
    wait_ms = getattr(body, "wait_ms", 0)
    if not wait_ms or spent_s < 0.001:
        return body
    return structs.replace(body, wait_ms=max(0, wait_ms - int(spent_s * 1_000)))


def _goes_on(error: ConnectionFailed | KalendsError) -> bool:
    """Return whether another server may answer where one gave this error.

    A request that has failed, and has used its key, has failed at all of them.
    """
    if isinstance(error, Unavailable):
        return not error.request_id
    return isinstance(error, ConnectionFailed | OutcomeUnknown)


def _sent(failures: Mapping[str, ConnectionFailed | KalendsError]) -> bool:
    """Return whether one of the servers may have carried the call out."""
    return any(
        error.sent if isinstance(error, ConnectionFailed) else isinstance(error, OutcomeUnknown)
        for error in failures.values()
    )


def _of_all(
    failures: Mapping[str, ConnectionFailed | KalendsError],
) -> ConnectionFailed | KalendsError:
    """Return the one error for those of all servers."""
    said: dict[str, list[str]] = {}
    for address, error in failures.items():
        said.setdefault(error.detail, []).append(address)
    detail = "; ".join(f"{', '.join(where)}: {why}" for why, where in said.items())
    errors = list(failures.values())
    refused = [error for error in errors if isinstance(error, Unavailable)]
    if len(refused) == len(errors):
        # Each has answered, so nothing was done.
        soonest = min(refused, key=lambda error: error.retry_after_s)
        soonest.detail = detail
        return soonest
    mends = {error.mend if isinstance(error, ConnectionFailed) else "" for error in errors}
    return ConnectionFailed(detail, sent=_sent(failures), mend="" if "" in mends else mends.pop())
