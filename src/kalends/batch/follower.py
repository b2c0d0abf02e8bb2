"""A process that follows the journals of a site's queues, and says when waiting jobs will start.

Started by `forecast`: ``python -m kalends.batch.follower STORE``. A line with the name of a machine comes in,
a line with the prediction goes out. It ends when its input does: with the server, however that ends.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import msgspec

from kalends.batch.queue.queue import BatchQueue
from kalends.contract.job_calls import PredictedStart
from kalends.core.errors import KalendsError
from kalends.scheduling.prediction.predictor import FollowingScheduler
from kalends.stores.sqlite.job_journal import entries_after
from kalends.stores.sqlite.sqlite_file import reading


class Foreseen(msgspec.Struct, frozen=True):
    """The starts of the jobs that wait, by number, after fact `known`; `error` if they cannot be told."""

    known: int = 0
    starts: dict[int, PredictedStart] = {}
    error: str = ""


class JournalFollower:
    """The queues whose facts are in the store at `path`, as far as they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queues: dict[str, BatchQueue] = {}

    def foresee(self, machine: str) -> Foreseen:
        """Read the new facts, and predict. Raises `StoreDamaged`, and begins anew the next time."""
        queue = self._queues.pop(machine, None)
        with reading(self._path) as connection:
            entries = entries_after(connection, machine, queue.number if queue is not None else 0)
            if queue is None:
                queue = BatchQueue(machine, None, 0, entries, scheduler_type=FollowingScheduler)
            else:
                queue.follow(entries)
        self._queues[machine] = queue
        scheduler, now = queue.flow.room.scheduler, queue.last_s
        assert isinstance(scheduler, FollowingScheduler)
        starts = {
            job.id: PredictedStart(
                made_at=now, latest=each.requested_s, expected=each.expected_s, p50=each.p50_s,
                p90=each.p90_s,
            )
            for job, each in scheduler.predict_all(now).items()
        }  # fmt: skip
        return Foreseen(queue.number, starts)


_ENCODER: Final = msgspec.json.Encoder()


def main() -> None:
    follower = JournalFollower(Path(sys.argv[1]))
    for line in sys.stdin.buffer:
        try:
            answer = follower.foresee(line.decode().strip())
        except KalendsError as error:
            answer = Foreseen(error=str(error))
        sys.stdout.buffer.write(_ENCODER.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
