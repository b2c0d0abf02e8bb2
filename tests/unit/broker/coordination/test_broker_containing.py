"""A step that breaks at one request ends with it: it is set aside, read again, and all others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.protocol_broker import WANTS, Broker

from kalends.broker.coordination.fault_containment import ASIDE_MAX
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.register.sqlite import request_reads, request_rows, request_writes
from kalends.contract import messages as m
from kalends.core.errors import Conflict, Unavailable


class Fault(Exception):
    """Of ours, deep within a step."""


class Fragile(Broker):
    """A broker that breaks in the middle of every step about the request `poisoned`."""

    def __init__(self, **options: Any) -> None:
        self.poisoned = ""
        self.unknown: list[int] = []
        super().__init__(**options)
        coordinator = self.coordinator
        for part, name in (
            (coordinator.timeouts, "_tick"),
            (coordinator.timeouts, "resend"),
            (coordinator.results, "_committed"),
        ):
            setattr(part, name, self.broken(name, getattr(part, name)))
        coordinator.takers[m.Visited] = self.broken("visited", coordinator.takers[m.Visited])

    def broken(self, name: str, whole: Callable[..., None]) -> Callable[..., None]:
        """Half of the step happens: something is asked of the register, and something is sent."""
        outbox = self.coordinator.outbox

        def broken(*args: Any) -> None:
            about = args[0] if isinstance(args[0], Transaction) else args[1]
            if about.rid == self.poisoned:
                outbox.write(r.Finish(rid=about.rid, state="commit", case=0))
                outbox.send("here", m.Forget(rid=about.rid, att=1))
                raise Fault(name)
            whole(*args)

        return broken

    def contained(self, step: Callable[[], object], *, goes_on: bool = False) -> None:
        self.coordinator.containment.contained(step, goes_on=goes_on)
        effects = self.coordinator.outbox.effects
        self.unknown += effects.unknown
        self.settle()

    def hears(self, site: str, message: m.Message) -> None:
        self.contained(lambda: self.coordinator.receive(site, message, self.now))

    def unattended(self) -> list[request_rows.Row]:
        """What the heartbeat would take up now."""
        me, attended = self.coordinator.identity.owner, self.coordinator.containment.attended()
        return request_reads.unattended(self.register, me, attended, 10)

    def passes(self, ms: int) -> None:
        self.ms += ms
        self.contained(lambda: self.coordinator.advance(self.now), goes_on=True)


def two() -> tuple[Fragile, str, str]:
    """A request that steps break at, and a sound one."""
    broker = Fragile()
    bad = broker.submit(1, key="the-bad-one")
    good = broker.submit(2, key="the-good-one", wants=(WANTS[0],))
    broker.poisoned = bad
    broker.sent()
    return broker, bad, good


def yes(rid: str) -> m.Visited:
    return m.Visited(rid=rid, att=1, epoch=1, vote="yes", held=(m.HeldSlot(0, 11),))


def test_a_step_that_breaks_sets_its_request_aside_and_leaves_nothing_of_it() -> None:
    broker, bad, good = two()
    broker.hears("here", yes(bad))
    assert bad not in broker.coordinator.cases
    assert broker.sent() == []
    assert broker.row(bad).state == "open"
    assert broker.unknown == [1]
    assert any(bad in alarm for alarm in broker.alarms)
    broker.hears("here", yes(good))
    assert broker.row(good).state == "commit"
    assert broker.answers[2].state == "reserved"


def test_time_passes_for_all_others_when_it_breaks_at_one() -> None:
    broker, bad, good = two()
    broker.passes(3_000)
    assert bad not in broker.coordinator.cases
    assert [message.rid for _, message in broker.sent()] == [good]  # type: ignore[union-attr]


def test_a_site_that_comes_back_is_told_of_all_others_when_it_breaks_at_one() -> None:
    broker, bad, good = two()
    hello = m.Hello(site="here", epoch=2, resources=())
    broker.contained(lambda: broker.coordinator.receive("here", hello, broker.now), goes_on=True)
    assert bad not in broker.coordinator.cases
    assert good in [message.rid for _, message in broker.sent()]  # type: ignore[union-attr]


def test_what_was_set_aside_goes_on_from_what_the_register_says() -> None:
    broker, bad, _ = two()
    broker.hears("here", yes(bad))
    broker.poisoned = ""
    (row,) = broker.unattended()
    assert row.rid == bad
    broker.adopt(bad)
    assert broker.unattended() == []
    assert broker.row(bad).att == 2
    broker.visited(bad, att=2)
    broker.voted(bad, att=2)
    assert broker.row(bad).state == "commit"


def test_a_key_that_was_set_aside_is_free_for_the_same_request_again() -> None:
    broker, bad, _ = two()
    broker.hears("here", yes(bad))
    assert broker.coordinator.table.working_on("ann", "the-bad-one") is None


def test_a_commit_that_breaks_after_it_is_durable_is_a_commit() -> None:
    broker = Fragile(at_once=False)
    rid = broker.submit(1)
    broker.write()
    broker.visited(rid)
    broker.poisoned = rid
    (commit,) = broker.waiting
    broker.waiting.clear()
    (result,) = request_writes.apply(broker.register, (commit,))
    broker.contained(lambda: broker.coordinator.registered(result, broker.now))
    assert broker.unknown == [1]
    broker.poisoned = ""
    assert [row.rid for row in broker.unattended()] == [rid]
    broker.adopt(rid)
    broker.write()
    assert ("here", "Decide") in broker.kinds()


def test_a_request_that_breaks_again_and_again_is_left_alone() -> None:
    broker, bad, _ = two()
    for attempt in range(1, ASIDE_MAX + 1):
        message = m.Visited(rid=bad, att=attempt, epoch=1, vote="none")
        broker.hears("here", message)
        broker.adopt(bad)
    assert bad not in broker.coordinator.cases
    assert broker.unattended() == []
    assert "left alone" in broker.alarms[-1]
    with pytest.raises(Unavailable):
        broker.release(bad, 9)


def test_a_refusal_of_a_call_sets_nothing_aside_and_a_fault_does() -> None:
    broker, bad, good = two()
    row = broker.row(good)
    with pytest.raises(Conflict):
        broker.coordinator.containment.asked(
            lambda: broker.coordinator.calls.cancel(row, 3, broker.now)
        )
    assert good in broker.coordinator.cases

    def breaks() -> None:
        broker.coordinator.calls.release(broker.row(bad), 4, broker.now)
        raise Fault

    with pytest.raises(Fault):
        broker.coordinator.containment.asked(breaks)
    assert broker.row(bad).state == "open"


def test_a_fault_that_is_nobodys_is_not_contained() -> None:
    broker, _, _ = two()

    def breaks() -> None:
        raise Fault

    with pytest.raises(Fault):
        broker.coordinator.containment.contained(breaks)


def test_what_is_unreadable_says_nothing_of_the_outcome(broker: Broker) -> None:
    """A row that cannot be read is neither no row, nor one that another replica has taken over."""
    rid = broker.submit(1)
    broker.register.execute("update request set body = x'c1' where rid = ?", (rid,))
    inquire = m.Inquire(rid=rid, att=1, site="here", secret="s" * 24)
    broker.sent()
    broker.receive("here", inquire)
    assert broker.sent() == []
    broker.advance(3_000)
    assert rid in broker.coordinator.cases
    broker.visited(rid)
    assert broker.row(rid).state == "commit"
