"""A journal is followed also where the policy that decided has become another one since."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import replayed
from kalends.core.errors import StoreDamaged
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.prediction.predictor import FollowingScheduler

MACHINES = ["pool:4", "mesh2d:4x2"]


class Past:
    """A queue under one policy, as it was before an update, and its journal."""

    def __init__(self, machine: str, policy: str) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine=machine, policy=policy), 1_000)
        self.stored: list[f.JournalEntry] = []
        self.now = 1_000
        for nodes, limit_s in ((3, 90), (4, 20), (1, 60), (2, 30), (1, 200), (1, 10)):
            self.submit(nodes, limit_s)

    def submit(self, nodes: int, limit_s: int) -> None:
        job = JobRequest(machine="lab/box", nodes=nodes, limit_s=limit_s, command=("true",))
        self.queue.submit(Principal("ann"), job, f"key-{self.now:06}", self.now)
        self.pass_s(1)

    def pass_s(self, seconds: int) -> None:
        self.now += seconds
        self.queue.advance(self.now)
        effects = self.queue.take_effects()
        self.stored += effects.entries
        for action in effects.actions:
            if isinstance(action, Start):
                self.queue.begun(action.job.number, action.attempt, self.now)
        self.stored += self.queue.take_effects().entries

    def end(self, number: int) -> None:
        self.queue.ended(number, 1, f.JobEnding(kind="exit"), self.now)
        self.pass_s(1)

    def under(self, policy: str) -> Callable[[int], Iterable[f.JournalEntry]]:
        """The journal, as if all that had been decided by what now is called so."""

        def after(number: int) -> Iterable[f.JournalEntry]:
            return [told_under(policy, each) for each in self.stored if each.number > number]

        return after


def told_under(policy: str, entry: f.JournalEntry) -> f.JournalEntry:
    if not isinstance(entry.fact, f.TermsSet):
        return entry
    return replace(entry, fact=f.TermsSet(replace(entry.fact.terms, policy=policy)))


def running(queue: BatchQueue) -> list[tuple[int, tuple[int, ...]]]:
    return [(job.number, job.nodes) for job in queue.flow.table if job.on_nodes]


def jobs_of(queue: BatchQueue) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(job.number, job.phase, job.nodes) for job in queue.flow.table]


def end_all(queue: BatchQueue, now: int) -> None:
    """Let all jobs run and end, one after the other."""
    while on_nodes := running(queue):
        now += 1
        queue.ended(on_nodes[0][0], 1, f.JobEnding(kind="exit"), now)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("today", ["fcfs", "sjf", "conservative", "ffdh", "lazy"])
def test_jobs_keep_their_nodes_and_those_that_wait_are_planned_by_the_policy_of_today(
    machine: str, today: str
) -> None:
    past = Past(machine, "easy")
    past.end(1)
    with pytest.raises(StoreDamaged):
        BatchQueue("lab/box", None, 0, past.under("ljf")(0))
    terms = f.Terms(machine=machine, policy=today)
    queue = replayed("lab/box", terms, past.now, past.under(today))
    assert set(running(past.queue)) <= set(running(queue))
    assert not queue.flow.room.stands_in
    before = {job.number for job in past.queue.flow.table}
    end_all(queue, past.now)
    assert not list(queue.flow.table)
    assert before <= set(queue.flow.table.past)


def test_a_follower_goes_on_where_the_site_has_planned_anew() -> None:
    past = Past("pool:4", "easy")
    past.end(1)
    entries = past.under("ljf")
    follower = replayed("lab/box", None, 0, entries, scheduler_type=FollowingScheduler)
    assert jobs_of(follower) == jobs_of(past.queue)
    site = replayed("lab/box", f.Terms(machine="pool:4", policy="ljf"), past.now, entries)
    planned_anew = site.take_effects().entries
    assert [type(each.said) for each in planned_anew] == [f.Replanned]
    follower.follow(planned_anew)
    assert not follower.flow.room.stands_in
    assert jobs_of(follower) == jobs_of(site)
    again = replayed("lab/box", None, 0, lambda number: [*entries(number), *planned_anew])
    assert jobs_of(again) == jobs_of(site)
    assert not again.flow.room.stands_in, "it goes on by itself from there"


def test_a_journal_without_decisions_is_followed_as_before() -> None:
    past = Past("pool:4", "easy")
    bare = [
        replace(each, fact=each.fact.about) if isinstance(each.fact, f.Decided) else each
        for each in past.stored
    ]
    queue = BatchQueue("lab/box", None, 0, bare)
    assert jobs_of(queue) == jobs_of(past.queue)


def test_what_no_policy_can_have_decided_is_told_as_damaged() -> None:
    past = Past("pool:4", "easy")
    spoilt = [*past.stored]
    last = spoilt[-1]
    spoilt.append(f.JournalEntry(last.number + 1, last.now, f.JobBegun(99, 1)))
    with pytest.raises(StoreDamaged, match=f"entry {last.number + 1} "):
        replayed("lab/box", None, 0, lambda number: iter(spoilt[number:]))
