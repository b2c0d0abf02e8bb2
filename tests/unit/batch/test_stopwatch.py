"""An owner's own code that takes too long is interrupted, never in the midst of a change of ours."""

from __future__ import annotations

import signal
import threading

import erring_policies
import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.stopwatch import Stopwatch
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal


def queue_of_four(policy: str, watch: Stopwatch) -> BatchQueue:
    terms = f.Terms(machine="pool:4", policy=f"{erring_policies.__name__}:{policy}")
    return BatchQueue("lab/box", terms, 1_000, watch=watch)


def test_a_policy_that_never_comes_back_is_disabled_and_what_it_has_started_stands() -> None:
    queue = queue_of_four("Endless", Stopwatch(0.05))
    for number, nodes in enumerate((3, 4, 1)):
        job = JobRequest(machine="lab/box", nodes=nodes, limit_s=60, command=("true",))
        queue.submit(Principal("ann"), job, f"the-key-{number}", 1_000)
    assert "schedule was interrupted: it took longer than 50 ms" in queue.fault
    assert f"({erring_policies.__file__}:" in queue.fault
    assert [queue.job(number).phase for number in (1, 2, 3)] == ["starting", "queued", "starting"]
    entries = queue.take_effects().entries
    again = BatchQueue("lab/box", queue.flow.terms, 1_000, entries)
    assert again.fault == queue.fault
    assert [job.nodes for job in again.flow.table] == [job.nodes for job in queue.flow.table]


@pytest.mark.parametrize("policy", ["SwallowsErrors", "NeverMade", "LoopsWhenRead"])
def test_a_policy_is_disabled_wherever_it_never_comes_back(policy: str) -> None:
    queue = queue_of_four(policy, Stopwatch(0.05))
    job = JobRequest(machine="lab/box", nodes=3, limit_s=60, command=("true",))
    queue.submit(Principal("ann"), job, "the-key", 1_000)
    assert "was interrupted: it took longer than 50 ms" in queue.fault
    assert f"({erring_policies.__file__}:" in queue.fault
    assert queue.job(1).nodes == (0, 1, 2)


@pytest.mark.parametrize("round_number", range(5))
def test_nothing_of_ours_is_left_half_done(round_number: int) -> None:
    """The class changes the cluster all the time: it is interrupted, and every node is where it was."""
    queue = queue_of_four("StartsAndTakesBack", Stopwatch(0.01 + round_number / 1000))
    job = JobRequest(machine="lab/box", nodes=2, limit_s=60, command=("true",))
    queue.submit(Principal("ann"), job, "the-key", 1_000)
    assert queue.fault
    cluster = queue.flow.room.scheduler.cluster
    assert cluster.free == 2
    assert queue.job(1).nodes == (0, 1)
    assert [each.id for _, _, each in cluster.ends] == [1]


def test_elsewhere_than_in_the_main_thread_it_is_told_when_it_is_over() -> None:
    said: list[str] = []

    def work() -> None:
        try:
            Stopwatch(0.0)(lambda: None)
        except TimeoutError as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == ["it took longer than 0 ms"]


def test_the_timer_of_somebody_else_goes_on() -> None:
    before = signal.getsignal(signal.SIGALRM)
    left_s, every_s = signal.setitimer(signal.ITIMER_REAL, 1_000)
    try:
        Stopwatch(60)(lambda: None)
        assert 900 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1_000
        assert signal.getsignal(signal.SIGALRM) is before
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s, every_s)
