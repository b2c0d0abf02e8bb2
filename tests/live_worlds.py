"""A live queue, driven by chance: whatever happens, in whatever order, and late; checked after every event.

Who has which node is kept here, by name and from what comes back alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.machines.spec import machine_from
from kalends.scheduling import Cluster, Job, Policy, Reservation, Scheduler, policy_maker
from kalends.scheduling.job import Moldability
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.molding import molding
from kalends.scheduling.registry import POLICIES

NODES: Final = 8

CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {
    "counted": lambda: Cluster(NODES, live=True),
    "pool": lambda: MappedCluster(machine_from("pool:8"), live=True),
    "mesh": lambda: MappedCluster(machine_from("mesh2d:4x2"), live=True),
}
"""Live clusters of eight nodes of every kind."""

ALL: Final = [info.name + (":50" if info.number and not info.optional else "") for info in POLICIES]

GUEST_PRIORITY: Final = 9
"""The priority of jobs in reservations: the highest of all, so that no policy stops them."""

Event = tuple[str, int, tuple[Any, ...]]
"""A method of the scheduler, the time, and its other arguments; jobs by their ids."""


def policy_over(name: str) -> Callable[[Cluster], Policy]:
    """The maker of a policy that also copes with jobs of several sizes."""
    make = policy_maker(name)
    return lambda cluster: molding(make(cluster))


class LiveWorld:
    """Events drawn from one seed, told to a live scheduler."""

    def __init__(self, policy: str, cluster: str, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names = policy, cluster
        self.cluster = CLUSTERS[cluster]()
        self.scheduler = Scheduler(policy_over(policy)(self.cluster))
        self.now = 0
        self.jobs: dict[int, Job] = {}
        self.gone: set[int] = set()
        self.user: dict[int, int] = {}
        """Who has each node now: the ids of jobs by the numbers of nodes."""
        self.out: set[int] = set()
        self.reserved: dict[str, Reservation] = {}
        self.journal: list[Event] = []
        self.starts: list[tuple[int, int, tuple[int, ...]]] = []

    def run(self, number: int) -> None:
        """Play this many events; then all nodes are back, nothing is held, and whatever waits must run."""
        for _ in range(number):
            self.pass_time(self.draw.choice((0, 0, 1, 1, 2, 5)))
            self.draw.choice(EVENTS)(self)
        nodes, self.out = sorted(self.out), set()
        self.tell("resume", nodes)
        for job in list(self.scheduler.held.values()):
            self.tell("release", job)
        for _ in range(400):
            if len(self.gone) == len(self.jobs):
                break
            self.pass_time(1)
            for job in self.running():
                if job.stopping:
                    self.tell("stopped", job)
                elif job.until_s <= self.now + 1:
                    self.tell("end", job)
        assert len(self.gone) == len(self.jobs), "some job waits for ever"
        assert not self.user
        assert self.cluster.free == NODES
        assert self.scheduler.waiting == 0

    def replayed(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """The starts of another scheduler that is told the same events."""
        policy, cluster = self.names
        scheduler = Scheduler(policy_over(policy)(CLUSTERS[cluster]()))
        jobs: dict[int, Job] = {}
        starts = []
        for name, now, arguments in self.journal:
            if name == "submit":
                jobs[arguments[0]] = new_job(now, *arguments)
            told = [
                jobs[each] if at == 0 and name in OF_JOBS else each
                for at, each in enumerate(arguments)
            ]
            if name == "run_again":
                told[1] = jobs[arguments[0]] = again_of(told[0])
            if name == "start_in":
                told = [told[0], new_job(now, *arguments[1:])]
                jobs[arguments[1]] = told[1]
            if name == "rearrange":
                gone, came, inside = arguments
                guests = {each: [jobs[number] for number in at] for each, at in inside.items()}
                told = [gone, came, guests]
            touched = tell(scheduler, name, now, told)
            starts += [(now, job.id, nodes_of(job)) for job in touched]
        return starts

    def tell(self, name: str, *arguments: Any) -> bool:
        """Tell the scheduler; a refusal has changed nothing."""
        before = self.state()
        try:
            touched = tell(self.scheduler, name, self.now, list(arguments))
        except (Conflict, InvalidInput, NotFound):
            assert self.state() == before, f"{name} was refused, and something has changed"
            return False
        kept = [self.kept(name, each) for each in arguments]
        self.journal.append((name, self.now, tuple(kept)))
        if name == "run_again":
            self.jobs[arguments[0].id] = arguments[1]
            self.let_go(arguments[0])
        if name == "stopped":
            self.let_go(arguments[0])
        if name in {"end", "break_off", "withdraw"}:
            self.gone.add(arguments[0].id)
            self.let_go(arguments[0])
        self.check(touched)
        return True

    def kept(self, name: str, argument: Any) -> Any:
        if isinstance(argument, dict):
            return {each: [job.id for job in guests] for each, guests in argument.items()}
        if not isinstance(argument, Job):
            return argument
        return argument.id

    def state(self) -> object:
        """All that a refused event may not change."""
        cluster = self.cluster
        running = [(until_s, order, job.partition) for until_s, order, job in cluster.ends]
        asked = [(job.nodes, job.requested_s, job.priority) for job in self.jobs.values()]
        waiting = [job.id for job in self.scheduler.policy.waiting()]
        return (running, asked, waiting, cluster.free, cluster.revision, list(cluster.reservations),
                dict(cluster.overdue), sorted(self.scheduler.held), self.scheduler.waiting)  # fmt: skip

    def running(self) -> list[Job]:
        return [job for _, _, job in self.cluster.ends]

    def pass_time(self, seconds: int) -> None:
        """Let time pass; the queue wakes as it asks to, or too late."""
        until_s = self.now + seconds
        for _ in range(100):
            wake_s = self.scheduler.wake_at(self.now)
            if wake_s is None or wake_s > until_s:
                break
            self.now = until_s if self.draw.random() < 0.3 else max(self.now, wake_s)
            self.tell("wake")
        else:
            raise AssertionError("it asks to be woken for ever")
        self.now = until_s

    def submit(self) -> None:
        number = len(self.jobs)
        nodes = self.draw.randint(1, self.draw.choice((3, NODES)))
        length_s, priority = self.draw.randint(1, 9), self.draw.randint(0, 3)
        sizes = self.draw.random() < 0.2
        job = new_job(self.now, number, nodes, length_s, priority, sizes)
        before = len(self.journal)
        self.jobs[number] = job
        assert self.tell("submit", job)
        name, now, _ = self.journal[before]
        self.journal[before] = name, now, (number, nodes, length_s, priority, sizes)

    def end(self) -> None:
        """A job ends: early, at its limit, or whenever somebody gets to tell it."""
        for job in self.running():
            if self.draw.random() < 0.4:
                if job.target:
                    self.tell("resized", job, self.now + self.draw.randint(1, 9))
                elif self.draw.random() < 0.2:
                    assert self.tell("run_again", job, again_of(job))
                    assert self.jobs[job.id].order == job.order
                else:
                    self.tell(self.draw.choice(("end", "end", "break_off")), job)
                return

    def answer_stop(self) -> None:
        """A job stands still as it was asked to, or cannot be brought to that."""
        for job in self.running():
            if job.stopping and self.draw.random() < 0.7:
                assert self.tell(self.draw.choice(("stopped",) * 4 + ("not_stopped",)), job)
                return

    def reserve(self) -> None:
        name = self.draw.choice("abc")
        start_s = self.now + self.draw.randint(-1, 12)
        nodes = self.draw.randint(1, 4)
        wanted = Reservation(start_s, start_s + self.draw.randint(1, 9), nodes, name)
        before = dict(self.reserved)
        self.reserved[name] = wanted
        if not self.tell("reserve", wanted):
            self.reserved = before

    def start_in(self) -> None:
        """A job begins on nodes of a reservation, if these are there."""
        name, number = self.draw.choice("abc"), len(self.jobs)
        made = self.reserved.get(name)
        if made is None or not made.start_s <= self.now < made.end_s:
            return
        nodes = self.draw.randint(1, 3)
        job = self.jobs[number] = new_job(self.now, number, nodes, 1, GUEST_PRIORITY, False)
        before = len(self.journal)
        if self.tell("start_in", name, job):
            entry, now, _ = self.journal[before]
            self.journal[before] = entry, now, (name, number, nodes, 1, GUEST_PRIORITY, False)
            assert job.until_s == made.end_s
        else:
            del self.jobs[number]

    def move(self) -> None:
        """A reservation gets another time or size, and keeps the jobs that have room there."""
        name = self.draw.choice("abc")
        made = self.reserved.get(name)
        if made is None or made.end_s <= self.now:
            return
        del self.reserved[name]
        start_s = self.now + self.draw.choice((-1, -1, 3))
        wanted = Reservation(
            start_s, self.now + 4 + self.draw.randint(0, 9), self.draw.randint(1, 5), name
        )
        inside, taken = [], 0
        for job in self.cluster.guests.of(name) if start_s < self.now else ():
            if taken + job.granted <= wanted.nodes:
                inside.append(job)
                taken += job.granted
        assert self.tell("rearrange", [name], [wanted], {name: inside})
        if any(each.name == name and each.end_s > self.now for each in self.cluster.made):
            self.reserved[name] = wanted
            assert self.cluster.guests.of(name) == inside

    def unreserve(self) -> None:
        name = self.draw.choice("abc")
        known = self.reserved.pop(name, None)
        there = known is not None and known.end_s > self.now
        assert self.tell("unreserve", name) == there

    def drain(self) -> None:
        nodes = self.draw.sample(range(NODES), self.draw.randint(1, 3))
        self.out.update(nodes)
        self.tell("drain", nodes)
        named = {job.id for job in self.scheduler.jobs_on(nodes)}
        assert named == {self.user[node] for node in nodes if node in self.user}

    def resume(self) -> None:
        nodes = [node for node in sorted(self.out) if self.draw.random() < 0.7]
        self.out.difference_update(nodes)
        self.tell("resume", nodes)

    def of_waiting(self) -> None:
        """Hold, release or withdraw some job, which may not be the right one for it."""
        if not self.jobs:
            return
        job = self.jobs[self.draw.randrange(len(self.jobs))]
        name = self.draw.choice(("hold", "release", "withdraw", "lose"))
        if name == "lose":
            if job.start_s >= 0 and not job.granted:
                self.tell("run_again", job, again_of(job))
        else:
            self.tell(name, job)

    def switch(self) -> None:
        self.tell("switch", self.draw.choice(ALL))

    def let_go(self, job: Job) -> None:
        self.user = {node: each for node, each in self.user.items() if each != job.id}

    def check(self, touched: list[Job]) -> None:
        """Nobody has what another has, nobody begins on what is out or reserved, and nobody is lost."""
        self.starts += [(self.now, job.id, nodes_of(job)) for job in touched]
        changed = {job.id: job for job in touched}
        for job in self.running():
            # Who was asked to shrink gives up its nodes when it says so.
            if set(nodes_of(job)) != {node for node, each in self.user.items() if each == job.id}:
                changed[job.id] = job
        for job in changed.values():
            self.let_go(job)
        for job in changed.values():
            self.gains(job, new=job in touched)
        assert self.cluster.free >= -len(self.out)
        assert all(until_s > self.now for until_s, _, _ in self.cluster.ends)
        waiting = [job.id for job in self.scheduler.policy.waiting()]
        running = [job.id for job in self.running()]
        present = [*waiting, *running, *self.scheduler.held]
        assert sorted(present) == sorted(set(self.jobs) - self.gone), (
            "a job is lost, or twice there"
        )
        assert len(waiting) == self.scheduler.waiting
        orders = [self.jobs[each].order for each in waiting]
        assert orders == sorted(orders)
        self.cluster.check(self.now)

    def gains(self, job: Job, *, new: bool) -> None:
        nodes = nodes_of(job)
        assert len(nodes) == job.granted
        for node in nodes:
            assert node not in self.user, f"node {node} is given twice"
            self.user[node] = job.id
        if new and job.granted and not job.target and not job.stopping:
            assert not self.out.intersection(nodes), "it begins on what is out"
            self.leaves_reservations(job)

    def leaves_reservations(self, job: Job) -> None:
        """Who begins now leaves all reservations their nodes."""
        cluster = self.cluster
        if isinstance(cluster, MappedCluster):
            for room, kept in cluster.rooms:
                if room.start_s < job.until_s and self.now < room.end_s:
                    assert not set(kept.nodes).intersection(nodes_of(job)), "reserved"
            return
        starts_s = [each.start_s for each in cluster.reservations]
        for time_s in [self.now, *(each for each in starts_s if self.now < each < job.until_s)]:
            taken = sum(each.granted for each in self.running() if each.until_s > time_s)
            kept_free = sum(
                each.nodes - sum(guest.granted for guest in cluster.guests.of(each.name))
                for each in self.reserved.values()
                if each.start_s <= time_s < each.end_s
            )
            assert not kept_free or taken + kept_free <= NODES


EVENTS: Final = (
    *[LiveWorld.submit] * 5, *[LiveWorld.end] * 4, *[LiveWorld.answer_stop] * 3, LiveWorld.reserve,
    LiveWorld.unreserve, LiveWorld.drain, LiveWorld.resume, *[LiveWorld.of_waiting] * 3,
    LiveWorld.switch, *[LiveWorld.start_in] * 3, LiveWorld.move,
)  # fmt: skip
OF_JOBS: Final = (
    "submit",
    "end",
    "break_off",
    "hold",
    "release",
    "withdraw",
    "resized",
    "run_again",
    "stopped",
    "not_stopped",
)


def new_job(now: int, number: int, nodes: int, length_s: int, priority: int, sizes: bool) -> Job:
    """The job of a journal's entry."""
    job = Job(number, now, nodes, length_s, priority, user=number % 3, interactive=number % 2 == 0)
    if sizes:
        job.molds = Moldability((1, 2, 4), (length_s * 2, length_s + 1, length_s), True, 1)
        job.nodes = 1
        job.requested_s = length_s * 2
    return job


def again_of(job: Job) -> Job:
    """What is to run again in the place of `job`."""
    assert job.request is not None
    return job.request.job()


def nodes_of(job: Job) -> tuple[int, ...]:
    """The nodes that a job has now."""
    return job.partition.nodes if job.granted and job.partition is not None else ()


def tell(scheduler: Scheduler, name: str, now: int, arguments: list[Any]) -> list[Job]:
    """Tell one event as its entry in a journal says."""
    if name == "switch":
        return scheduler.switch(policy_over(arguments[0]), now)
    if name == "submit":
        return scheduler.submit(arguments[0], now)
    if name == "resized":
        return scheduler.resized(arguments[0], now, arguments[1])
    if name == "rearrange":
        gone, came, guests = arguments
        return scheduler.rearrange(gone, came, now, guests)[0]
    event: Callable[..., list[Job]] = getattr(scheduler, name)
    return event(*arguments, now)
