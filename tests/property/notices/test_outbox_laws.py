"""Whatever happens, in whatever order: nothing is lost unsaid, nothing is sent after it was given up."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.effort import examples

from kalends.notices.delivery import Delivery, FailedTry
from kalends.notices.outbox import Outbox, OutboxTerms

TERMS = OutboxTerms(pause_s=5, pause_s_max=40, give_up_s=200, waiting_max=12, hourly_max=9)
ADDRESSES = ("ann@example.org", "https://a.example.org/x", "https://b.example.org/y")


class OutboxWorld(RuleBasedStateMachine):
    """An outbox, its store, and receivers; a crash leaves only the store."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_800_000_000
        self.store: dict[str, Delivery] = {}
        self.unstored: list[Delivery] = []
        self.under_way: list[Delivery] = []
        self.blocked: set[str] = set()
        self.posted: set[str] = set()
        self.sent: set[str] = set()
        self.lost: set[str] = set()
        self.chance = 0.0
        self.box = self._opened()

    def _opened(self) -> Outbox:
        return Outbox(TERMS, lambda: self.chance, list(self.store.values()), self.now)

    @rule(to=st.sampled_from(ADDRESSES), user=st.sampled_from(("ann", "bob")))
    def post(self, to: str, user: str) -> None:
        name = f"delivery-{len(self.posted)}"
        delivery = Delivery(
            id=name, user=user, to=to, subject="s", text="t", facts={}, made_s=self.now
        )
        self.posted.add(name)
        self.box.post(delivery, self.now)
        self._carry_out()

    @rule()
    def store_all(self) -> None:
        written, self.unstored = self.unstored, []
        self.store.update((each.id, each) for each in written)
        self.box.stored([each.id for each in written], self.now)
        self._carry_out()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), kind=st.sampled_from(("sent", "refused", "later", "blocked", "blocked")))
    def try_ends(self, data: st.DataObject, kind: str) -> None:
        delivery = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        if kind == "sent":
            self.sent.add(delivery.id)
            self.box.sent(delivery, self.now)
        else:
            self.box.failed(delivery, FailedTry(kind, "why"), self.now)  # type: ignore[arg-type]  # one of them
        self._carry_out()

    @rule(seconds=st.integers(0, 60), chance=st.floats(0, 0.99))
    def pass_time(self, seconds: int, chance: float) -> None:
        self.now += seconds
        self.chance = chance
        self.box.advance(self.now)
        self._carry_out()

    @rule()
    def crash(self) -> None:
        """What was not stored was told to nobody: it did not happen. Ways are open until proved blocked."""
        self.posted -= {each.id for each in self.unstored}
        self.unstored, self.under_way, self.blocked = [], [], set()
        self.box = self._opened()
        self._carry_out()

    def _carry_out(self) -> None:
        effects = self.box.take_effects()
        self.unstored += effects.kept
        before = set(self.blocked)
        for way, why in effects.ways.items():
            (self.blocked.add if why else self.blocked.discard)(way)
        for each in effects.done:
            del self.store[each]
        for loss in effects.lost:
            assert loss.delivery.id not in self.lost, "lost twice"
            self.lost.add(loss.delivery.id)
        for delivery in effects.tries:
            assert delivery.id in self.store, (
                "tried before it was stored, or after it was done with"
            )
            assert delivery.id not in self.lost
            assert delivery not in self.under_way, "under way twice"
            self.under_way.append(delivery)
            of_way = [each for each in self.under_way if each.way == delivery.way]
            still_blocked = delivery.way in before & self.blocked
            assert len(of_way) <= (1 if still_blocked else TERMS.at_once)

    @invariant()
    def nothing_is_lost_unsaid(self) -> None:
        waiting = {*self.store, *(each.id for each in self.unstored)}
        assert len(self.box) == len(waiting) <= TERMS.waiting_max
        assert self.posted <= self.sent | self.lost | waiting

    @invariant()
    def whatever_waits_has_its_turn(self) -> None:
        """There is a try under way for each way on which something waits, or a time for the next one."""
        due_s = self.box.next_due_s()
        idle = {each.way for each in self.store.values()} - {each.way for each in self.under_way}
        assert due_s is not None or not idle

    def teardown(self) -> None:
        """Once everything is taken, everything that waits arrives."""
        self.store_all()
        for _ in range(200):
            while self.under_way:
                delivery = self.under_way.pop()
                self.sent.add(delivery.id)
                self.box.sent(delivery, self.now)
                self._carry_out()
            due_s = self.box.next_due_s()
            if due_s is None:
                break
            self.now = max(self.now, due_s)
            self.box.advance(self.now)
            self._carry_out()
        assert not self.store
        assert self.posted == (self.sent | self.lost) & self.posted


OutboxWorld.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestOutboxWorld = OutboxWorld.TestCase
