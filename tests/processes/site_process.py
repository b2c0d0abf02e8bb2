"""A real site in a process of its own, and a broker's end of a session with it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kalends.contract import codec, proofs
from kalends.contract import messages as m
from kalends.core.identifiers import request_id
from kalends.core.principals import Principal
from tests.owned_messages import ABOUT_A_REQUEST
from tests.support.patience import PATIENCE_S

from .forked import ForkedPopen

SECRET = "s" * 22
GRAIN_S = 60
CONFIGURATION = """
[log]
form = "json"
[site]
name = "sdsc"
listen = "127.0.0.1:0"
store = "sdsc.sqlite"
{more}
[site.limits]
held_per_principal_max = 1000000
promised_per_principal_max = 1000000
[[site.resources]]
name = "sp2"
capacity = 1000
[[site.resources]]
name = "scope"
access = [
  {{ name = "The Staff", who = "group:staff", may = "lock" }},
  {{ who = "user:mallory", may = "nothing" }},
]
"""


def write_configuration(directory: Path, more: str = "") -> Path:
    path = directory / "site.toml"
    path.write_text(CONFIGURATION.format(more=more))
    return path


class SiteProcess:
    """``kalends serve`` of a configuration; ends with the test, however that ends.

    `as_by_users` starts it by its command, so that the process shows what it shows at a user.
    """

    def __init__(self, configuration: Path, *, as_by_users: bool = False) -> None:
        self.directory = configuration.parent
        self.errors = (self.directory / "errors").open("ab")
        self.process: subprocess.Popen[str] | ForkedPopen
        if as_by_users:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kalends", "serve", str(configuration)],
                stdout=subprocess.PIPE, stderr=self.errors, text=True,
            )  # fmt: skip
        else:
            self.process = ForkedPopen(str(configuration), self.errors)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening site sdsc http://"), self.log()
        self.url = line.split()[-1]

    def __enter__(self) -> SiteProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def log(self) -> str:
        return (self.directory / "errors").read_text()

    def kill(self) -> None:
        """As a loss of the machine: nothing is told to the process."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(30)
        self.errors.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def call(
        self, path: str, body: dict[str, Any] | None = None, token: str = ""
    ) -> tuple[int, Any]:
        """Status and decoded answer of an HTTP call."""
        headers = {"Kalends-User": "olga", "Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def claims(self) -> dict[str, str]:
        """State of every request's claim, from the audit; fails when an invariant does not hold."""
        claims: dict[str, str] = {}
        after = ""
        while True:
            status, audited = self.call("/v1/audit", {"after": after})
            assert status == 200, audited
            assert not audited.get("problems"), audited["problems"]
            page = {claim["id"]: claim["state"] for claim in audited.get("claims", [])}
            claims |= page
            if not audited.get("more"):
                return claims
            after = max(page)


REGISTER = "0" * 32
KEY = "k" * 32
WELCOME = m.Welcome(register=REGISTER, secret=KEY)


def proved(message: m.Message) -> m.Message:
    """`message` with what proves it; one that a test has given a secret of its own keeps that."""
    if not isinstance(message, ABOUT_A_REQUEST) or message.secret not in ("", SECRET):
        return message
    return msgspec.structs.replace(message, secret=proofs.of_request(KEY, message.rid))


class Broker:
    """A broker's end of one session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, source: str) -> None:
        self.socket = socket
        self.source = source

    async def frame(self, *messages: m.Message, lc: int | None = None) -> None:
        stamp = int(time.time() * 1000) if lc is None else lc
        frame = m.FrameToSite(
            v=2, source=self.source, lc=stamp, messages=list(map(proved, messages))
        )  # type: ignore[arg-type]  # tests send what is not for a site, too
        await self.socket.send_bytes(codec.encode_msgpack(frame))

    async def receive(self) -> list[Any]:
        """The messages of the next frame, but for the answer to Welcome; none when the session is over."""
        said: list[Any] = []
        while not said:
            message = await self.socket.receive(timeout=PATIENCE_S)
            if message.type is not aiohttp.WSMsgType.BINARY:
                return []
            frame = codec.decode_msgpack(message.data, m.FrameToBroker)
            assert frame.source == "sdsc"
            said = [each for each in frame.messages if not isinstance(each, m.Known)]
        return said

    async def ask(self, *messages: m.Message) -> list[Any]:
        """Send one frame and collect as many answers."""
        await self.frame(*messages)
        answers: list[Any] = []
        while len(answers) < len(messages):
            received = await self.receive()
            assert received, "the session ended"
            answers += received
        return answers

    async def end(self) -> tuple[int, str]:
        """Close code and reason of the session, which the site closes."""
        while True:
            message = await self.socket.receive(timeout=PATIENCE_S)
            if message.type is aiohttp.WSMsgType.CLOSE:
                return message.data, message.extra or ""
            assert message.type is aiohttp.WSMsgType.BINARY, message


@asynccontextmanager
async def connected(
    url: str,
    source: str = "npaci",
    token: str = "",
    welcome: Sequence[m.Welcome] = (WELCOME,),
) -> AsyncIterator[tuple[Broker, m.Hello]]:
    headers = {"Kalends-User": source}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/v1/session", headers=headers, autoclose=False) as socket,
    ):
        broker = Broker(socket, source)
        (hello,) = await broker.receive()
        if welcome:
            await broker.frame(*welcome)
        yield broker, hello


def slot(number: int) -> tuple[int, int]:
    """A minute from now on, tomorrow."""
    start = (int(time.time()) // GRAIN_S + 1_440 + number) * GRAIN_S
    return start, start + GRAIN_S


def vote(
    rid: str = "",
    *,
    number: int = 0,
    coords: Sequence[str] = (),
    resource: str = "sdsc/sp2",
    att: int = 1,
    user: str = "anna",
) -> m.Visit:
    """A visit that asks for a promise of one unit."""
    start, end = slot(number)
    return m.Visit(
        rid=rid or new_rid(),
        att=att,
        stamp=1,
        mode="vote",
        principal=Principal(user),
        wants=(m.Want(resource, start, end, 1),),
        parts=(m.Part("sdsc", "http://127.0.0.1:1"),),
        need=1,
        coords=tuple(coords),
        secret=SECRET,
        hold_ms=30_000,
    )


def commit(visited: m.Visited) -> m.Decide:
    chosen = {"sdsc": tuple(held.hold_id for held in visited.held)}
    return m.Decide(rid=visited.rid, att=visited.att, outcome="commit", chosen=chosen)


def new_rid() -> str:
    return request_id(int(time.time() * 1000), random.getrandbits(74))


def wal_bytes(directory: Path) -> int:
    path = directory / "sdsc.sqlite-wal"
    return os.stat(path).st_size if path.exists() else 0
