"""Calls that may have changed something are noted until they are answered: Ctrl-C reports what is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kalends.client.calls import CallSender
from kalends.client.transports.retry import Backoff, ConnectionFailed
from kalends.contract import calls
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation
from kalends.core.errors import NotAllowed, OutcomeUnknown, Unavailable

DRAIN = calls.Drain(on=True)


class Line:
    """A transport whose one call ends as `end` says."""

    def __init__(self, end: Callable[[], Awaitable[Any]]) -> None:
        self.end = end

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        return await self.end()


def sender(end: Callable[[], Awaitable[Any]], unanswered: list[str]) -> CallSender:
    return CallSender(
        Line(end),  # type: ignore[arg-type]  # Nothing but a call is made.
        url="http://broker", timeout_s=1.0, backoff=Backoff(tries_max=1), clock=lambda: 0.0,
        sleep=asyncio.sleep, fraction=lambda: 0.0, unanswered=unanswered,
    )  # fmt: skip


def failing(error: Exception) -> Callable[[], Awaitable[Any]]:
    async def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("name", "error", "raised", "left"),
    [
        ("drain", NotAllowed("no", where="broker", remedy="ask"), NotAllowed, []),
        ("drain", ConnectionFailed("refused", sent=False), Unavailable, []),
        ("drain", ConnectionFailed("closed at Ctrl-C", sent=True), OutcomeUnknown, ["drain"]),
        ("health", ConnectionFailed("closed at Ctrl-C", sent=True), Unavailable, []),
    ],
)
async def test_a_call_is_left_only_if_it_may_have_been_carried_out(
    name: str, error: Exception, raised: type[Exception], left: list[str]
) -> None:
    unanswered: list[str] = []
    body = DRAIN if name == "drain" else calls.Nothing()
    with pytest.raises(raised):
        await sender(failing(error), unanswered).call(body, name, calls.Health)
    assert unanswered == left


async def test_a_change_is_noted_before_it_is_sent_and_stays_if_it_is_cancelled() -> None:
    unanswered: list[str] = []
    sent = asyncio.Event()

    async def wait() -> Any:
        assert unanswered == ["drain"]
        sent.set()
        await asyncio.Event().wait()

    call = asyncio.create_task(sender(wait, unanswered).call(DRAIN, "drain", calls.Health))
    await sent.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert unanswered == ["drain"]
