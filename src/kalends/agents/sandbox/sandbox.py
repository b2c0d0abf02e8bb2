"""The engine that runs scripts in processes of their own: queue, budget, worker, verdict."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from kalends.agents.runs import RunCost, RunOutcome, ScriptCheck, ScriptRun
from kalends.agents.sandbox.budgets import Budgets, Crashes, Suspensions
from kalends.agents.sandbox.bytecode import BytecodeCache, Compiled
from kalends.agents.sandbox.frames import FrameTooLong, exchange
from kalends.agents.sandbox.lockdown import Allowance
from kalends.agents.sandbox.pool import ZYGOTE_WORKERS_MAX, PoolClosed, WorkerPool
from kalends.agents.sandbox.results import (
    CHECK_BYTES_MAX,
    RESULT_BYTES_MAX,
    BadRunResult,
    RunResult,
    RunVerdict,
    read_result,
    verdict,
)
from kalends.agents.sandbox.turns import Turns
from kalends.agents.sandbox.zygote_process import ENGINE, PERFORM, ExitStatus, Recipe, Worker
from kalends.core.fair_queue import FairQueue
from kalends.core.scripts import RunCode

Alerted = Callable[[str, str], None]
"""Called with a user and what their script did, when it attacked the host."""


class SandboxLimits(NamedTuple):
    """Limits of one run and of one user, of the queue, and of the number of processes.

    `wall_s_max` counts from when a run's turn has come; until then it waits `wait_s_max` at most. That is
    longer: so whoever is first in line has a turn, however long the runs of others are.
    Steps should end a run before processor time does, and that before wall time: only the first is
    the same on every host.

    A crash has the zygote replaced, but not within `zygote_s_min` of its start. Whose scripts crash
    `crashes_max` times is suspended as after an attack.
    """

    steps_max: int = 2_000_000
    cpu_s_max: float = 0.5
    wall_s_max: float = 5.0
    memory_mb_max: int = 96
    cpu_s_per_minute: float = 10.0
    suspended_s: float = 600.0
    crashes_max: int = 3
    zygote_s_min: float = 5.0
    waiting_max: int = 256
    waiting_per_user_max: int = 32
    wait_s_max: float = 6.0
    running_max: int = os.cpu_count() or 1
    spares: int = 2 * (os.cpu_count() or 1)
    bytecode_bytes_max: int = 16 * 1024 * 1024
    zygote_workers_max: int = ZYGOTE_WORKERS_MAX


class Language(NamedTuple):
    """The job of workers (``module:function``), and where to find its version."""

    perform: str = PERFORM
    engine: str = ENGINE


class _Ran(NamedTuple):
    """The end of a job; `result` only if the worker reported it."""

    code: RunCode
    detail: str = ""
    result: RunResult | None = None
    cpu_us: int = 0


class _Refused(Exception):
    """The job's turn does not come."""

    def __init__(self, code: RunCode, detail: str) -> None:
        super().__init__(detail)
        self.ran = _Ran(code, detail)


