"""Linearizability of a recorded history: is there one order of all operations that explains every answer?

The search is that of Wing and Gong (1993, "Testing and Verifying Concurrent Objects") with Lowe's
two improvements (2017, "Testing for linearizability", sections 3 and 4): what was reached before is
not searched again, and an operation takes effect only when some answer needs it, just in time. All
configurations are kept side by side, so at a quiet point, where nothing is open, only the possible
states of the object are left: a long history is a row of short pieces. Objects are checked one by
one, which suffices (Herlihy and Wing 1990, section 3.2, locality).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

OPEN: Final = 1 << 80
"""When an operation responds that never does."""

PIECE_MAX: Final = 60
"""Operations between two quiet points; more of them make the search explode."""

BUDGET: Final = 20_000
"""Configurations that are looked at for one piece."""


class Operation(NamedTuple):
    """`action`, invoked and answered at these times of one clock.

    Without an answer it may have taken effect, or not: then it is not `sure`. One that responds at
    `OPEN` can take effect at any time until the end.
    """

    invoked: int
    responded: int
    action: Any
    sure: bool = True


Reads = Callable[[Sequence[Any], Sequence[Any]], Callable[[Any], bool]]
"""``reads(actions, states)``: which of these actions, done from these states in any order, change none.

One that changes no state, wherever it is possible, may as well be done at once.
"""

Step = Callable[[Any, Any, int], Iterable[Any]]
"""``step(state, action, latest)``: the states that follow, none where the answer is impossible.

`latest` is the last moment at which the action can have taken effect. The later, the more must be
possible, never less.
"""


class Verdict(NamedTuple):
    """ "unknown" when the search was given up. `culprit` is the first answer without explanation."""

    outcome: Literal["linearizable", "wrong", "unknown"]
    states: tuple[Any, ...]
    """The states that are possible at the end, or before the piece that is wrong."""
    pieces: int
    explored: int
    culprit: Operation | None = None


def check(
    history: Iterable[Operation], step: Step, initial: Hashable, *,
    reads: Reads = lambda actions, states: lambda action: False,
    budget: int = BUDGET, piece_max: int = PIECE_MAX,
) -> Verdict:  # fmt: skip
    """Whether `history` of one object that begins as `initial` is linearizable."""
    states: tuple[Any, ...] = (initial,)
    explored = number = 0
    for number, piece in enumerate(pieces(history), 1):
        if len(piece) > piece_max:
            return Verdict("unknown", states, number, explored)
        found = _Search(step, reads, budget).run(piece, states)
        explored += found.explored
        if found.outcome != "linearizable":
            return found._replace(pieces=number, explored=explored)
        states = found.states
    return Verdict("linearizable", states, number, explored)


def pieces(history: Iterable[Operation]) -> Iterator[list[Operation]]:
    """`history` in order of invocation, cut where nothing is open."""
    piece: list[Operation] = []
    busy_until = -1
    for operation in sorted(history, key=lambda each: each[:2]):
        if piece and operation.invoked > busy_until:
            yield piece
            piece = []
        piece.append(operation)
        busy_until = max(busy_until, operation.responded)
    if piece:
        yield piece


class _GivenUp(Exception):
    """The budget is spent."""


class _Search:
    """Of one piece. A configuration is a state and the open operations that have taken effect."""

    def __init__(self, step: Step, reads: Reads, budget: int) -> None:
        self._step = step
        self._reads_of = reads
        self._reads: frozenset[int] = frozenset()
        self._budget = budget
        self._explored = 0

    def run(self, piece: Sequence[Operation], states: tuple[Any, ...]) -> Verdict:
        # Those that begin when another ends overlap it: invocations come first.
        events = sorted(
            [(each.invoked, 0, number) for number, each in enumerate(piece)]
            + [(each.responded, 1, number) for number, each in enumerate(piece)]
        )
        reads = self._reads_of([each.action for each in piece], states)
        self._reads = frozenset(n for n, each in enumerate(piece) if reads(each.action))
        configurations = dict.fromkeys((state, 0) for state in states)
        pending: list[int] = []
        for moment, responds, number in events:
            if not responds:
                pending.append(number)
                continue
            if moment >= OPEN:
                break
            operation = piece[number]
            try:
                configurations = self._answered(piece, pending, number, configurations)
            except _GivenUp:
                return Verdict("unknown", states, 1, self._explored, operation)
            if not configurations:
                return Verdict("wrong", states, 1, self._explored, operation)
            pending.remove(number)
        left = tuple(dict.fromkeys(state for state, _ in configurations))
        return Verdict("linearizable", left, 1, self._explored)

    def _answered(
        self, piece: Sequence[Operation], pending: Sequence[int], number: int,
        configurations: dict[tuple[Any, int], None],
    ) -> dict[tuple[Any, int], None]:  # fmt: skip
        """Those configurations that explain the answer of operation `number`, and now forget it."""
        latest, bit = piece[number].responded, 1 << number
        seen = dict(configurations)
        left: dict[tuple[Any, int], None] = {}
        if not piece[number].sure:
            left.update((each, None) for each in configurations if not each[1] & bit)
        stack = list(configurations)
        twins = _twins(piece, pending)
        reads_first = sorted(pending, key=lambda each: each not in self._reads)
        while stack:
            state, effective = stack.pop()
            self._explored += 1
            if self._explored > self._budget:
                raise _GivenUp
            if effective & bit:
                left[state, effective ^ bit] = None
                continue
            for other in reads_first:
                if effective >> other & 1 or twins[other] & ~effective:
                    continue
                following = tuple(self._step(state, piece[other].action, latest))
                if other in self._reads and state in following:
                    # It never hurts to have read already: no other way need be tried from here.
                    reached = (state, effective | 1 << other)
                    if reached not in seen:
                        seen[reached] = None
                        stack.append(reached)
                    break
                for follows in following:
                    reached = (follows, effective | 1 << other)
                    if reached not in seen:
                        seen[reached] = None
                        stack.append(reached)
        return left


def _twins(piece: Sequence[Operation], pending: Sequence[int]) -> dict[int, int]:
    """For each operation those, as bits, of the same action that respond before: they go first."""
    found: dict[int, int] = {}
    same: dict[tuple[Any, bool], int] = {}
    for number in sorted(pending, key=lambda each: (piece[each].responded, each)):
        key = (piece[number].action, piece[number].sure)
        found[number] = same.get(key, 0)
        same[key] = found[number] | 1 << number
    return found


def explained_by_brute_force(history: Sequence[Operation], step: Step, initial: Hashable) -> bool:
    """The slow twin: try every order of every choice of those operations that are not sure."""
    unsure = [each for each in history if not each.sure]
    certain = [each for each in history if each.sure]
    return any(
        _explains(order, step, initial)
        for count in range(len(unsure) + 1)
        for chosen in itertools.combinations(unsure, count)
        for order in itertools.permutations([*certain, *chosen])
    )


def _explains(order: Sequence[Operation], step: Step, initial: Hashable) -> bool:
    for earlier, later in itertools.combinations(order, 2):
        if later.responded < earlier.invoked:
            return False
    states = [initial]
    for number, operation in enumerate(order):
        latest = min(each.responded for each in order[number:])
        states = [follows for state in states for follows in step(state, operation.action, latest)]
    return bool(states)
