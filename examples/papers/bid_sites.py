"""A site of a federation: a real queue with places to offer, which can be cut off for a while."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Final, NamedTuple

from bid_jobs import FederatedJob, SiteNature, left_over

from kalends.batch.queue.effects import Start
from kalends.batch.queue.facts import JobEnding, Terms
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.federation.offered_places import OfferedPlace

T0_S: Final = 1_800_000_000
COUNTED_S: Final = 3
"""So long a decision may take: bids are waited for a second, a vote that does not come for another."""

SOMEBODY: Final = Principal("somebody")
DONE: Final = JobEnding(kind="exit")
At = Callable[[float, Callable[[], None]], None]
"""Has something done at a time in ms; what ends comes before all else of that time."""


class Begun(NamedTuple):
    """A job has begun at `since_s`, or a program of the site's own (`key` "")."""

    key: str
    since_s: int
    run_s: int


class FederatedSite:
    """The queue and its clock. `begun` is told of every start."""

    def __init__(
        self, number: int, nature: SiteNature, ends: At, begun: Callable[[Begun], None]
    ) -> None:
        self.number = number
        self.name = f"s{number:05}"
        self.nature = nature
        self.away_until_ms = -1.0
        self.asked = 0
        self.busy_until_ms = 0.0
        self._ends = ends
        self._begun = begun
        terms = Terms(machine=f"pool:{nature.nodes}", policy="conservative")
        self.queue = BatchQueue(f"{self.name}/box", terms, T0_S)
        self.offers = PlaceOffers(self.queue)
        self._runs_s: dict[int, int] = {}
        self._keys: dict[int, str] = {}
        self._held: set[int] = set()
        """Offered, and not promised: they end by themselves."""
        self._due_s: int | None = None

    def fill(self, share: float, draw: Random) -> None:
        """Let it have jobs that run already on that share of its nodes."""
        to_fill = round(share * self.nature.nodes)
        turns = count()
        while to_fill:
            nodes, run_s, limit_s = left_over(draw, to_fill)
            to_fill -= nodes
            request = self._request(nodes, self.nature.seconds(limit_s))
            number, _ = self.queue.submit(SOMEBODY, request, f"own-job-{next(turns)}", T0_S)
            self._runs_s[number], self._keys[number] = self.nature.seconds(run_s), ""
        self._settle(T0_S)

    def offer(self, job: FederatedJob, key: str, now_ms: float) -> tuple[int, OfferedPlace]:
        """Give the job a place, and say when it would begin there."""
        now_s = seconds(now_ms)
        number = self.offers.offer(
            SOMEBODY, self._request(job.nodes, self.nature.limit(job)), key, COUNTED_S, now_s
        )
        self._runs_s[number], self._keys[number] = self.nature.seconds(job.run_s), key
        self._held.add(number)
        start_by = max(self.offers.start_by(number), now_s + COUNTED_S)
        self._settle(now_s)
        place = OfferedPlace(
            self.name, f"{self.name}/box", job.nodes, start_by, start_by, start_by,
            self.nature.limit(job), firm=True,
        )  # fmt: skip
        return number, place

    def is_held(self, number: int) -> bool:
        """Whether the place is offered still, and not promised."""
        return number in self._held

    def promise(self, number: int) -> bool:
        """Keep the place until its outcome is known; says whether it is there still."""
        there = self.is_held(number)
        self._held.discard(number)
        return there

    def take(self, number: int, now_ms: float) -> None:
        self.offers.take(number, seconds(now_ms))
        self._settle(seconds(now_ms))

    def give_up(self, number: int, now_ms: float) -> None:
        self.queue.cancel(number, "another place was taken", seconds(now_ms))
        self._held.discard(number)
        del self._runs_s[number], self._keys[number]
        self._settle(seconds(now_ms))

    def _request(self, nodes: int, limit_s: int) -> JobRequest:
        return JobRequest(
            machine=f"{self.name}/box", nodes=nodes, limit_s=limit_s, command=("true",)
        )

    def _settle(self, now_s: int) -> None:
        for action in self.queue.take_effects().actions:
            assert isinstance(action, Start)
            number, attempt = action.job.number, action.attempt
            self.queue.begun(number, attempt, now_s)
            since_s, run_s = action.job.since_s, self._runs_s[number]
            self._begun(Begun(self._keys[number], since_s, run_s))
            end_s = since_s + run_s
            self._ends(1_000.0 * (end_s - T0_S), partial(self._ended, number, attempt, end_s))
        due_s = self.queue.next_due_s()
        if due_s is not None and (self._due_s is None or due_s < self._due_s):
            self._due_s = due_s
            self._ends(1_000.0 * (due_s - T0_S), partial(self._due, due_s))

    def _ended(self, number: int, attempt: int, now_s: int) -> None:
        self.queue.ended(number, attempt, DONE, now_s)
        del self._runs_s[number], self._keys[number]
        self._settle(now_s)

    def _due(self, now_s: int) -> None:
        if self._due_s == now_s:
            self._due_s = None
            self.queue.advance(now_s)
            self._settle(now_s)


def seconds(now_ms: float) -> int:
    return T0_S + int(now_ms // 1_000)
