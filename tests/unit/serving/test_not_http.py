"""What is no HTTP gets a fixed answer: none of it comes back, and none of it is logged."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from serving_support import serving

SECRET = b"Bearer s3cr3t"
HEAD = b"GET /v1/resources HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: ann\r\n"

REQUESTS = {
    "an overlong value": HEAD + b"Authorization: " + SECRET + b"a" * 9_000 + b"\r\n\r\n",
    "an overlong name": HEAD + SECRET.replace(b" ", b"-") + b"a" * 9_000 + b": 1\r\n\r\n",
    "an overlong path": b"GET /s3cr3t" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a control character": HEAD + b"Authorization: " + SECRET + b"\x01\r\n\r\n",
    "a blank in a name": HEAD + b"Authorization : " + SECRET + b"\r\n\r\n",
    "no HTTP": SECRET + b"\x00\x1b[31m\r\n\r\n",
    "a length in words": HEAD + b"Content-Length: " + SECRET + b"\r\n\r\n",
    "bad chunks": HEAD.replace(b"GET /v1/resources", b"POST /v1/find")
    + b"Transfer-Encoding: chunked\r\n\r\n" + SECRET + b"\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
async def test_nothing_of_it_is_sent_back_or_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving() as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(REQUESTS[name])
        answer = await reader.read(100_000)
        writer.close()
    assert answer.split()[1] == b"400"
    assert b"s3cr3t" not in answer
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize("where", ["field", "path", "query"])
async def test_the_name_of_a_field_comes_back_shortened(where: str) -> None:
    name = "f" * 3_000
    async with serving() as server:
        if where == "query":
            answer = await server.call("GET", f"/v1/resources?{name}=1&{name}=2")
        else:
            body = {name: 1} if where == "field" else {"a": {name: 1 << 70}}
            answer = await server.call("POST", "/v1/find", json=body)
    assert answer[0] == 400
    assert name[:100] in json.dumps(answer[2])
    assert len(json.dumps(answer[2])) < 1_500
