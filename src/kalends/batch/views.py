"""Jobs as their users see them, while they are in the queue and ever after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from kalends.batch.job_rights import owns, sees_all
from kalends.batch.journal.contract import JobOver
from kalends.batch.queue.facts import Reason, Terms
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.wait_reasons import WaitReasons
from kalends.contract.history_calls import HistoryRow
from kalends.contract.job_calls import JobView, MachineLoad, NodesOut, PredictedStart
from kalends.core.jobs import JobRequest
from kalends.core.times import format_time
from kalends.machines.spec import machine_from
from kalends.scheduling.policy import promised_start
from kalends.serving.auth.callers import Caller

IN_WORDS: Final[dict[Reason, str]] = {
    "user": "held by its user",
    "operator": "held by an operator",
    "limit": "its user's or project's limit is reached",
    "undecided": "its broker did not confirm in time that it runs here, and its nodes were given to others",
}


def over_of(machine: str, job: BatchJob) -> JobOver:
    """Return what is kept of a job that is over."""
    return JobOver(
        machine=machine, number=job.number, user=job.principal.user, request=job.request,
        submitted=job.submitted_s, over=job.over_s, phase=job.phase, started=job.started_s,
        index=job.index, array=job.array, attempt=job.attempt, node_numbers=job.last_nodes,
        node_seconds=job.node_seconds, credit_seconds=job.credit_seconds, stood_s=job.stood_s,
        detail=job.kill_detail, ending=job.ending, key=job.key if " " in job.key else "",
    )  # fmt: skip


def view_of(
    queue: BatchQueue,
    job: BatchJob,
    predictions: Mapping[int, PredictedStart],
    now: int,
    *,
    whole: bool,
    why: WaitReasons | None = None,
) -> JobView:
    """Return a job that is not over; `whole`: with what only its user and operators may see.

    `why` is for several jobs of a queue at once.
    """
    view = structs.replace(
        _asked(queue.name, job.number, job.principal.user, job.request, whole),
        phase=job.phase, submitted=job.submitted_s, index=job.index, array=job.array,
        reasons=tuple(_reasons(queue, job, now, whole, why)), attempt=job.attempt, node_numbers=job.nodes,
        detail=job.kill_detail if whole else "",
    )  # fmt: skip
    if runs(queue, job):
        view = structs.replace(view, started=job.started_s, stood_s=job.stood_until(now))
    if whole and job.pays is not None:
        view = structs.replace(view, payer=job.pays.account, cost_max=job.pays.most)
    if whole and job.refused:
        view = structs.replace(view, refused=job.refused, refused_at=job.refused_s)
    if queue.flow.terms.handed_to:
        return _seen_from_here(queue, job, view)
    if job.entry is None or not job.on_nodes:
        predicted = predictions.get(job.number)
        if predicted is not None:
            predicted = structs.replace(predicted.not_before(now), firm=_is_firm(queue, job))
        return structs.replace(view, predicted=predicted)
    if job.phase == "changing" and job.entry.before is not None:
        view = structs.replace(
            view, changing_to=job.entry.target, changing_since=job.entry.before.asked_s
        )
    until_s = job.until_s if job.reservation else job.entry.until_s - job.entry.ending_s
    return structs.replace(view, until=max(until_s, 0))


def _is_firm(queue: BatchQueue, job: BatchJob) -> bool:
    """Whether the latest start of a waiting job is kept, whatever others book or submit."""
    if job.reservation:
        return True
    kept = queue.flow.terms.may_delay != "all"
    return (
        kept
        and job.entry is not None
        and bool(promised_start(queue.flow.room.scheduler.policy, job.entry))
    )


def runs(queue: BatchQueue, job: BatchJob) -> bool:
    """Whether an attempt is under way here; one that was handed over waits there until it has begun."""
    waits = queue.flow.terms.handed_to and job.begun_attempt != job.attempt
    return job.under_way and not waits


def _seen_from_here(queue: BatchQueue, job: BatchJob, view: JobView) -> JobView:
    """Return a job that a batch system decides about: it has nodes of that, which has not named them."""
    view = structs.replace(view, node_numbers=())
    if runs(queue, job):
        return structs.replace(view, until=job.started_s + job.request.limit_s)
    if job.phase == "starting":
        said = f"{queue.flow.terms.handed_to} decides when the job starts, and promises no time"
        return structs.replace(view, phase="queued", reasons=(said,))
    return view


def planned_starts(queue: BatchQueue) -> dict[int, PredictedStart]:
    """Return when jobs that wait in reservations begin at the latest."""
    now = queue.last_s
    return {
        planned.job.number: PredictedStart(
            made_at=now, latest=start_s, expected=start_s, p50=start_s, p90=start_s
        )
        for planned in queue.flow.reserved.planned(now)
        if (start_s := planned.start_s)
    }


def view_over(job: JobOver, *, whole: bool) -> JobView:
    """Return a job that is over; `whole`: with what only its user and operators may see."""
    view = structs.replace(
        _asked(job.machine, job.number, job.user, job.request, whole),
        phase=job.phase, submitted=job.submitted, index=job.index, array=job.array,
        started=job.started, over=job.over, attempt=job.attempt, node_numbers=job.node_numbers,
        node_seconds=job.node_seconds, credit_seconds=job.credit_seconds, end="withdrawn",
        stood_s=job.stood_s, detail=job.detail if whole else "",
    )  # fmt: skip
    ending = job.ending
    if ending is None:
        return view
    view = structs.replace(view, end=ending.kind, ran_s=ending.ran_s)
    if not whole:
        return view
    return structs.replace(
        view, status=ending.status, cpu_s=ending.cpu_s, memory_bytes=ending.memory_bytes,
        detail=ending.detail or job.detail,
    )  # fmt: skip


def row_of(job: JobOver, default_class: str) -> HistoryRow:
    """Return the row of a job that is over, for accounts and logs."""
    row = HistoryRow(
        job=job.number, user=job.user, project=job.request.project,
        priority=job.request.priority or default_class, submitted=job.submitted, over=job.over,
        nodes=job.request.nodes, limit_s=job.request.limit_s, node_seconds=job.node_seconds,
        credit_seconds=job.credit_seconds, reservation=job.request.reservation,
        end="withdrawn", attempt=job.attempt, array=job.array, index=job.index,
    )  # fmt: skip
    ending = job.ending
    if ending is None or job.phase == "withdrawn":
        return row
    return structs.replace(
        row, started=job.started, nodes_had=len(job.node_numbers), end=ending.kind,
        status=ending.status, cpu_s=ending.cpu_s, memory_bytes=ending.memory_bytes,
        stood_s=job.stood_s,
    )  # fmt: skip


def load_of(queue: BatchQueue, now: int, left_free: int | None = None) -> MachineLoad:
    """Return a machine at a glance, as it is at `now`: reservations begin without an event of the queue.

    No more than `left_free` nodes are free, for others have nodes of whom the queue does not know.
    """
    cluster = queue.flow.room.scheduler.cluster
    reserved = cluster.reservations.nodes_at(max(now, queue.last_s))
    jobs = list(queue.flow.table)
    running = sum(job.on_nodes and runs(queue, job) for job in jobs)
    decides = queue.flow.terms.handed_to
    free = 0 if decides else max(cluster.free - reserved, 0)
    return MachineLoad(
        machine=queue.name,
        description=queue.flow.terms.machine,
        nodes=queue.flow.room.nodes,
        free=free if left_free is None else min(free, left_free),
        out=cluster.out_of_service,
        reserved=reserved,
        policy=decides or queue.flow.policy,
        waiting=len(jobs) - running,
        running=running,
        out_numbers=tuple(sorted(cluster.out_nodes)),
        out_reasons=_out_reasons(queue),
        policy_disabled=queue.fault,
        configured_policy=decides or queue.flow.configured.policy,
        decides=decides,
    )


def load_aside(machine: str, terms: Terms, host: str) -> MachineLoad:
    """Return a machine that is put aside, because it belongs to another host."""
    nodes = machine_from(terms.machine).nodes
    return MachineLoad(
        machine=machine, description=terms.machine, nodes=nodes, free=0, out=0, reserved=0,
        policy=terms.policy, waiting=0, running=0, aside=host,
    )  # fmt: skip


def _out_reasons(queue: BatchQueue) -> tuple[NodesOut, ...]:
    told: dict[tuple[str, int], list[int]] = {}
    for node, reason in sorted(queue.flow.room.out_reasons.items()):
        until_s = queue.flow.room.back.get(node, 0)
        if reason or until_s:
            told.setdefault((reason, until_s), []).append(node)
    return tuple(
        NodesOut(nodes=tuple(nodes), reason=reason, until=until_s)
        for (reason, until_s), nodes in told.items()
    )


def _asked(machine: str, number: int, user: str, request: JobRequest, whole: bool) -> JobView:
    view = JobView(
        job=number, machine=machine, user=user, phase="", submitted=0, nodes=request.nodes,
        limit_s=request.limit_s, project=request.project, priority=request.priority,
        terminal=request.terminal, piped=request.piped, sizes=request.sizes,
        malleable=request.malleable, at=request.at,
    )  # fmt: skip
    if not whole:
        return view
    command = request.command or (request.script.split("\n", 1)[0],)
    return structs.replace(
        view,
        name=request.name,
        command=command,
        reservation=request.reservation,
        notify=request.notify,
    )


def _reasons(
    queue: BatchQueue, job: BatchJob, now: int, whole: bool, why: WaitReasons | None
) -> list[str]:
    if job.phase == "queued" and not queue.flow.terms.handed_to:
        told = (why or WaitReasons(queue, now)).of(job)
        return [told] if told else []
    if job.phase != "held":
        return []
    said = []
    for reason in sorted(job.reasons):
        if reason == "dependency":
            known = queue.flow.dependencies
            said += [
                f"waits until {known.in_words(each)} has {each.happened}"
                for each in known.unmet(job)
            ]
        elif reason == "time":
            earliest = format_time(job.request.not_before, "UTC")
            said.append(f"begins at {earliest} at the earliest")
        elif reason == "limit" and whole:
            reached = queue.flow.accounts.reached_limit(job.principal.user, job.request, now)
            said.append(str(reached or "earlier jobs of its user are held by a limit"))
        else:
            said.append(IN_WORDS[reason])
    return said


def present(
    caller: Caller,
    queue: BatchQueue,
    state: str,
    predictions: Mapping[int, PredictedStart],
    now: int,
    *,
    everyone: bool,
) -> list[JobView]:
    """Return running jobs by their ends, then those that wait in the order of the queue.

    What is only offered to a job stands in the queue of everyone, and is none of the caller's own yet.
    """
    jobs = [
        job
        for job in queue.flow.table
        if (everyone or (owns(caller, job) and not job.offered))
        and (not state or (state == "running") == (job.on_nodes and runs(queue, job)))
    ]
    running = [job for job in jobs if job.on_nodes and runs(queue, job)]
    waiting = [job for job in jobs if not (job.on_nodes and runs(queue, job))]
    why = WaitReasons(queue, now)
    return [
        view_of(queue, job, predictions, now, whole=sees_all(caller, job.principal.user), why=why)
        for job in (*running, *waiting)
    ]
