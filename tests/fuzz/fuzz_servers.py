"""Two facilities as real processes, one with tokens and one with open access, and a raw HTTP client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgpack
import msgspec
from aiohttp import WSMsgType
from tests.support.patience import PATIENCE_S

from kalends.core.errors import Problem
from kalends.serving.auth.keys import load_private_key, write_key_pair
from kalends.serving.auth.tokens import mint

LISTENING = re.compile(r"listening (?:site|broker|virtual) \S+ http://127\.0\.0\.1:(\d+)")
STOP_WAIT_S = 20
HELD_S = 86_400
"""Holds outlast the tests, however slow the machine."""

PRESS_NODES = 8
"""The nodes of each site's machine."""

SITES = ("alpha", "beta")
PROBLEM_TYPES = ("application/problem+json", "application/problem+msgpack")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    def value(self) -> Any:
        if "msgpack" in self.headers.get("content-type", ""):
            return msgpack.unpackb(self.body)
        return json.loads(self.body)

    def problem(self) -> Problem:
        """The answer as problem details; fails the test when it is none."""
        assert self.headers["content-type"] in PROBLEM_TYPES, self
        problem = msgspec.convert(self.value(), Problem)
        assert problem.status == self.status
        assert problem.code
        assert problem.title
        assert problem.detail
        return problem


class Server:
    """One server process, its log, and what must never be seen in an answer or in the log."""

    def __init__(self, name: str, directory: Path, configuration: str) -> None:
        self.name = name
        self.role = {"broker": "broker", "hall": "virtual"}.get(name, "site")
        path = directory / f"{name}.toml"
        path.write_text(configuration)
        self._log = directory / f"{name}.log"
        self._seen = 0
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kalends", "serve", str(path)],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = LISTENING.search(line)
        assert found, f"{name} did not start: {line}{self._log.read_text()}"
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request; on a kept connection where there is one."""
        kept, self._connection = self._connection, None
        if kept is not None:
            try:
                return self._call(kept, method, path, body, headers or {})
            except (http.client.RemoteDisconnected, ConnectionError):
                kept.close()  # It was idle for too long, and the server has given it up.
        fresh = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return self._call(fresh, method, path, body, headers or {})

    def _call(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> Answer:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        given = {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders()
        # A server that refuses early closes while we are still sending; its answer is there.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.send(body)
        response = connection.getresponse()
        answer = Answer(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )
        if response.will_close:
            connection.close()
        else:
            self._connection = connection
        return answer

    def post(self, path: str, fields: Any, headers: Mapping[str, str]) -> Answer:
        kind = {"Content-Type": "application/json"}
        return self.call("POST", path, json.dumps(fields).encode(), {**kind, **headers})

    def new_log(self) -> str:
        """What the log says since the last look."""
        text = self._log.read_text()
        new, self._seen = text[self._seen :], len(text)
        return new

    def stop(self) -> int:
        if self._connection is not None:
            self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


class Facility:
    """Sites alpha and beta and their broker, which reaches beta by the virtual site hall.

    `tokens` says which way in they have.
    """

    def __init__(self, directory: Path, *, tokens: bool) -> None:
        self.tokens = tokens
        self.directory = directory
        self.accepted: set[str] = set()
        """Requests that a fuzzed call made, because it happened to be right."""
        if tokens:
            for name in ("people", "broker", "stranger"):
                write_key_pair(directory / name)
        self.servers: dict[str, Server] = {}
        try:
            for name in SITES:
                self.servers[name] = Server(name, directory, _site(name, tokens))
            beta = self.servers["beta"].url
            self.servers["hall"] = Server("hall", directory, _virtual(beta, tokens))
            urls = {name: self.servers[name].url for name in ("alpha", "hall")}
            self.servers["broker"] = Server("broker", directory, _broker(urls, tokens))
        except BaseException:
            self.stop()
            raise
        self.broker = self.servers["broker"]
        self.sites = [self.servers[name] for name in SITES]

    def of(self, role: str) -> Server:
        """A server of each role."""
        return next(each for each in self.servers.values() if each.role == role)

    def stop(self) -> list[int]:
        return [server.stop() for server in reversed(self.servers.values())]

    def token(
        self, user: str, *, audience: str, scopes: tuple[str, ...] = ("use",), key: str = "people",
        groups: tuple[str, ...] = (), now_s: int | None = None, issuer: str = "",
    ) -> str:  # fmt: skip
        return mint(
            load_private_key(self.directory / key), user=user, groups=groups, audience=(audience,),
            scopes=scopes, issuer=issuer, lifetime_s=3_600,
            now_s=int(time.time()) if now_s is None else now_s,
        )  # fmt: skip

    def headers(
        self, user: str, server: Server, *scopes: str, groups: tuple[str, ...] = ()
    ) -> dict[str, str]:
        """What makes `user` known to `server`, with these scopes (open access gives all)."""
        if not self.tokens:
            return {"Kalends-User": user, "Kalends-Groups": ",".join(groups)}
        broker = "broker" in scopes
        token = self.token(
            user, audience=server.name, scopes=scopes or ("use",), groups=groups,
            key="broker" if broker else "people", issuer="broker" if broker else "",
        )  # fmt: skip
        return {"Authorization": f"Bearer {token}"}

    def accept(self, answer: Answer) -> None:
        """A call was right: what it made, a request or a series of them, may stand."""
        view = answer.value()
        self.accepted.add(view["id"])
        self.accepted.update(each["id"] for each in view.get("occurrences", ()) if each.get("id"))

    def state(self) -> dict[str, Any]:
        """Everything that the sites and the register would tell an auditor, less what was accepted.

        A well-formed request that found no time stays in the register, with nothing chosen.

        Fails when an invariant does not hold, or when a server cannot say.
        """
        state: dict[str, Any] = {}
        for server in (self.broker, *self.sites):
            answer = server.post("/v1/audit", {}, self.headers("auditor", server, "audit"))
            assert answer.status == 200, answer
            audited = answer.value()
            assert not audited.get("problems"), audited
            for part in ("claims", "records"):
                state[f"{server.name} {part}"] = [
                    each
                    for each in audited.get(part, [])
                    if each["id"] not in self.accepted and not _ended(each)
                ]
        return state

    def book(
        self, user: str, resource: str, start: int, *, hold: bool = False, units: int = 1,
        duration_s: int = 600,
    ) -> dict[str, Any]:  # fmt: skip
        """A reservation, of one unit for ten minutes; fails the test when that is refused."""
        term = {"resource": resource, "units": units}
        body = {
            "key": f"seed-{user}-{resource.replace('/', '-')}-{start}",
            "hold": hold,
            "hold_s": HELD_S,
            "request": {
                "alternatives": [{"terms": [term]}], "duration_s": duration_s,
                "not_before": start, "not_after": start + duration_s,
            },
        }  # fmt: skip
        answer = self.broker.post("/v1/requests", body, self.headers(user, self.broker))
        assert answer.status == 200, answer
        view: dict[str, Any] = answer.value()
        assert view["state"] == ("held" if hold else "reserved"), view
        return view

    def forbidden(self) -> list[str]:
        """Texts that belong to the operator: in no answer, in no log."""
        texts = [str(self.directory), "Traceback", '.py"', "site-packages", "PRIVATE KEY", "sqlite"]
        if self.tokens:
            pem = (self.directory / "people").read_text().splitlines()
            texts += [line for line in pem if line and "-----" not in line]
        return texts


async def closing(socket: aiohttp.ClientWebSocketResponse[bool]) -> tuple[int, str]:
    """The code and the reason with which the server closes; what it says before is left aside."""
    while True:
        message = await socket.receive()
        if message.type is WSMsgType.CLOSE:
            return message.data, message.extra
        assert message.type is WSMsgType.BINARY, message


def check_answer(facility: Facility, answer: Answer, sent: Mapping[str, str]) -> None:
    """A result, or a clear refusal of what the caller did; never ours, and nothing of ours in it."""
    assert answer.status < 500, answer
    if answer.status >= 400:
        answer.problem()
    text = answer.body.decode(errors="replace")
    for secret in (*facility.forbidden(), sent.get("Authorization", "-" * 99).partition(" ")[2]):
        assert not secret or secret not in text, (secret, answer)


def check_logs(facility: Facility) -> None:
    """Nothing unforeseen happened since the last look, and no secret was written down."""
    for server in facility.servers.values():
        text = server.new_log()
        for secret in ("call_failed", "Traceback", "eyJ", "PRIVATE KEY", "Task exception", "alarm"):
            assert secret not in text, text[-4_000:]


@contextlib.contextmanager
def facility(directory: Path, *, tokens: bool) -> Iterator[Facility]:
    running = Facility(directory, tokens=tokens)
    try:
        yield running
    finally:
        codes = running.stop()
    assert codes == [0, 0, 0, 0], "every server stops gracefully after all this"
    check_logs(running)


def _ended(audited: dict[str, Any]) -> bool:
    return audited["state"] == "closed" and not audited.get("chosen")


_LIMITS = """
calls_per_s = 1e9
calls_burst = 1000000000
"""


_UNIX_USERS = 'users = { anna = "nobody" }' if os.geteuid() == 0 else ""


def _keys(section: str, tokens: bool) -> str:
    if not tokens:
        return ""
    return f"""
