"""The queues of a site's machines as its kernel and its shell call them, in the present life of the site."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping

from kalends.batch.queue.job import BatchJob
from kalends.batch.service import QueueService
from kalends.core.errors import Refusal, Unavailable
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.place_desk import PlaceDesk, machines_and_queues
from kalends.resource_servers.jobs.start_gates import StartGates
from kalends.resource_servers.jobs.step_desk import StepDesk
from kalends.resource_servers.participation.claims.occupancy import Placed
from kalends.resource_servers.participation.effects import PlaceAsk, StartWord
from kalends.resource_servers.participation.sockets import no_jobs_on


class QueueHooks:
    """Between two lives it answers that no jobs run; the next life compares all claims."""

    def __init__(self) -> None:
        self.service: QueueService | None = None
        self.gates: StartGates | None = None
        self.desks: tuple[PlaceDesk, StepDesk] | None = None
        self.look_at_nodes: Callable[[Collection[str]], None] = lambda machines: None

    def end_life(self) -> None:
        service, self.service = self.service, None
        if self.desks is not None:
            for desk in self.desks:
                desk.close()
            self.desks = None
        if self.gates is not None:
            self.gates.close()
            self.gates = None
        if service is not None:
            service.close()

    # The kernel asks

    def has_job(self, rid: str) -> bool:
        return self.desks is not None and self.desks[0].has_job(rid)

    def why_not_part(self, principal: Principal, part: JobRequest) -> Refusal | None:
        if self.desks is None:
            return no_jobs_on(part.machine)
        return self.desks[1].why_not(principal, part)

    # The shell tells

    def claims_moved(self, placed: Iterable[Placed]) -> None:
        if self.service is None:
            return
        of_machines, of_queues = machines_and_queues(placed, self.service.queues)
        with contextlib.suppress(Unavailable):  # The next life compares all claims.
            self.service.claims_moved(of_machines)
            if self.desks is not None:
                places, steps = self.desks
                steps.moved(of_machines)
                places.moved(of_queues)
            self.look_at_nodes({machine for machine, _ in of_machines})

    def ask_places(self, asks: Iterable[PlaceAsk]) -> None:
        if self.desks is not None:
            self.desks[0].ask(asks)

    def say_start(self, words: Iterable[StartWord]) -> None:
        if self.gates is not None:
            self.gates.said(words)

    # The queues tell

    def jobs_moved(self, machine: str, users: Mapping[int, str]) -> None:
        self.look_at_nodes({machine})
        for desk in self.desks or ():
            desk.moved_jobs(machine, users)

    def job_over(self, machine: str, job: BatchJob) -> None:
        for desk in self.desks or ():
            desk.over(machine, job)
