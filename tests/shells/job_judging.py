"""What really ran on the hosts of machines, against what their users were told."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection
from itertools import pairwise
from typing import Final

import kalends
from kalends.batch.shepherds.facts import Ended
from kalends.contract.history_calls import HistoryRow
from kalends.contract.job_calls import JobView
from tests.shells.facility import Facility
from tests.shells.job_customers import JobCustomers, ToldJob
from tests.shells.job_host import HOSTS, JobHost, Run
from tests.shells.scenarios import Broken
from tests.shells.substitutes import WALL_AT_BEGIN_S

ATTEMPTS_MAX: Final = 3
LATE_S: Final = 20.0
"""A job is asked to end at its limit, and gone a little later."""

UNCHARGED: Final = frozenset({"lost", "node-failed", "not-started", "withdrawn"})
SHORT_S: Final = 10.0
LONG_S: Final = 60.0
LONG_PART: Final = 0.1
"""By so much may the time that is charged fall short of what a program ran, or exceed it: the larger one."""

KILLED_S_MAX: Final = 60.0
"""So long after a wish to end a job was answered nothing of it runs, whatever strikes."""


async def judge_jobs(facility: Facility, customers: JobCustomers) -> None:
    """Raise `Broken` unless all that was told of jobs is true; all is calm, and nothing waits any more."""
    judge_hosts()
    views = [(told, await _view(facility, told)) for told in customers.told]
    for told, view in views:
        _judge(HOSTS[told.site], told, view, customers)
    _nothing_else_ran(customers)
    _reservations_were_kept(facility, customers)
    await _each_end_is_accounted_once(facility, customers, views)
    facility.counts["jobs judged"] += len(views)
    facility.counts["programs"] += sum(len(host.history) for host in HOSTS.values())
    facility.counts.update(Counter(f"jobs {view.end}" for _, view in views))


def judge_hosts(left_out: Collection[str] = ()) -> None:
    """Raise `Broken` where two programs had the same nodes, or something runs though all is over."""
    for host in (each for each in HOSTS.values() if each.name not in left_out):
        if host.broken:
            raise Broken("; ".join(host.broken[:3]))
        alive = [run.name for run in host.history if not run.until_s]
        if alive:
            raise Broken(f"{host.name}: {alive} run although all jobs are over")


async def judge_forgetful(facility: Facility, customers: JobCustomers, restored_s: float) -> None:
    """Raise `Broken` where a site whose store was put back runs something again, or takes one for another.

    Of a job that had not begun then nothing is left, and its number may be another's.
    """
    judge_hosts()
    numbers = Counter((told.site, told.number) for told in customers.told)
    for (site, number), count in numbers.items():
        if count > 1 and any(run.since_s < restored_s for run in _runs_of(HOSTS[site], number)):
            raise Broken(f"{site} gave the number {number} again, which had begun")
    last_told = {(told.site, told.number): told for told in customers.told}
    for (site, user), rows in (await _history(facility, customers)).items():
        found = Counter(row.job for row in rows)
        if twice := sorted(job for job, count in found.items() if count > 1):
            raise Broken(f"jobs {twice} of {user} are accounted twice at {site}")
        for row in rows:
            told = last_told.get((site, row.job))
            if told is not None and told.user == user:
                _is_charged_as_it_ran(facility, told, row)
    for job, told in last_told.items():
        host = HOSTS[told.site]
        runs = [run for run in _runs_of(host, told.number) if run.name not in host.removed]
        if len(runs) > 1 and not told.request.rerun:
            raise Broken(f"{told} ran as {runs}")
        if told.request.rerun and job not in customers.unwanted and not told.request.reservation:
            with contextlib.suppress(kalends.NotFound):
                if (await _shown(facility, told)).end == "killed":
                    raise Broken(f"{told} was ended, and would have done no harm a second time")


async def judge_moved(facility: Facility, customers: JobCustomers) -> None:
    """Raise `Broken` where a site whose store was taken to other hosts has begun something twice."""
    judge_hosts()
    for told in customers.told:
        view = await _view(facility, told)
        runs = sorted(
            (run for host in HOSTS.values() for run in _runs_of(host, told.number)),
            key=lambda run: run.since_s,
        )
        what = (
            f"{told}, told as {view.end} ({view.detail}) at attempt {view.attempt}, ran as {runs}"
        )
        if len(runs) > (ATTEMPTS_MAX if told.request.rerun else 1):
            raise Broken(f"it began too often: {what}")
        if any(next_one.since_s < run.until_s for run, next_one in pairwise(runs)):
            raise Broken(f"it ran twice at a time: {what}")
        if view.end not in ("lost", "withdrawn") and not runs:
            raise Broken(f"it never began: {what}")
        facility.counts[f"jobs {view.end}"] += 1
    facility.counts["told"] += len(customers.told)
    facility.counts["programs"] += sum(len(host.history) for host in HOSTS.values())


async def _shown(facility: Facility, told: ToldJob) -> JobView:
    async with facility.connect(told.site, told.user, timeout_s=10) as client:
        return await client.job(f"{told.site}/cluster", told.number)


async def _view(facility: Facility, told: ToldJob) -> JobView:
    view = await _shown(facility, told)
    if not view.end:
        raise Broken(f"{told} is {view.phase} although everything has had time: {view.reasons}")
    return view


def _runs_of(host: JobHost, number: int) -> list[Run]:
    return [run for run in host.history if run.name.partition(".")[0] == str(number)]


def _judge(host: JobHost, told: ToldJob, view: JobView, customers: JobCustomers) -> None:
    job = told.site, told.number
    wanted, killed_s = job not in customers.unwanted, customers.killed.get(job)
    runs = _runs_of(host, told.number)
    what = f"{told}, told as {view.end} ({view.detail}) at attempt {view.attempt}, ran as {runs}"
    witnessed = [run for run in runs if run.name not in host.removed]
    if len(witnessed) > (ATTEMPTS_MAX if told.request.rerun else 1):
        raise Broken(f"it began too often: {what}")
    if view.end == "withdrawn":
        if any(run.name not in host.deaths for run in runs):
            raise Broken(f"it is told as withdrawn: {what}")
        if wanted and not told.request.reservation:
            raise Broken(f"nobody has withdrawn it: {what}")
    elif not runs:
        raise Broken(f"it never began: {what}")
    elif view.end == "lost":
        if runs[-1].name not in host.deaths:
            raise Broken(f"its shepherd never died: {what}")
    else:
        _as_its_record_says(host, runs[-1], view, what)
    if view.end == "killed" and wanted and not told.request.reservation:
        raise Broken(f"nobody has killed it: {what}")
    if killed_s is not None and any(run.until_s > killed_s + KILLED_S_MAX for run in runs):
        raise Broken(f"it ran on after it was told to end at {killed_s:.1f}: {what}")


def _as_its_record_says(host: JobHost, last: Run, view: JobView, what: str) -> None:
    facts = host.attempts[last.name].facts
    if not isinstance(facts[-1], Ended) or facts[-1].kind != view.end:
        raise Broken(f"its record says {facts[-1]}: {what}")


def _nothing_else_ran(customers: JobCustomers) -> None:
    known = {(told.site, told.number) for told in customers.told}
    for host in HOSTS.values():
        ran = {int(run.name.partition(".")[0]) for run in host.history}
        others = sorted(number for number in ran if (host.name, number) not in known)
        if others:
            raise Broken(f"{host.name} ran jobs {others}, which nobody was told of")


def _reservations_were_kept(facility: Facility, customers: JobCustomers) -> None:
    """In the time of a reservation its nodes were there for its own jobs."""
    for each in customers.reserved:
        own = {
            told.number
            for told in customers.told
            if told.site == each.site and told.request.reservation == each.rid
        }
        runs = [
            run for run in HOSTS[each.site].history if int(run.name.partition(".")[0]) not in own
        ]
        for at_s in (each.start_s + LATE_S, (each.start_s + each.end_s) / 2, each.end_s - 1.0):
            there = [run for run in runs if run.since_s <= at_s < run.until_s]
            used = sum(len(run.nodes) for run in there)
            if used + each.nodes > facility.plan.capacity:
                raise Broken(f"{each} has not all of its nodes at {at_s}: {there}")
        facility.counts["reservations judged"] += 1


async def _each_end_is_accounted_once(
    facility: Facility, customers: JobCustomers, views: list[tuple[ToldJob, JobView]]
) -> None:
    rows = await _history(facility, customers)
    for (site, user), of_user in rows.items():
        found = Counter(row.job for row in of_user)
        expected = Counter(
            told.number for told in customers.told if (told.site, told.user) == (site, user)
        )
        if found != expected:
            raise Broken(
                f"{user} has in the accounts of {site} {found - expected} and not {expected - found}"
            )
        row_of = {row.job: row for row in of_user}
        for told, view in views:
            if (told.site, told.user) != (site, user):
                continue
            row = row_of[told.number]
            if row.end != view.end:
                raise Broken(f"{told} is accounted as {row.end}, and told as {view.end}")
            _is_charged_as_it_ran(facility, told, row)


async def _history(
    facility: Facility, customers: JobCustomers
) -> dict[tuple[str, str], tuple[HistoryRow, ...]]:
    """What each user's jobs at each site are accounted as."""
    found = {}
    for site, user in sorted({(told.site, told.user) for told in customers.told}):
        async with facility.connect(site, user, timeout_s=10) as client:
            page = await client.job_history(f"{site}/cluster", start=0, end=2 * WALL_AT_BEGIN_S)
        found[site, user] = page.rows
    return found


def _is_charged_as_it_ran(facility: Facility, told: ToldJob, row: HistoryRow) -> None:
    """For the last time that it ran, by its host's clock; nothing where that was not its user's doing."""
    charged = row.node_seconds
    if row.end in UNCHARGED:
        if charged:
            raise Broken(f"{told} is {row.end}, and charged {charged} node-seconds")
        return
    run = _runs_of(HOSTS[told.site], told.number)[-1]
    nodes, ran_s = len(run.nodes), run.until_s - run.since_s
    least, most = ran_s - SHORT_S, ran_s + max(LONG_S, ran_s * LONG_PART)
    if not (least - 1) * nodes <= charged <= (most + 1) * nodes:
        raise Broken(f"{told} is charged {charged} node-seconds, and ran as {run}")
    facility.counts["charges judged"] += 1
