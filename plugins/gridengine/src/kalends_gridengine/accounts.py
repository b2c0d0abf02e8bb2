"""Ended jobs in Grid Engine's accounting file, from ``qacct -j``.

It identifies reservations by numbers, and counts slots: a node-second is one of all slots of a host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import FinishedJob, ListFinishedJobs

RULE: Final = re.compile(r"^={62}$\n", re.MULTILINE)
"""Before each job."""

END: Final = "Total System Usage"
"""The line above the sums at the end of each listing."""

NONE: Final = "no jobs running since startup"
"""Printed instead of a listing while there is no accounting file."""

UNDEFINED: Final = "undefined"
"""The task number of a job without tasks, and the reservation number of a job outside reservations."""

SLOTS_MAX: Final = 10_000_000


def jobs_command(asked: ListFinishedJobs) -> tuple[str, ...]:
    """Return the command that lists all jobs that have ended in a time, without their slave tasks."""
    return (
        "qacct", "-E", "-b", _written(asked.since), "-e", _written(asked.until), "-m", "-j",
    )  # fmt: skip


def told_jobs(text: str, slots_of: Mapping[str, int]) -> list[FinishedJob]:
    """Return the jobs of a listing that had nodes; raises `SystemSilent`.

    `slots_of` has the slots of each host; a host that has left the queue counts as the smallest.
    """
    found = []
    smallest = min(slots_of.values(), default=1)
    for fields in _blocks(text):
        try:
            start, end = _time_s(fields["start_time"]), _time_s(fields["end_time"])
            slots = int(fields["slots"])
            reservation = 0 if fields["arid"] == UNDEFINED else int(fields["arid"])
            number, task, host = fields["jobnumber"], fields["taskid"], fields["hostname"]
            user, project = fields["owner"], fields["project"]
        except (KeyError, ValueError) as error:
            raise SystemSilent(
                f"a job that cannot be read ({error}): {str(fields)[:200]}"
            ) from error
        if not start or end < start:
            continue  # The job could not be started.
        if not 0 < slots <= SLOTS_MAX or not number.isdecimal():
            raise SystemSilent(f"a job that cannot be read: {str(fields)[:200]}")
        each = slots_of.get(host, smallest)
        found.append(
            FinishedJob(
                id=f"{number}.{task}" if task.isdecimal() and task != "0" else number,
                start=start,
                end=end,
                node_seconds=(end - start) * slots // max(each, 1),
                user=user,
                project="" if project == "NONE" else project,
                reservation=str(reservation) if reservation else "",
            )
        )
    return found


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each job; a listing without its end is truncated."""
    jobs, found, _ = text.partition(f"\n{END}")
    if not found and text.startswith(END):
        return
    if not found or not RULE.match(jobs):
        raise SystemSilent(f"a listing of another command, or a truncated one: {text[:200]!r}")
    for block in RULE.split(jobs)[1:]:
        pairs = (line.split(None, 1) for line in block.splitlines())
        yield {each[0]: each[1].strip() if len(each) > 1 else "" for each in pairs if each}


def _time_s(text: str) -> int:
    """Return a time as ``ctime`` writes it; 0 for ``-/-``."""
    if text == "-/-":
        return 0
    return int(datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp())


def _written(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%d%H%M.%S")
