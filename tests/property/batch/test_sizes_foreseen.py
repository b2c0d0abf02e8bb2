"""Who waits for nodes that others are to give up is told the start at which they will have been given up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from tests import effort

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Resize, Start
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.prediction.frozen import predicted_starts

NODES = 8


class Punctual:
    """A queue whose programs take all of their time, and as long to change as is expected of them."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        terms = f.Terms(machine=f"pool:{NODES}", policy="reconfigurable", change_s=10**9)
        self.queue = BatchQueue("lab/box", terms, 0)
        self.arrivals: list[tuple[int, JobRequest]] = []
        now = 0
        for _ in range(draw.randint(3, 9)):
            now += draw.randint(1, 400)
            self.arrivals.append((now, request(draw)))
        self.running: list[BatchJob] = []
        self.asked: dict[int, tuple[int, int, int]] = {}
        """The changes under way by job: when they will have been made, their numbers, and the nodes then."""
        self.starts: dict[int, int] = {}
        self.told: list[dict[int, int]] = []
        """What all that waited were told, at each event after the last arrival."""
        self.times: Counter[int] = Counter()

    def play(self) -> None:
        for submit_s, asked_for in self.arrivals:
            while (next_s := min(self.coming(), default=None)) is not None and next_s < submit_s:
                self.let_happen(next_s)
            self.times[submit_s] += 1
            self.queue.submit(Principal("ann"), asked_for, f"key-{submit_s:06}", submit_s)
            self.carry_out(submit_s)
        while times := list(self.coming()):
            self.foretell()
            self.let_happen(min(times))
        assert len(self.starts) == len(self.arrivals)

    def coming(self) -> Iterator[int]:
        for job in self.running:
            assert job.entry is not None
            yield self.asked[job.number][0] if job.number in self.asked else job.entry.until_s
        due_s = self.queue.next_due_s()
        if due_s is not None:
            yield due_s

    def let_happen(self, now: int) -> None:
        """What is to happen to a job then; else the mere passing of time."""
        for job in self.running:
            assert job.entry is not None
            if job.number in self.asked:
                at_s, change, nodes = self.asked[job.number]
                if at_s == now:
                    self.times[now] += 1
                    del self.asked[job.number]
                    took_s = float(job.request.change_s)
                    self.queue.size_changed(job.number, change, nodes, took_s, now)
                    break
            elif job.entry.until_s == now:
                self.times[now] += 1
                self.running.remove(job)
                self.queue.ended(job.number, 1, f.JobEnding(kind="limit"), now)
                break
        else:
            self.queue.advance(now)
        self.carry_out(now)

    def carry_out(self, now: int) -> None:
        while actions := self.queue.take_effects().actions:
            for action in actions:
                job = action.job
                if isinstance(action, Start):
                    self.starts[job.number] = now
                    self.running.append(job)
                    self.queue.begun(job.number, 1, now)
                elif isinstance(action, Resize):
                    made_s = now + job.request.change_s
                    self.asked[job.number] = made_s, action.change, len(action.nodes)

    def foretell(self) -> None:
        starts = predicted_starts(self.queue.flow.room.scheduler, self.queue.last_s)
        self.told.append({job.id: start_s for job, start_s in starts.items()})


def request(draw: random.Random) -> JobRequest:
    sizes = tuple(sorted(draw.sample(range(1, NODES + 1), draw.randint(2, 4))))
    malleable, scales = draw.random() < 0.8, draw.random() < 0.5
    alone_s = draw.randint(300, 4000)
    limits_s = () if scales else tuple(alone_s // nodes + 60 for nodes in sizes)
    return JobRequest(
        machine="lab/box", command=("true",), nodes=sizes[0], sizes=sizes, malleable=malleable,
        limit_s=limits_s[0] if limits_s else alone_s, limits_s=limits_s,
        change_s=draw.randint(1, 30),
    )  # fmt: skip


def test_predictions_under_changes_of_size_come_true_where_all_goes_as_expected() -> None:
    compared = 0
    for seed in range(effort.examples(150)):
        hall = Punctual(seed)
        hall.play()
        if max(hall.times.values()) > 1:
            continue  # In one second a simulation, and so a prediction, counts on ends to come.
        for told in hall.told:
            assert told == {number: hall.starts[number] for number in told}, seed
            compared += len(told)
    assert compared > 100
