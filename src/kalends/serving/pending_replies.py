"""Callers without a session, each of whom waits for one message of a protocol machine.

Each has a source of its own, to which the machine's messages go; nobody with a session has such a name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kalends.contract.messages import Message
from kalends.core.errors import KalendsError


class Waiter(NamedTuple):
    """`answer` will be the message that goes to `source`."""

    source: str
    answer: asyncio.Future[Message]


class Waiters:
    """The callers that wait now; their sources begin with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._answers)

    @contextmanager
    def one(self) -> Iterator[Waiter]:
        """A new one, who waits as long as the context lasts."""
        self._count += 1
        source = f"{self._prefix}{self._count}"
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[source] = answer
        try:
            yield Waiter(source, answer)
        finally:
            del self._answers[source]

    def answer(self, source: str, message: Message) -> None:
        """`message` is durable: whoever waits as `source` may hear it; nobody else does."""
        answer = self._answers.get(source)
        if answer is not None and not answer.done():
            answer.set_result(message)

    def refuse(self, source: str, error: KalendsError) -> None:
        """Raise `error` at whoever waits as `source`."""
        answer = self._answers.get(source)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def fail(self, error: KalendsError) -> None:
        """Nobody who waits now will be answered."""
        for source in self._answers:
            self.refuse(source, error)
