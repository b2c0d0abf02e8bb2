"""Runners of the jobs of a site's machines: shepherds of this host, or batch systems that decide alone."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from kalends.batch.elsewhere import Told
from kalends.batch.forgotten import Forgotten, find_forgotten
from kalends.batch.hand_over import HandOver
from kalends.batch.job_output import OutputReader, ShepherdOutputs
from kalends.batch.journal.contract import JobHistory
from kalends.batch.kept_output import KeptOutput
from kalends.batch.orders import MEGABYTE, OrderMaker, cores_of_this_host
from kalends.batch.queue.effects import Action, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.runner import Report, ShepherdRunner
from kalends.batch.shepherds.shepherd_line import Attachment
from kalends.batch.terms import directory_of
from kalends.contract.job_calls import JobOutput
from kalends.core.errors import Conflict, NotAllowed
from kalends.core.jobs import JobRequest
from kalends.resource_servers.service import SiteEngine
from kalends.resource_servers.setup.configured_allocations import elsewhere_of
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.serving.configuration import MachineConfiguration, SiteConfiguration
from kalends.serving.logs import Logger

FOR_ANYBODY: Final = (
    "this site runs as root and asks for no tokens: every user of this host can run programs "
    "as any user but root; list keys under [[site.keys]]"
)

FORGOTTEN_S_MAX: Final = 60.0
"""A site that was restored from a copy waits so long at most until nothing runs that it does not know."""


class MachineRunners:
    """The processes live on through the lives of the site, and through its end."""

    def __init__(
        self,
        configuration: SiteConfiguration,
        rules: Mapping[str, MachineConfiguration],
        engine: Callable[[], SiteEngine],
        heard: Callable[[str], Report],
        queue: Callable[[str], BatchQueue],
        history: JobHistory,
        logger: Logger,
    ) -> None:
        """`queue` is that of a machine in the present life of the site.

        Raises `InvalidInput` for a machine that cannot be.
        """
        self._rules = rules
        self._elsewhere = elsewhere_of(configuration, engine)
        as_root = os.geteuid() == 0
        self._for_anybody = bool(rules) and as_root and not configuration.keys
        self._hands = {
            each.resource: HandOver(
                machine=each.resource,
                system=each.system.name,
                access=each.access,
                users=each.system.users,
                environment=each.environment,
                rules=each.machine,
                own="" if as_root else pwd.getpwuid(os.geteuid()).pw_name,
                report=heard(each.resource),
                logger=logger,
            )
            for each in handed_over_of(configuration)
        }
        cores = cores_of_this_host()
        self._shepherds = {
            name: ShepherdRunner(
                name,
                str(directory_of(machine, configuration.store_file)),
                OrderMaker(name, machine, cores, as_root, self._elsewhere.get(name)),
                heard(name),
                logger,
            )
            for name, machine in rules.items()
            if name not in self._hands
        }
        self._readers = {
            name: OutputReader(
                partial(queue, name), history, self._hands.get(name) or self._outputs(name)
            )
            for name in rules
        }
        self._kept: list[KeptOutput] = []
        self._logger = logger

    async def start(self, sure_s: Callable[[], int], is_over: Callable[[str, int], bool]) -> None:
        """Raises `InvalidInput` and `Unavailable` where jobs cannot be run."""
        if self._for_anybody:
            self._logger.warning("jobs_for_anybody", detail=FOR_ANYBODY)
        for name, runner in self._shepherds.items():
            await runner.start()
            keep_s = self._rules[name].keep_output_s
            kept = KeptOutput(
                name, runner.launcher, keep_s, sure_s, partial(is_over, name), self._logger
            )
            kept.start()
            self._kept.append(kept)

    async def close(self) -> None:
        """Close the runner; running jobs continue."""
        for kept in self._kept:
            await kept.close()
        for hand in self._hands.values():
            await hand.close()
        for runner in self._shepherds.values():
            await runner.close()

    def carry_out(self, engine: SiteEngine, machine: str, actions: Sequence[Action]) -> None:
        """Begin what a queue has decided, all of which is durable; `engine` is the life that it is in.

        Nothing but this host looks after its processes; a batch system is another process's, too.
        """
        hand = self._hands.get(machine)
        if hand is None:
            self._shepherds[machine].carry_out(actions)
        else:
            engine.when_ours(partial(hand.carry_out, actions))

    def hosts(self, machine: str, start: Start) -> tuple[str, ...]:
        """Return where others reach the nodes of an attempt; raises `InvalidInput` or `NotAllowed`."""
        return self._shepherds[machine].hosts(start)

    def check(self, user: str, job: JobRequest) -> None:
        """Raise `NotAllowed` or `InvalidInput` for a job that a batch system cannot run."""
        if job.machine in self._elsewhere:
            self._elsewhere[job.machine].check(user, job)
        if job.machine in self._hands:
            self._hands[job.machine].check(user)

    def check_bid(self, job: JobRequest) -> None:
        """Raise `NotAllowed` for a machine that starts no jobs now, or nobody can tell when it would."""
        runner = self._shepherds.get(job.machine)
        if runner is not None and runner.trouble:
            raise NotAllowed(f"no job can be started there now: {runner.trouble}", where="machine")
        if job.machine in self._hands and not self._hands[job.machine].predicts:
            raise NotAllowed("its batch system predicts no starts", where="machine")

    def unknown_there(self, machine: str, job: BatchJob) -> bool:
        """Return whether a batch system that decides itself may not know of a job yet."""
        return machine in self._hands and self._hands[machine].is_unknown(job)

    async def foreseen_there(self, machine: str, job: BatchJob, nodes: int, wait_s: float) -> int:
        """Return when a batch system that decides itself would start a job, on `nodes` nodes (seconds UTC).

        Raises `SystemSilent` after `wait_s`, and `SystemRefused`.
        """
        return await self._hands[machine].foreseen(job, nodes, wait_s)

    @property
    def of_this_host(self) -> Collection[str]:
        """The machines whose jobs are processes of this host: others can be looked after from anywhere."""
        return self._shepherds.keys()

    def find_forgotten(self, queue: BatchQueue, *, moved: bool) -> Forgotten:
        """Return what runs and the queue does not know of; raises `Unavailable`.

        `moved`: the machine comes from another host.
        """
        if queue.name in self._hands:
            # It has names of its own that no later job gets, and takes nobody's nodes.
            return Forgotten((), 0)
        return find_forgotten(self._shepherds[queue.name].launcher, queue, moved=moved)

    async def end_forgotten(self, machine: str, forgotten: Forgotten) -> None:
        if machine in self._shepherds:
            await self._shepherds[machine].end_forgotten(forgotten.alive, FORGOTTEN_S_MAX)

    def named_by(self, first_life: str) -> None:
        """Know by this first life of the site's store what is ours elsewhere."""
        for runner in self._shepherds.values():
            runner.named_by(first_life)

    async def sweep(self, queue: BatchQueue, told: Told) -> None:
        """End again and again what attempts have left elsewhere; `told` hears of what is merely named so."""
        if queue.name in self._shepherds:
            await self._shepherds[queue.name].sweep(queue, told)

    async def output(
        self, machine: str, number: int, stream: str, offset: int, wait_s: float, attempt: int
    ) -> JobOutput:
        return await self._readers[machine].read(number, stream, offset, wait_s, attempt)

    def _outputs(self, machine: str) -> ShepherdOutputs:
        launcher, rules = self._shepherds[machine].launcher, self._rules[machine]
        kept_bytes_max = rules.output_mb_max * MEGABYTE
        return ShepherdOutputs(machine, launcher, rules.keep_output_s, kept_bytes_max)

    async def attach(self, machine: str, attempt: str) -> Attachment:
        if machine in self._hands:
            raise Conflict(f"jobs on {machine} have no terminal here", where="job")
        return await self._shepherds[machine].launcher.attach(attempt)

    def words(self, machine: str, job: BatchJob) -> str:
        """Return what a batch system that decides itself has of a job; "" where there is none."""
        return self._hands[machine].words(job) if machine in self._hands else ""
