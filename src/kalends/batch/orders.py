"""From a job that gets nodes to the order for its shepherd: user, cores, environment, limits."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from kalends.batch.elsewhere import Elsewhere
from kalends.batch.host_locale import locale_of_this_host
from kalends.batch.queue.effects import Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.shepherds.order import JobOrder
from kalends.core.job_paths import named_path
from kalends.core.jobs import LimitWarning
from kalends.serving.configuration import MachineConfiguration

MEGABYTE = 1_000_000
FIRST_WINDOW = (24, 80)
"""Rows and columns of a terminal until somebody attaches."""


@dataclass(frozen=True)
class OrderMaker:
    """The owner's rules for running programs. `cores` are those of the host that jobs may use."""

    machine: str
    rules: MachineConfiguration
    cores: tuple[int, ...]
    as_root: bool
    elsewhere: Elsewhere | None = None
    """Where jobs run, if that is not this host."""
    locale: Mapping[str, str] = field(default_factory=locale_of_this_host)
    """Variables of the host's locale."""

    def order(self, start: Start, name: str) -> JobOrder:
        """Return the order of one attempt.

        Raises `InvalidInput` or `NotAllowed` where it cannot run: its user has lost the account, say.
        """
        job, request, rules = start.job, start.job.request, self.rules
        warning, limit_s = request.warning, self.limit_s(job, job.limit_s)
        return JobOrder(
            name=name,
            argv=request.command,
            passage=tuple(self.elsewhere.passage(start, name)) if self.elsewhere else (),
            script=request.script,
            environment=self._environment(start, name),
            user=self._unix_user(job.principal.user),
            listed=self.elsewhere is not None or job.principal.user in rules.users,
            directory=request.directory,
            input=request.input,
            output=named_path(request.output, job.number, job.index, job.principal.user),
            error=named_path(request.error, job.number, job.index, job.principal.user),
            cores=self.cores_of(start.nodes),
            resources=self._resources(),
            umask=int(rules.umask, 8),
            limit_s=float(limit_s),
            warn_s=_warn_s(warning, limit_s),
            warning=warning.signal if warning is not None else "TERM",
            grace_s=float(rules.grace_s),
            terminal=FIRST_WINDOW if request.terminal else (0, 0),
            piped=request.piped,
            attach_s=float(min(rules.attach_s, limit_s)) if request.terminal else 0.0,
            kept_bytes_max=rules.output_mb_max * MEGABYTE,
            malleable=request.malleable,
            processes_max=rules.processes_max,
            memory_bytes_max=rules.memory_mb_max * MEGABYTE,
        )

    def hosts(self, start: Start, name: str) -> tuple[str, ...]:
        """Return where others reach the nodes of an attempt that is about to start.

        Raises `InvalidInput` or `NotAllowed` as `order` does.
        """
        if self.elsewhere is None:
            return (self.rules.address or socket.gethostname(),)
        self.elsewhere.passage(start, name)
        return self.elsewhere.names(name)

    def limit_s(self, job: BatchJob, limit_s: int) -> int:
        """Return how long a program may run before it is asked to end, whose job has `limit_s`."""
        return self.elsewhere.limit_s(job, limit_s) if self.elsewhere else limit_s

    def cores_of(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return the host's cores that these nodes stand for; () where a node is no part of it."""
        each = self.rules.cores_each
        found = [
            self.cores[(node * each + number) % len(self.cores)]
            for node in nodes
            for number in range(each)
        ]
        return tuple(sorted(set(found)))

    def _resources(self) -> dict[str, int]:
        rules = self.rules
        limits = {
            "FSIZE": rules.file_mb_max * MEGABYTE,
            "CORE": rules.core_mb_max * MEGABYTE,
        }
        if rules.control_group is None:
            limits |= {"DATA": rules.memory_mb_max * MEGABYTE, "NPROC": rules.processes_max}
        return {name: limit for name, limit in limits.items() if limit}

    def _unix_user(self, user: str) -> str:
        if self.elsewhere:
            return self.elsewhere.unix_user(user)
        return self.rules.users.get(user, user) if self.as_root else ""

    def _environment(self, start: Start, name: str) -> dict[str, str]:
        job, elsewhere = start.job, self.elsewhere
        nodes = elsewhere.names(name) if elsewhere else map(str, start.nodes)
        said = {
            **variables_of(self.machine, job, len(start.nodes)),
            "KALENDS_NODES": ",".join(nodes),
            **start.said,
        }
        return {
            **self.locale,
            **self.rules.environment,
            **job.request.environment,
            **(elsewhere.allocator.environment if elsewhere else {}),
            **said,
        }


def variables_of(machine: str, job: BatchJob, nodes: int) -> dict[str, str]:
    """Return the variables in which a program finds what its job is, wherever it runs."""
    said = {
        "KALENDS_JOB": str(job.number),
        "KALENDS_MACHINE": machine,
        "KALENDS_NODE_COUNT": str(nodes),
        "KALENDS_USER": job.principal.user,
    }
    if job.request.project:
        said["KALENDS_PROJECT"] = job.request.project
    if job.request.implementation:
        said["KALENDS_IMPLEMENTATION"] = job.request.implementation
    if job.index is not None:
        said["KALENDS_ARRAY"] = str(job.array)
        said["KALENDS_INDEX"] = str(job.index)
    return said


def _warn_s(warning: LimitWarning | None, limit_s: int) -> float:
    """Return how long before its end a program is warned; 0: never, for then it would be at its start."""
    return float(warning.before_s) if warning and warning.before_s < limit_s else 0.0


def cores_of_this_host() -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(0)))
