"""The work of `find` on the sites' answers: pure, so that any process may do it.

A question has all that its answer depends on but the sites and resources that the broker knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import msgspec

from kalends.broker.coordination.search.query_plan import plans, why_not
from kalends.broker.planning.best_hours import RepeatedRequest, best_hours
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.near_starts import nearest
from kalends.broker.planning.obstacles import Moves, fewest_to_move
from kalends.broker.planning.planner import Plan
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists, compared
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_costs import price
from kalends.contract import calls
from kalends.contract.messages import RoomNeed, Want
from kalends.contract.series_calls import SeriesHour
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.limits import SERIES_MAX
from kalends.core.permitted_starts import occurrence_count
from kalends.core.requests import Request, span
from kalends.core.resources import Slot
from kalends.core.spans import Step

Pieces = Mapping[str, tuple[Step, ...]]
Answer = TypeVar("Answer")


class Question(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """About `request`, of whose resources `free` is free; `kind` is what its answer is made of."""

    request: Request
    free: Pieces
    prices: PriceLists = NOTHING_PRICED

    kind: ClassVar[object]

    @property
    def cost(self) -> int:
        """Return the size of the search: each term meets each piece of time and each preference."""
        terms = sum(len(each.terms) for each in self.request.alternatives)
        pieces = sum(map(len, self.free.values()))
        times = len(self.request.preferences) + occurrence_count(self.request)
        return terms * (1 + pieces + times)

    def answer(self, directory: Directory, work: Work) -> Answer:
        """Raises what `planner.plan` raises; `work` is how much a search for starts may do."""
        raise NotImplementedError


class BestStarts(Question[list[Plan]], frozen=True, kw_only=True, tag=True):
    """The best `count` starts."""

    count: int

    kind = list[Plan]

    def answer(self, directory: Directory, work: Work) -> list[Plan]:
        return list(
            plans(
                self.request, directory, self.free, count=self.count, work=work, prices=self.prices
            )
        )


class Reasons(msgspec.Struct, frozen=True):
    """Why there is no start: `hopeful` is what to wait for, where there is such, `all` is everything."""

    hopeful: tuple[Refusal, ...]
    all: tuple[Refusal, ...]


class WhyNone(Question[Reasons], frozen=True, kw_only=True, tag=True):
    """The reasons why there is no start: the refusals of sites, and the needs that their rules bar."""

    refusals: tuple[Refusal, ...]
    barred: tuple[tuple[str, RoomNeed, Refusal], ...]

    kind = Reasons

    def answer(self, directory: Directory, work: Work) -> Reasons:
        barred = {(resource, need): refusal for resource, need, refusal in self.barred}
        told = [
            why_not(
                self.request,
                directory,
                self.free,
                self.refusals,
                hopeless=hopeless,
                barred=barred,
                prices=self.prices,
            )
            for hopeless in (False, True)
        ]
        return Reasons(*told)


class Explained(msgspec.Struct, frozen=True):
    """The price of each start, and the bookings in the way of a better one, or of any."""

    prices: tuple[calls.Price, ...]
    moves: Moves | None


class Explanation(Question[Explained], frozen=True, kw_only=True, tag=True):
    """What `found` would cost others, and which of `slots` are in the way of something better.

    `looked` are the times that were looked at, `waiting` what waits in line for each resource, and `allowed`
    what the owners' rules alone would allow.
    """

    found: list[Plan]
    looked: tuple[int, int]
    waiting: dict[str, list[Want]]
    allowed: Pieces
    slots: dict[str, tuple[Slot, ...]]

    kind = Explained

    def answer(self, directory: Directory, work: Work) -> Explained:
        prices = tuple(
            price(each.wants, self.free, self.looked, self.waiting) for each in self.found
        )
        return Explained(prices, self._moves(directory, work))

    def _moves(self, directory: Directory, work: Work) -> Moves | None:
        only = None
        if self.found:
            wished = plans(self.request, directory, self.allowed, work=work, prices=self.prices)
            if not wished or self._rank(wished[0]) >= self._rank(self.found[0]):
                return None
            only = wished[0].key
        moves = fewest_to_move(self.request, directory.resources, self.allowed, self.slots, only)
        complete = all(len(of_one) < limits.LISTING_MAX for of_one in self.slots.values())
        return moves and moves._replace(exact=moves.exact and complete)

    def _rank(self, found: Plan) -> tuple[float, int, int]:
        cost = compared(found.costs, self.request) if self.request.prefer_price else 0
        return -found.weight, cost, found.start


class BestHours(msgspec.Struct, frozen=True):
    hours: list[SeriesHour]
    step_s: int


class WhichHours(Question[BestHours], frozen=True, kw_only=True, tag=True):
    """The `count` best hours for `series`, each occurrence of which is a `request`."""

    series: RepeatedRequest
    step_s: int
    count: int

    kind = BestHours

    @property
    def cost(self) -> int:
        return SERIES_MAX * super().cost

    def answer(self, directory: Directory, work: Work) -> BestHours:
        begin, end = span(self.request)

        def fits(start: int) -> bool:
            there = msgspec.structs.replace(
                self.request, not_before=start + begin, not_after=start + end
            )
            return bool(plans(there, directory, self.free, work=work, prices=self.prices))

        return BestHours(*best_hours(self.series, fits, self.count, self.step_s))


class NearestStarts(Question[list[int]], frozen=True, kw_only=True, tag=True):
    """The nearest start to each of `wished`, a start and how far from it to look; 0 for none."""

    wished: tuple[tuple[int, int], ...]

    kind = list[int]

    @property
    def cost(self) -> int:
        return 2 * len(self.wished) * super().cost

    def answer(self, directory: Directory, work: Work) -> list[int]:
        begin, end = span(self.request)

        def earliest(first: int, last: int) -> int | None:
            there = msgspec.structs.replace(
                self.request, not_before=first + begin, not_after=last + end
            )
            found = plans(there, directory, self.free, work=work, prices=self.prices)
            return found[0].start if found else None

        return [nearest(earliest, start, reach_s) or 0 for start, reach_s in self.wished]


AnyQuestion = BestStarts | WhyNone | Explanation | WhichHours | NearestStarts