[[{section}.keys]]
file = "people.pub"
scopes = ["use", "audit", "admin"]
[[{section}.keys]]
file = "broker.pub"
issuer = "broker"
scopes = ["broker"]
"""


def _site(name: str, tokens: bool) -> str:
    return f"""
[log]
level = "info"
form = "json"
[site]
name = "{name}"
listen = "127.0.0.1:0"
store = "{name}.sqlite"
{_keys("site", tokens)}
[site.limits]
held_per_principal_max = 1000000
promised_per_principal_max = 1000000
{_LIMITS}
[[site.resources]]
name = "cluster"
capacity = 8
[[site.resources]]
name = "vault"
attributes = {{ kind = "vault" }}
[[site.resources.access]]
name = "staff only"
who = "group:staff"
may = "lock"
[[site.resources]]
name = "microscope"
[[site.resources.limits]]
name = "owner"
who = "everyone"
approval = true
[[site.resources]]
name = "press"
capacity = {PRESS_NODES}
grain = "1s"
[[site.machines]]
resource = "press"
{_UNIX_USERS}
[site.notices]
smtp = "127.0.0.1:1"
from = "kalends@alpha.example"
address = "{{user}}@alpha.example"
"""


def _virtual(beta: str, tokens: bool) -> str:
    return f"""
[log]
level = "info"
form = "json"
[virtual]
name = "hall"
listen = "127.0.0.1:0"
{_keys("virtual", tokens)}
[[virtual.members]]
name = "beta"
url = "{beta}"
"""


def _broker(urls: Mapping[str, str], tokens: bool) -> str:
    sites = "".join(
        f'[[broker.sites]]\nname = "{name}"\nurl = "{url}"\n'
        + ('members = ["beta"]\n' if name == "hall" else "")
        for name, url in urls.items()
    )
    return f"""
[log]
level = "info"
form = "json"
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
{'key = "broker"' if tokens else ""}
{_keys("broker", tokens)}
[broker.limits]
open_per_principal_max = 1000000
{_LIMITS}
[broker.notices]
webhook_hosts = ["127.0.0.1:1"]
{sites}
"""
