"""Repeats of messages are those of a sender that doubles its waits one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeats

WAIT_MS = st.integers(1, 1_000_000)


@given(
    WAIT_MS, WAIT_MS, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100_000)), max_size=40)
)
def test_waits_double_up_to_the_longest(
    first_ms: int, more_ms: int, steps: list[tuple[int, int]]
) -> None:
    turns, most_ms, now_ms = Repeats[int](), first_ms + more_ms, 0
    twin: dict[int, tuple[int, int]] = {}
    for key, passed_ms in steps:
        now_ms += passed_ms
        now = Moment(now_ms, 0)
        assert turns.due(now) == [each for each, (due_ms, _) in twin.items() if due_ms <= now_ms]
        turns[key] = turns.get(key, AT_ONCE).next(now, 0.5, first_ms, most_ms)
        wait_ms = twin[key][1] if key in twin else first_ms
        twin[key] = now_ms + int(wait_ms * 1.1), min(2 * wait_ms, most_ms)
        assert turns.next_deadline_ms() == min(due_ms for due_ms, _ in twin.values())
