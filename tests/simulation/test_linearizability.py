"""The checker agrees with trying every order, and refuses every history of a slot that is known to be bad."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import effort
from tests.simulation.linearizability import (
    OPEN,
    Operation,
    check,
    explained_by_brute_force,
    pieces,
)
from tests.simulation.listening import TICK_BITS
from tests.simulation.slot_register import AVAILABLE, Action, reads, step

ANN, BOB = "ann", "bob"


def ids(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def hold(
    rid: str, hold_id: int, *, att: int = 1, mode: str = "hold", until_ms: int = 1 << 40
) -> Action:
    said = "promised" if mode == "vote" else "held"
    return Action("visit", rid, att, said, ids(hold_id), mode=mode, until_ms=until_ms)


def prepare(rid: str, hold_id: int, said: str = "yes", att: int = 1) -> Action:
    return Action("prepare", rid, att, said, ids(hold_id))


def commit(rid: str, hold_id: int, att: int = 1, replaces: str = "") -> Action:
    return Action("commit", rid, att, "done", ids(hold_id), replaces=replaces)


def refused(rid: str) -> Action:
    return Action("visit", rid, 1, "refused", mode="hold", bare=True)


FREE = Action("look", said="free", mode="all")
TAKEN = Action("look", said="taken", mode="all", bare=True)
LOCKED = Action("look", said="taken", mode="locked", bare=True)
CRASH = Action("crash")


def one_by_one(*actions: Action) -> list[Operation]:
    """Each has its answer before the next begins."""
    return [
        Operation((10 * number) << TICK_BITS, (10 * number + 5) << TICK_BITS, action)
        for number, action in enumerate(actions)
    ]


def one_later(*actions: Action) -> list[Operation]:
    """One by one, from 20 on."""
    return [Operation(20 + 10 * n, 25 + 10 * n, action) for n, action in enumerate(actions)]


def outcome(history: list[Operation]) -> str:
    return check(history, step, AVAILABLE, reads=reads).outcome


LAWFUL = {
    "hold, prepare, commit, cancel": [
        FREE, hold(ANN, 1), TAKEN, prepare(ANN, 1), TAKEN, commit(ANN, 1), LOCKED, refused(BOB),
        Action("cancel", ANN, 1, "done"), FREE, hold(BOB, 2),
    ],
    "repeats are answered as before": [
        hold(ANN, 1), hold(ANN, 1), prepare(ANN, 1), prepare(ANN, 1), commit(ANN, 1),
        commit(ANN, 1), Action("cancel", ANN, 1, "done"), commit(ANN, 1),
    ],
    "a new attempt keeps its hold, and raises above a promise": [
        hold(ANN, 1), hold(ANN, 1, att=2), prepare(ANN, 1, att=2), hold(ANN, 2, att=3, mode="vote"),
        Action("abort", ANN, 3, "done"), FREE,
    ],
    "a hold runs out when its time is over": [
        hold(ANN, 1, until_ms=7), hold(BOB, 2), Action("renew", ANN, 1, lost=ids(1)),
    ],
    "a recalled hold is taken back": [
        hold(ANN, 1), Action("recall", ANN, 1), hold(BOB, 2), prepare(ANN, 1, "no"),
    ],
    "a recalled hold is promised first": [
        hold(ANN, 1), Action("recall", ANN, 1), prepare(ANN, 1), refused(BOB), commit(ANN, 1),
    ],
    "a recalled hold is given back, and granted to who waits": [
        hold(ANN, 1), Action("visit", BOB, 1, "waiting", mode="hold"),
        Action("release", ANN, 1, ids=ids(1), mode="give"),
        Action("grant", BOB, 1, "held", ids(2), until_ms=1 << 40), prepare(BOB, 2),
    ],
    "a crash ends holds": [hold(ANN, 1), CRASH, FREE, hold(BOB, 2), prepare(ANN, 1, "no")],
    "a crash leaves promises": [hold(ANN, 1, mode="vote"), CRASH, TAKEN, commit(ANN, 1)],
    "a change takes the place of its old lock": [
        hold(ANN, 1, mode="vote"), commit(ANN, 1),
        hold("new", 2, mode="vote")._replace(replaces=ANN), commit("new", 2, replaces=ANN),
        Action("cancel", ANN, 1, "done"), LOCKED,
    ],
    "what waits for its decision is not counted as locked": [
        hold(ANN, 1), FREE._replace(mode="locked"), prepare(ANN, 1), commit(ANN, 1), LOCKED,
    ],
}  # fmt: skip

BAD = {
    "double hold": [hold(ANN, 1), hold(BOB, 2)],
    "hold of what is promised": [hold(ANN, 1, mode="vote"), hold(BOB, 2)],
    "grant of what is promised": [
        Action("visit", BOB, 1, "waiting", mode="hold"), hold(ANN, 1, mode="vote"),
        Action("grant", BOB, 1, "held", ids(2), until_ms=1 << 40),
    ],
    "hold of what is locked": [hold(ANN, 1, mode="vote"), commit(ANN, 1), hold(BOB, 2)],
    "lost lock": [hold(ANN, 1, mode="vote"), commit(ANN, 1), FREE],
    "lost promise": [hold(ANN, 1, mode="vote"), FREE],
    "promise lost in a crash": [hold(ANN, 1, mode="vote"), CRASH, FREE],
    "promise lost, then committed": [hold(ANN, 1, mode="vote"), hold(BOB, 2), commit(ANN, 1)],
    "commit of what was never promised": [hold(ANN, 1), commit(ANN, 1)],
    "commit of another attempt's promise": [hold(ANN, 1, mode="vote"), commit(ANN, 1, att=2)],
    "stale read after done": [
        hold(ANN, 1, mode="vote"), commit(ANN, 1), Action("cancel", ANN, 1, "done"), TAKEN,
    ],
    "stale read after a hold": [hold(ANN, 1), FREE],
    "yes to a hold that was given back": [
        hold(ANN, 1), Action("release", ANN, 1, ids=ids(1), mode="give"), prepare(ANN, 1),
    ],
    "no to what was promised": [hold(ANN, 1, mode="vote"), prepare(ANN, 1, "no")],
    "a hold that runs out too early": [hold(ANN, 1, until_ms=1_000), hold(BOB, 2)],
    "a hold that outlives a crash": [hold(ANN, 1), CRASH, prepare(ANN, 1)],
    "fence number going back": [
        hold(ANN, 5), Action("release", ANN, 1), hold(BOB, 4),
    ],
    "fence number given twice": [hold(ANN, 5), Action("release", ANN, 1), hold(BOB, 5)],
    "promise taken back": [
        hold(ANN, 1), Action("recall", ANN, 1), prepare(ANN, 1),
        Action("taken", ANN, 1, "back", lost=ids(1)),
    ],
    "kept, but taken back before": [
        hold(ANN, 1), Action("taken", ANN, 1, "back", lost=ids(1)),
        Action("renew", ANN, 1, ids=ids(1), until_ms=1 << 40),
    ],
    "never, said of a promise": [
        hold(ANN, 1, mode="vote"), Action("abort", ANN, 1, "refuse"),
    ],
    "refused where nobody is": [refused(BOB)],
    "waits with what it holds": [hold(ANN, 1), Action("visit", ANN, 1, "waiting", mode="hold")],
}  # fmt: skip


@pytest.mark.parametrize("name", LAWFUL)
def test_a_lawful_history_is_linearizable(name: str) -> None:
    assert outcome(one_by_one(*LAWFUL[name])) == "linearizable"


@pytest.mark.parametrize("name", BAD)
def test_a_history_that_is_known_to_be_bad_is_refused(name: str) -> None:
    assert outcome(one_by_one(*BAD[name])) == "wrong"


def test_what_overlaps_may_have_happened_in_either_order() -> None:
    first, second = hold(ANN, 1), FREE
    assert outcome([Operation(0, 9, first), Operation(1, 8, second)]) == "linearizable"
    assert outcome([Operation(0, 4, first), Operation(5, 8, second)]) == "wrong"


def test_what_was_never_answered_may_have_happened_or_not() -> None:
    unanswered = Operation(10, 10, commit(ANN, 1)._replace(said=""), sure=False)
    before = Operation(0, 1, hold(ANN, 1, mode="vote"))
    for after in (LOCKED, Action("abort", ANN, 1, "done")):
        assert outcome([before, unanswered, Operation(20, 21, after)]) == "linearizable"
    locked_then_gone = [Operation(20, 21, LOCKED), Operation(30, 31, FREE)]
    assert outcome([before, unanswered, *locked_then_gone]) == "wrong"


def test_what_changes_nothing_yet_may_do_so_later() -> None:
    abort = Action("abort", ANN, 1, "done")
    at_once = [Operation(0, 9, hold(ANN, 1, mode="vote")), Operation(0, 5, abort)]
    assert outcome([*at_once, Operation(10, 11, FREE)]) == "linearizable"
    assert outcome([*at_once, Operation(10, 11, TAKEN)]) == "linearizable"


def test_an_abort_that_was_never_answered_may_have_freed_what_was_promised() -> None:
    before = Operation(0, 1, hold(ANN, 1, mode="vote"))
    unanswered = Operation(10, 10, Action("abort", ANN, 1, ""), sure=False)
    for after in (FREE, TAKEN):
        assert outcome([before, unanswered, Operation(20, 21, after)]) == "linearizable"
    assert outcome([before, unanswered, *one_later(FREE, TAKEN)]) == "wrong"


def test_a_crash_ends_what_was_held_just_before() -> None:
    history = [Operation(0, 12, hold(ANN, 1)), Operation(10, 10, CRASH)]
    for after in (FREE, TAKEN):
        assert outcome([*history, Operation(20, 21, after)]) == "linearizable"


def test_the_culprit_is_the_first_answer_that_nothing_explains() -> None:
    history = one_by_one(hold(ANN, 1), TAKEN, hold(BOB, 2), FREE)
    assert check(history, step, AVAILABLE).culprit == history[2]


def test_a_search_that_is_given_up_is_unknown() -> None:
    crowd = [Operation(0, 100, prepare(f"r{number}", 1, "")) for number in range(12)]
    bad = [*crowd, Operation(0, 100, commit(ANN, 1))]
    assert check(bad, step, AVAILABLE, budget=100).outcome == "unknown"
    assert check(bad, step, AVAILABLE, budget=10**6).outcome == "wrong"


def test_twenty_repeats_at_once_need_no_search() -> None:
    history = one_by_one(hold(ANN, 1, mode="vote"), commit(ANN, 1))
    cancel = Action("cancel", ANN, 1, "done")
    start = 100 << TICK_BITS
    history += [Operation(start + number, start + 100, cancel) for number in range(20)]
    found = check(history, step, AVAILABLE)
    assert found.outcome == "linearizable"
    assert found.explored < 100
    impossible = Operation(start + 200, start + 201, LOCKED)
    assert check([*history, impossible], step, AVAILABLE, budget=1_000).outcome == "wrong"


def crowded(*actions: Action) -> list[Operation]:
    """These at once, and those of three who get nothing."""
    more = [
        action
        for rid in ("bob", "cid", "dan")
        for action in (
            *(Action("visit", rid, att, "refused", mode="hold") for att in (1, 1, 2, 2)),
            Action("abort", rid, 2, "done"),
        )
    ]
    start = 100 << TICK_BITS
    return [
        Operation(start + number, start + 100 + number, action)
        for number, action in enumerate([*more, *actions])
    ]


def test_who_gets_nothing_needs_no_order() -> None:
    bad = crowded(hold(ANN, 1, mode="vote"), commit(ANN, 2))
    assert check(bad, step, AVAILABLE, reads=reads, budget=1_000).outcome == "wrong"
    assert check(bad, step, AVAILABLE, budget=1_000).outcome == "unknown"


def test_who_is_answered_first_is_tried_first() -> None:
    good = crowded(
        hold(ANN, 1, mode="vote"), hold(ANN, 1, mode="vote"), Action("abort", ANN, 1, "done"), FREE,
        hold(BOB, 2), prepare(BOB, 2), Action("abort", BOB, 1, "done"), hold(ANN, 3, att=2),
    )  # fmt: skip
    found = check(good, step, AVAILABLE)
    assert found.outcome == "linearizable"
    assert found.explored < 3 * len(good)


def test_histories_are_cut_where_nothing_is_open() -> None:
    operations = [
        Operation(0, 3, "a"),
        Operation(2, 5, "b"),
        Operation(5, 6, "c"),
        Operation(7, 9, "d"),
    ]
    assert [[each.action for each in piece] for piece in pieces(operations)] == [
        ["a", "b", "c"],
        ["d"],
    ]


# The slow twin

ACTIONS = st.one_of(
    st.builds(
        Action,
        kind=st.just("visit"),
        rid=st.sampled_from((ANN, BOB)),
        att=st.integers(1, 2),
        said=st.sampled_from(("held", "promised")),
        ids=st.integers(1, 3).map(ids),
        mode=st.sampled_from(("hold", "vote")),
        until_ms=st.sampled_from((0, 3, 1_000)),
    ),
    st.builds(
        Action,
        kind=st.sampled_from(("prepare", "commit", "abort", "cancel", "release")),
        rid=st.sampled_from((ANN, BOB)),
        att=st.integers(1, 2),
        said=st.sampled_from(("yes", "no", "done", "")),
        ids=st.integers(1, 3).map(ids),
    ),
    st.sampled_from((FREE, TAKEN, LOCKED, CRASH)),
)


@st.composite
def operations(draw: Any) -> Operation:
    begin = draw(st.integers(0, 12))
    end = OPEN if draw(st.integers(0, 9)) == 0 else begin + draw(st.integers(0, 6))
    sure = end != OPEN and draw(st.integers(0, 5)) > 0
    responded = end if end == OPEN else end << TICK_BITS
    return Operation(begin << TICK_BITS, responded, draw(ACTIONS), sure)


@settings(max_examples=effort.examples(400), deadline=None)
@given(st.lists(operations(), max_size=6))
def test_the_checker_agrees_with_trying_every_order_of_a_slot(history: list[Operation]) -> None:
    effort.steps["linearizability"] += len(history)
    expected = explained_by_brute_force(history, step, AVAILABLE)
    assert (outcome(history) == "linearizable") is expected
    assert (check(history, step, AVAILABLE).outcome == "linearizable") is expected


def _register(state: int, action: tuple[str, int], latest: int) -> Iterator[int]:
    kind, value = action
    if kind == "write":
        yield value
    elif state == value:
        yield state


@settings(max_examples=effort.examples(150), deadline=None)
@given(st.data())
def test_the_checker_agrees_with_trying_every_order_of_a_register(data: st.DataObject) -> None:
    history = []
    for _ in range(data.draw(st.integers(0, 7))):
        begin = data.draw(st.integers(0, 9))
        action = data.draw(st.tuples(st.sampled_from(("read", "write")), st.integers(0, 2)))
        sure = data.draw(st.integers(0, 4)) > 0
        history.append(Operation(begin, begin + data.draw(st.integers(0, 5)), action, sure))
    effort.steps["linearizability"] += len(history)
    expected = explained_by_brute_force(history, _register, 0)
    for reads_ in (
        lambda actions: lambda action, state: action[0] == "read",
        lambda actions: lambda action, state: False,
    ):
        verdict = check(history, _register, 0, reads=reads_)
        assert (verdict.outcome == "linearizable") is expected
