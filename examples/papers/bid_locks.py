"""What a bid holds: a place in the queue as shipped, a rectangle of the machine's time, or nothing at all.

"Locking is used to prevent race conditions": another job "in the midst of the current one" may want the same
machines (Weissman and Grimshaw 1996, section 4.1). The paper locks the machines of the best schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Final, NamedTuple

from bid_jobs import FederatedJob, SiteNature, left_over
from bid_sites import COUNTED_S, SOMEBODY, T0_S, At, Begun, FederatedSite, seconds

from kalends.federation.offered_places import OfferedPlace
from kalends.scheduling.profile import Profile


class UnlockedSite(FederatedSite):
    """Says when a job would begin if it came now, and holds nothing: it stands in line once it has come."""

    def __init__(
        self, number: int, nature: SiteNature, ends: At, begun: Callable[[Begun], None]
    ) -> None:
        super().__init__(number, nature, ends, begun)
        self._told: dict[int, tuple[FederatedJob, str]] = {}

    def offer(self, job: FederatedJob, key: str, now_ms: float) -> tuple[int, OfferedPlace]:
        number, place = super().offer(job, key, now_ms)
        super().give_up(number, now_ms)
        self._told[number] = job, key
        return number, place

    def is_held(self, number: int) -> bool:
        return number in self._told

    def promise(self, number: int) -> bool:
        return self.is_held(number)

    def take(self, number: int, now_ms: float) -> None:
        job, key = self._told.pop(number)
        now_s = seconds(now_ms)
        queued, _ = self.queue.submit(
            SOMEBODY, self._request(job.nodes, self.nature.limit(job)), f"{key}-itself", now_s
        )
        self._runs_s[queued], self._keys[queued] = self.nature.seconds(job.run_s), key
        self._settle(now_s)

    def give_up(self, number: int, now_ms: float) -> None:
        del self._told[number]


class Rectangle(NamedTuple):
    """Nodes from `start_s` until `end_s`, of which the program needs `run_s`."""

    key: str
    nodes: int
    start_s: int
    end_s: int
    run_s: int


class RectangleSite(FederatedSite):
    """Holds nodes for a job's whole limit at the earliest time; what is given back moves nobody up.

    It is a calendar, and no queue: who comes later may find the hole.
    """

    def __init__(
        self, number: int, nature: SiteNature, ends: At, begun: Callable[[Begun], None]
    ) -> None:
        super().__init__(number, nature, ends, begun)
        self._free = Profile(T0_S, nature.nodes)
        self._rectangles: dict[int, Rectangle] = {}
        self._numbers = count(1)

    def fill(self, share: float, draw: Random) -> None:
        to_fill = round(share * self.nature.nodes)
        while to_fill:
            nodes, run_s, limit_s = left_over(draw, to_fill)
            to_fill -= nodes
            self._begin(self._book("", nodes, run_s, limit_s, T0_S), T0_S)

    def offer(self, job: FederatedJob, key: str, now_ms: float) -> tuple[int, OfferedPlace]:
        number = self._book(key, job.nodes, job.run_s, job.limit_s, seconds(now_ms) + COUNTED_S)
        self._held.add(number)
        start_s = self._rectangles[number].start_s
        place = OfferedPlace(
            self.name, f"{self.name}/box", job.nodes, start_s, start_s, start_s,
            self.nature.seconds(job.limit_s), firm=True,
        )  # fmt: skip
        return number, place

    def take(self, number: int, now_ms: float) -> None:
        start_s = max(self._rectangles[number].start_s, seconds(now_ms))
        self._ends(1_000.0 * (start_s - T0_S), partial(self._begin, number, start_s))

    def give_up(self, number: int, now_ms: float) -> None:
        self._held.discard(number)
        self._give_back(self._rectangles.pop(number), seconds(now_ms))

    def _book(self, key: str, nodes: int, run_s: float, limit_s: float, from_s: int) -> int:
        limit_s, run_s = self.nature.seconds(limit_s), self.nature.seconds(run_s)
        start_s = self._free.earliest(nodes, limit_s, from_s)
        self._free.take(nodes, start_s, start_s + limit_s)
        number = next(self._numbers)
        self._rectangles[number] = Rectangle(key, nodes, start_s, start_s + limit_s, run_s)
        return number

    def _give_back(self, rectangle: Rectangle, now_s: int) -> None:
        from_s = max(rectangle.start_s, now_s)
        if from_s < rectangle.end_s:
            self._free.take(-rectangle.nodes, from_s, rectangle.end_s)

    def _begin(self, number: int, now_s: int) -> None:
        rectangle = self._rectangles.pop(number)
        self._begun(Begun(rectangle.key, now_s, rectangle.run_s))
        end_s = now_s + rectangle.run_s
        self._ends(1_000.0 * (end_s - T0_S), partial(self._give_back, rectangle, end_s))


LOCKS: Final[Mapping[str, type[FederatedSite]]] = {
    "places": FederatedSite,
    "rectangles": RectangleSite,
    "nothing": UnlockedSite,
}
