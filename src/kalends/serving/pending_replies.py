"""Questions of servers without a session: callers that wait for an answer, and answers to such questions.

Each caller has a separate source, to which the protocol machine's messages go. No session has such a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from aiohttp import web

from kalends.contract import codec
from kalends.contract.agreement import fitted
from kalends.contract.messages import Message
from kalends.contract.versions import version_in
from kalends.core.errors import Conflict, KalendsError
from kalends.core.features import Feature
from kalends.serving.http.application import version_of


class Waiter(NamedTuple):
    """`answer` will be the message that goes to `source`."""

    source: str
    answer: asyncio.Future[Message]


class Waiters:
    """The waiting callers; their sources begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._answers)

    @contextmanager
    def one(self) -> Iterator[Waiter]:
        """Add a caller, which waits as long as the context lasts."""
        self._count += 1
        source = f"{self._prefix}{self._count}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[source] = answer
        try:
            yield Waiter(source, answer)
        finally:
            del self._answers[source]

    def answer(self, source: str, message: Message) -> None:
        """Give `message`, which is durable, to the caller that waits as `source`, and to no other."""
        answer = self._answers.get(source)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def refuse(self, source: str, error: KalendsError) -> None:
        """Raise `error` for the caller that waits as `source`."""
        answer = self._answers.get(source)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def fail(self, error: KalendsError) -> None:
        """Give up all waiting callers; none gets an answer."""
        for source in self._answers:
            self.refuse(source, error)


def answer_to(request: web.Request, message: Message) -> web.Response:
    """Return `message` as the whole body, reduced to the features that the asking server knows.

    Raises `InvalidInput` if the list of its features is unclear, and `Conflict` if it lacks one that this
    answer needs.
    """
    theirs = version_in(request.headers)
    said = fitted(message, version_of(request).features & theirs.features)
    if isinstance(said, Feature):
        raise Conflict(
            f"{theirs}, the asking server, knows nothing of {said.words}",
            remedy="upgrade the server that asks",
        )
    return web.Response(body=codec.encode_msgpack(said), content_type=codec.MSGPACK)
