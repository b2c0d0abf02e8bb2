"""Errands of the site carried to batch systems, and their answers back."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from kalends.backends.adapter import Adapter, carry_out
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    Errand,
    ListFinishedJobs,
    ListSystem,
    SystemAnswer,
)
from kalends.resource_servers.participation.effects import Provision
from kalends.stores.group_commit import StoreFailed

StillOurs = Callable[[], Awaitable[None]]
"""Returns while the life of the site that asks has its store; raises `StoreFailed` after that."""

AT_ONCE: Final = 8
"""Errands to one system at a time: its controller answers others, too."""

_TURNS: Final[Mapping[type[Errand], int]] = {
    DeleteReservation: 0,  # What is freed may be what the next one asks for.
    ChangeReservation: 1,
    CreateReservation: 1,
}


@dataclass(eq=False)
class _Counter:
    """The errands to one system: those that wait, in order, and how many are under way."""

    adapter: Adapter
    waiting: list[tuple[int, int, Provision, StillOurs]] = field(default_factory=list)
    under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def turn(self, errand: Errand) -> asyncio.Lock:
        """Return a lock of the name that `errand` is about.

        An errand that the site has given up may be under way still: where a name can be given twice, one
        that looks by name and then writes must not meet it in between.
        """
        return self._turns.setdefault(_name(errand), asyncio.Lock())


class BatchDesk:
    """Lives through all lives of the site: an answer to an earlier one is heard, and changes nothing."""

    def __init__(
        self, adapters: Mapping[str, Adapter], answered: Callable[[int, SystemAnswer], None]
    ) -> None:
        self._counters = {name: _Counter(adapter) for name, adapter in adapters.items()}
        self._answered = answered
        self._order = itertools.count()

    def carry(self, provisions: Sequence[Provision], still_ours: StillOurs) -> None:
        """Begin these errands, or let them wait for their turn: what gives room back goes first.

        None begins that is not `still_ours`: another process of the site may look after all of it then.
        """
        for each in provisions:
            counter = self._counters[each.system]
            turn = _TURNS.get(type(each.errand), 2)
            heapq.heappush(counter.waiting, (turn, next(self._order), each, still_ours))
            self._serve(counter)

    async def close(self) -> None:
        """Leave everything: what was asked for may be carried out, and the next life finds out."""
        tasks = [task for counter in self._counters.values() for task in counter.under_way]
        for counter in self._counters.values():
            counter.waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, counter: _Counter) -> None:
        while counter.waiting and len(counter.under_way) < AT_ONCE:
            _, _, provision, still_ours = heapq.heappop(counter.waiting)
            task = asyncio.create_task(self._carry(counter, provision, still_ours))
            counter.under_way.add(task)
            task.add_done_callback(counter.under_way.discard)

    async def _carry(self, counter: _Counter, provision: Provision, still_ours: StillOurs) -> None:
        with contextlib.suppress(StoreFailed):
            async with counter.turn(provision.errand):
                await still_ours()
                answer = await carry_out(counter.adapter, provision.errand)
            self._answered(provision.number, answer)
        asyncio.get_running_loop().call_soon(self._serve, counter)


def _name(errand: Errand) -> str:
    """Return which reservation `errand` is about, or what else; "" for all reservations."""
    if isinstance(errand, CreateReservation | ChangeReservation):
        return errand.reservation.name
    if isinstance(errand, ListFinishedJobs):
        return "accounting"  # It may take long, and nothing has to wait for it.
    return "" if isinstance(errand, ListSystem) else errand.name
