"""A broker's store whose reads answer late: with what was there when they were asked."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kalends.broker.register.contract import Register
from kalends.broker.register.sqlite.broker_store import BrokerStore

NO_READS: Final = frozenset({"believe", "close", "put_aside"})
"""They are awaited, too, and write."""

READS: Final = tuple(
    name
    for name, each in vars(Register).items()
    if inspect.iscoroutinefunction(each) and name not in NO_READS
)


async def at_once(name: str) -> None:
    """No read is late."""


class LateStore(BrokerStore):
    """The real one. Each read has its answer, and then waits for `late`, which is given its name."""

    late: Callable[[str], Awaitable[None]] = staticmethod(at_once)


def _late(name: str) -> Callable[..., Awaitable[Any]]:
    read = getattr(BrokerStore, name)

    async def asked(store: LateStore, *arguments: Any, **keywords: Any) -> Any:
        answer = await read(store, *arguments, **keywords)
        await store.late(name)
        return answer

    return asked


for _name in READS:
    setattr(LateStore, _name, _late(_name))


class Gate:
    """Keeps the answers to reads of these names until it is opened; `asked` counts all reads."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.asked: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def __call__(self, name: str) -> None:
        async with self._changed:
            self.asked[name] += 1
            self._changed.notify_all()
            await self._changed.wait_for(lambda: name not in self.names)

    async def until_asked(self, name: str, count: int = 1) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.asked[name] >= count)

    async def open(self) -> None:
        async with self._changed:
            self.names.clear()
            self._changed.notify_all()
