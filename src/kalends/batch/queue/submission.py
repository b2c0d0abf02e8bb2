"""Checks of a submission to a queue, and its refusals."""

from __future__ import annotations

from kalends.batch.queue import facts as f
from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.handed_over import check_handed_over
from kalends.batch.queue.priority_classes import check_class
from kalends.core import limits
from kalends.core.errors import InvalidInput, LimitExceeded
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal


def check_submission(
    flow: JobFlow, principal: Principal, request: JobRequest, number: int, now: int
) -> None:
    """Raise where such a job, or array of jobs, with this first `number`, is not taken.

    `InvalidInput` for what can never run here, `NotAllowed` and `LimitExceeded` where the owner's limits are
    in the way; of a reservation what `ReservedJobs.check` raises, of a fixed start `Conflict`.
    """
    check_request(flow, principal, request)
    for each in request.after:
        if each.job >= flow.table.next_number:
            raise InvalidInput(
                f"there is no job {each.job} to wait for",
                where="after",
                remedy="submit that job first",
            )
    if request.reservation:
        flow.reserved.check(principal.user, request, now)
    if request.at:
        _check_fixed_start(flow, principal.user, request, number, now)


def check_request(flow: JobFlow, principal: Principal, request: JobRequest) -> None:
    """Raise where such a job is never taken, or is one too many, whatever its reservation or its start is."""
    request.check(from_wire=True)
    if flow.terms.handed_to:
        check_handed_over(request, flow.terms.handed_to)
    flow.accounts.check_project(principal, request.project)
    count = len(request.indices) or 1
    if len(flow.table.jobs) + count > limits.JOBS_MAX:
        raise LimitExceeded(
            f"{len(flow.table.jobs)} jobs wait or run, the maximum is {limits.JOBS_MAX}",
            where=request.machine,
            remedy="submit the jobs later",
            retry_after_s=60.0,
        )
    check_class(flow.terms, principal, request.priority, flow.policy)
    never = flow.room.never_had(request)
    if never:
        raise InvalidInput(
            f"{_counted(request, never)} can never be free on {flow.terms.machine}",
            where="shape" if request.shape else "nodes",
            remedy="ask for fewer nodes, or another shape",
        )
    flow.accounts.check(count, principal.user, request)


def _check_fixed_start(
    flow: JobFlow, user: str, request: JobRequest, number: int, now: int
) -> None:
    if request.at < now:
        raise InvalidInput("that time has passed", where="at", remedy="give a later start")
    reached = flow.accounts.reached_limit(user, request, now)
    if reached is not None:
        raise LimitExceeded(
            str(reached),
            where="at",
            remedy="submit it without a fixed start: it waits until there is room",
        )
    nodes = flow.room.width(request)
    end = request.at + request.limit_on(request.nodes)
    flow.room.check_room(f.NodeClaim(-number, request.at, end, nodes, shape=request.shape), now)


def _counted(request: JobRequest, nodes: int) -> str:
    if request.shape:
        return f"nodes as {'x'.join(map(str, request.shape))}"
    return f"{nodes} nodes"
