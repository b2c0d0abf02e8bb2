"""A process that follows the journals of a site's queues, and says when waiting jobs will start.

Started by `forecast`: ``python -m kalends.batch.follower STORE``. A question with the name of a machine comes
in, the answer as JSON goes out (`child_frames`). As it goes through the facts anyway, it also keeps the state
that they have made (`state_files`).
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from kalends.batch.journal.job_journal import entries_after
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import replayed
from kalends.batch.state_files import load_state, save_state
from kalends.contract.job_calls import NodeGap, PredictedStart
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.limits import DURATION_S_MAX
from kalends.scheduling.prediction.frozen import delays, predicted_starts
from kalends.scheduling.prediction.predictor import FollowingScheduler
from kalends.scheduling.prediction.vacancies import Vacancy, vacancies
from kalends.scheduling.profile import NEVER
from kalends.scheduling.reservations import Reservation
from kalends.serving.child_frames import answer_all
from kalends.stores.sqlite.sqlite_file import reading

Question = Literal["starts", "gaps"]

Span = tuple[int, int, int]
"""Start, end, nodes."""

Asked = Question | Literal["state"]
"""Also up to which fact the state is kept."""

FACTS_A_STATE: Final = 20_000
"""After so many facts of a queue its state is kept anew."""


class Foreseen(msgspec.Struct, frozen=True):
    """What was asked, as of fact `known`, at `made_at`; `error` if it cannot be told.

    Either the starts of the jobs that wait, by number, or what could start at once.
    """

    known: int = 0
    made_at: int = 0
    starts: dict[int, PredictedStart] = {}
    gaps: tuple[NodeGap, ...] = ()
    delays: tuple[dict[int, int] | None, ...] = ()
    """For each span that was asked about, by how much jobs would start later; None: it has no room."""
    error: str = ""


class JournalFollower:
    """The queues whose facts are in the store at `path`, as far as they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queues: dict[str, BatchQueue] = {}
        self._kept: dict[str, int] = {}
        self._unfollowed: set[str] = set()
        """Machines whose journal was not followed to its end: the next time it is taken as a whole."""
        self._unkept = ""
        """Why the last state could not be kept."""

    def foresee(self, question: Asked, machine: str) -> Foreseen:
        """Read the new facts, and answer. Raises `StoreDamaged`; the next call starts from the first fact."""
        queue = self._followed(machine)
        if question == "state":
            return Foreseen(self._kept.get(machine, 0), queue.last_s, error=self._unkept)
        scheduler, now = queue.flow.room.scheduler, queue.last_s
        if question == "starts":
            assert isinstance(scheduler, FollowingScheduler)
            return Foreseen(queue.number, now, starts=_starts(scheduler, now))
        terms = queue.flow.terms
        priority = terms.classes.get(terms.default_class, 0)
        longest_s = DURATION_S_MAX + terms.ending_s
        found = vacancies(scheduler, now, longest_s, priority)
        return Foreseen(queue.number, now, gaps=tuple(_gaps(found, now, terms.ending_s)))

    def delays(self, machine: str, spans: Sequence[Span]) -> Foreseen:
        """Return by how much each of `spans`, reserved by itself, would delay the jobs that wait."""
        queue = self._followed(machine)
        scheduler, now = queue.flow.room.scheduler, queue.last_s
        starts = predicted_starts(scheduler, now)
        found = tuple(
            delays(scheduler, Reservation(start, end, nodes, "asked about"), now, starts)
            for start, end, nodes in spans
        )
        return Foreseen(queue.number, now, delays=found)

    def _followed(self, machine: str) -> BatchQueue:
        queue = self._queues.pop(machine, None)
        with reading(self._path) as connection:
            if queue is None:
                queue = self._begun(connection, machine)
            self._unfollowed.add(machine)
            while queue.number - self._kept[machine] >= FACTS_A_STATE or _follow(connection, queue):
                self._keep(connection, queue)
            self._unfollowed.remove(machine)
        self._queues[machine] = queue
        return queue

    def _begun(self, connection: sqlite3.Connection, machine: str) -> BatchQueue:
        known = load_state(self._path, connection, machine)
        self._kept[machine] = known.number if known is not None else 0
        make = partial(replayed, machine, None, 0, scheduler_type=FollowingScheduler)
        if machine in self._unfollowed:
            return make(partial(entries_after, connection, machine))
        return make(
            lambda number: islice(entries_after(connection, machine, number), FACTS_A_STATE),
            known=known,
        )

    def _keep(self, connection: sqlite3.Connection, queue: BatchQueue) -> None:
        """Keep the state; if that cannot be, it is tried again when as many facts have come."""
        self._kept[queue.name] = queue.number
        try:
            save_state(self._path, connection, queue.name, queue.state)
        except (OSError, InvalidInput) as error:
            self._unkept = f"the state of the queue cannot be kept: {error}"
        else:
            self._unkept = ""


def _follow(connection: sqlite3.Connection, queue: BatchQueue) -> bool:
    """Follow the next facts; return whether there may be more."""
    before = queue.number
    queue.follow(islice(entries_after(connection, queue.name, before), FACTS_A_STATE))
    return queue.number - before == FACTS_A_STATE


def _gaps(found: Iterable[Vacancy], now: int, ending_s: int) -> Iterator[NodeGap]:
    """Yield what limits would let jobs start at once: they are ended within the time that is free."""
    for nodes, until_s in found:
        if until_s == NEVER:
            yield NodeGap(nodes=nodes, until=0)
        elif until_s - ending_s > now:
            yield NodeGap(nodes=nodes, until=until_s - ending_s)


def _starts(scheduler: FollowingScheduler, now: int) -> dict[int, PredictedStart]:
    return {
        job.id: PredictedStart(
            made_at=now, latest=each.requested_s, expected=each.expected_s, p50=each.p50_s,
            p90=each.p90_s,
        )
        for job, each in scheduler.predict_all(now).items()
    }  # fmt: skip


_ENCODER: Final = msgspec.json.Encoder()
_SPANS: Final = msgspec.json.Decoder(tuple[Span, ...])


def _answered(follower: JournalFollower, asked: bytes) -> bytes:
    question, machine, *spans = asked.decode().split()
    try:
        if question == "delays":
            answer = follower.delays(machine, _SPANS.decode(spans[0]))
        else:
            answer = follower.foresee(msgspec.convert(question, Asked), machine)
    except KalendsError as error:
        answer = Foreseen(error=str(error))
    return _ENCODER.encode(answer)


if __name__ == "__main__":
    answer_all(partial(_answered, JournalFollower(Path(sys.argv[1]))))
