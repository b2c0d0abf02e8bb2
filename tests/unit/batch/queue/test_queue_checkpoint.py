"""A checkpoint of a queue: what it knows comes back, and nothing else is ever read."""

from __future__ import annotations

import hashlib
import os
import pickle
import zlib

import pytest
from msgspec.structs import replace

from kalends.batch.queue import facts as f
from kalends.batch.queue.checkpoint import bound, decode_state, encode_state
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput, KeyReused
from kalends.core.jobs import After, JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.prediction.predictor import FollowingScheduler
from kalends.scheduling.registry import POLICIES
from kalends.scheduling.scheduler import Scheduler

ANN, BOB = Principal("ann"), Principal("bob")
TERMS = f.Terms(machine="pool:8", user=f.JobLimits(node_seconds=5_000), tariff={"normal": 3})


def job(**changes: object) -> JobRequest:
    return replace(JobRequest(machine="lab/box", command=("x",), nodes=2, limit_s=50), **changes)


def filled(terms: f.Terms = TERMS) -> tuple[BatchQueue, list[f.JournalEntry]]:
    """Return a queue after 40 s: jobs have ended, run, wait for nodes, for others, and under a limit."""
    queue = BatchQueue("lab/box", terms, 1_000)
    queue.drain([7], "its fan", 1_000)
    entries = []
    for number in range(1, 41):
        after = (After(job=number - 1, happened="ended"),) if number % 5 == 0 else ()
        queue.submit(
            ANN if number % 3 else BOB, job(after=after), f"key-{number:04}", 1_000 + number
        )
        effects = queue.take_effects()
        entries += effects.entries
        for each in effects.actions:
            if isinstance(each, Start):
                queue.begun(each.job.number, each.attempt, 1_000 + number)
        for running in [each for each in queue.flow.table if each.phase == "running"]:
            if running.started_s + 7 <= 1_000 + number:
                ending = f.JobEnding(kind="exit", status=running.number % 2)
                queue.ended(running.number, running.attempt, ending, 1_000 + number)
    entries += queue.take_effects().entries
    return queue, entries


def restored(entries: list[f.JournalEntry], terms: f.Terms = TERMS) -> BatchQueue:
    follower = BatchQueue("lab/box", None, 0, entries, scheduler_type=FollowingScheduler)
    known = decode_state(encode_state(follower.state))
    return BatchQueue("lab/box", terms, 2_000, known=known)


def test_keys_numbers_sums_and_drained_nodes_come_back() -> None:
    queue, entries = filled()
    again = restored(entries)
    assert again.number == queue.number == entries[-1].number
    assert again.submit(BOB, job(), "key-0003", 2_000) == (3, 1)
    with pytest.raises(KeyReused):
        again.submit(BOB, job(nodes=3), "key-0003", 2_000)
    assert again.submit(ANN, job(), "a-new-key", 2_000) == (41, 1)
    before = queue.flow.accounts.uses
    assert {name: use.used for name, use in again.flow.accounts.uses.items()} == {
        name: use.used for name, use in before.items()
    }
    assert again.flow.room.scheduler.cluster.out_of_service == 1


def test_jobs_go_on_waiting_for_others_that_ended_before() -> None:
    queue, entries = filled()
    again = restored(entries)
    for each in (queue, again):
        number = 41
        each.submit(ANN, job(after=(After(job=2, happened="ended"),)), "key-late", 2_000)
        assert "dependency" not in each.job(number).reasons


@pytest.mark.parametrize(
    "policy", [f"{each.name}:10" if each.number else each.name for each in POLICIES]
)
def test_the_state_under_each_policy_can_be_kept_and_starts_the_same_jobs(policy: str) -> None:
    terms = f.Terms(machine="pool:8", policy=policy)
    queue, entries = filled(terms)
    again = restored(entries, terms)
    assert type(again.flow.room.scheduler) is Scheduler
    for now in range(2_000, 2_200, 10):
        starts = []
        for each in (queue, again):
            for running in [one for one in each.flow.table if one.on_nodes]:
                each.begun(running.number, running.attempt, now)
                each.ended(running.number, running.attempt, f.JobEnding(kind="exit"), now)
            each.advance(now)
            actions = each.take_effects().actions
            starts.append([(a.job.number, a.nodes) for a in actions if isinstance(a, Start)])
        assert starts[0] == starts[1]
    assert not queue.flow.table.jobs


def test_thousands_of_waiting_jobs_are_no_obstacle() -> None:
    queue = BatchQueue("lab/box", f.Terms(machine="pool:8", policy="conservative"), 1_000)
    for number in range(300):
        queue.submit(ANN, job(indices=tuple(range(10))), f"key-{number:04}", 1_000)
    queue.take_effects()
    known = decode_state(encode_state(queue.state))
    assert len(known.flow.table.jobs) == 3_000


def test_a_predictor_remembers_how_long_jobs_have_run() -> None:
    _, entries = filled()
    follower = BatchQueue("lab/box", None, 0, entries, scheduler_type=FollowingScheduler)
    known = decode_state(encode_state(follower.state))
    again = BatchQueue("lab/box", None, 0, known=known, scheduler_type=FollowingScheduler)
    told = []
    for each in (follower, again):
        scheduler = each.flow.room.scheduler
        assert isinstance(scheduler, FollowingScheduler)
        told.append({job.id: said for job, said in scheduler.predict_all(1_050).items()})
    assert told[0]
    assert told[0] == told[1]


def test_a_state_that_only_decides_cannot_go_on_predicting() -> None:
    queue, _ = filled()
    known = decode_state(encode_state(queue.state))
    with pytest.raises(InvalidInput):
        BatchQueue("lab/box", None, 0, known=known, scheduler_type=FollowingScheduler)


def test_a_flipped_bit_is_found() -> None:
    queue, _ = filled()
    body = bytearray(encode_state(queue.state))
    for at in (3, len(body) // 2, len(body) - 1):
        body[at] ^= 4
        with pytest.raises(InvalidInput, match="damaged"):
            decode_state(bytes(body))
        body[at] ^= 4
    decode_state(bytes(body))


class Foreign:
    def __reduce__(self) -> tuple[object, ...]:
        return os.getcwd, ()


class MethodOfOthers:
    def __reduce__(self) -> tuple[object, ...]:
        return bound, ("text", "upper")


@pytest.mark.parametrize("what", [Foreign(), getattr, MethodOfOthers()])
def test_objects_of_other_programs_are_not_made(what: object) -> None:
    body = zlib.compress(pickle.dumps(what))
    with pytest.raises(InvalidInput, match="not part of a queue"):
        decode_state(hashlib.blake2b(body, digest_size=16).digest() + body)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kalends.batch.queue.queue", "chain"),
        ("kalends.batch.queue.queue", "BatchQueue.submit"),
        ("kalends.core.jobs", "msgspec.json.decode"),
        ("kalends.serving.logs", "get_logger"),
    ],
)
def test_what_our_modules_have_imported_is_not_ours(module: str, name: str) -> None:
    named = pickle.GLOBAL + f"{module}\n{name}\n".encode() + pickle.STOP
    body = zlib.compress(named)
    with pytest.raises(InvalidInput, match="not part of a queue"):
        decode_state(hashlib.blake2b(body, digest_size=16).digest() + body)
