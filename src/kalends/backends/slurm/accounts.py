"""Ended jobs in Slurm's accounting: `sacct`, and `sacctmgr` for reservations.

Learned from Slurm 22.05: for a job that began in the same second as its reservation, `sacct` shows only the
reservation's number; a requeued job has a record for each time that it ran; a job that ended while slurmdbd
was away is shown as completed before its end is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kalends.backends.adapter import SystemSilent
from kalends.backends.records import FinishedJob, ListFinishedJobs

JOB_FIELDS: Final = (
    "JobIDRaw", "User", "Account", "Reservation", "ReservationId", "AllocNodes", "ElapsedRaw", "Start", "End",
)  # fmt: skip
RESERVATION_FIELDS: Final = ("ID", "Name", "Start", "End")
RESERVATION_TITLES: Final = ("ID", "Name", "TimeStart", "TimeEnd")
"""Titles of the columns of `sacctmgr`."""

NODES_MAX: Final = 200_000
ELAPSED_S_MAX: Final = 10 * 366 * 86_400


class PastReservation(NamedTuple):
    """A time in which the reservation of this number had this name; `end` is 0 while it lasts."""

    number: str
    name: str
    start: int
    end: int

    def held(self, job_start: int) -> bool:
        return self.start <= job_start and (not self.end or job_start <= self.end)


def jobs_command(asked: ListFinishedJobs, *, everyone: bool = False) -> tuple[str, ...]:
    """Return the command that lists jobs of these users, or of all; a restarted job has several records."""
    whose = ("-a",) if everyone else ("-u", ",".join(asked.users))
    return (
        "sacct", "-X", "-D", "-P", *whose, "-S", _written(asked.since),
        "-E", _written(asked.until), f"--format={','.join(JOB_FIELDS)}",
    )  # fmt: skip


def reservations_command(asked: ListFinishedJobs, since: int) -> tuple[str, ...]:
    """Return the command that lists the reservations of jobs that began at or after `since`."""
    return (
        "sacctmgr", "-P", "show", "reservation", f"Start={_written(since)}", f"End={_written(asked.until)}",
        f"format={','.join(RESERVATION_FIELDS)}",
    )  # fmt: skip


class ToldJob(NamedTuple):
    """An ended job, and the number of its reservation ("" for none)."""

    job: FinishedJob
    number: str


def told_jobs(text: str) -> list[ToldJob]:
    """Return the ended jobs of a listing that had nodes; raises `SystemSilent`."""
    found = []
    for fields in _rows(text, JOB_FIELDS):
        number, user, project, name, reservation, nodes, elapsed, start, end = fields
        if not end.isdecimal() or not start.isdecimal():
            continue
        nodes_had, elapsed_s = _number(nodes, NODES_MAX), _number(elapsed, ELAPSED_S_MAX)
        if not nodes_had:
            continue
        job = FinishedJob(
            number, int(start), int(end), nodes_had * elapsed_s, user, project, name
        )  # fmt: skip
        found.append(ToldJob(job, "" if reservation == "0" else reservation))
    return found


def told_reservations(text: str) -> list[PastReservation]:
    """Return the reservations of a listing; raises `SystemSilent`."""
    return [
        PastReservation(number, name, _time_s(start), _time_s(end))
        for number, name, start, end in _rows(text, RESERVATION_TITLES)
    ]


def named(told: ToldJob, known: Sequence[PastReservation]) -> FinishedJob:
    """Return the job with the name of its reservation, as far as it is in `known`."""
    job = told.job
    if job.reservation or not told.number:
        return job
    names = [each.name for each in known if each.number == told.number and each.held(job.start)]
    return FinishedJob(
        job.id, job.start, job.end, job.node_seconds, job.user, job.project, names[0] if names else ""
    )  # fmt: skip


def _rows(text: str, titles: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a listing that has these `titles`, each of them whole."""
    lines = text.split("\n")
    if lines[0].split("|") != list(titles) or lines[-1]:
        raise SystemSilent(f"a listing of another command, or a truncated one: {text[:200]!r}")
    for line in lines[1:-1]:
        fields = line.split("|")
        if len(fields) != len(titles):
            raise SystemSilent(f"a line of accounts that cannot be read: {line[:200]!r}")
        yield fields


def _number(text: str, most: int) -> int:
    if not text.isdecimal() or int(text) > most:
        raise SystemSilent(f"{text[:40]!r} in accounts is not a number")
    return int(text)


def _time_s(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _written(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
