"""The audit log: what is written of whom, what never is, and how much at most."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_support import RID, Deeds, ManualClock

from kalends.contract.bodies import Answer
from kalends.contract.calls import OPERATIONS, Health
from kalends.contract.versions import own_version
from kalends.core.errors import Conflict, NotAuthenticated
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.core.requests import Attribute
from kalends.serving.audit_log import (
    READS,
    STRANGER_LINES_BURST,
    USER_LINES_BURST,
    AuditLog,
    RotatingFile,
)
from kalends.serving.auth.callers import ANYONE, Caller
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.tokens import KeyRing, mint
from kalends.serving.http.application import build_application
from kalends.serving.http.runner import Service, listen
from kalends.serving.logs import get_logger
from kalends.serving.metrics import Metrics

KEY = generate_key()
ANN = Caller(Principal("ann"), frozenset({"use"}), "t1", key="k")


class DeedsOfAnn(Deeds):
    """Every request is ann's, and one can only be cancelled once."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = False

    async def show(self, caller: Caller, body: Any) -> Answer:
        return self._view(body.id, ANN)

    async def cancel(self, caller: Caller, body: Any) -> Answer:
        if self.cancelled:
            raise Conflict("it is over")
        self.cancelled = True
        return self._view(body.id, caller)


class Facility:
    """A broker with an audit log, and what it says to problems."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "npaci.audit"
        self.clock = ManualClock()
        self.deeds = DeedsOfAnn()
        self.said: list[str] = []
        self.url = ""

    def token(self, user: str, *scopes: str, **changes: Any) -> str:
        return mint(
            changes.get("key", KEY), user=user, groups=("staff",), audience=("npaci",),
            scopes=scopes, issuer="t", lifetime_s=600, now_s=self.clock.wall_s(),
        )  # fmt: skip

    async def call(self, method: str, path: str, token: str, **body: Any) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.request(method, self.url + path, json=body or None) as response,
        ):
            return response.status

    def lines(self) -> list[dict[str, Any]]:
        if not self.file.exists():
            return []
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@asynccontextmanager
async def facility(folder: Path) -> AsyncIterator[Facility]:
    made = Facility(folder)
    scopes = frozenset({"use", "audit", "admin"})
    ring = KeyRing(
        [TrustedKey(KEY.public_key(), key_id(KEY.public_key()), KeyTerms(scopes=scopes))], "npaci"
    )
    application = build_application(
        role="broker", name="npaci", version=own_version("1"), handlers=made.deeds.handlers("broker"),
        authenticator=ring, metrics=Metrics(role="broker", name="npaci", version="1"),
        logger=get_logger(role="broker", name="npaci"), clock=made.clock,
        report=lambda about, text: made.said.append(text), audit=(made.file, 1_000_000, 3),
    )  # fmt: skip
    listening = await listen(Service("broker npaci", application, "127.0.0.1:0"))
    made.url = listening.url
    try:
        yield made
    finally:
        await listening.stop()


async def test_a_change_is_written_with_who_by_which_token_about_what_and_the_answer(
    tmp_path: Path,
) -> None:
    async with facility(tmp_path) as broker:
        token = broker.token("ann", "use")
        assert await broker.call("POST", f"/v1/requests/{RID}/cancel", token) == 200
        (line,) = broker.lines()
        assert line["at"] == "2023-11-14T22:13:20+00:00"
        wanted = {
            "server": "broker npaci", "call": "cancel", "user": "ann", "groups": ["staff"],
            "key": key_id(KEY.public_key()), "about": {"id": RID}, "answer": "ok",
        }  # fmt: skip
        assert wanted.items() <= line.items()
        assert len(line["token"]) == 16
        assert token not in broker.file.read_text()
        assert broker.file.stat().st_mode & 0o777 == 0o600


async def test_a_call_that_fails_is_written_with_why(tmp_path: Path) -> None:
    async with facility(tmp_path) as broker:
        token = broker.token("ann", "use")
        for _ in range(2):
            await broker.call("POST", f"/v1/requests/{RID}/cancel", token)
        done, failed = broker.lines()
        assert (done["answer"], failed["answer"]) == ("ok", "conflict")
        assert failed["detail"] == "it is over"


async def test_refused_tokens_and_rights_are_written_without_their_text(tmp_path: Path) -> None:
    async with facility(tmp_path) as broker:
        stolen = broker.token("eve", "admin", key=generate_key())
        assert await broker.call("POST", "/v1/drain", stolen, on=True) == 401
        assert await broker.call("POST", "/v1/drain", broker.token("ann", "use"), on=True) == 403
        refused, not_allowed = broker.lines()
        assert (refused["call"], refused["user"], refused["from"]) == ("drain", "", "127.0.0.1")
        assert "does not list" in refused["detail"]
        assert (not_allowed["user"], not_allowed["answer"]) == ("ann", "not-allowed")
        assert stolen.rpartition(".")[2] not in broker.file.read_text()


async def test_what_users_read_is_their_own_affair_and_what_operators_read_of_others_is_written(
    tmp_path: Path,
) -> None:
    async with facility(tmp_path) as broker:
        show = f"/v1/requests/{RID}"
        await broker.call("GET", show, broker.token("ann", "use"))
        await broker.call("GET", show, broker.token("ann", "use", "audit"))
        assert broker.lines() == []
        await broker.call("GET", show, broker.token("olga", "use", "audit"))
        await broker.call("POST", "/v1/audit", broker.token("olga", "audit"), after="")
        assert [(line["call"], line["user"]) for line in broker.lines()] == [
            ("show", "olga"), ("audit", "olga"),
        ]  # fmt: skip


def test_every_call_is_either_one_that_reads_or_one_that_is_written() -> None:
    named = {operation.name for operation in OPERATIONS}
    assert named >= READS
    of_operators = {each.name for each in OPERATIONS if each.scope in ("audit", "admin")}
    assert not of_operators & READS


def audit_log(path: Path, clock: ManualClock, said: list[str]) -> AuditLog:
    return AuditLog(
        (path, 10_000_000, 2), "site sdsc", clock, lambda about, text: said.append(text)
    )


def test_a_flood_is_counted_instead_of_written_and_hides_nobody_else(tmp_path: Path) -> None:
    clock = ManualClock()
    log = audit_log(tmp_path / "a", clock, [])
    refusal = NotAuthenticated("no token was sent")
    for _ in range(STRANGER_LINES_BURST + 500):
        log.refused("book", refusal, ANYONE, "10.0.0.1")
    for _ in range(USER_LINES_BURST + 70):
        log.done("attach", ANN)
    log.done("attach", Caller(Principal("bob"), frozenset({"use"}), "t2"))
    clock.now_s += 60
    log.refused("book", refusal, ANYONE, "10.0.0.1")
    log.done("attach", ANN)
    lines = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert len(lines) == STRANGER_LINES_BURST + USER_LINES_BURST + 3
    assert [line["user"] for line in lines[-3:]] == ["bob", "", "ann"]
    assert [line.get("left_out") for line in lines[-3:]] == [None, 500, 70]


def test_who_has_rights_over_others_is_always_written(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "a", ManualClock(), [])
    operator = Caller(Principal("olga"), frozenset({"admin"}), "t3")
    for _ in range(USER_LINES_BURST + 70):
        log.done("drain", operator, on=True)
    assert len((tmp_path / "a").read_text().splitlines()) == USER_LINES_BURST + 70


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=60), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_newest_lines_are_kept_in_a_bounded_number_of_bytes(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], files_kept: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "a"
    file = RotatingFile(path, 100, files_kept)
    written = [line.replace(b"\n", b" ") + b"\n" for line in lines]
    for line in written:
        file.append(line)
    file.close()
    kept = sorted(path.parent.iterdir(), key=lambda each: (len(each.name), each.name))
    assert len(kept) <= files_kept
    assert all(each.stat().st_size <= 100 for each in kept)
    together = b"".join(each.read_bytes() for each in reversed(kept))
    assert b"".join(written).endswith(together)
    if sum(map(len, written)) <= 100:
        assert together == b"".join(written)


def test_a_file_that_cannot_be_written_is_an_alarm_and_no_call_fails_for_it(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "gone"
    log = audit_log(folder / "a", ManualClock(), said)
    log.done("attach", ANN)
    folder.mkdir()
    log.done("attach", ANN)
    assert said == ["the audit log cannot be written: No such file or directory", ""]
    assert os.listdir(folder) == ["a"]


@pytest.mark.parametrize(
    "call", [each for each in OPERATIONS if each.method == "POST"], ids=lambda each: each.name
)
def test_no_text_of_a_job_or_of_its_user_is_written(call: Any, tmp_path: Path) -> None:
    lines = tmp_path / "lab.audit"
    log = AuditLog((lines, 1_000_000, 2), "site lab", ManualClock(), lambda about, text: None)
    job = JobRequest(
        machine="lab/box", limit_s=60, command=("./solve", "--password", "hunter2"), script="hunter2",
        name="hunter2", directory="/hunter2", input="hunter2", environment={"hunter2": "hunter2"},
        implementation="hunter2",
    )  # fmt: skip
    fields = {each.name for each in msgspec.structs.fields(call.body)}
    said = {"job": job, "on": (Attribute(name="hunter2", operator="=", value="hunter2"),)}
    said |= dict.fromkeys(("source", "text", "message", "pick", "word", "to", "note"), "hunter2")
    body = SimpleNamespace(**{name: value for name, value in said.items() if name in fields})
    caller = Caller(Principal("ann"), frozenset({"use", "admin", "audit"}), "4c1a")
    answer = Health(status="ok", role="site", name="lab", version="1")
    handle: Any = log.watched(call, lambda caller, body: answer)
    handle(caller, body)
    log.close()
    assert "hunter2" not in (lines.read_text() if lines.exists() else "")
    if "job" in fields and call.name in ("job_submit", "job_place"):
        about = json.loads(lines.read_text())["about"]
        assert about["job"] == {"machine": "lab/box", "nodes": 1, "limit_s": 60, "project": ""}
