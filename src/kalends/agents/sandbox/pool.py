"""Workers ahead of need, from a zygote that is replaced when it dies and before it gets old.

Spares are made between runs, so that no run waits for a fork. All that a zygote ever forked has the
same layout of memory, which helps an attacker who has learnt some of it: so it is not kept for long, and
not after a worker has crashed, which is what a wrong guess of that layout looks like.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

from kalends.agents.sandbox.witness import REMEDY, expect_death, expect_work
from kalends.agents.sandbox.zygote_process import Recipe, SandboxUnavailable, Worker, Zygote

ZYGOTE_S_MAX: Final = 3_600.0
ZYGOTE_WORKERS_MAX: Final = 10_000
AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 5.0
"""The pause before a zygote that did not start is tried again; it doubles."""


class PoolClosed(Exception):
    """The pool has no workers any more."""


class WorkerPool:
    """Hands out workers, each for one job. Made by `open`."""

    def __init__(self, recipe: Recipe, spares: int, zygote_workers_max: int) -> None:
        self.engine = ""
        """Version of the workers' engine; the last known while there is no zygote."""
        self.walls: list[str] = []
        """As of the zygote."""
        self._closed = False
        self._recipe = recipe
        self._spares_wanted = spares
        self._zygote_workers_max = zygote_workers_max
        self._zygote: Zygote | None = None
        self._retired: set[Zygote] = set()
        self._spares: deque[Worker] = deque()
        self._ordered = 0
        self._waiting: deque[asyncio.Future[Worker]] = deque()
        self._renew = asyncio.Event()
        self._began_s = 0.0
        self._suspected: asyncio.TimerHandle | None = None
        self._tending: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, recipe: Recipe, spares: int, zygote_workers_max: int = ZYGOTE_WORKERS_MAX
    ) -> WorkerPool:
        """Start, with the proof that the wall stands; raises `SandboxUnavailable`."""
        pool = cls(recipe, spares, zygote_workers_max)
        try:
            pool._use(await pool._start_zygote())
        except SandboxUnavailable:
            await pool.close()
            raise
        pool._tending = asyncio.create_task(pool._tend())
        return pool

    async def take(self, *, spare: bool = True) -> Worker:
        """Return a worker, at once when there is a spare; `release` it in any case.

        Without `spare` it is one that is made now. Raises `PoolClosed`.
        """
        if self._closed:
            raise PoolClosed
        while spare and self._spares:
            worker = self._spares.popleft()
            if not worker.ended:
                return worker
            worker.close()
        waiting: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._refill()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiting.remove(waiting)
            elif waiting.exception() is None:
                self.release(waiting.result())
            raise

    def release(self, worker: Worker) -> None:
        """End `worker`, and have the next one made."""
        worker.close()
        self._refill()

    def suspect(self, age_s_min: float) -> None:
        """Have the zygote replaced once it has that age: crashes must not keep the host busy.

        Who has made a worker crash may know the layout of the others.
        """
        loop = asyncio.get_running_loop()
        if self._suspected is None and not self._closed:
            self._suspected = loop.call_at(self._began_s + age_s_min, self._renew.set)

    async def close(self) -> None:
        """Kill every worker and end every zygote; waiting callers get `PoolClosed`."""
        self._closed = True
        if self._suspected is not None:
            self._suspected.cancel()
        if self._tending is not None:
            self._tending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tending
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(PoolClosed())
        zygotes = [*self._retired, *([self._zygote] if self._zygote else [])]
        self._zygote = None
        await asyncio.gather(*(zygote.close() for zygote in zygotes))
        self._discard_spares()

    def _refill(self) -> None:
        if self._zygote is None:
            return
        waiting = sum(not future.done() for future in self._waiting)
        for _ in range(self._spares_wanted + waiting - len(self._spares) - self._ordered):
            self._ordered += 1
            self._zygote.order()
        if self._zygote.orders >= self._zygote_workers_max:
            self._renew.set()

    def _made(self, zygote: Zygote, worker: Worker) -> None:
        if zygote is not self._zygote:
            worker.close()
            return
        self._ordered -= 1
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(worker)
                return
        self._spares.append(worker)
        worker.on_end(lambda _: self._ended(worker))

    def _ended(self, worker: Worker) -> None:
        """Drop all workers of a kind, because one ended before it was used."""
        if worker in self._spares:
            self._spares.remove(worker)
            worker.close()
            self._renew.set()

    async def _tend(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ZYGOTE_S_MAX):
                    await self._renew.wait()
            await self._replace()

    async def _replace(self) -> None:
        """Start a new zygote, however long that takes, while the old one serves if it still can."""
        self._renew.clear()
        if self._zygote is not None and self._zygote.gone.done():
            self._discard_spares()
            self._zygote = None
        again_s = AGAIN_S
        while True:
            try:
                successor = await self._start_zygote()
            except SandboxUnavailable:
                await asyncio.sleep(again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)
            else:
                break
        self._use(successor)

    def _use(self, zygote: Zygote) -> None:
        old, self._zygote = self._zygote, zygote
        self._began_s = asyncio.get_running_loop().time()
        if self._suspected is not None:
            self._suspected.cancel()
            self._suspected = None
        self.engine = zygote.engine
        self.walls = zygote.walls
        self._ordered = 0
        self._discard_spares()
        if old is not None and not old.gone.done():
            self._retired.add(old)
            old.gone.add_done_callback(lambda _: self._retired.discard(old))
            old.retire()
        zygote.gone.add_done_callback(lambda _: self._lost(zygote))
        self._refill()

    def _lost(self, zygote: Zygote) -> None:
        if zygote is self._zygote:
            self._renew.set()

    def _discard_spares(self) -> None:
        spares, self._spares = self._spares, deque()
        for worker in spares:
            worker.close()

    async def _start_zygote(self) -> Zygote:
        """Return a zygote whose workers passed the test: they die of forbidden calls, and do allowed ones."""
        trial: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()

        def made(zygote: Zygote, worker: Worker) -> None:
            if trial.done():
                self._made(zygote, worker)
            else:
                trial.set_result(worker)

        zygote = Zygote(self._recipe, made)
        try:
            await zygote.ready()
            expect_death(await zygote.witness())
            zygote.order()
            either: list[asyncio.Future[Any]] = [trial, zygote.gone]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not trial.done():
                raise SandboxUnavailable("the zygote ended before its first use", remedy=REMEDY)
            await expect_work(trial.result())
        except BaseException:
            # Also when this is cancelled: nobody else knows of the zygote, and would end it.
            await zygote.close()
            raise
        return zygote
