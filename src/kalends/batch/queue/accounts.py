"""What users and projects have of a machine, and what their limits leave them.

A job counts from the moment it is queued: with its nodes, and with the node-seconds that it may use at
most. When it is over, what it has really used counts instead, in the period in which it ended. So nobody's
budget is overdrawn, and a job that is queued may start at any time. Of a job in a reservation only counts
that it is there: its nodes are its user's already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sortedcontainers import SortedList

from kalends.batch.queue.facts import JobLimits, Terms
from kalends.batch.queue.job import BatchJob
from kalends.core.errors import LimitExceeded, NotAllowed
from kalends.core.jobs import JobRequest


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


@dataclass(slots=True)
class JobAccounts:
    """Who uses what; and the jobs that a limit holds, in order of submission for each user."""

    terms: Terms
    uses: defaultdict[JobAccount, Use] = field(default_factory=lambda: defaultdict(Use))
    _held: defaultdict[str, SortedList] = field(
        default_factory=lambda: defaultdict(lambda: SortedList(key=lambda job: job.number))
    )

    def check(self, count: int, user: str, request: JobRequest) -> None:
        """Raise where a limit forbids `count` such jobs for good (`NotAllowed`) or now (`LimitExceeded`)."""
        nodes, node_seconds = most_of(request)
        if request.reservation:
            nodes = node_seconds = 0
        for account in accounts_of(user, request.project):
            limits, use = self.limits_of(account), self.uses.get(account, Use())
            whose = f"{account.kind} {account.name}"
            for most, asked, what in (
                (limits.nodes, nodes, "nodes at a time"),
                (limits.longest_s, request.limit_s, "seconds for one job"),
                (limits.node_seconds, node_seconds, "node-seconds in a period"),
            ):
                if most and asked > most:
                    raise NotAllowed(
                        f"{asked} {what}, and {whose} may have {most}",
                        where=account.kind,
                        remedy="ask for less",
                    )
            if limits.jobs and use.jobs + count > limits.jobs:
                raise LimitExceeded(
                    f"{whose} has {use.jobs} jobs, and may have {limits.jobs}",
                    where=account.kind,
                    remedy="wait until some have ended",
                )

    def limits_of(self, account: JobAccount) -> JobLimits:
        return self.terms.user if account.kind == "user" else self.terms.project

    def submitted(self, job: BatchJob) -> None:
        for account in _of(job):
            self.uses[account].jobs += 1

    def may_queue(self, job: BatchJob, now: int) -> bool:
        """Return whether all limits allow the job to run beside all that is queued or runs already."""
        return self.leave_room_for(job.principal.user, job.request, now)

    def leave_room_for(self, user: str, request: JobRequest, now: int) -> bool:
        """Return whether they allow such a job of `user`."""
        if request.reservation:
            return True
        nodes, node_seconds = most_of(request)
        for account in accounts_of(user, request.project):
            limits, use = self.limits_of(account), self.uses.get(account, Use())
            used = use.node_seconds + use.used[now // self.terms.period_s]
            if (
                (limits.running and use.queued >= limits.running)
                or (limits.nodes and use.nodes + nodes > limits.nodes)
                or (limits.node_seconds and used + node_seconds > limits.node_seconds)
            ):
                return False
        return True

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
        self._held[job.principal.user].discard(job)

    def hold(self, job: BatchJob) -> None:
        self._held[job.principal.user].add(job)

    def first_held(self) -> list[BatchJob]:
        """Return the first job of each user that a limit holds: nobody overtakes their own jobs."""
        return [held[0] for held in self._held.values() if held]

    def unhold(self, job: BatchJob) -> None:
        held = self._held[job.principal.user]
        held.discard(job)
        if not held:
            del self._held[job.principal.user]

    def _count(self, job: BatchJob, sign: int) -> None:
        if job.request.reservation:
            return
        nodes, node_seconds = most_of(job.request)
        for account in _of(job):
            use = self.uses[account]
            use.queued += sign
            use.nodes += sign * nodes
            use.node_seconds += sign * node_seconds


def accounts_of(user: str, project: str) -> list[JobAccount]:
    found = [JobAccount("user", user)]
    return [*found, JobAccount("project", project)] if project else found


def _of(job: BatchJob) -> list[JobAccount]:
    return accounts_of(job.principal.user, job.request.project)


def most_of(request: JobRequest) -> tuple[int, int]:
    """Return the nodes and node-seconds that one attempt takes at most."""
    sizes = request.sizes or (request.nodes,)
    return max(sizes), max(nodes * request.limit_on(nodes) for nodes in sizes)
