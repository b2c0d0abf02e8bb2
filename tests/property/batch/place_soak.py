"""Places that are given, taken and withdrawn in bursts, until so many promised ones have begun.

``python -m tests.property.batch.place_soak --places 1000000 --seed 1`` prints its figures as JSON, names each
place that has begun, or was taken, later than was promised, and ends with 1 if there was any. With ``--over``
programs may be there for so many seconds longer than ending them is planned to take.

A run is the queue of one site under conservative backfilling, as shipped, in virtual time: bursts of bids
that brokers decide within the time that is counted for them, jobs of the site's own users, programs that end
early, or run to their limits and have to be killed, and a restart from the journal.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Final

from kalends.batch.queue.effects import Kill, Start
from kalends.batch.queue.facts import JobEnding, JournalEntry, Terms
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

T0_S: Final = 1_800_000_000
RUN_S: Final = 20_000
"""So long users and brokers come; what they have left runs on."""
DECIDED_S_MAX: Final = 10
"""Brokers decide within this time, which sites count."""
NAME: Final = "lab/box"
SOMEBODY: Final = Principal("somebody")
ENDING_S: Final = 15
"""So long it may take to end a program at its limit, and to clear what is left of it; as shipped."""
AT_LIMIT: Final = 0.2
KILLED: Final = 0.03

TOLD_EVERY: Final = 20_000

Happening = Callable[[int], None]


class PlaceRun:
    """One site for a while; `tally` counts, and `late` gets a line for each promise that was not kept."""

    def __init__(
        self,
        seed: str,
        tally: Counter[str],
        late: list[str],
        counted_s: int = DECIDED_S_MAX,
        over_s: int = 0,
        ending_s: int = ENDING_S,
    ) -> None:
        self.seed = seed
        self._counted_s, self._over_s = counted_s, over_s
        self._draw = Random(seed)
        self._tally, self._late = tally, late
        machine = self._draw.choice(("pool:8", "pool:16", "pool:64", "mesh2d:4x4"))
        self.terms = Terms(machine=machine, policy="conservative", ending_s=ending_s)
        self.queue = BatchQueue(NAME, self.terms, T0_S)
        self.nodes = self.queue.flow.room.nodes
        self._taken = self._draw.uniform(0.1, 0.7)
        """The share of all bids that win."""
        self._entries: list[JournalEntry] = []
        self._events: list[tuple[int, int, int, Happening]] = []
        self._order = count()
        self._undecided: dict[int, int] = {}
        """The promised starts of the places that are offered, by job."""
        self._promised: dict[int, int] = {}
        """By job that was taken, the start by which it is to begin."""
        self._ends: dict[int, int] = {}
        """When each program ends that runs."""
        self._due_s = 0

    def run(self) -> None:
        """Let all happen until every job is over."""
        self._at(T0_S, self._burst)
        self._at(T0_S + self._draw.randrange(RUN_S), self._restart)
        self._settle(T0_S)
        while self._events:
            now, _, _, happen = heapq.heappop(self._events)
            happen(now)
            self._settle(now)
        assert not self.queue.flow.table.jobs, f"{self.seed}: jobs wait for ever"
        assert not self._promised, f"{self.seed}: {self._promised} have not begun"

    def _at(self, at_s: int, happen: Happening, rank: int = 1) -> None:
        """What ends comes before all else of its second."""
        heapq.heappush(self._events, (at_s, rank, next(self._order), happen))

    # Users and brokers

    def _burst(self, now: int) -> None:
        work = 0
        for _ in range(min(int(self._draw.expovariate(0.1)) + 1, 60)):
            nodes = min(int(self._draw.paretovariate(1)), self.nodes)
            limit_s = int(10 ** self._draw.uniform(0.5, 3.5))
            request = JobRequest(machine=NAME, nodes=nodes, limit_s=limit_s, command=("/bin/true",))
            key = f"{next(self._order)}"
            if self._draw.random() < 0.1:
                self.queue.submit(SOMEBODY, request, key, now)
                work += nodes * limit_s
            else:
                work += nodes * limit_s * self._offer(request, key, now)
        pause_s = self._draw.uniform(0.2, 0.8) * work / self.nodes
        if now + pause_s < T0_S + RUN_S:
            self._at(now + int(pause_s), self._burst)

    def _offer(self, request: JobRequest, key: str, now: int) -> bool:
        """Bid with a place; return whether that wins."""
        offers = PlaceOffers(self.queue)
        number = offers.offer(SOMEBODY, request, key, self._counted_s, now)
        self._undecided[number] = offers.start_by(number, now + self._counted_s)
        self._tally["offered"] += 1
        wins = self._draw.random() < self._taken
        decided_s = now + self._draw.randint(0, DECIDED_S_MAX)
        self._at(decided_s, partial(self._take if wins else self._give_up, number))
        return wins

    def _take(self, number: int, now: int) -> None:
        start_by = self._undecided.pop(number, None)
        if start_by is None:
            return  # The site has started again meanwhile.
        self._tally["taken"] += 1
        if now > start_by:
            self._late.append(f"{self.seed}: job {number} taken {now - start_by} s late")
        self._promised[number] = start_by
        PlaceOffers(self.queue).take(number, now)
        if self._draw.random() < KILLED:
            self._at(now + self._draw.randrange(600), partial(self._kill, number))

    def _give_up(self, number: int, now: int) -> None:
        if self._undecided.pop(number, None) is not None:
            self.queue.cancel(number, "not taken", now)

    def _kill(self, number: int, now: int) -> None:
        if number in self.queue.flow.table.jobs:
            self.queue.cancel(number, "killed", now)
            self._tally["killed while they waited"] += self._promised.pop(number, None) is not None

    # The site

    def _restart(self, now: int) -> None:
        """Begin again from what is stored: what was not taken is withdrawn, and nothing else moves."""
        self.queue = BatchQueue(NAME, self.terms, now, self._entries)
        for number in [*self._undecided]:
            self._give_up(number, now)
        self._tally["restarts"] += 1

    def _settle(self, now: int) -> None:
        while effects := self.queue.take_effects():
            self._entries += effects.entries
            for action in effects.actions:
                if isinstance(action, Start):
                    self._begin(action, now)
                else:
                    assert isinstance(action, Kill), action
                    self._end(action.job.number, action.attempt, "killed", now)
        due_s = self.queue.next_due_s()
        if due_s is not None and due_s != self._due_s:
            self._due_s = due_s
            self._at(max(due_s, now), lambda now: self.queue.advance(now))

    def _begin(self, start: Start, now: int) -> None:
        number, limit_s = start.job.number, start.job.limit_s
        self.queue.begun(number, start.attempt, now)
        promised_s = self._promised.pop(number, None)
        if promised_s is not None:
            self._tally["begun"] += 1
            self._tally["begun earlier"] += now < promised_s
            if now > promised_s:
                self._late.append(f"{self.seed}: job {number} {now - promised_s} s late")
                self._tally["latest_s"] = max(self._tally["latest_s"], now - promised_s)
        runs_s = self._draw.randint(1, limit_s)
        if self._draw.random() < AT_LIMIT:
            runs_s = limit_s + self._draw.randrange(ENDING_S + self._over_s)
        self._at(now + runs_s, partial(self._end, number, start.attempt, "exit"), rank=0)

    def _end(self, number: int, attempt: int, kind: str, now: int) -> None:
        self.queue.ended(number, attempt, JobEnding(kind=kind), now)  # type: ignore[arg-type]  # One of its words.


def soak(
    places: int,
    seed: int,
    counted_s: int = DECIDED_S_MAX,
    over_s: int = 0,
    first: int = 0,
    ending_s: int = ENDING_S,
) -> tuple[Counter[str], list[str]]:
    """Run one site after the other, from number `first` on, until so many promised places have begun."""
    tally: Counter[str] = Counter()
    late: list[str] = []
    while tally["begun"] < places:
        PlaceRun(f"{seed} {first + tally['sites']}", tally, late, counted_s, over_s, ending_s).run()
        tally["sites"] += 1
    return tally, late


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--places", type=int, default=1_000_000, help="that are to begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--over", type=int, default=0, help="seconds, in a fifth of the programs")
    options = parser.parse_args()
    tally: Counter[str] = Counter(late=0)
    while tally["begun"] < options.places:
        more, late = soak(TOLD_EVERY, options.seed, over_s=options.over, first=tally["sites"])
        latest_s = max(tally["latest_s"], more.pop("latest_s", 0))
        tally.update(more, late=len(late))
        tally["latest_s"] = latest_s
        print(*late, json.dumps(tally), sep="\n", flush=True)
    return 1 if tally["late"] else 0


if __name__ == "__main__":
    sys.exit(main())
