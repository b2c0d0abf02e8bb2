"""The client's calls about jobs on a machine, for the machine's site, not for a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from kalends.client.inputs.given_values import checked_job, every, milliseconds
from kalends.client.inputs.request_builder import Duration, Time, length_s
from kalends.client.transports.call_line import CallLine
from kalends.contract import history_calls, job_calls
from kalends.contract.job_calls import (
    JobOutput,
    MadeJob,
    MovedJobs,
    ReadOutput,
    SubmitJobs,
    SubmittedJobs,
    WatchJobs,
)
from kalends.contract.terminal_frames import AttachTerminal
from kalends.core.errors import error_from_problem
from kalends.core.jobs import JobRequest
from kalends.core.limits import BODY_BYTES_MAX, JOBS_AT_ONCE_MAX, LISTING_MAX

if TYPE_CHECKING:
    from kalends.client.terminals.job_terminal import JobTerminal


FOLLOW_WAIT_MS: Final = 25_000
"""Duration of one call that waits for output, below the time after which proxies cut silent calls."""


class JobCalls:
    """The part of `kalends.Client` about jobs."""

    def __init__(self, line: CallLine) -> None:
        self._line = line
        self._settings = line.settings

    async def submit(self, job: JobRequest, *, key: str = "") -> job_calls.Submitted:
        """Submit `job` to its machine's queue; return it with its number, once it is durable.

        With `key` the call can be repeated over crashes of the caller: the same key gives the same job.
        Raises `InvalidInput` for a job that can never run there, `NotAllowed` and `LimitExceeded` if
        the owner's limits refuse it; then nothing was submitted.
        """
        body = job_calls.SubmitJob(key=key or self._settings.new_key(), job=checked_job(job))
        return await self._line.call(body, "job_submit", job_calls.Submitted)

    async def submit_many(
        self, jobs: Sequence[JobRequest], *, key: str = ""
    ) -> AsyncIterator[MadeJob]:
        """Submit many jobs to one machine, and yield each with its number, in their order.

        A call takes up to a thousand jobs, all durable when its first one is yielded. With `key` it can be
        repeated, with the same jobs in the same order, and submits none of them again. For the first job that
        is refused, raises like `submit`; `where` begins with its place, ``jobs[3]``. No later job is.
        """
        key, done = key or self._settings.new_key(), 0
        listed = [checked_job(job) for job in every(jobs, where="jobs")]
        for page in pages_of(listed):
            body = SubmitJobs(key=key, machine=page[0].machine, first=done, jobs=page)
            answer = await self._line.call(body, "jobs_submit", SubmittedJobs)
            for made in answer.made:
                yield made
            if answer.refused is not None:
                error = error_from_problem(answer.refused)
                place = f"jobs[{done + len(answer.made)}]"
                error.where = f"{place}.{error.where}" if error.where else place
                raise error
            done += len(page)

    async def jobs(
        self,
        machine: str = "",
        *,
        state: Literal["", "waiting", "running", "over"] = "",
        everyone: bool = False,
        count: int = 1_000,
        before: int = 0,
    ) -> job_calls.Jobs:
        """Return jobs of `machine` ("": of all machines of the site), and the load of its machines.

        `state` "" means waiting and running jobs, in the order of the queue; ``over`` the ended ones, newest
        first, below the number `before`. `everyone` adds the jobs of others, as far as the caller may see
        them.
        """
        body = job_calls.ListJobs(
            machine=machine, state=state, everyone=everyone, count=count, before=before
        )
        return await self._line.call(body, "jobs", job_calls.Jobs)

    async def job(self, machine: str, number: int) -> job_calls.JobView:
        """Return one job, also long after its end. Raises `NotFound`."""
        body = job_calls.JobRef(machine=machine, job=number)
        return await self._line.call(body, "job", job_calls.JobView)

    async def job_news(
        self, known: job_calls.JobView, *, wait_s: float = FOLLOW_WAIT_MS / 1000
    ) -> job_calls.JobNews:
        """Return a job when it differs from `known`, or as it is after `wait_s`.

        A difference is another phase or attempt, or an expected start moved by over a minute and a tenth.
        """
        body = job_calls.WatchJob(
            machine=known.machine, job=known.job, phase=known.phase, attempt=known.attempt,
            expected=known.predicted.expected if known.predicted is not None else 0,
            wait_ms=milliseconds(wait_s),
        )  # fmt: skip
        return await self._line.call(body, "job_watch", job_calls.JobNews)

    async def watch_job(self, machine: str, number: int) -> AsyncIterator[job_calls.JobView]:
        """Yield a job as it is, and then after each change (see `job_news`), until it has ended."""
        view = await self.job(machine, number)
        yield view
        while not view.end:
            heard = await self.job_news(view)
            if heard.is_news:
                view = heard.job
                yield view

    async def moved_jobs(
        self, machine: str, known: MovedJobs | None = None, *, wait_s: float = FOLLOW_WAIT_MS / 1000
    ) -> MovedJobs:
        """Return the caller's jobs on `machine` that have changed since the answer `known`.

        Answers as soon as one has changed, or after `wait_s`. Without `known`, or after a restart of the
        site, answers at once with `skipped`: then list the jobs, and ask for changes since this answer.
        """
        life, after = (known.life, known.after) if known is not None else ("", 0)
        body = WatchJobs(machine=machine, life=life, after=after, wait_ms=milliseconds(wait_s))
        return await self._line.call(body, "jobs_watch", MovedJobs)

    async def watch_jobs(
        self, machine: str, *, until_over: bool = False
    ) -> AsyncIterator[job_calls.JobView]:
        """Yield each waiting or running job of the caller on `machine`, and then each job that has changed.

        Makes one call at a time, however many jobs there are; changed jobs have no predictions. With
        `until_over`, ends when no job waits or runs any more; otherwise never.
        """
        known: set[int] = set()
        moved = await self.moved_jobs(machine)
        while True:
            news = list(moved.jobs)
            if moved.skipped:
                news = list((await self.jobs(machine, count=LISTING_MAX)).jobs)
                gone = known - {view.job for view in news}
                news += [await self.job(machine, number) for number in sorted(gone)]
            for view in news:
                (known.discard if view.end else known.add)(view.job)
                yield view
            if until_over and not known:
                return
            moved = await self.moved_jobs(machine, moved)

    async def hold_job(
        self, machine: str, number: int, *, array: bool = False
    ) -> job_calls.JobView:
        """Keep a waiting job back until it is released. Raises `Conflict` for one that has nodes.

        With `array`, all waiting jobs of its array.
        """
        return await self._change_job(machine, number, "hold", array=array)

    async def release_job(
        self, machine: str, number: int, *, array: bool = False
    ) -> job_calls.JobView:
        """Return a held job to the queue. With `array`, all jobs of its array."""
        return await self._change_job(machine, number, "release", array=array)

    async def kill_job(
        self, machine: str, number: int, *, array: bool = False
    ) -> job_calls.JobView:
        """Withdraw a job that waits, or end one that runs; with `array` all jobs of its array."""
        return await self._change_job(machine, number, "kill", array=array)

    async def job_output(
        self,
        machine: str,
        number: int,
        *,
        stream: Literal["output", "error"] = "output",
        offset: int = 0,
        wait_s: float = 0.0,
        attempt: int = 0,
    ) -> JobOutput:
        """Return a piece of a job's output, from byte `offset` on; waits for more while the job runs.

        From the last attempt, or from number `attempt`. Raises `NotFound` if there was no such attempt.
        """
        body = ReadOutput(
            machine=machine, job=number, stream=stream, offset=offset, wait_ms=milliseconds(wait_s),
            attempt=attempt,
        )  # fmt: skip
        return await self._line.call(body, "job_output", JobOutput)

    async def follow_output(
        self,
        machine: str,
        number: int,
        *,
        stream: Literal["output", "error"] = "output",
        attempt: int = 0,
    ) -> AsyncIterator[bytes]:
        """Yield the output of a job as it is written, from the beginning to its end.

        If the job starts again, the output of that attempt follows. With `attempt`, ends with that attempt.
        """
        offset = before = 0
        while True:
            piece = await self.job_output(
                machine, number, stream=stream, offset=offset, wait_s=FOLLOW_WAIT_MS / 1000,
                attempt=attempt,
            )  # fmt: skip
            if offset and piece.attempt != before:
                offset, before = 0, piece.attempt  # Another attempt writes to another file.
                continue
            before = piece.attempt
            if piece.data:
                yield piece.data
                offset = piece.offset + len(piece.data)
            elif piece.ended:
                return

    async def attach(
        self,
        machine: str,
        number: int,
        *,
        keys: bool = True,
        size: tuple[int, int] = (24, 80),
        whole: bool = False,
    ) -> JobTerminal:
        """Attach to the terminal of a running job; detach from it, or use it by ``async with``.

        With `keys`, takes the keyboard from the terminal that has it, for a window of `size` (rows, columns);
        otherwise only watches. Begins with the last output; with `whole`, with all of it, and then skips
        nothing after a connection that was lost for long. Raises `Conflict` for a job that does not run,
        `InvalidInput` for one without a terminal, `NotAllowed` for another user's job.
        """
        # Imported here because it needs aiohttp, which takes longer to load than all other calls.
        from kalends.client.terminals.job_terminal import JobTerminal

        rows, columns = size
        wish = AttachTerminal(
            machine=machine,
            job=number,
            keys=keys,
            seat=self._settings.new_key(),
            rows=rows,
            columns=columns,
        )
        terminal = JobTerminal(self, self._line.sender(), wish, whole=whole)
        await terminal.join()
        return terminal

    async def job_usage(
        self, machine: str, *, start: Time, end: Time = "now", everyone: bool = False
    ) -> job_calls.UsageView:
        """Return the node-seconds of jobs that ended in ``[start, end)``, by user and project.

        If a batch system is behind the resource, `slots` are the node-seconds reserved and used there.
        """
        first, last = self._settings.period_s(start, end)
        body = job_calls.ShowUsage(machine=machine, start=first, end=last, everyone=everyone)
        return await self._line.call(body, "job_usage", job_calls.UsageView)

    async def slots(
        self,
        machine: str,
        *,
        start: Time,
        end: Time = "now",
        everyone: bool = False,
        count: int = 1_000,
        after: history_calls.SlotPage | None = None,
    ) -> history_calls.SlotPage:
        """Return a page of the reservations of a batch system that end in ``[start, end)``, and their use.

        The first page, or the one after `after`. `everyone` needs the scope ``audit`` or ``admin``.
        """
        first, last = self._settings.period_s(start, end)
        body = history_calls.ReadSlots(
            machine=machine, start=first, end=last, everyone=everyone, count=count,
            after_s=after.next_s if after is not None else 0,
            after_name=after.next_name if after is not None else "",
        )  # fmt: skip
        return await self._line.call(body, "slots", history_calls.SlotPage)

    async def job_history(
        self,
        machine: str,
        *,
        start: Time,
        end: Time = "now",
        by: history_calls.PastBy = "over",
        everyone: bool = False,
        count: int = 1_000,
        after: history_calls.HistoryPage | None = None,
    ) -> history_calls.HistoryPage:
        """Return a page of the jobs that ended (or were submitted, or had nodes) in ``[start, end)``.

        The first page, or the one after `after`. `everyone` needs the scope ``audit`` or ``admin``.
        """
        first, last = self._settings.period_s(start, end)
        body = history_calls.ReadHistory(
            machine=machine, start=first, end=last, by=by,
            everyone=everyone, count=count,
            after_s=after.next_s if after is not None else 0,
            after_job=after.next_job if after is not None else 0,
        )  # fmt: skip
        return await self._line.call(body, "job_history", history_calls.HistoryPage)

    async def past_jobs(
        self,
        machine: str,
        *,
        start: Time,
        end: Time = "now",
        by: history_calls.PastBy = "over",
        everyone: bool = False,
    ) -> AsyncIterator[history_calls.HistoryRow]:
        """Yield all jobs of `job_history`, each page when it is needed."""
        start, end = self._settings.period_s(start, end)
        page: history_calls.HistoryPage | None = None
        while page is None or page.more:
            page = await self.job_history(
                machine, start=start, end=end, by=by, everyone=everyone, after=page
            )
            for row in page.rows:
                yield row

    async def past_slots(
        self, machine: str, *, start: Time, end: Time = "now", everyone: bool = False
    ) -> AsyncIterator[history_calls.SlotRow]:
        """Yield all reservations of `slots`, each page when it is needed."""
        start, end = self._settings.period_s(start, end)
        page: history_calls.SlotPage | None = None
        while page is None or page.more:
            page = await self.slots(machine, start=start, end=end, everyone=everyone, after=page)
            for row in page.rows:
                yield row

    async def machine_plan(self, machine: str) -> job_calls.MachinePlan:
        """Return the schedule of a machine: running jobs, waiting jobs (latest starts) and reservations."""
        body = job_calls.ShowPlan(machine=machine)
        return await self._line.call(body, "machine_plan", job_calls.MachinePlan)

    async def machine_gaps(self, machine: str) -> job_calls.MachineGaps:
        """Return the gaps in which your jobs would start on a machine at once: numbers of nodes, and ends.

        Raises `Unavailable` while they are computed for the first time.
        """
        body = job_calls.FindGaps(machine=machine)
        return await self._line.call(body, "machine_gaps", job_calls.MachineGaps)

    async def machine_delays(
        self, machine: str, nodes: int, duration: Duration, starts: Collection[Time]
    ) -> job_calls.MachineDelays:
        """Return the waiting jobs that a reservation of `nodes` nodes for `duration` would delay.

        One list for each start, of at most ten. Raises `NotFound` if the resource is not a machine, and
        `Unavailable`.
        """
        body = job_calls.FindDelays(
            machine=machine,
            nodes=nodes,
            length_s=length_s(duration),
            starts=tuple(self._settings.time_s(start) for start in every(starts, where="starts")),
        )
        return await self._line.call(body, "machine_delays", job_calls.MachineDelays)

    async def serve_nodes(
        self,
        machine: str,
        what: Literal["drain", "fail", "resume"],
        nodes: Collection[int],
        *,
        detail: str = "",
        until: Time | None = None,
    ) -> job_calls.MachineLoad:
        """Drain, fail or resume nodes of a machine; needs the scope ``admin``.

        Drained nodes are back by themselves at `until`; None: once they are resumed.
        """
        body = job_calls.ServeNodes(
            machine=machine,
            what=what,
            nodes=tuple(dict.fromkeys(every(nodes, where="nodes"))),
            detail=detail,
            until=0 if until is None else self._settings.time_s(until, where="until"),
        )
        return await self._line.call(body, "machine_nodes", job_calls.MachineLoad)

    async def set_policy(self, machine: str, policy: str) -> job_calls.MachineLoad:
        """Switch the policy of a machine; its jobs keep their order. Needs the scope ``admin``."""
        body = job_calls.SetPolicy(machine=machine, policy=policy)
        return await self._line.call(body, "machine_policy", job_calls.MachineLoad)

    async def replan(self, machine: str) -> job_calls.NewPlan:
        """Recompute a machine's plan; return promises that no longer hold. Needs the scope ``admin``."""
        body = job_calls.Replan(machine=machine)
        return await self._line.call(body, "machine_replan", job_calls.NewPlan)

    async def host_lost(self, host: str, *, machine: str = "") -> job_calls.LostHost:
        """Give up a lost host, with one of its machines or all of them. Needs the scope ``admin``.

        The machines move to the present host of their site. Jobs that ran on `host` (its name, or its id)
        end as lost, or run again. Make sure that nothing runs there any more.
        """
        body = job_calls.LoseHost(host=host, machine=machine)
        return await self._line.call(body, "host_lost", job_calls.LostHost)

    async def _change_job(
        self, machine: str, number: int, what: Literal["hold", "release", "kill"], *, array: bool
    ) -> job_calls.JobView:
        body = job_calls.ChangeJob(machine=machine, job=number, what=what, array=array)
        return await self._line.call(body, "job_change", job_calls.JobView)


PAGE_BYTES: Final = BODY_BYTES_MAX // 2
"""Maximum size of the jobs of a call; a single job may be larger."""


def pages_of(jobs: Sequence[JobRequest]) -> Iterator[tuple[JobRequest, ...]]:
    """Yield `jobs` in order, in groups that fit into a call; the same jobs give the same groups."""
    page: list[JobRequest] = []
    size = 0
    for job in jobs:
        more = len(msgspec.msgpack.encode(job))
        if page and (len(page) == JOBS_AT_ONCE_MAX or size + more > PAGE_BYTES):
            yield tuple(page)
            page, size = [], 0
        page.append(job)
        size += more
    if page:
        yield tuple(page)
