"""The calls that people make about jobs: submit, list, show, change, read output, sum up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import structs

from kalends.batch.hosts.home_hosts import away
from kalends.batch.job_changes import JobChange, steps_of_array
from kalends.batch.job_rights import is_operator, not_yours, owns, sees_all, whose
from kalends.batch.job_watch import is_news
from kalends.batch.journal.contract import Cursor, ReservedTime
from kalends.batch.machine_host import Machines
from kalends.batch.plans import gaps_within, plan_of
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue_breaks import out_of_work
from kalends.batch.start_prices import machine_delays
from kalends.batch.submissions import submit_job, submit_many
from kalends.batch.terminal_sessions import Seat
from kalends.batch.views import (
    load_aside,
    load_of,
    planned_starts,
    present,
    row_of,
    view_of,
    view_over,
)
from kalends.contract import history_calls as h
from kalends.contract import job_calls as c
from kalends.contract.job_calls import (
    FindDelays,
    JobOutput,
    MachineDelays,
    MovedJobs,
    ReadOutput,
    SubmitJobs,
    SubmittedJobs,
    WatchJobs,
)
from kalends.contract.terminal_frames import AttachTerminal
from kalends.core.errors import Conflict, InvalidInput, NotAllowed, NotFound, Unavailable
from kalends.core.limits import LISTING_MAX
from kalends.scheduling.registry import is_own, policy_maker
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Handler

T = TypeVar("T")

PREDICTED_S: Final = 1.0
"""So long a call waits for fresh predictions; after that it tells those that there are."""

LOOK_AGAIN_S: Final = 5.0
"""So often predictions are looked at for somebody who watches a job that does not move."""

GAPS_S: Final = 5.0
"""So long it waits to hear what could start at once, which takes longer."""


class JobOperations:
    """One handler for each operation about jobs, and the way to their terminals."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def handlers(self) -> dict[str, Handler]:
        return {
            "job_submit": self.submit,
            "jobs_submit": self.submit_many,
            "jobs": self.list_jobs,
            "job": self.show,
            "job_watch": self.watch,
            "jobs_watch": self.watch_all,
            "job_change": self.change,
            "job_output": self.output,
            "job_history": self.history,
            "machine_plan": self.plan,
            "machine_gaps": self.gaps,
            "machine_delays": self.delays,
            "machine_nodes": self.serve_nodes,
            "machine_policy": self.set_policy,
            "machine_replan": self.replan,
        }

    async def submit(self, caller: Caller, body: c.SubmitJob) -> c.Submitted:
        """Answers once the job is durable."""
        queue = self._queue(caller, body.job.machine)
        number, count = await self._machines.called(
            body.job.machine,
            lambda queue, now: submit_job(self._machines, caller, queue, body.job, body.key, now),
        )
        return c.Submitted(job=await self._view(caller, queue, number), count=count)

    async def submit_many(self, caller: Caller, body: SubmitJobs) -> SubmittedJobs:
        self._queue(caller, body.machine)
        return await submit_many(self._machines, caller, body)

    async def list_jobs(self, caller: Caller, body: c.ListJobs) -> c.Jobs:
        aside = tuple(self._aside(caller, body.machine))
        if aside and body.machine:
            return c.Jobs(jobs=(), machines=aside)
        names = [body.machine] if body.machine else list(self._machines.queues)
        queues = [
            self._queue(caller, name)
            for name in names
            if body.machine or self._machines.visible(caller, name)
        ]
        now = self._machines.now_s()
        loads = (*map(self._load, queues), *aside)
        if body.state == "over":
            views = await self._over(caller, queues, body)
        else:
            views = [
                view
                for queue in queues
                for view in present(
                    caller,
                    queue,
                    body.state,
                    await self._predictions(queue),
                    now,
                    everyone=body.everyone,
                )
            ]
        more = len(views) > body.count
        return c.Jobs(jobs=tuple(views[: body.count]), machines=loads, more=more)

    async def show(self, caller: Caller, body: c.JobRef) -> c.JobView:
        return await self._view(caller, self._queue(caller, body.machine), body.job)

    async def watch(self, caller: Caller, body: c.WatchJob) -> c.JobNews:
        """Answers at once with what is news to the caller; predictions are looked at now and then."""
        queue, clock = self._queue(caller, body.machine), asyncio.get_running_loop().time
        deadline_s = clock() + body.wait_ms / 1000
        with self._machines.watch.of(body.machine, body.job) as moved:
            while True:
                moved.clear()
                view = await self._view(caller, queue, body.job)
                left_s = deadline_s - clock()
                news = is_news(view, body, self._machines.now_s())
                if news or left_s <= 0:
                    return c.JobNews(job=view, is_news=news)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), min(left_s, LOOK_AGAIN_S))

    async def watch_all(self, caller: Caller, body: WatchJobs) -> MovedJobs:
        """Answers at once with what has moved since the caller last asked."""
        self._queue(caller, body.machine)
        watch, user = self._machines.watch, caller.principal.user
        clock = asyncio.get_running_loop().time
        deadline_s = clock() + body.wait_ms / 1000
        with watch.of(body.machine, user) as moved:
            while True:
                moved.clear()
                found = watch.since(body.machine, user, body.life, body.after)
                left_s = deadline_s - clock()
                if found.numbers or found.skipped or left_s <= 0:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(moved.wait(), left_s)
        queue = self._queue(caller, body.machine)
        views = [await self._view(caller, queue, each, foreseen=False) for each in found.numbers]
        return MovedJobs(
            machine=queue.name, life=watch.life, after=found.after, jobs=tuple(views),
            skipped=found.skipped,
        )  # fmt: skip

    async def change(self, caller: Caller, body: c.ChangeJob) -> c.JobView:
        queue = self._queue(caller, body.machine)
        job = queue.flow.table.jobs.get(body.job)
        over: c.JobView | None = None
        if job is not None:
            user, array = job.principal.user, job.array
        else:
            over = await self._view(caller, queue, body.job)
            user, array = over.user, over.array
        own, operator = user == caller.principal.user, is_operator(caller)
        if not own and not operator:
            raise not_yours(body.job)
        change = JobChange(body, caller.principal.user, own, operator)
        if body.array:
            for numbers in steps_of_array(queue, array, body.job):
                await self._machines.called(
                    body.machine, partial(change.carry_out, numbers=numbers)
                )
        elif over is None:
            await self._machines.called(body.machine, partial(change.carry_out, numbers=[body.job]))
        elif body.what != "kill":
            raise NotFound(
                f"job {body.job} has ended", where="job", remedy="submit it again to run it again"
            )
        return over or await self._view(caller, queue, body.job)

    async def output(self, caller: Caller, body: ReadOutput) -> JobOutput:
        queue = self._queue(caller, body.machine)
        view = await self._view(caller, queue, body.job)
        if not sees_all(caller, view.user):
            raise not_yours(body.job)
        return await self._machines.output(
            body.machine, body.job, body.stream, body.offset, body.wait_ms / 1000, body.attempt
        )

    async def attach(self, caller: Caller, wish: AttachTerminal) -> Seat:
        """Return a place at the terminal of a job, for its user or an operator.

        Raises `NotFound`, `NotAllowed`, `InvalidInput` where there is none, `Conflict` if it does not run.
        """
        queue = self._queue(caller, wish.machine)
        view = await self._view(caller, queue, wish.job)
        if not sees_all(caller, view.user):
            raise not_yours(wish.job)
        if not view.terminal:
            raise InvalidInput(
                f"job {wish.job} has no terminal", where="job", remedy="read its log instead"
            )
        job = queue.flow.table.jobs.get(wish.job)
        if job is None or not job.under_way or job.phase == "starting":
            raise Conflict(f"job {wish.job} is {view.phase}, not running", where="job")
        place = await self._machines.attach(wish.machine, f"{wish.job}.{job.attempt}")
        return Seat(job.attempt, place)

    async def usage(self, caller: Caller, body: c.ShowUsage) -> c.UsageView:
        self._queue(caller, body.machine)
        user = whose(caller, everyone=body.everyone)
        asked = (body.machine, user, body.start, body.end)
        history = self._machines.history
        rows = await history.use(*asked)
        reserved = await history.reserved_use(*asked)
        return c.UsageView(
            machine=body.machine, start=body.start, end=body.end,
            rows=tuple(c.UsageRow(**row._asdict()) for row in rows),
            reserved=tuple(c.ReservedRow(**row._asdict()) for row in reserved),
        )  # fmt: skip

    async def history(self, caller: Caller, body: h.ReadHistory) -> h.HistoryPage:
        """A page of the jobs that are over; what is durable is told."""
        queue = self._queue(caller, body.machine)
        user = whose(caller, everyone=body.everyone)
        history = self._machines.history
        found = await history.jobs(
            body.machine, user, body.by, body.start, body.end,
            Cursor(body.after_s, body.after_job), body.count + 1,
        )  # fmt: skip
        reserved: Sequence[ReservedTime] = ()
        if body.by == "ran" and not body.after_job:
            reserved = await history.reserved(
                body.machine, user, body.start, LISTING_MAX, end=body.end
            )
        shown = found[: body.count]
        terms, last = queue.flow.terms, shown[-1] if shown else None
        at = (last.submitted if body.by == "submitted" else last.over) if last is not None else 0
        return h.HistoryPage(
            machine=body.machine,
            description=terms.machine,
            nodes=queue.flow.room.nodes,
            classes=terms.classes,
            share_by=terms.fair_share.by,
            shares=terms.fair_share.shares,
            rows=tuple(row_of(each, terms.default_class) for each in shown),
            ending_s=terms.ending_s,
            reserved=tuple(
                h.ReservedSpan(user=each.user, start=each.start, end=each.end, nodes=each.nodes)
                for each in reserved
            ),
            more=len(found) > len(shown),
            next_s=at,
            next_job=last.number if last is not None else 0,
        )

    async def plan(self, caller: Caller, body: c.ShowPlan) -> c.MachinePlan:
        queue = self._deciding(caller, body.machine)
        foreseen = await self._machines.foreseen("starts", queue.name, PREDICTED_S)
        own = [job.number for job in queue.flow.table if sees_all(caller, job.principal.user)]
        now = self._machines.now_s()
        reserved = self._machines.reservations(caller, queue.name)
        load = self._load(queue)
        return plan_of(queue, load, now, foreseen.starts, foreseen.made_at, reserved, own)

    async def gaps(self, caller: Caller, body: c.FindGaps) -> c.MachineGaps:
        """Also within what the limits of the caller leave, and the owner's rules allow."""
        queue = self._deciding(caller, body.machine)
        foreseen = await self._machines.foreseen("gaps", queue.name, GAPS_S)
        if not foreseen.known:
            raise Unavailable(
                f"the free sizes and times of {queue.name} are still being computed",
                where="machine",
                remedy="ask again",
                retry_after_s=GAPS_S,
            )
        now = self._machines.now_s()
        left = queue.flow.accounts.left(caller.principal.user, now)
        most = self._machines.nodes_ever(caller.principal, queue.name)
        nodes = min(left.nodes or most, most) or -1
        gaps = gaps_within(foreseen.gaps, now, nodes, left.longest_s, left.node_seconds)
        made_at = now if foreseen.known == queue.number else foreseen.made_at
        return c.MachineGaps(machine=self._load(queue), made_at=made_at, gaps=gaps)

    async def delays(self, caller: Caller, body: FindDelays) -> MachineDelays:
        """Tell which of the caller's own jobs would be delayed, and by how much.

        Of other users' jobs it tells only how many, and the longest delay.
        """
        queue = self._queue(caller, body.machine)
        own = {job.number for job in queue.flow.table if owns(caller, job)}
        return await machine_delays(self._machines, body, own)

    async def serve_nodes(self, caller: Caller, body: c.ServeNodes) -> c.MachineLoad:
        queue = self._deciding(caller, body.machine)
        if body.until and body.what != "drain":
            raise InvalidInput(
                "only a drain has an end", where="until", remedy="leave it out, or drain the nodes"
            )

        def step(queue: BatchQueue, now: int) -> None:
            if body.what == "drain":
                queue.drain(body.nodes, body.detail, now, body.until)
            elif body.what == "fail":
                queue.fail(body.nodes, body.detail, now)
            else:
                queue.resume(body.nodes, now)

        await self._machines.called(body.machine, step)
        return self._load(queue)

    async def set_policy(self, caller: Caller, body: c.SetPolicy) -> c.MachineLoad:
        """Only policies of ours, and the class that the owner's configuration names."""
        queue = self._deciding(caller, body.machine)
        if is_own(body.policy) and body.policy != self._machines.terms[body.machine].policy:
            raise NotAllowed(
                f"{body.policy} is not in the configuration of {body.machine}",
                where="policy",
                remedy="only the owner can add a policy of another class, in the configuration",
            )
        policy_maker(body.policy)
        await self._machines.called(
            body.machine, lambda queue, now: queue.set_policy(body.policy, now)
        )
        return self._load(queue)

    async def replan(self, caller: Caller, body: c.Replan) -> c.NewPlan:
        queue = self._deciding(caller, body.machine)
        moved = await self._machines.called(body.machine, BatchQueue.replan)
        promises = [
            c.MovedPromise(job=number, before=before, after=after)
            for number, before, after in moved[:LISTING_MAX]
        ]
        return c.NewPlan(
            machine=self._load(queue),
            moved=tuple(promises),
            more=len(moved) > LISTING_MAX,
        )

    def _load(self, queue: BatchQueue) -> c.MachineLoad:
        return load_of(queue, self._machines.now_s(), self._machines.left_free(queue.name))

    def _aside(self, caller: Caller, machine: str) -> Iterator[c.MachineLoad]:
        """Yield `machine`, or ("") all, if put aside: their jobs are not known here."""
        for name, host in self._machines.aside.items():
            if machine in ("", name) and self._machines.visible(caller, name):
                yield load_aside(name, self._machines.terms[name], host)

    def _queue(self, caller: Caller, machine: str) -> BatchQueue:
        aside = self._machines.aside.get(machine)
        if aside is not None and self._machines.visible(caller, machine):
            raise away(machine, aside)
        if machine in self._machines.disabled and self._machines.visible(caller, machine):
            raise out_of_work(machine)
        queue = self._machines.queues.get(machine)
        if queue is None or not self._machines.visible(caller, machine):
            raise NotFound(
                f"no machine {machine} runs jobs here, or you may not see it",
                where="machine",
                remedy="kalends resources lists the machines",
            )
        return queue

    def _deciding(self, caller: Caller, machine: str) -> BatchQueue:
        """Return a queue that decides who runs when; raises `InvalidInput` where a batch system does."""
        queue = self._queue(caller, machine)
        if system := queue.flow.terms.handed_to:
            raise InvalidInput(
                f"{system} alone decides about the jobs of {machine}, and this site does not know its nodes",
                where="machine",
                remedy="use the commands of that batch system",
            )
        return queue

    async def _view(
        self, caller: Caller, queue: BatchQueue, number: int, *, foreseen: bool = True
    ) -> c.JobView:
        job = queue.flow.table.jobs.get(number)
        if job is not None:
            waits = foreseen and job.phase in ("queued", "stopped")
            predictions = await self._predictions(queue) if waits else {}
            whole = sees_all(caller, job.principal.user)
            view = view_of(queue, job, predictions, self._machines.now_s(), whole=whole)
            said = self._machines.words(queue.name, job) if whole else ""
            return structs.replace(view, reasons=(said, *view.reasons)) if said else view
        await self._machines.settled()
        over = await self._machines.history.job(queue.name, number)
        if over is None and number in queue.flow.table.past:
            raise Unavailable(
                "the end of the job is being stored", remedy="ask again", retry_after_s=0.1
            )
        if over is None:
            raise NotFound(
                f"{queue.name} has no job {number}",
                where="job",
                remedy="kalends queue lists those that wait or run",
            )
        return view_over(over, whole=sees_all(caller, over.user))

    async def _predictions(self, queue: BatchQueue) -> Mapping[int, c.PredictedStart]:
        """Return the starts of all that wait: in reservations they are planned, elsewhere predicted."""
        foreseen = await self._machines.foreseen("starts", queue.name, PREDICTED_S)
        return {**foreseen.starts, **planned_starts(queue)}

    async def _over(
        self, caller: Caller, queues: Sequence[BatchQueue], body: c.ListJobs
    ) -> list[c.JobView]:
        user = "" if body.everyone else caller.principal.user
        found: list[c.JobView] = []
        for queue in queues:
            newest = await self._machines.history.newest(
                queue.name, user, body.before, body.count + 1
            )
            found += [view_over(job, whole=sees_all(caller, job.user)) for job in newest]
        return found
