"""A process that an owner's own code holds for ever ends itself, and the next one knows which it was.

Each class decides in a process of its own: it could end that of the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import erring_policies
import pytest

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.stopwatch import Stopwatch
from kalends.batch.watchdog import Watchdog
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

STUCK = f"{erring_policies.__name__}:StuckInC"

JOB = JobRequest(machine="lab/box", nodes=3, limit_s=60, command=("true",))

QUEUE = """
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.stopwatch import Stopwatch
from kalends.batch.watchdog import Watchdog
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from pathlib import Path
import sys

hard_s = float(sys.argv[3])
watch = Stopwatch(hard_s / 5, Watchdog(Path(sys.argv[1]), sys.argv[2], hard_s))
queue = BatchQueue("lab/box", f.Terms(machine="pool:4", policy=sys.argv[2]), 1_000, watch=watch)
job = JobRequest(machine="lab/box", nodes=3, limit_s=60, command=("true",))
queue.advance(1_000)
print("asks", queue.fault, flush=True)
queue.submit(Principal("ann"), job, "the-key", 1_000)
print(queue.fault)
"""


def held(mark: Path, policy: str, hard_s: float) -> subprocess.Popen[str]:
    """Start a process whose policy decides about one job."""
    support = str(Path(erring_policies.__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", QUEUE, str(mark), policy, str(hard_s)],
        env={"PYTHONPATH": support}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def queue_after(mark: Path, policy: str) -> BatchQueue:
    watch = Stopwatch(60, Watchdog(mark, policy, 0.2))
    return BatchQueue("lab/box", f.Terms(machine="pool:4", policy=policy), 1_000, watch=watch)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What is left of a process that a class in C has held."""
    mark = tmp_path / "lab.box.stuck"
    with held(mark, STUCK, 3) as process:
        assert process.communicate()[0] == "asks \n"
    assert process.returncode == 1
    return mark


def line_of(text: str) -> str:
    path = Path(erring_policies.__file__)
    return f"{path}:{1 + path.read_text().splitlines().index(text)}"


def test_a_class_that_has_held_a_process_in_c_is_disabled_before_it_is_asked_again(
    mark: Path,
) -> None:
    queue = queue_after(mark, STUCK)
    assert queue.next_due_s() == 1_000, "its owner need not wait for a job"
    queue.advance(1_000)
    assert queue.fault.startswith(f"policy {STUCK}: it did not return within")
    assert line_of("            sum(repeat(1))") in queue.fault
    queue.submit(Principal("ann"), JOB, "the-key", 1_000)
    assert queue.job(1).nodes == (0, 1, 2)


def test_a_class_that_takes_its_place_is_not_blamed(mark: Path) -> None:
    other = f"{erring_policies.__name__}:Capricious"
    for policy in (other, STUCK):
        queue = queue_after(mark, policy)
        queue.advance(1_000)
        assert queue.fault == "", "and the mark is gone"


def test_a_class_that_is_let_decide_again_is_not_blamed_twice(mark: Path) -> None:
    queue = queue_after(mark, STUCK)
    queue.advance(1_000)
    queue.set_policy(STUCK, 1_000)
    assert queue.fault == ""
    assert Watchdog(mark, STUCK, 0.2).struck == ""


def test_a_class_in_whose_decision_the_process_was_killed_is_not_blamed(tmp_path: Path) -> None:
    mark = tmp_path / "lab.box.stuck"
    with held(mark, STUCK, 600) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asks \n"
        process.kill()
    assert Watchdog(mark, STUCK, 0.2).struck == ""


def test_a_class_that_cannot_be_interrupted_is_told_so_a_few_times_and_then_ended(
    tmp_path: Path,
) -> None:
    mark = tmp_path / "lab.box.stuck"
    policy = f"{erring_policies.__name__}:Unstoppable"
    with held(mark, policy, 2) as process:
        said, *interrupts = process.communicate()[0].splitlines()
    assert said == "asks "
    assert process.returncode == 1
    assert 2 <= len(interrupts) <= 9, "each time it waits twice as long"
    assert erring_policies.__file__ in Watchdog(mark, policy, 2).struck


def test_a_mark_that_cannot_be_written_is_no_reason_to_hang(tmp_path: Path) -> None:
    with held(tmp_path / "nowhere" / "mark", STUCK, 3) as process:
        assert process.communicate()[0] == "asks \n"
    assert process.returncode == 1
