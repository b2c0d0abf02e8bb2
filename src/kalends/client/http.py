"""Calls over plain HTTP: one request each, bodies in MessagePack. What the command line uses."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from kalends.client.retry import ConnectionFailed
from kalends.client.sockets import open_socket
from kalends.client.transport import (
    ANSWER_BYTES_MAX,
    Access,
    error_from_status,
    reason,
    retry_after_s,
)
from kalends.contract import codec
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation
from kalends.core import limits
from kalends.core.errors import InvalidInput, KalendsError, Problem, error_from_problem

_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class HttpTransport:
    """A `Transport` over HTTP, one for each event loop; connections are kept and shared."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._http = aiohttp.ClientSession(
            headers=access.headers() | {"Accept": codec.MSGPACK},
            connector=aiohttp.TCPConnector(ssl=access.tls()),
        )

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        fields = msgspec.to_builtins(body)
        path = _fill(operation.path, fields)
        data, headers = None, {}
        if operation.method == "POST":
            data, headers = codec.encode_msgpack(fields), {"Content-Type": codec.MSGPACK}
            codec.check_size(data, limits.BODY_BYTES_MAX)
        url = self._access.address(path)
        try:
            async with self._http.request(
                operation.method,
                url,
                data=data,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                return _answer(response, await _read(response), url)
        except _NEVER_SENT as error:
            raise ConnectionFailed(reason(error), sent=False) from error
        except TimeoutError as error:
            raise ConnectionFailed(f"no answer within {timeout_s:.0f} s", sent=True) from error
        except aiohttp.ClientError as error:
            raise ConnectionFailed(reason(error), sent=True) from error

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        return await open_socket(self._http, self._access, path)

    async def close(self) -> None:
        await self._http.close()


def _fill(path: str, fields: dict[str, Any]) -> str:
    """Fill the ``{field}`` parts of `path` from `fields`."""
    for name in [name for name in fields if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", fields.pop(name))
    return path


async def _read(response: aiohttp.ClientResponse) -> bytes:
    received = bytearray()
    async for chunk in response.content.iter_any():
        received += chunk
        if len(received) > ANSWER_BYTES_MAX:
            raise ConnectionFailed(f"the answer is above {ANSWER_BYTES_MAX} bytes", sent=True)
    return bytes(received)


def _answer(response: aiohttp.ClientResponse, received: bytes, url: str) -> Any:
    """Return the answer's plain values; raises the error that the server answered."""
    try:
        if response.status == 200 and response.content_type == codec.MSGPACK:
            return codec.decode_msgpack(received, object, bytes_max=ANSWER_BYTES_MAX)
        problem = _problem(response.content_type, received)
    except InvalidInput as error:
        raise ConnectionFailed("the answer was damaged on the way", sent=True) from error
    wait_s = retry_after_s(response.headers.get("Retry-After"))
    if problem is not None:
        if wait_s > problem.retry_after_s:
            problem = msgspec.structs.replace(problem, retry_after_s=wait_s)
        raise error_from_problem(problem)
    raise _without_problem(response.status, url, wait_s)


def _problem(content_type: str, received: bytes) -> Problem | None:
    if content_type == codec.PROBLEM_MSGPACK:
        return codec.decode_msgpack(received, Problem, bytes_max=ANSWER_BYTES_MAX)
    if content_type == codec.PROBLEM_JSON:
        return codec.decode_json(received, Problem, bytes_max=ANSWER_BYTES_MAX)
    return None


def _without_problem(status: int, url: str, wait_s: float) -> KalendsError | ConnectionFailed:
    """Return the error for an answer without problem details, as a proxy gives it."""
    if status in (502, 504):
        return ConnectionFailed(f"a gateway before the server failed ({status})", sent=True)
    return error_from_status(status, url, wait_s)
