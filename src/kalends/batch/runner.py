"""From effects of a queue to shepherds, and from their records to facts for the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from kalends.batch.elsewhere import Elsewhere, Told
from kalends.batch.orders import OrderMaker
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import (
    Action,
    Continue,
    Kill,
    LookUp,
    Relimit,
    Resize,
    StandStill,
    Start,
    Withdraw,
)
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import (
    Begun,
    ChangeAnswered,
    Ended,
    Fact,
    NotStopped,
    Stopped,
    Void,
)
from kalends.batch.shepherds.folders import attempt_of, job_of
from kalends.batch.shepherds.launcher import Launcher
from kalends.batch.shepherds.shepherd_line import ShepherdRefusal
from kalends.batch.shepherds.watch import Wanted
from kalends.core.errors import Conflict, InvalidInput, NotAllowed, Unavailable
from kalends.serving.logs import Logger

AGAIN_S: Final = 1.0
"""After so long what could not be done for want of something, disk space say, is tried again."""

LOOK_S: Final = 0.05

FORGOTTEN: Final = (
    "the machine's store was restored from a backup that is older than this start of the job"
)

A = TypeVar("A")

Report = Callable[[Callable[[BatchQueue, int], None]], None]
"""Does a step with the queue; nothing happens while there is none."""


class ShepherdRunner:
    """Runs the attempts of one machine as processes of this host; the same through all lives of the site."""

    def __init__(
        self,
        machine: str,
        directory: str,
        orders: OrderMaker,
        report: Report,
        logger: Logger,
    ) -> None:
        group = orders.rules.control_group
        self.launcher = Launcher(
            directory, self._heard, failed=self._not_written, groups=str(group or "")
        )
        self._machine = machine
        self._orders = orders
        self._elsewhere = orders.elsewhere
        self._report = report
        self._logger = logger
        self._tasks: set[asyncio.Task[object]] = set()
        self.trouble = ""
        """Why no job can be started now; it is tried again and again."""
        self._releasing: set[str] = set()
        """Attempts that have ended, and may have something left elsewhere."""

    async def start(self) -> None:
        """Raises `InvalidInput` and `Unavailable` as `Launcher.start` does."""
        await self.launcher.start()

    async def close(self) -> None:
        """Stop watching; everything that runs goes on."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.launcher.close()

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Begin what a queue has decided, all of which is durable."""
        starts = [action for action in actions if isinstance(action, Start)]
        if starts:
            self._spawn(self._start(starts))
        looks = [_name(action) for action in actions if isinstance(action, LookUp)]
        if looks:
            self._spawn(self._adopt(looks))
        for action in actions:
            if isinstance(action, Kill):
                self._spawn(self._insist(action, self._kill))
            elif isinstance(action, Relimit):
                self._spawn(self._insist(action, self._relimit))
            elif isinstance(action, Resize | Withdraw):
                self._spawn(self._insist(action, self._change_size))
            elif isinstance(action, StandStill):
                self._spawn(self._insist(action, self._stop))
            elif isinstance(action, Continue):
                self._spawn(self._insist(action, self._let_go_on))

    def hosts(self, start: Start) -> tuple[str, ...]:
        """Return where others reach the nodes of an attempt; raises `InvalidInput` or `NotAllowed`."""
        return self._orders.hosts(start, _name(start))

    async def end_forgotten(self, names: Sequence[str], within_s: float) -> None:
        """End these attempts, which no queue knows; return when nothing of them runs, or after `within_s`.

        What is to be done is done later, then.
        """
        self._spawn(self._end_forgotten(names))
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + within_s
        while True:
            if clock() >= deadline_s or not any(map(self._may_run, names)):
                return
            await asyncio.sleep(LOOK_S)

    async def _end_forgotten(self, names: Sequence[str]) -> None:
        await self._adopt(names)
        for name in names:
            self._spawn(self._insist(name, self._kill_forgotten))

    def _may_run(self, name: str) -> bool:
        try:
            return self.launcher.look(name).state not in (State.ENDED, State.VOID)
        except Unavailable:
            return True

    async def _kill_forgotten(self, name: str) -> None:
        await self.launcher.kill(name, FORGOTTEN)

    async def _start(self, starts: Sequence[Start]) -> None:
        """Make the records, then ask for the shepherds; what can never run ends as not started."""
        while True:
            try:
                await self.launcher.prepare(map(_name, starts))
                self.trouble = ""
                break
            except Unavailable as error:
                self.trouble = error.detail
                self._logger.error("jobs_not_started", machine=self._machine, detail=error.detail)
                await asyncio.sleep(AGAIN_S)
        if self._elsewhere is not None:
            await self._elsewhere.ready(self._silent)
            # What was killed meanwhile is void, and nobody has told the queue.
            decided = [each for each in starts if not self._undecided(_name(each))]
            await self._adopt(list(map(_name, decided)))
            starts = [each for each in starts if each not in decided]
        for start in starts:
            try:
                self.launcher.launch((self._orders.order(start, _name(start)),))
            except (InvalidInput, NotAllowed) as error:
                if self._elsewhere is not None:
                    self._elsewhere.forget(_name(start))
                detail = str(error)[:500]
                self._end(start, f.JobEnding(kind="not-started", detail=detail, of_site=True))
                await self._try(self.launcher.void(_name(start)))

    def _undecided(self, name: str) -> bool:
        """Return whether an attempt that has waited is still to begin."""
        try:
            return self.launcher.look(name).state is State.UNDECIDED
        except Unavailable:
            return True

    async def _adopt(self, names: Sequence[str]) -> None:
        while True:
            try:
                await self.launcher.adopt(names)
                return
            except Unavailable as error:
                self._logger.error("jobs_not_adopted", machine=self._machine, detail=error.detail)
                await asyncio.sleep(AGAIN_S)

    async def _insist(self, action: A, do: Callable[[A], Coroutine[Any, Any, object]]) -> None:
        """Do it until the shepherd has heard it, or is no more."""
        if not await self._try(do(action)):
            await asyncio.sleep(AGAIN_S)
            self._spawn(self._insist(action, do))

    async def _kill(self, kill: Kill) -> None:
        await self.launcher.kill(_name(kill), kill.detail)

    async def _relimit(self, relimit: Relimit) -> None:
        if relimit.job.limit_s == relimit.limit_s:  # Else a later one has been sent.
            limit_s = self._orders.limit_s(relimit.job, relimit.limit_s)
            await self.launcher.prolong(_name(relimit), float(limit_s))
            if self._elsewhere is not None:
                await self._elsewhere.prolong(relimit.job, _name(relimit))

    async def _stop(self, stop: StandStill) -> None:
        """Have an attempt stand still. One whose shepherd cannot do that goes on."""
        if self._elsewhere is not None:
            why = "a program in a batch system cannot be paused and continued"
            self._not_stopped(stop.job.number, stop.attempt, stop.stop, why)
            return
        try:
            await self.launcher.stop(_name(stop), stop.stop)
        except ShepherdRefusal as error:
            self._not_stopped(stop.job.number, stop.attempt, stop.stop, error.detail)

    def _not_stopped(self, number: int, attempt: int, stop: int, why: str) -> None:
        def step(queue: BatchQueue, now: int) -> None:
            if queue.not_stopped(number, attempt, stop, why, now):
                self._logger.warning(
                    "job_not_stopped", machine=self._machine, job=number, detail=why
                )

        self._report(step)

    async def _let_go_on(self, action: Continue) -> None:
        try:
            await self.launcher.go_on(
                _name(action), action.stop, self._orders.cores_of(action.nodes)
            )
        except ShepherdRefusal as error:
            # It still stands still, with nodes: it is to be asked again.
            raise Unavailable(error.detail, where=f"job {_name(action)}") from None

    async def _change_size(self, action: Resize | Withdraw) -> None:
        """Ask for a change, or take it back. A program that cannot be asked keeps its size.

        Of one that has ended meanwhile, its record says when its nodes are free.
        """
        name, change, nodes = _name(action), action.change, action.nodes
        cores = self._orders.cores_of(nodes)
        try:
            if isinstance(action, Withdraw):
                await self.launcher.withdraw(name, change, len(nodes), cores)
            else:
                await self.launcher.change(name, change, len(nodes), cores)
        except ShepherdRefusal as error:
            number = action.job.number
            self._logger.info("size_not_changed", job=number, detail=error.detail)
            if isinstance(action, Resize):
                self._report(lambda queue, now: queue.size_changed(number, change, 0, 0.0, now))

    def _take_wish(self, name: str, number: int, ranks: int) -> None:
        """Have the queue decide whether a program gets the ranks that it wants, or tell it why not."""

        def step(queue: BatchQueue, now: int) -> None:
            try:
                queue.wanted(number, ranks, now)
            except Conflict as error:
                self._spawn(self._try(self.launcher.deny(name, ranks, error.detail)))

        self._report(step)

    async def _try(self, doing: Coroutine[Any, Any, object]) -> bool:
        """Return whether it needs no second try."""
        try:
            await doing
        except Unavailable as error:
            self._logger.warning("shepherd_not_reached", machine=self._machine, detail=str(error))
            return False
        except Conflict:
            pass  # It has ended meanwhile: its record says so.
        return True

    def _end(self, action: Action, ending: f.JobEnding) -> None:
        number, attempt = action.job.number, action.attempt
        self._report(lambda queue, now: queue.ended(number, attempt, ending, now))

    def _heard(self, name: str, fact: Fact | Wanted) -> None:
        """Take a fact of a record; each is told in order, and perhaps again after a restart."""
        number, _, attempt = name.partition(".")
        job, att = int(number), int(attempt)
        if isinstance(fact, Begun):
            at_s = int(fact.at)
            self._report(lambda queue, now: queue.begun(job, att, now, at_s))
        elif isinstance(fact, Void):
            if self._elsewhere is not None:
                self._elsewhere.forget(name)
            self._report(lambda queue, now: queue.void(job, att, now))
        elif isinstance(fact, Ended):
            ending = f.JobEnding(
                kind=cast(f.EndKind, fact.kind), status=fact.status, detail=fact.detail,
                ran_s=fact.ran_s, cpu_s=fact.cpu_s, memory_bytes=fact.memory_bytes,
                strays=fact.strays, of_site=bool(fact.here),
            )  # fmt: skip
            if self._elsewhere is None:
                self._report(lambda queue, now: queue.ended(job, att, ending, now))
            elif name not in self._releasing:
                self._releasing.add(name)
                self._spawn(self._end_elsewhere(self._elsewhere, name, ending))
        elif isinstance(fact, ChangeAnswered):
            changed = fact
            self._report(
                lambda queue, now: queue.size_changed(
                    job, changed.number, changed.ranks, changed.took_s, now, changed.refused
                )
            )
        elif isinstance(fact, Stopped):
            stop = fact.number
            self._report(lambda queue, now: queue.stopped(job, att, stop, now))
        elif isinstance(fact, NotStopped):
            self._not_stopped(job, att, fact.number, fact.why)
        elif isinstance(fact, Wanted):
            self._take_wish(name, job, fact.ranks)

    async def _end_elsewhere(self, elsewhere: Elsewhere, name: str, ending: f.JobEnding) -> None:
        """Tell of an end once nothing is left there: until then its nodes are not free.

        What it used is known of the commands that ran it, and not of the program.
        """
        await elsewhere.release(name, self._silent)
        self._releasing.discard(name)
        elsewhere.forget(name)
        job, attempt = job_of(name), attempt_of(name)
        told = structs.replace(ending, cpu_s=0.0, memory_bytes=0, strays=0)
        self._report(lambda queue, now: queue.ended(job, attempt, told, now))

    def named_by(self, first_life: str) -> None:
        """Know by this first life of the site's store what is ours elsewhere."""
        if self._elsewhere is not None:
            self._elsewhere.first_life = first_life

    async def sweep(self, queue: BatchQueue, told: Told) -> None:
        """End again and again what attempts have left elsewhere that have no nodes at their queue.

        `told` hears of what only bears our names.
        """

        def alive() -> dict[str, BatchJob]:
            return {f"{job.number}.{job.attempt}": job for job in queue.flow.table if job.on_nodes}

        if self._elsewhere is not None:
            await self._elsewhere.sweep(alive, self._silent, told)

    def _silent(self, detail: str) -> None:
        self._logger.warning("batch_system_not_reached", machine=self._machine, detail=detail)

    def _not_written(self, name: str, error: OSError) -> None:
        self._logger.error("record_not_written", machine=self._machine, job=name, detail=str(error))

    def _spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _name(action: Action) -> str:
    return f"{action.job.number}.{action.attempt}"
