"""Nodes that fail in slots that have begun, at a broker: believed of their owner, shown, and sent once."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec.structs import replace
from tests.protocol_broker import START, Broker, new_register
from tests.protocol_support import ANN

from kalends.broker.coordination.record.views import view_of
from kalends.broker.register.decisions.starts import NOTICES_MAX
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import KeepAddress, NoticeAddress
from kalends.cli.requests.request_texts import request_lines
from kalends.contract import messages as m
from kalends.contract.calls import UnitsOut
from kalends.notices.request_notice import RequestNotice, request_delivery

UTC = ZoneInfo("UTC")


@pytest.fixture
def one() -> Broker:
    """A broker whose user is sent notices."""
    register = new_register()
    address = NoticeAddress(ANN.user, "ann@example.org", "UTC", 0)
    carry_out(register, [KeepAddress(address, 3)])
    return Broker(register)


@pytest.fixture
def rid(one: Broker) -> str:
    return one.reserve()


def loss(rid: str, number: int, nodes: int = 1, **fields: object) -> m.SlotLoss:
    made = m.SlotLoss(
        rid=rid, att=1, resource="here/one", number=number, nodes=nodes, at=1, detail="fan"
    )
    return replace(made, **fields)  # type: ignore[arg-type]  # fields of a message


def hear(broker: Broker, message: m.SlotLoss, site: str = "here") -> list[tuple[str, int]]:
    """Return who is answered, and which number was noted."""
    broker.receive(site, message)
    return [(to, each.number) for to, each in broker.sent() if isinstance(each, m.LossNoted)]


def shown(broker: Broker, rid: str) -> tuple[UnitsOut, ...]:
    return view_of(broker.row(rid)).units_out


def notices(broker: Broker) -> list[RequestNotice]:
    rows = broker.register.execute("select cast(body as blob) from notice order by number")
    return [msgspec.msgpack.decode(body, type=RequestNotice) for (body,) in rows]


def test_the_user_sees_what_cannot_be_used_until_it_is_back(one: Broker, rid: str) -> None:
    assert hear(one, loss(rid, 7)) == [("here", 7)]
    assert shown(one, rid) == (UnitsOut(resource="here/one", units=1, at=1, detail="fan"),)
    lines = request_lines(view_of(one.row(rid)), UTC)
    assert (
        "  out      1 of 1 units on here/one, since Thu 1970-01-01 00:00:01 UTC (UTC+00:00): fan"
        in lines
    )
    assert hear(one, loss(rid, 8, 0)) == [("here", 8)]
    assert shown(one, rid) == ()


def test_what_is_repeated_or_late_is_answered_and_changes_nothing(one: Broker, rid: str) -> None:
    hear(one, loss(rid, 7))
    hear(one, loss(rid, 8, 0))
    assert hear(one, loss(rid, 7)) == [("here", 7)]
    assert hear(one, loss(rid, 8, 0)) == [("here", 8)]
    assert shown(one, rid) == ()
    assert [each.occasion for each in notices(one)] == ["nodes-out", "nodes-back"]


def test_a_notice_names_the_resource_the_count_and_the_reason(one: Broker, rid: str) -> None:
    hear(one, loss(rid, 7))
    (notice,) = notices(one)
    delivery = request_delivery([notice], "ann@example.org", UTC, START)
    assert "1 of 1 units on here/one cannot be used: fan" in delivery.text
    assert "kalends cancel" in delivery.text
    assert delivery.facts["event"] == "nodes-out"


def test_a_node_that_fails_again_and_again_sends_a_bounded_number_of_notices(
    one: Broker, rid: str
) -> None:
    for number in range(1, 50):
        hear(one, loss(rid, number, number % 2))
    assert len(notices(one)) == NOTICES_MAX
    assert shown(one, rid) != (), "it is shown, all the same"


def test_a_site_is_believed_of_its_own_resources_and_of_what_is_reserved_there(
    one: Broker, rid: str
) -> None:
    assert hear(one, loss(rid, 7), "there") == []
    assert "reports another site's nodes" in one.alarms[-1]
    hear(one, loss(rid, 7, resource="here/two"))
    hear(one, loss(rid, 7, att=2))
    assert shown(one, rid) == ()
    hear(one, loss(rid, 7, nodes=1_000, at=1 << 33))
    (out,) = shown(one, rid)
    assert (out.units, out.at) == (1, one.now.wall_s), "no more than was reserved, and not ahead"


def test_a_register_that_knows_no_commit_does_not_answer(one: Broker) -> None:
    assert hear(one, loss("01900000-0000-7000-8000-000000000000", 7)) == []
    rid = one.submit()
    assert hear(one, loss(rid, 7)) == [], "it is not decided yet"


def test_what_is_cancelled_is_noted_and_not_shown(one: Broker, rid: str) -> None:
    hear(one, loss(rid, 7))
    one.cancel(rid, 2)
    assert hear(one, loss(rid, 8, 0)) == [("here", 8)]
    assert shown(one, rid) == ()
    assert len(notices(one)) == 1


def test_a_restarted_broker_still_shows_it(one: Broker, rid: str) -> None:
    hear(one, loss(rid, 7))
    assert len(shown(Broker(one.register), rid)) == 1
