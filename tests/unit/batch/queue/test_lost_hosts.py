"""A queue whose host was lost: what may have begun there is lost, and everything else goes on."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import LookUp, QueueEffects, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

ANN = Principal("ann")
TERMS = f.Terms(machine="pool:4")
LOST = "its host was lost"


class Site:
    """A queue of four nodes, and what a store has of it."""

    def __init__(self) -> None:
        self.queue = BatchQueue("lab/box", TERMS, 1_000)
        self.entries: list[f.JournalEntry] = []
        self.settle()

    def submit(self, key: str, **fields: Any) -> int:
        job = JobRequest(**{"machine": "lab/box", "limit_s": 60, "command": ("true",), **fields})
        return self.queue.submit(ANN, job, f"key-{key}", 1_000)[0]

    def settle(self) -> QueueEffects:
        effects = self.queue.take_effects()
        self.entries += effects.entries
        return effects

    def moved(self, terms: f.Terms = TERMS) -> tuple[list[int], QueueEffects]:
        """Take the queue to another host, and lose the one before."""
        self.settle()
        self.queue = BatchQueue("lab/box", terms, 2_000, self.entries)
        lost = self.queue.lose_host(LOST, 2_000)
        return lost, self.settle()


def starts(effects: QueueEffects) -> list[tuple[int, int]]:
    return [(each.job.number, each.attempt) for each in effects.actions if isinstance(each, Start)]


def test_what_ran_is_lost_or_runs_again_and_what_waited_begins_on_its_nodes() -> None:
    site = Site()
    once, again = site.submit("a", nodes=2), site.submit("b", nodes=2, rerun=True)
    waits = site.submit("c", nodes=2)
    for number in (once, again):
        site.queue.begun(number, 1, 1_000)
    lost, effects = site.moved()
    assert lost == [once, again]
    (over,) = effects.over
    assert (over.number, over.phase, over.ending) == (
        once, "lost", f.JobEnding(kind="lost", detail=LOST)
    )  # fmt: skip
    assert sorted(starts(effects)) == [(again, 2), (waits, 1)]


def test_a_start_that_was_never_heard_of_may_have_happened_on_the_lost_host() -> None:
    site = Site()
    number = site.submit("a", nodes=1)
    lost, effects = site.moved()
    assert lost == [number]
    assert [each.phase for each in effects.over] == ["lost"]
    assert not effects.actions


def test_what_new_terms_start_with_the_move_begins_here_and_is_not_lost() -> None:
    site = Site()
    site.queue.drain(range(4), "", 1_000)
    number = site.submit("a", nodes=1)
    site.queue.hold(number, "operator", 1_000)
    site.settle()
    site.queue = BatchQueue("lab/box", TERMS, 2_000, site.entries)
    site.queue.resume(range(4), 2_000)
    site.queue.release(number, ["operator"], 2_000)
    assert site.queue.lose_host(LOST, 2_000) == []
    assert starts(site.settle()) == [(number, 1)]


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.booleans(), st.booleans(), st.booleans()),
    min_size=1, max_size=8,
)  # fmt: skip


@given(jobs)
def test_no_attempt_of_the_lost_host_is_looked_for_or_begun_again_and_each_is_over_once(
    drawn: list[tuple[int, bool, bool, bool]],
) -> None:
    site = Site()
    for number, (nodes, rerun, _, _) in enumerate(drawn):
        site.submit(str(number), nodes=nodes, rerun=rerun)
    for job, (_, _, begun, killed) in zip([*site.queue.flow.table], drawn, strict=True):
        if begun:
            site.queue.begun(job.number, job.attempt, 1_000)
        if killed:
            site.queue.cancel(job.number, "enough", 1_000)
    before = {job.number: job.attempt for job in site.queue.flow.table if job.under_way}
    rerun = {
        n for n in before if site.queue.job(n).request.rerun and not site.queue.job(n).unwanted
    }
    lost, effects = site.moved()
    assert sorted(lost) == sorted(before)
    assert {job.number for job in effects.over} == before.keys() - rerun
    assert not [each for each in effects.actions if isinstance(each, LookUp)]
    assert all(attempt > before.get(number, 0) for number, attempt in starts(effects))
    assert {(each.job.number, each.attempt) for each in effects.actions}.isdisjoint(before.items())
    under_way = {job.number for job in site.queue.flow.table if job.under_way}
    assert {number for number, _ in starts(effects)} == under_way
    # And the next restart knows it, by the facts alone.
    again = BatchQueue("lab/box", TERMS, 3_000, site.entries)
    assert {(j.number, j.phase, j.attempt) for j in again.flow.table} == {
        (j.number, j.phase, j.attempt) for j in site.queue.flow.table
    }