class Sandbox:
    """An `Engine`: every job in a process of its own that can do nothing but compute. See `start`."""

    def __init__(self, pool: WorkerPool, limits: SandboxLimits, alerted: Alerted) -> None:
        self._pool = pool
        self._limits = limits
        self._alerted = alerted
        self._budgets = Budgets(limits.cpu_s_per_minute)

        def used_s(user: str) -> float:
            return self._budgets.used_s(user, time.monotonic())

        queue: FairQueue[asyncio.Future[None]] = FairQueue(
            limits.waiting_max, limits.waiting_per_user_max, used_s
        )
        self._turns = Turns(
            queue,
            at_once_max=limits.running_max,
            wait_s_max=limits.wait_s_max,
            crowded=lambda: _Refused(*_CROWDED),
        )
        self._suspensions = Suspensions(limits.suspended_s)
        self._crashes = Crashes(limits.suspended_s)
        self._bytecode = BytecodeCache(limits.bytecode_bytes_max)
        self._closed = False

    @classmethod
    async def start(
        cls,
        limits: SandboxLimits | None = None,
        *,
        alerted: Alerted = lambda user, detail: None,
        language: Language | None = None,
    ) -> Sandbox:
        """Start the processes and see that the wall stands; raises `SandboxUnavailable`.

        They end with the thread that this runs in, whatever happens to it; `close` ends them in order.
        """
        limits = limits or SandboxLimits()
        language = language or Language()
        allowance = Allowance(limits.memory_mb_max * 1024 * 1024, limits.cpu_s_max)
        recipe = Recipe(allowance, language.perform, language.engine)
        pool = await WorkerPool.open(recipe, limits.spares, limits.zygote_workers_max)
        return cls(pool, limits, alerted)

    @property
    def engine(self) -> str:
        """Version of the language and of Python that scripts are run by."""
        return self._pool.engine

    @property
    def walls(self) -> list[str]:
        """The walls between a script and this host, in addition to the language: ``seccomp`` and others."""
        return self._pool.walls

    @property
    def running(self) -> int:
        """Jobs that are being done now."""
        return self._turns.taken

    async def check(self, source: str, user: str) -> ScriptCheck:
        """Check a script, see `Engine.check`; a valid one is compiled and kept."""
        known = self._bytecode.get(user, source, self.engine)
        if known is not None:
            return ScriptCheck("ok", functions=known.functions)
        checked, _ = await self._check(source, user)
        return checked

    async def run(self, job: ScriptRun) -> RunOutcome:
        """Run a script, see `Engine.run`, after a check if there was none here."""
        started = time.monotonic()
        known = self._bytecode.get(job.user, job.source, self.engine)
        if known is None:
            checked, known = await self._check(job.source, job.user)
            if known is None:
                return RunOutcome(
                    checked.code,
                    detail=checked.detail,
                    violations=checked.violations,
                    cost=RunCost(wall_us=_us_since(started)),
                    engine=self.engine,
                )
        ran = await self._perform(job.user, _request(job, known, self._limits), RESULT_BYTES_MAX)
        result = ran.result or RunResult(ran.code)
        return RunOutcome(
            ran.code,
            result.answer,
            result.sent,
            ran.detail,
            result.line,
            result.violations,
            RunCost(result.steps, ran.cpu_us, _us_since(started)),
            self.engine,
        )

    async def close(self) -> None:
        """Close, see `Engine.close`. No process is left, and no descriptor."""
        self._closed = True
        self._turns.end(_Refused(*_CLOSED))
        await self._pool.close()
        await self._turns.rest()

    async def _check(self, source: str, user: str) -> tuple[ScriptCheck, Compiled | None]:
        request = {"op": "check", "source": source, "steps_max": self._limits.steps_max}
        ran = await self._perform(user, request, CHECK_BYTES_MAX)
        result = ran.result or RunResult(ran.code)
        checked = ScriptCheck(ran.code, result.violations, result.functions, ran.detail)
        if ran.code != "ok":
            return checked, None
        compiled = Compiled(result.bytecode, result.functions)
        self._bytecode.put(user, source, self.engine, compiled)
        return checked, compiled

    async def _perform(self, user: str, request: dict[str, Any], answer_bytes_max: int) -> _Ran:
        """Do `request` when it is the turn of `user`; return its end, whatever it is."""
        try:
            self._admit(user)
            async with self._turns.one(user):
                # Others of this user's may have spent the budget while this one waited.
                self._admit(user)
                # Not before: what waits, or is refused, is worth no copy.
                body = msgpack.packb(request, unicode_errors="surrogatepass")
                ran = await self._in_worker(user, body, answer_bytes_max)
                if ran.code == "killed" and not self._closed:
                    # The worker was lost. A job changes nothing, so it may be done again; not by a
                    # spare, which may have been lost together with it.
                    ran = await self._in_worker(user, body, answer_bytes_max, spare=False)
                return ran
        except _Refused as refused:
            return refused.ran

    async def _in_worker(
        self, user: str, body: bytes, answer_bytes_max: int, *, spare: bool = True
    ) -> _Ran:
        worker = await self._take(spare=spare)
        # To be forked and to rehearse is not the user's to pay.
        before_us = worker.cpu_us() or 0
        worker.on_end(lambda ending: self._settle(user, ending, before_us))
        try:
            ran = await self._converse(worker, body, answer_bytes_max)
            cpu_us = worker.cpu_us()
            worker.kill()
            if ran is not None and cpu_us is not None:
                # Taking a process apart takes as long as a run, so the caller does not wait for it.
                return ran._replace(cpu_us=cpu_us - before_us)
            ending = await worker.end()
        finally:
            self._pool.release(worker)
        if self._closed or ending is None:
            return ran or _Ran(*(_CLOSED if self._closed else _LOST))
        ran = ran or _Ran(*self._verdict(ending, before_us))
        return ran._replace(cpu_us=max(0, ending.cpu_us - before_us))

    def _verdict(self, ending: ExitStatus, before_us: int) -> RunVerdict:
        return verdict(ending.status, ending.cpu_us - before_us, self._limits.cpu_s_max * 1e6)

    async def _converse(self, worker: Worker, body: bytes, answer_bytes_max: int) -> _Ran | None:
        """Return the result or fault of `worker` within its time; None if it ends without a result."""
        try:
            async with asyncio.timeout(self._limits.wall_s_max):
                answer = await exchange(worker.channel, body, answer_bytes_max)
            if answer is None:
                return None
            result = read_result(answer)
        except TimeoutError:
            return _Ran("limit-wall", f"no answer within {self._limits.wall_s_max:g} s")
        except FrameTooLong as error:
            return _Ran("limit-output", f"the script returns {error}")
        except BadRunResult as error:
            return _Ran("bad-result", f"the answer of the worker is invalid: {error}")
        return _Ran(result.code, result.detail, result)

    async def _take(self, *, spare: bool) -> Worker:
        try:
            async with asyncio.timeout(self._limits.wait_s_max):
                return await self._pool.take(spare=spare)
        except PoolClosed:
            raise _Refused(*_CLOSED) from None
        except TimeoutError:
            raise _Refused("busy", "there are no workers now; try again") from None

    def _settle(self, user: str, ending: ExitStatus | None, before_us: int) -> None:
        """Charge the use of a worker; after an attack, or many crashes, report it and suspend this user."""
        if ending is None:
            return
        now = time.monotonic()
        self._budgets.charge(user, max(0, ending.cpu_us - before_us) / 1e6, now)
        code, detail = self._verdict(ending, before_us)
        if code == "crash":
            self._pool.suspect(self._limits.zygote_s_min)
            crashes = self._crashes.count(user, now)
            if crashes < self._limits.crashes_max:
                return
            detail = f"the script crashed {crashes} interpreters; the last: {detail}"
        elif code != "policy-violation":
            return
        self._suspensions.suspend(user, now)
        self._alerted(user, detail)

    def _admit(self, user: str) -> None:
        """Raise `_Refused` unless `user` may run something now."""
        now = time.monotonic()
        if self._closed:
            raise _Refused(*_CLOSED)
        if (wait_s := self._suspensions.wait_s(user, now)) > 0:
            raise _Refused(
                "policy-violation",
                f"scripts of this user are not run for {wait_s:.0f} s after an attack, or many crashes",
            )
        if (wait_s := self._budgets.wait_s(user, now)) > 0:
            raise _Refused(
                "busy",
                f"scripts of this user have used up {self._limits.cpu_s_per_minute:g} s of"
                f" processor time a minute; try again in {wait_s:.1f} s",
            )


_CLOSED: tuple[RunCode, str] = ("killed", "the server is stopping")
_CROWDED: tuple[RunCode, str] = ("busy", "too many scripts are waiting; try again")
_LOST: tuple[RunCode, str] = ("killed", "the worker of the script was lost; try again")


def _request(job: ScriptRun, compiled: Compiled, limits: SandboxLimits) -> dict[str, Any]:
    return {
        "op": "run",
        "source": job.source,
        "code": compiled.bytecode,
        "function": job.function,
        "arguments": job.arguments,
        "inbox": job.inbox,
        "zones": dict(job.zones),
        "steps_max": limits.steps_max,
    }


def _us_since(started: float) -> int:
    return int((time.monotonic() - started) * 1e6)
