"""Choice of the way in which a job gets its place, if it may run in several: by its rank, or the owner's aim.

A queue is asked for the start of each way in turn: the job is offered a place, which shows its start, and is
withdrawn before the next. So every start is what the owner's policy gives, and nothing is held but the way
that is chosen. A script of the job only orders these (``rank``): if it fails, the owner's order holds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.world.answers import BadResult, ranked
from kalends.batch.queue.facts import JobPays
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import Conflict, InvalidInput, LimitExceeded, NotAllowed, NotFound
from kalends.core.identifiers import split_resource
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.federation.schedules import Aim, OfferedSchedule, in_order
from kalends.resource_servers.jobs.bid_terms import credits_of, load_of
from kalends.resource_servers.participation.effects import PlaceAsk, RunTask

RANK_S_MAX: Final = 0.3
"""So long a bid waits for the job's script at most: brokers wait a second for all bids."""

WORDS_MAX: Final = 200
"""Characters of the reason why a script was ignored, which its user reads."""

NOT_CHOSEN: Final = "another way to run it was chosen"

TRIAL: Final = "trial"
"""With the hold id and the way, the key of a job that is offered a place to learn its start."""

RunScript = Callable[[RunTask], Awaitable[RunOutcome]]


Step = Callable[[Callable[[BatchQueue, int], Any]], Any]
"""Has the queue take a step, as `QueueService.step` does."""


Reserve = Callable[[Principal, BatchQueue, JobRequest], JobPays | None]
"""Finds what pays for a job, as `Machines.reserve` does."""


class Chosen(NamedTuple):
    """The way that was chosen for a place, and by what; `fault`: why the job's script was ignored."""

    way: int = 0
    by: str = ""
    fault: str = ""


FIRST: Final = Chosen()


def schedules_of(
    step: Step, ask: PlaceAsk, hold_id: int, ways: Sequence[JobRequest], reserve: Reserve
) -> list[OfferedSchedule]:
    """Return when the job would run in each of `ways`, as far as the queue takes it; holds nothing.

    Raises `Unavailable`.
    """
    found = []
    for number, job in enumerate(ways):
        key = f"{TRIAL} {hold_id} {number}"
        with contextlib.suppress(InvalidInput, LimitExceeded, NotAllowed, Conflict, NotFound):
            # In two steps: what a step has begun is told of after it.
            tried, schedule = step(partial(_tried, ask, key, number, job, reserve))
            step(partial(withdraw, tried))
            found.append(schedule)
    return found


def trials_of(queue: BatchQueue) -> list[int]:
    """Return the jobs that were only tried when the site stopped."""
    return [each.number for each in queue.flow.table if each.key.startswith(f"{TRIAL} ")]


def withdraw(number: int, queue: BatchQueue, now: int) -> None:
    """End a job that was only tried."""
    queue.cancel(number, NOT_CHOSEN, now)


def _tried(
    ask: PlaceAsk,
    key: str,
    way: int,
    job: JobRequest,
    reserve: Reserve,
    queue: BatchQueue,
    now: int,
) -> tuple[int, OfferedSchedule]:
    offers, pays = PlaceOffers(queue), reserve(ask.principal, queue, job)
    number = offers.offer(ask.principal, job, key, ask.counted_s, now, pays)
    start = offers.start_by(number, now + ask.counted_s)
    nodes = queue.flow.room.width(job)
    likely = start or backlog_end_s(queue, number, max(now + ask.counted_s, job.not_before))
    runs_s = job.limit_on(job.nodes)
    price = credits_of(queue, queue.job(number), nodes * runs_s)
    schedule = OfferedSchedule(way, job.implementation, nodes, likely, bool(start), runs_s, price)
    return number, schedule


def backlog_end_s(queue: BatchQueue, number: int, now: int) -> int:
    """Return when a machine is through with the jobs before `number`, if all run to their limits, about.

    The bound of list scheduling (Graham 1966): all work, shared by all nodes, and the longest job. It is no
    promise, for wide jobs leave nodes idle.
    """
    before = [each for each in queue.flow.table if each.number < number]
    limits_s = [each.request.limit_on(each.request.nodes) for each in before]
    widths = [queue.flow.room.width(each.request) for each in before]
    work = sum(width * limit_s for width, limit_s in zip(widths, limits_s, strict=True))
    return now + work // max(queue.flow.room.nodes, 1) + max(limits_s, default=0)


def rank_run(
    principal: Principal, source: str, schedules: Sequence[OfferedSchedule], machine: dict[str, Any]
) -> ScriptRun:
    """Return the call of ``rank``, with the schedules in the owner's order."""
    shown = [
        {
            "way": each.way,
            "implementation": each.implementation,
            "nodes": each.nodes,
            "start": each.start,
            "promised": each.promised,
            "runs": each.runs_s,
            "end": each.end,
            "price": each.price,
        }
        for each in schedules
    ]
    return ScriptRun(principal.user, source, "rank", (shown, machine))


def machine_shown(queue: BatchQueue, now: int, *, shared: bool) -> dict[str, Any]:
    """Return what ``rank`` sees of a machine: no more than `kalends machine` shows."""
    return {
        "machine": queue.name,
        "site": split_resource(queue.name)[0],
        "nodes": queue.flow.room.nodes,
        "load": load_of(queue),
        "shared": shared,
        "waiting": sum(not each.on_nodes for each in queue.flow.table),
        "now": now,
    }


async def chosen_way(
    queue: BatchQueue, ask: PlaceAsk, hold_id: int, schedules: Sequence[OfferedSchedule], aim: Aim,
    run: RunScript, now: int, *, shared: bool,
) -> Chosen:  # fmt: skip
    """Return the way of `schedules`, which are not empty, that is offered."""
    ordered = in_order(schedules, aim)
    own = Chosen(ordered[0].way, "aim" if aim else "")
    if not ask.rank or len(ordered) < 2:
        return own
    job = rank_run(ask.principal, ask.rank, ordered, machine_shown(queue, now, shared=shared))
    task = asyncio.ensure_future(run(RunTask(hold_id, ask.rid, job)))
    await asyncio.wait((task,), timeout=RANK_S_MAX)
    if not task.done():
        task.cancel()
        return own._replace(fault="it did not answer in time")
    outcome = task.result()
    if outcome.code != "ok":
        return own._replace(fault=(outcome.detail or outcome.code)[:WORDS_MAX])
    try:
        (best, *_) = ranked(outcome.answer, [each.way for each in ordered])
    except BadResult as error:
        return own._replace(fault=error.detail[:WORDS_MAX])
    return Chosen(best, "rank")
