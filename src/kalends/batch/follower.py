"""A process that follows the journals of a site's queues, and says when waiting jobs will start.

Started by `forecast`: ``python -m kalends.batch.follower STORE``, or without STORE if that is a database,
with its URL in the environment (`STORE_URL`). A question with the name of a machine comes in, the answer as
MessagePack goes out (`child_frames`). As it goes through the facts anyway, it also answers with the state
that they have made, for the site to store (`queue_states`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from kalends.batch.journal.contract import JobJournal, StoredState
from kalends.batch.queue.facts import JournalEntry
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import replayed
from kalends.batch.queue_states import state_to_store, usable_state
from kalends.contract.job_calls import NodeGap, PredictedStart
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.limits import DURATION_S_MAX
from kalends.scheduling.prediction.frozen import delays, predicted_starts
from kalends.scheduling.prediction.predictor import FollowingScheduler
from kalends.scheduling.prediction.vacancies import Vacancy, vacancies
from kalends.scheduling.profile import NEVER
from kalends.scheduling.reservations import Reservation
from kalends.serving.child_frames import answer_all

STORE_URL: Final = "KALENDS_STORE_URL"
"""The variable with the URL: arguments of a process can be read by all users of its host."""

Question = Literal["starts", "gaps"]

Span = tuple[int, int, int]
"""Start, end, nodes."""

Asked = Question | Literal["state"]
"""Also the state that the facts have made."""

FACTS_A_STATE: Final = 20_000
"""After so many facts of a queue its state is stored anew; a follower that is asked for it reads no more."""


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
    state: StoredState | None = None
    error: str = ""


class JournalFollower:
    """The queues whose facts are in the journals that `opened` reads, as far as they were read."""

    def __init__(self, opened: Callable[[], AbstractContextManager[JobJournal]]) -> None:
        self._opened = opened
        self._queues: dict[str, BatchQueue] = {}
        self._unfollowed: set[str] = set()
        """Machines whose journal was not followed to its end: the next time it is taken as a whole."""

    def foresee(self, question: Asked, machine: str) -> Foreseen:
        """Read the new facts, and answer. Raises `StoreDamaged`; the next call starts from the first fact."""
        if question == "state":
            return self._state(machine)
        queue = self._followed(machine)
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

    def _state(self, machine: str) -> Foreseen:
        """Follow as many facts as a state is stored after, and say what state they have made."""
        with self._opened() as journal:
            queue = self._further(journal, machine)
            try:
                state = state_to_store(journal, machine, queue.state)
            except InvalidInput as error:
                return Foreseen(queue.number, queue.last_s, error=str(error))
        return Foreseen(queue.number, queue.last_s, state=state)

    def _followed(self, machine: str) -> BatchQueue:
        with self._opened() as journal:
            before = -1
            while (queue := self._further(journal, machine)).number != before:
                before = queue.number
        return queue

    def _further(self, journal: JobJournal, machine: str) -> BatchQueue:
        """Follow the next facts, as many as a state is stored after; a queue that is new begins with them."""
        queue = self._queues.pop(machine, None)
        whole = machine in self._unfollowed
        self._unfollowed.add(machine)
        if queue is None:
            queue = self._begun(journal, machine, whole=whole)
        else:
            following = journal.entries_after(machine, queue.number)
            queue.follow(islice(following, FACTS_A_STATE))
        self._unfollowed.remove(machine)
        self._queues[machine] = queue
        return queue

    def _begun(self, journal: JobJournal, machine: str, *, whole: bool) -> BatchQueue:
        def entries(number: int) -> Iterator[JournalEntry]:
            return islice(journal.entries_after(machine, number), None if whole else FACTS_A_STATE)

        known = None if whole else usable_state(journal, machine)
        make = partial(replayed, machine, None, 0, scheduler_type=FollowingScheduler)
        return make(entries, known=known)


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
    return msgspec.msgpack.encode(answer)


def _journals(arguments: Sequence[str]) -> Callable[[], AbstractContextManager[JobJournal]]:
    """Return what reads the journals; each kind of store is imported only where it is used."""
    if arguments:
        from kalends.batch.journal.sqlite.job_journal import job_journal_at

        return partial(job_journal_at, Path(arguments[0]))
    from kalends.batch.journal.postgres.job_journal import job_journal_in
    from kalends.stores.postgres.address import Address

    return partial(job_journal_in, Address(os.environ[STORE_URL]))


if __name__ == "__main__":
    answer_all(partial(_answered, JournalFollower(_journals(sys.argv[1:]))))
