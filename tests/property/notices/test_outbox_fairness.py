"""Whoever writes to addresses that never answer holds up nobody else for long."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from kalends.notices.delivery import Delivery, FailedTry
from kalends.notices.outbox import Outbox, OutboxTerms

HOST = "https://hooks.example.org"
START = 1_800_000_000
HANGS_S = 20
TERMS = OutboxTerms(pause_s=30)


class Receivers:
    """The paths of one host: what ends in "hang" is told to have failed after `HANGS_S`."""

    def __init__(self, box: Outbox) -> None:
        self.box = box
        self.now = START
        self.taken: dict[str, int] = {}
        self._hanging: list[tuple[int, Delivery]] = []
        self._carry_out()

    def post(self, delivery: Delivery) -> None:
        self.box.post(delivery, self.now)
        self.box.take_effects()
        self.box.stored([delivery.id], self.now)
        self._carry_out()

    def run_until(self, end_s: int) -> None:
        while True:
            times = [at_s for at_s, _ in self._hanging]
            due_s = self.box.next_due_s()
            next_s = min(
                times + ([max(due_s, self.now)] if due_s is not None else []), default=end_s
            )
            if next_s >= end_s:
                self.now = end_s
                return
            self.now = next_s
            over = [each for at_s, each in self._hanging if at_s <= next_s]
            self._hanging = [each for each in self._hanging if each[0] > next_s]
            for delivery in over:
                self.box.failed(delivery, FailedTry("blocked", "no answer"), self.now)
            self.box.advance(self.now)
            self._carry_out()

    def _carry_out(self) -> None:
        while tries := self.box.take_effects().tries:
            for delivery in tries:
                if delivery.to.endswith("hang"):
                    self._hanging.append((self.now + HANGS_S, delivery))
                else:
                    self.taken[delivery.id] = self.now
                    self.box.sent(delivery, self.now)


def _delivery(name: str, user: str, path: str, now: int) -> Delivery:
    to = f"{HOST}/{path}"
    return Delivery(id=name, user=user, to=to, subject="s", text="t", facts={}, made_s=now)


@settings(max_examples=examples(100), deadline=None)
@given(
    hanging=st.lists(
        st.tuples(st.sampled_from(("ann", "eve")), st.integers(0, 30), st.integers(0, 600)),
        min_size=1,
        max_size=60,
    ),
    good=st.lists(st.integers(0, 6_000), min_size=1, max_size=8),
    chance=st.floats(0, 0.99),
)
def test_a_good_path_waits_minutes_at_most_for_those_of_others(
    hanging: list[tuple[str, int, int]], good: list[int], chance: float
) -> None:
    """Two who send to paths that hang, each of them new perhaps, and one who sends to one that answers."""
    world = Receivers(Outbox(TERMS, lambda: chance, (), START))
    posts = [(at_s, user, f"{path}hang") for user, path, at_s in hanging]
    posts += [(at_s, "bob", "ok") for at_s in good]
    made: dict[str, int] = {}
    for number, (at_s, user, path) in enumerate(sorted(posts)):
        world.run_until(START + at_s)
        if user == "bob":
            made[f"{number}"] = world.now
        world.post(_delivery(f"{number}", user, path, world.now))
    world.run_until(START + 9_000)
    longest_s = max(world.taken[each] - made_s for each, made_s in made.items())
    # The two slots hang for 20 s, and the first pause of at most 45 s follows; once more for the other user.
    assert longest_s <= 2 * (HANGS_S + 45)
    assert len(world.taken) == len(good)
