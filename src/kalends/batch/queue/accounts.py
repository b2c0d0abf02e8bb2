"""Use of a machine by users and projects, and what their limits leave them.

A job counts from the moment it is queued: with its nodes, and with the node-seconds that it may use at
most. When it is over, what it has really used counts instead, in the period in which it ended. So nobody's
budget is overdrawn, and a job that is queued may start at any time. Of a job in a reservation only counts
that it is there: its nodes are its user's already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

from sortedcontainers import SortedList

from kalends.batch.queue.facts import (
    JobEnded,
    JobLimits,
    JobShare,
    JobSubmitted,
    JobWithdrawn,
    JournalEntry,
    Terms,
)
from kalends.batch.queue.job import BatchJob
from kalends.calendars.rules.access import is_meant
from kalends.core.durations import format_duration
from kalends.core.errors import LimitExceeded, NotAllowed
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

Liens = Mapping[tuple[str, str], int]
"""Parts of credits that jobs have reserved until they are over, by account and lot of the owner."""


class JobAccount(NamedTuple):
    kind: Literal["user", "project"]
    name: str


@dataclass(slots=True)
class Use:
    """What an account has at present; `node_seconds` are reserved, `used` by period are over."""

    jobs: int = 0
    queued: int = 0
    nodes: int = 0
    node_seconds: int = 0
    used: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class AccountNumbers:
    """Numbers for users and for accounts that share the machine, in order of appearance: for policies."""

    _users: dict[str, int] = field(default_factory=dict)
    _accounts: dict[tuple[str, str], int] = field(default_factory=dict)

    def of_user(self, user: str) -> int:
        return self._users.setdefault(user, len(self._users) + 1)

    def of_account(self, kind: str, name: str) -> int:
        return self._accounts.setdefault((kind, name), len(self._accounts) + 1)


HeldJobs = dict[int, SortedList]
"""Jobs in order of their numbers, by the node-seconds that each may use at most."""


class ReachedLimit(NamedTuple):
    """A limit that is reached: what the `account` may have. `lasts`: until the period is over, perhaps."""

    account: JobAccount
    what: str
    lasts: bool = False

    def __str__(self) -> str:
        return f"{self.account.kind} {self.account.name} may {self.what}"


@dataclass(slots=True)
class JobAccounts:
    """Use of each user and project, and the jobs that a limit holds back, in order of submission."""

    terms: Terms
    granted: Callable[[int, tuple[int, ...]], int]
    """How many nodes a request for so many, and of this shape, takes."""
    uses: defaultdict[JobAccount, Use] = field(default_factory=lambda: defaultdict(Use))
    reserved: Counter[tuple[str, str]] = field(default_factory=Counter)
    """See `Liens`."""
    _held: dict[tuple[str, str], HeldJobs] = field(default_factory=dict)
    """By user and project, for they are under the same limits."""

    def check_project(self, principal: Principal, project: str) -> None:
        """Raise `NotAllowed` unless the owner lets this user have jobs charged to that project."""
        members = self.terms.members
        if not project or not members:
            return
        if not any(is_meant(each, principal) for each in members.get(project, ())):
            own = [
                name
                for name, all_of in members.items()
                if any(is_meant(each, principal) for each in all_of)
            ]
            raise NotAllowed(
                f"you are not a member of project {project} on this machine",
                where="project",
                remedy=f"your projects are {', '.join(own[:10])}"
                if own
                else "leave the project out, or ask the owner",
            )

    def check(self, count: int, user: str, request: JobRequest) -> None:
        """Raise where a limit forbids `count` such jobs for good (`NotAllowed`) or now (`LimitExceeded`)."""
        nodes, node_seconds = self.most_of(request)
        if request.reservation:
            nodes = node_seconds = 0
        for account in accounts_of(user, request.project):
            limits, use = self.limits_of(account), self.uses.get(account, Use())
            whose = f"{account.kind} {account.name}"
            for where, most, asked, words in (
                ("job.nodes", limits.nodes, nodes, "{} nodes at a time".format),
                ("limit_s", limits.longest_s, request.limit_s, _for_one_job),
                ("limit_s", limits.node_seconds, node_seconds, self._in_a_period),
            ):
                if most and asked > most:
                    raise NotAllowed(
                        f"the job asks for {words(asked)}, but {whose} may have {words(most)}",
                        where=where,
                        remedy="ask for less",
                    )
            if limits.jobs and use.jobs + count > limits.jobs:
                raise LimitExceeded(
                    f"{whose} has {use.jobs} jobs, the maximum is {limits.jobs}",
                    where=request.machine,
                    remedy="wait until some have ended",
                )

    def most_of(self, request: JobRequest) -> tuple[int, int]:
        """Return the nodes and node-seconds that one attempt takes at most."""
        taken = [
            (nodes, self.granted(nodes, request.shape))
            for nodes in request.sizes or (request.nodes,)
        ]
        most = max(width for _, width in taken)
        return most, max(width * request.limit_on(nodes) for nodes, width in taken)

    def limits_of(self, account: JobAccount) -> JobLimits:
        return self.terms.user if account.kind == "user" else self.terms.project

    def submitted(self, job: BatchJob) -> None:
        for account in _of(job):
            self.uses[account].jobs += 1
        for share in job.shares:
            self.reserved[share.account, share.lot] += share.amount

    def may_queue(self, job: BatchJob, now: int) -> bool:
        """Return whether all limits allow the job in addition to all queued and running jobs."""
        return self.reached_limit(job.principal.user, job.request, now) is None

    def reached_limit(self, user: str, request: JobRequest, now: int) -> ReachedLimit | None:
        """Return the limit that is in the way of such a job of `user`, the most lasting first."""
        if request.reservation:
            return None
        nodes, node_seconds = self.most_of(request)
        accounts = [
            (account, self.limits_of(account), self.uses.get(account, Use()))
            for account in accounts_of(user, request.project)
        ]
        for account, limits, use in accounts:
            used = use.node_seconds + use.used[now // self.terms.period_s]
            if limits.node_seconds and used + node_seconds > limits.node_seconds:
                return ReachedLimit(
                    account, f"use {self._in_a_period(limits.node_seconds)}", lasts=True
                )
        for account, limits, use in accounts:
            if limits.running and use.queued >= limits.running:
                return ReachedLimit(account, f"run {limits.running} jobs at a time")
            if limits.nodes and use.nodes + nodes > limits.nodes:
                return ReachedLimit(account, f"have {limits.nodes} nodes at a time")
        return None

    def _in_a_period(self, node_seconds: int) -> str:
        return f"{node_seconds / 3_600:g} node-hours in {format_duration(self.terms.period_s)}"

    def left(self, user: str, now: int) -> JobLimits:
        """Return what the limits leave one more job of `user`; -1 nodes: it would be held, 0: no limit."""
        limits, use = self.terms.user, self.uses.get(JobAccount("user", user), Use())
        used = use.node_seconds + use.used[now // self.terms.period_s]
        nodes = (limits.nodes - use.nodes or -1) if limits.nodes else 0
        node_seconds = (limits.node_seconds - used or -1) if limits.node_seconds else 0
        if limits.running and use.queued >= limits.running:
            nodes = -1
        return JobLimits(nodes=nodes, longest_s=limits.longest_s, node_seconds=node_seconds)

    def queued(self, job: BatchJob) -> None:
        """The job may be started from now on."""
        self._count(job, 1)

    def unqueued(self, job: BatchJob) -> None:
        """It is held or withdrawn, and never ran."""
        self._count(job, -1)

    def ended(self, job: BatchJob, node_seconds: int, now: int) -> None:
        """An attempt is over, and has used so much."""
        self._count(job, -1)
        if job.request.reservation:
            return
        for account in _of(job):
            self.uses[account].used[now // self.terms.period_s] += node_seconds

    def over(self, job: BatchJob) -> None:
        for account in _of(job):
            self.uses[account].jobs -= 1
        for share in job.shares:
            self.reserved[share.account, share.lot] -= share.amount
        self.unhold(job)

    def hold(self, job: BatchJob) -> None:
        held = self._held.setdefault(_whose(job), {})
        held.setdefault(self.most_of(job.request)[1], SortedList(key=_number_of)).add(job)

    def first_free(self, now: int) -> BatchJob | None:
        """Return the job with the lowest number that a limit has held, and none does any more.

        Nobody overtakes their own jobs of the same project, but those that wait for another period.
        """
        free = [job for held in self._held.values() if (job := self._first_of(held, now))]
        return min(free, key=lambda job: job.number, default=None)

    def _first_of(self, held: HeldJobs, now: int) -> BatchJob | None:
        too_much: float = inf
        while firsts := [(jobs[0], most) for most, jobs in held.items() if most < too_much]:
            first, most = min(firsts, key=lambda each: _number_of(each[0]))
            job: BatchJob = first
            reached = self.reached_limit(job.principal.user, job.request, now)
            if reached is None:
                return job
            if not reached.lasts:
                return None
            # Whoever is in front and asks for less has been looked at.
            too_much = most
        return None

    def next_due_s(self, now: int) -> int | None:
        """Return when the next period begins, for jobs that may be held until then; None: no such."""
        counted = self.terms.user.node_seconds or self.terms.project.node_seconds
        if not (counted and self._held):
            return None
        return (now // self.terms.period_s + 1) * self.terms.period_s

    def unhold(self, job: BatchJob) -> None:
        held = self._held.get(_whose(job), {})
        most = self.most_of(job.request)[1]
        if most not in held:
            return
        held[most].discard(job)
        if not held[most]:
            del held[most]
        if not held:
            del self._held[_whose(job)]

    def _count(self, job: BatchJob, sign: int) -> None:
        if job.request.reservation:
            return
        nodes, node_seconds = self.most_of(job.request)
        for account in _of(job):
            use = self.uses[account]
            use.queued += sign
            use.nodes += sign * nodes
            use.node_seconds += sign * node_seconds


def liens_of(entries: Iterable[JournalEntry]) -> Counter[tuple[str, str]]:
    """Return what jobs have reserved by the facts alone, where no queue can be made of them.

    Never less than their queue would say: of a job that may run again, or that another one's end has
    withdrawn, it is still reserved.
    """
    shares: dict[int, tuple[JobShare, ...]] = {}
    may_rerun: set[int] = set()
    for said in (each.said for each in entries):
        if isinstance(said, JobSubmitted) and said.pays is not None:
            for place in range(max(len(said.request.indices), 1)):
                shares[said.first + place] = said.pays.shares_of(place)
                if said.request.rerun:
                    may_rerun.add(said.first + place)
        elif isinstance(said, JobWithdrawn) or (
            isinstance(said, JobEnded)
            and not (said.job in may_rerun and said.ending.kind in ("lost", "node-failed"))
        ):
            shares.pop(said.job, None)
    found: Counter[tuple[str, str]] = Counter()
    for share in (each for of_job in shares.values() for each in of_job):
        found[share.account, share.lot] += share.amount
    return found


def _for_one_job(length_s: int) -> str:
    return f"{format_duration(length_s)} for one job"


def _whose(job: BatchJob) -> tuple[str, str]:
    return job.principal.user, job.request.project


def _number_of(job: BatchJob) -> int:
    return job.number


def accounts_of(user: str, project: str) -> list[JobAccount]:
    found = [JobAccount("user", user)]
    return [*found, JobAccount("project", project)] if project else found


def _of(job: BatchJob) -> list[JobAccount]:
    return accounts_of(job.principal.user, job.request.project)
