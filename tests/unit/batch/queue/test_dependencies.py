"""Jobs that wait for others, for arrays as a whole, and for what never comes."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import After, Dependency, JobRequest
from kalends.core.principals import Principal

ANN = Principal("ann")
DONE = f.JobEnding(kind="exit")
FAILED = f.JobEnding(kind="exit", status=1)
CHAIN = 3_000
"""More than Python calls within calls."""


class Room:
    """A queue of many nodes, at one time."""

    def __init__(self) -> None:
        self.queue = BatchQueue("lab/box", f.Terms(machine="pool:10000"), 1_000)
        self.keys = 0

    def submit(self, *after: int, happened: Dependency = "succeeded", **fields: Any) -> int:
        self.keys += 1
        waits = tuple(After(job=each, happened=happened) for each in after)
        asked = JobRequest(machine="lab/box", limit_s=60, command=("true",), after=waits, **fields)
        return self.queue.submit(ANN, asked, f"the-key-{self.keys}", 1_000)[0]

    def begin(self, number: int) -> None:
        self.queue.begun(number, self.queue.job(number).attempt, 1_000)

    def end(self, number: int, ending: f.JobEnding = DONE) -> None:
        self.begin(number)
        self.queue.ended(number, self.queue.job(number).attempt, ending, 1_000)

    def state(self, number: int) -> str:
        job = self.queue.flow.table.jobs.get(number)
        return "over" if job is None else job.phase

    def withdrawn(self) -> dict[int, str]:
        over = self.queue.take_effects().over
        return {job.number: job.kill_detail for job in over if job.phase == "withdrawn"}


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.mark.parametrize(
    ("happened", "endings", "becomes"),
    [
        ("succeeded", (DONE, DONE, DONE), ("held", "held", "starting")),
        ("succeeded", (DONE, FAILED), ("held", "over")),
        ("ended", (FAILED, DONE, FAILED), ("held", "held", "starting")),
        ("failed", (FAILED, DONE, DONE), ("held", "held", "starting")),
        ("failed", (DONE, DONE, DONE), ("held", "held", "over")),
    ],
)
def test_who_waits_for_an_array_waits_for_all_of_it(
    room: Room, happened: Dependency, endings: tuple[f.JobEnding, ...], becomes: tuple[str, ...]
) -> None:
    first = room.submit(indices=(5, 6, 7))
    waiting = room.submit(first, happened=happened)
    for number, (ending, state) in enumerate(zip(endings, becomes, strict=True), first):
        room.end(number, ending)
        assert room.state(waiting) == state


def test_who_waits_for_the_start_of_an_array_waits_until_all_have_begun_once(room: Room) -> None:
    first = room.submit(indices=(5, 6), rerun=True)
    waiting = room.submit(first, happened="started")
    room.end(first, f.JobEnding(kind="lost"))
    room.begin(first)
    assert room.state(waiting) == "held", "one of the two has begun, twice"
    room.begin(first + 1)
    assert room.state(waiting) == "starting"


def test_an_array_of_which_one_never_began_will_never_have_started(room: Room) -> None:
    first = room.submit(indices=(5, 6), held=True)
    waiting = room.submit(first, happened="started")
    room.queue.cancel(first, "", 1_000)
    room.queue.cancel(first + 1, "", 1_000)
    assert room.withdrawn()[waiting] == ("it waited for array 1, which ended without a start")


def test_a_later_number_of_an_array_is_that_job_alone(room: Room) -> None:
    first = room.submit(indices=(5, 6))
    waiting = room.submit(first + 1)
    room.end(first + 1)
    assert room.state(waiting) == "starting"


def test_who_comes_when_an_array_is_over_hears_of_all_of_it(room: Room) -> None:
    first = room.submit(indices=(5, 6))
    room.end(first)
    room.end(first + 1, FAILED)
    assert room.state(room.submit(first, happened="failed")) == "starting"
    assert room.state(room.submit(first)) == "over"


def test_a_long_chain_behind_a_failure_is_withdrawn_each_for_the_one_before(room: Room) -> None:
    first = last = room.submit()
    for _ in range(CHAIN):
        last = room.submit(last)
    room.end(first, FAILED)
    said = room.withdrawn()
    assert len(said) == CHAIN
    assert said[last] == f"it waited for job {last - 1}, which has not succeeded"
    assert not room.queue.flow.table.jobs


def test_what_waits_for_a_job_that_is_over_already_ends_at_once(room: Room) -> None:
    first = room.submit()
    room.end(first, FAILED)
    second = room.submit(first)
    assert room.withdrawn() == {second: "it waited for job 1, which has not succeeded"}


def test_a_job_held_by_its_user_ends_too_when_what_it_waits_for_never_comes(room: Room) -> None:
    first = room.submit()
    second = room.submit(first, held=True)
    room.end(first, FAILED)
    assert second in room.withdrawn()


def test_a_released_job_waits_for_nothing_any_more(room: Room) -> None:
    first = room.submit()
    second = room.submit(first)
    room.queue.release(second, ["dependency"], 1_000)
    room.end(first, FAILED)
    assert room.state(second) == "starting"


def test_a_withdrawal_that_was_not_stored_is_made_after_a_restart(room: Room) -> None:
    first = room.submit()
    second = room.submit(first)
    room.end(first, FAILED)
    entries = room.queue.take_effects().entries
    assert isinstance(entries[-1].fact, f.JobWithdrawn)
    again = BatchQueue("lab/box", None, 1_000, entries[:-1])
    again.recover()
    assert [job.number for job in again.take_effects().over] == [second]
