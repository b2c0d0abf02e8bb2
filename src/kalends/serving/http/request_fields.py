"""The plain fields of one HTTP request: from its path, and from its query or its body."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kalends.contract.calls import Operation
from kalends.core.conversion import shortened
from kalends.core.errors import InvalidInput, TooLarge
from kalends.serving.auth.callers import Caller
from kalends.serving.http import bodies
from kalends.serving.http.dispatch import Dispatcher
from kalends.serving.http.problems import HttpRefusal
from kalends.serving.http.rate_limits import ServingLimits


async def read_fields(
    request: web.Request, operation: Operation, dispatcher: Dispatcher, caller: Caller
) -> dict[str, Any]:
    """Return the plain fields of a call: from the path, and from the query (GET) or the body (POST).

    A body is charged to `caller` before it is read. Raises `InvalidInput` with the field that is
    given twice, misplaced or not a plain value, and `TooLarge` or `HttpRefusal` for a refused body.
    """
    limits = dispatcher.limits
    query = request.query
    if operation.method == "GET":
        fields: dict[str, Any] = {}
        for field, text in query.items():
            if field in fields:
                raise InvalidInput(
                    "given more than once in the query", where=shortened(ascii(field)[1:-1])
                )
            fields[field] = text
        bodies.normalize(fields)
    else:
        if query:
            raise InvalidInput(
                "this call takes no query string",
                where=shortened(ascii(next(iter(query)))[1:-1]),
                remedy="put the fields in the body",
            )
        body = await read_body(request, limits)
        dispatcher.charge(caller, len(body))
        # Without a body its type is ignored, because some clients send one with every POST.
        form = bodies.form_of_body(request.headers.get("Content-Type", "") if body else "")
        fields = bodies.decode(body, form, bytes_max=limits.body_bytes_max)
    for field, text in request.match_info.items():
        if field in fields:
            raise InvalidInput(
                "this field is in the path already", where=field, remedy="leave it out elsewhere"
            )
        fields[field] = text
    return fields


async def read_body(request: web.Request, limits: ServingLimits) -> bytes:
    """Return the bytes of the body, never more than `body_bytes_max` of them in memory.

    Raises `TooLarge`, `HttpRefusal` for an encoding (415) or for bytes that come too slowly (408),
    and `InvalidInput` for a body whose chunks are malformed.
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise HttpRefusal(
            415,
            f"a body encoded as {encoding[:40]!a} is not accepted",
            where="Content-Encoding",
            remedy="send it without an encoding",
        )
    if (request.content_length or 0) > limits.body_bytes_max:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_read_s_max):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limits.body_bytes_max:
                    raise _too_large(limits)
    except TimeoutError:
        raise HttpRefusal(
            408,
            f"the body did not arrive within {limits.body_read_s_max:g} s",
            where="body",
            remedy="send it again over a faster connection",
        ) from None
    except (HttpProcessingError, web.RequestPayloadError) as error:
        raise InvalidInput("the body's transfer encoding is malformed", where="body") from error
    return bytes(body)


def _too_large(limits: ServingLimits) -> TooLarge:
    return TooLarge(
        f"a body has at most {limits.body_bytes_max} bytes",
        where="body",
        remedy="split the request",
    )
