"""A queue that hands every job over: the batch system decides, and the queue follows."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import LookUp, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.views import load_of, view_of
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

DONE = f.JobEnding(kind="exit")


class Room:
    """A queue whose jobs are handed over; the most nodes of one job are four."""

    def __init__(self, **terms: Any) -> None:
        self.terms = f.Terms(machine="pool:4", handed_to="pbs", **terms)
        self.queue = BatchQueue("lab/far", self.terms, 1_000)
        self.now = 1_000
        self.stored: list[f.JournalEntry] = []

    def submit(self, **fields: Any) -> int:
        key = f"the-key-{self.queue.next_number}"
        job = JobRequest(**{"machine": "lab/far", "limit_s": 60, "command": ("true",), **fields})
        return self.queue.submit(Principal("ann"), job, key, self.now)[0]

    def starts(self) -> list[tuple[int, int]]:
        """Return job and attempt of what is to be handed over since the last call."""
        effects = self.queue.take_effects()
        self.stored += effects.entries
        assert effects.occupied == []
        return [
            (each.job.number, each.attempt) for each in effects.actions if isinstance(each, Start)
        ]


@pytest.fixture
def room() -> Room:
    return Room()


def test_every_job_is_handed_over_at_once_and_none_is_in_the_calendar(room: Room) -> None:
    jobs = [room.submit(nodes=4) for _ in range(100)]
    assert room.starts() == [(job, 1) for job in jobs]
    with pytest.raises(InvalidInput, match="5 nodes"):
        room.submit(nodes=5)


def test_the_owners_limits_hold_a_job_back_before_it_is_handed_over() -> None:
    room = Room(user=f.JobLimits(running=1))
    first, second = room.submit(), room.submit()
    assert room.starts() == [(first, 1)]
    room.queue.begun(first, 1, room.now)
    room.queue.ended(first, 1, DONE, room.now)
    assert room.starts() == [(second, 1)]


def test_what_waits_there_is_queued_and_not_charged_for(room: Room) -> None:
    job = room.submit(nodes=2)
    view = view_of(room.queue, room.queue.job(job), {}, room.now, whole=True)
    assert (view.phase, view.started, view.node_numbers, view.predicted) == ("queued", 0, (), None)
    assert view.reasons == ("pbs decides when the job starts, and promises no time",)
    load = load_of(room.queue, room.now)
    assert (load.nodes, load.running, load.waiting, load.decides) == (4, 0, 1, "pbs")
    room.now += 1_000
    room.queue.begun(job, 1, room.now, room.now)
    view = view_of(room.queue, room.queue.job(job), {}, room.now, whole=True)
    assert (view.phase, view.started, view.until) == ("running", room.now, room.now + 60)
    room.now += 10
    room.queue.ended(job, 1, DONE, room.now)
    (over,) = room.queue.take_effects().over
    assert over.node_seconds == 2 * 10


def test_what_surely_never_begins_is_handed_over_again(room: Room) -> None:
    job = room.submit()
    room.starts()
    room.now += 50
    room.queue.void(job, 1, room.now)
    assert room.starts() == [(job, 2)]


def test_a_restart_looks_up_what_was_handed_over(room: Room) -> None:
    job = room.submit()
    room.starts()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    again.recover()
    assert again.take_effects().actions == [LookUp(again.job(job), 1)]


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        ("at", {"at": 5_000}),
        ("terminal", {"terminal": True}),
        ("shape", {"shape": (2, 2), "nodes": 4}),
        ("rerun", {"rerun": True}),
        ("sizes", {"sizes": (1, 2), "nodes": 1}),
    ],
)
def test_what_the_system_has_not_is_refused(
    room: Room, where: str, asked: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput, match="pbs alone decides") as refused:
        room.submit(**asked)
    assert refused.value.where == where
