"""Notices about a job: a few lines for people, the same for programs, without its environment."""

from __future__ import annotations

from typing import Any, Final

from kalends.batch.place_keys import request_of_key
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.milestones import ArrayTally, Milestone
from kalends.batch.views import over_of, view_over
from kalends.contract.job_calls import JobView, end_text
from kalends.core.job_paths import named_path
from kalends.core.jobs import Occasion
from kalends.notices.delivery import Delivery, one_line, utc_text

FAILED_SHOWN_MAX: Final = 20
"""Indices of an array in one delivery."""

AT_ANOTHER_SITE: Final = (
    "Its broker asks other sites for it. If one takes it, that site sends you its notices; if none does, the "
    "job has ended here."
)

_HAS: Final[dict[Occasion, str]] = {"begin": "has begun", "end": "has ended", "fail": "has failed"}


def job_delivery(machine: str, milestone: Milestone, to: str, now: int) -> Delivery:
    """Return the delivery about a milestone, made at `now`; one milestone has the same id each time."""
    job, array = milestone.job, milestone.array
    number = job.array if array is not None else job.number
    name = f"{machine}/{number}"
    attempt = 0 if array is not None else job.attempt
    has = _HAS[milestone.occasion] + (" again" if milestone.again else "")
    view = view_over(over_of(machine, job), whole=True) if job.over else None
    how = _array_words(array) if array is not None else end_text(view) if view else ""
    if goes_on(milestone):
        has, how = "could not start there, and its broker looks for another site", ""
    called = f" ({job.request.name})" if job.request.name else ""
    what = f"array {name}" if array is not None else name
    return Delivery(
        id=f"{name}-{milestone.occasion}-{attempt}-{job.submitted_s}",
        user=job.principal.user,
        to=to,
        subject=f"{what}{called} {has}" + (f": {how}" if how else ""),
        text=_text(name, milestone, end_text(view) if view and not array else how),
        facts=_facts(machine, number, milestone, view),
        made_s=now,
    )


def goes_on(milestone: Milestone) -> bool:
    """Whether it is about a job that a broker has placed and that could not start: other sites are asked."""
    job, ending = milestone.job, milestone.job.ending
    not_started = ending is not None and ending.kind == "not-started"
    return milestone.array is None and job.over and not_started and bool(request_of_key(job.key))


def _text(name: str, milestone: Milestone, how: str) -> str:
    job, array = milestone.job, milestone.array
    rows = [("job", name), ("name", job.request.name), ("user", job.principal.user)]
    rows.append(("project", job.request.project))
    if array is not None:
        rows.append(("array", f"{array.total} jobs"))
    rows.append(("submitted", utc_text(job.submitted_s)))
    if array is None:
        rows += [
            ("started", utc_text(job.started_s) if job.last_nodes else ""),
            ("nodes", ", ".join(map(str, job.last_nodes))),
        ]
    if milestone.occasion == "begin":
        if array is None and job.limit_s:
            rows.append(("until", f"{utc_text(job.started_s + job.limit_s)} at the latest"))
    else:
        rows.append(("over", f"{utc_text(job.over_s)}: {how}"))
    if array is not None and array.failed:
        shown = ", ".join(map(str, sorted(array.failed)[:FAILED_SHOWN_MAX]))
        more = len(array.failed) - FAILED_SHOWN_MAX
        rows.append(("failed", shown + (f" and {more} more" if more > 0 else "")))
    if array is None:
        rows.append(("output", _output(name, job)))
    lines = [f"{title:<10} {one_line(text)}" for title, text in rows if text]
    next_lines = [AT_ANOTHER_SITE] if goes_on(milestone) else []
    look = f"kalends queue {name.rpartition('/')[0]} --over" if array else f"kalends job {name}"
    return "\n".join([*lines, "", *next_lines, f"{look} shows more.", ""])


def _output(name: str, job: BatchJob) -> str:
    request = job.request
    path = named_path(request.output, job.number, job.index, job.principal.user)
    if not path:
        return f"kalends log {name}"
    if path.startswith("/"):
        return path
    return f"{request.directory}/{path}" if request.directory else f"{path}, in your home there"


def _facts(machine: str, number: int, milestone: Milestone, view: JobView | None) -> dict[str, Any]:
    job, array = milestone.job, milestone.array
    facts: dict[str, Any] = {
        "about": "job", "event": milestone.occasion, "machine": machine, "job": number,
        "user": job.principal.user, "name": job.request.name, "project": job.request.project,
        "submitted": job.submitted_s,
    }  # fmt: skip
    if array is not None:
        return {**facts, "array": {"jobs": array.total, "failed": sorted(array.failed)}}
    facts |= {"phase": job.phase, "attempt": job.attempt, "nodes": list(job.last_nodes)}
    if job.last_nodes:
        facts["started"] = job.started_s
    if view is not None:
        facts |= {"over": view.over, "end": view.end, "status": view.status, "detail": view.detail}
    if goes_on(milestone):
        facts["other_sites"] = True
    return facts


def _array_words(array: ArrayTally) -> str:
    if array.left:
        return ""
    failed = len(array.failed)
    return (
        f"{failed} of {array.total} jobs failed" if failed else f"all {array.total} jobs succeeded"
    )
