"""A request that is not over has somebody who works on it, however late the register answers."""

from __future__ import annotations

from tests.protocol_broker import Broker, new_register

from kalends.broker.register.sqlite import request_reads


def test_a_late_answer_to_what_was_asked_before_a_take_over_ends_nothing_that_began_since() -> None:
    store = new_register()
    blue = Broker(store, name="b", at_once=False)
    rid = blue.submit(hold_s=600)
    blue.write()
    blue.visited(rid, vote=False)
    assert [type(op).__name__ for op in blue.waiting] == ["Note"]
    red = Broker(store, name="r")
    red.adopt(rid)
    blue.coordinator.table.notice(blue.row(rid))
    blue.coordinator.attempts.take_over(blue.row(rid), blue.now)
    blue.settle()
    assert [type(op).__name__ for op in blue.waiting] == ["Note", "Raise"]
    blue.write()
    assert blue.row(rid).owner == "b:1"
    assert blue.case(rid).record.att == blue.row(rid).att == 3


def test_the_heart_finds_what_its_own_replica_owns_and_does_not_work_on() -> None:
    store = new_register()
    blue = Broker(store, name="b")
    rid, other = blue.submit(), blue.submit(key="another-key-of-it")
    assert request_reads.orphans(store, ("b:1",), 10) == []
    assert request_reads.unattended(store, "b:1", blue.coordinator.cases, 10) == []
    found = request_reads.unattended(store, "b:1", {other}, 10)
    assert [record.rid for record in found] == [rid]
    assert request_reads.unattended(store, "b:1", set(), 1) == found
    assert request_reads.unattended(store, "r:1", set(), 10) == []
    blue.visited(rid)
    assert [record.rid for record in request_reads.unattended(store, "b:1", {other}, 10)] == [rid]
    blue.done(rid)
    assert request_reads.unattended(store, "b:1", {other}, 10) == []


def test_a_cancel_on_its_way_is_told_to_the_sites_though_another_replica_has_told_the_commit() -> (
    None
):
    store = new_register()
    blue = Broker(store, name="b", at_once=False)
    rid = blue.submit()
    blue.visited(rid)
    blue.write()
    blue.advance(1_500)
    red = Broker(store, name="r")
    red.adopt(rid)
    red.done(rid)
    assert red.row(rid).done
    blue.coordinator.calls.cancel(blue.row(rid), 2, blue.now)
    blue.settle()
    assert [type(op).__name__ for op in blue.waiting] == ["Read", "Cancel"]
    blue.sent()
    blue.write()
    assert blue.kinds() == [("here", "Cancel"), ("there", "Cancel")]
    blue.done(rid, "cancel")
    blue.write()
    assert blue.answers[2].state == "cancelled"
    assert blue.row(rid).done
