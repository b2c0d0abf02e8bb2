"""Linearizability of a recorded history: is there one order of all operations that explains every answer?

The search is that of Wing and Gong (1993, "Testing and Verifying Concurrent Objects") with Lowe's
improvements (2017, "Testing for linearizability", sections 3 and 4): what was reached before is not
searched again, and an operation takes effect only when some answer needs it, just in time. It is depth
first, and whoever is answered first is supposed to have taken effect first: of a site behind a slow
disk that answers fifty messages at once, that finds the order without much search. What changes
nothing needs no order, nor do repeats among themselves. Objects are checked one by one, which suffices
(Herlihy and Wing 1990, section 3.2, locality).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

OPEN: Final = 1 << 80
"""When an operation responds that never does."""

BUDGET: Final = 200_000
"""Configurations that are looked at for one history.

Of a site that stood still and then answered all at once, an order has taken 57,000 to find.
"""


class Operation(NamedTuple):
    """`action`, invoked and answered at these times of one clock.

    Without an answer it may have taken effect, or not: then it is not `sure`. One that responds at
    `OPEN` can take effect at any time until the end.
    """

    invoked: int
    responded: int
    action: Any
    sure: bool = True


Reads = Callable[[Sequence[Any]], Callable[[Any, Any], bool]]
"""``reads(actions)(action, state)``: whether it changes no state that these actions can lead to from there.

One that changes no state, wherever it is possible, may as well be done at once.
"""

Step = Callable[[Any, Any, int], Iterable[Any]]
"""``step(state, action, latest)``: the states that follow, none where the answer is impossible.

`latest` is the last moment at which the action can have taken effect. The later, the more must be
possible, never less.
"""


class Verdict(NamedTuple):
    """ "unknown" when the search was given up.

    `culprit` is the first answer that nothing explains, and `states` are those in which it was tried.
    """

    outcome: Literal["linearizable", "wrong", "unknown"]
    explored: int
    culprit: Operation | None = None
    states: tuple[Any, ...] = ()


def _nothing_reads(actions: Sequence[Any]) -> Callable[[Any, Any], bool]:
    return lambda action, state: False


def check(
    history: Iterable[Operation], step: Step, initial: Hashable, *,
    reads: Reads = _nothing_reads, budget: int = BUDGET,
) -> Verdict:  # fmt: skip
    """Whether `history` of one object that begins as `initial` is linearizable."""
    return _Search(list(pieces(history)), step, reads).run(initial, budget)


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


class _Configuration(NamedTuple):
    """Just before an answer, by its number: the state, and the open operations that have taken effect."""

    answer: int
    state: Any
    effective: int
    """One bit for each operation."""


class _Answer(NamedTuple):
    """Operation `number` responds; `pending` are all that are open then, who responds first being first.

    `twins` has for each of them those, as bits, of the same action that respond before: they go first.
    """

    number: int
    pending: list[int]
    twins: dict[int, int]


class _Search:
    """Depth first, the likely first; what was tried once is not tried again."""

    def __init__(self, history: Sequence[Sequence[Operation]], step: Step, reads: Reads) -> None:
        self._operations = [each for piece in history for each in piece]
        self._step = step
        self._reads = [
            changes_nothing
            for piece in history
            for changes_nothing in [reads([each.action for each in piece])] * len(piece)
        ]
        self._answers = list(_answers(self._operations))

    def run(self, initial: Any, budget: int) -> Verdict:
        stack = [_Configuration(0, initial, 0)]
        seen = set(stack)
        explored = furthest = 0
        states: dict[Any, None] = {}
        while stack and explored < budget:
            reached = stack.pop()
            explored += 1
            if reached.answer == len(self._answers):
                return Verdict("linearizable", explored)
            if reached.answer > furthest:
                furthest, states = reached.answer, {}
            if reached.answer == furthest:
                states[reached.state] = None
            for follows in reversed(list(self._following(reached))):
                if follows not in seen:
                    seen.add(follows)
                    stack.append(follows)
        culprit = self._operations[self._answers[furthest].number]
        return Verdict("unknown" if stack else "wrong", explored, culprit, tuple(states))

    def _following(self, reached: _Configuration) -> Iterator[_Configuration]:
        """What may be next: the answer, if it is explained, or else another operation's effect."""
        answer = self._answers[reached.answer]
        bit = 1 << answer.number
        if reached.effective & bit:
            yield _Configuration(reached.answer + 1, reached.state, reached.effective ^ bit)
            return
        latest = self._operations[answer.number].responded
        effects: list[_Configuration] = []
        for number in answer.pending:
            if reached.effective >> number & 1 or answer.twins[number] & ~reached.effective:
                continue
            action = self._operations[number].action
            following = list(self._step(reached.state, action, latest))
            effective = reached.effective | 1 << number
            if reached.state in following and self._reads[number](action, reached.state):
                # It never hurts to have read already: no other way need be tried from here.
                yield _Configuration(reached.answer, reached.state, effective)
                return
            effects += [_Configuration(reached.answer, state, effective) for state in following]
        yield from effects
        if not self._operations[answer.number].sure:
            yield reached._replace(answer=reached.answer + 1)


def _answers(operations: Sequence[Operation]) -> Iterator[_Answer]:
    """In order of time. Those that begin when another ends overlap it: invocations come first."""
    events = sorted(
        [(each.invoked, 0, number) for number, each in enumerate(operations)]
        + [(each.responded, 1, number) for number, each in enumerate(operations)]
    )
    pending: list[int] = []
    for moment, responds, number in events:
        if not responds:
            pending.append(number)
        elif moment < OPEN:
            likely = sorted(pending, key=lambda each: (operations[each].responded, each))
            yield _Answer(number, likely, _twins(operations, likely))
            pending.remove(number)


def _twins(operations: Sequence[Operation], pending: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    same: dict[tuple[Any, bool], int] = {}
    for number in pending:
        key = (operations[number].action, operations[number].sure)
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
