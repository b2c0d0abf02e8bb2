"""What a site reports of nodes that fail in slots that have begun: until noted, over restarts, taken back."""

from __future__ import annotations

from tests.protocol_support import DAY, HERE, T0, Site, rid, secret_of
from tests.unit.resource_servers.participation.test_part_reports import POOL, locked

from kalends.contract import messages as m
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.reclaims.reclaims import OutOfService
from kalends.resource_servers.participation.repeats import REMIND_AFTER_MS, REMIND_EVERY_MS_MAX


def look(site: Site, nodes: int, why: str = "a node is out of service: fan") -> list[m.SlotLoss]:
    """The machine is looked at: `nodes` of the reservation cannot be used."""
    out = OutOfService(POOL, T0, T0 + 1, nodes, 0, why, begun=((rid(1), nodes),))
    site.call(lambda participant, now: site.reminders.nodes_out(out, now))
    sent = [send.message for send in site.unsent if isinstance(send.message, m.SlotLoss)]
    assert {send.to[: len(REGISTER)] for send in site.unsent} <= {REGISTER}
    site.unsent.clear()
    return sent


def repeated(site: Site, ms: int) -> list[m.Message]:
    return [send.message for send in site.advance(ms).sends if isinstance(send.message, m.SlotLoss)]


def note(site: Site, number: int, secret: str = "") -> None:
    secret = secret or secret_of(rid(1))
    noted = m.LossNoted(rid=rid(1), att=1, resource=POOL, number=number, secret=secret)
    site.receive(noted)


def test_a_loss_is_reported_until_it_is_noted_and_no_more_then() -> None:
    site = locked()
    (news,) = look(site, 1)
    assert (news.resource, news.nodes, news.detail) == (POOL, 1, "a node is out of service: fan")
    assert look(site, 1) == [], "nothing has changed"
    assert repeated(site, REMIND_AFTER_MS) == [news]
    assert repeated(site, REMIND_EVERY_MS_MAX) == [news]
    note(site, news.number - 1)
    assert repeated(site, REMIND_EVERY_MS_MAX) == [news], "another one was noted"
    note(site, news.number)
    assert repeated(site, 10 * REMIND_EVERY_MS_MAX) == []


def test_nodes_that_are_back_are_reported_with_a_higher_number() -> None:
    site = locked()
    (lost,) = look(site, 2)
    note(site, lost.number)
    (back,) = look(site, 0)
    assert (back.nodes, back.detail, back.number > lost.number) == (0, "", True)
    note(site, lost.number)
    assert repeated(site, REMIND_EVERY_MS_MAX) == [back], "an older answer came late"
    note(site, back.number)
    assert repeated(site, REMIND_EVERY_MS_MAX) == []
    assert look(site, 0) == []


def test_nothing_is_reported_of_a_slot_that_lacks_nothing() -> None:
    assert look(locked(), 0) == []


def test_a_restarted_site_knows_what_it_has_reported() -> None:
    site = locked()
    (lost,) = look(site, 1)
    site.restart()
    assert look(site, 1) == [lost], "it was not noted"
    note(site, lost.number)
    site.restart()
    assert look(site, 1) == []
    (back,) = look(site, 0)
    assert back.number > lost.number


def test_a_broker_that_comes_is_told_what_it_may_have_missed() -> None:
    site = locked()
    (lost,) = look(site, 1)
    site.call(lambda participant, now: participant.broker_came(now))
    assert [send.message for send in site.unsent if isinstance(send.message, m.SlotLoss)] == [lost]


def test_only_the_register_of_a_reservation_can_note_it() -> None:
    site = locked()
    (lost,) = look(site, 1)
    note(site, lost.number, "a secret of another one")
    assert repeated(site, REMIND_AFTER_MS) == [lost]


def test_what_has_ended_or_is_cancelled_is_reported_no_more() -> None:
    for end in (True, False):
        site = locked()
        look(site, 1)
        if end:
            assert repeated(site, (DAY + 61) * 1_000) == []
        else:
            site.receive(m.Cancel(rid=rid(1), att=1, secret=secret_of(rid(1))))
        assert repeated(site, REMIND_EVERY_MS_MAX) == []
        assert site.participant.losses.next_deadline_ms() is None


def test_of_requests_that_are_not_here_nothing_is_reported(site: Site) -> None:
    assert HERE in POOL
    assert look(site, 1) == []
