"""What sites tell of their owners' approval, as a broker believes it: each once, nothing beyond theirs."""

from __future__ import annotations

from tests.protocol_broker import START, WANTS, Broker
from tests.protocol_support import T0

from kalends.contract import messages as m


def before_owners(wants: tuple[m.Want, ...] = WANTS) -> tuple[Broker, str]:
    """A request of which all is held; the owner of `there` thinks about it, that of `here` is asked."""
    broker = Broker()
    rid = broker.submit(wants=wants)
    for att, site in ((1, "here"), (2, "here"), (2, "there")):
        held = (m.HeldSlot(0, 7),)
        visited = m.Visited(rid=rid, att=att, epoch=1, vote="none", held=held, approval=True)
        broker.receive(site, visited)
    broker.receive("there", says(rid, "pending"))
    assert broker.case(rid).phase == "asking"
    return broker, rid


def says(rid: str, state: str, until: int = START, word: str = "") -> m.OwnerSays:
    assert state in ("pending", "approved")
    return m.OwnerSays(
        rid=rid, att=2, state="approved" if state == "approved" else "pending", until=until,
        word=word,
    )  # fmt: skip


def test_a_site_that_says_something_else_again_and_again_has_the_broker_write_once_each() -> None:
    broker, rid = before_owners()
    broker.receive("here", says(rid, "pending", START - 1))
    before = broker.register.total_changes
    for second in range(2, 50):
        broker.receive("here", says(rid, "pending", START - second))
    assert broker.register.total_changes == before
    broker.receive("here", says(rid, "approved"))
    once = broker.register.total_changes
    for state in ("pending", "approved") * 20:
        broker.receive("here", says(rid, state))
    assert broker.register.total_changes == once
    assert broker.events.count("approved") == 1
    broker.receive("there", says(rid, "approved"))
    assert broker.case(rid).phase == "preparing"


def test_a_site_that_may_think_for_ever_keeps_what_others_own_no_longer_than_its_slot_begins() -> (
    None
):
    broker, rid = before_owners()
    broker.receive("here", says(rid, "pending", START + 10**9))
    waiting = broker.row(rid).waiting
    assert waiting is not None
    assert waiting.until == min(want.start for want in WANTS)
    broker.sent()
    broker.advance((START - T0) * 1_000)
    assert broker.row(rid).problem is not None
    ended = {to for to, message in broker.sent() if isinstance(message, m.Decide | m.Release)}
    assert ended == {"here", "there"}


def test_the_user_is_told_the_words_of_all_owners() -> None:
    broker, rid = before_owners()
    broker.receive("there", says(rid, "approved", word="bring a badge"))
    broker.receive("here", says(rid, "approved", word="mind the step"))
    assert set(broker.case(rid).record.owners.words) == {"bring a badge", "mind the step"}


def test_owners_may_think_until_the_first_of_several_slots_begins() -> None:
    later, first = m.Want("here/one", START + 60, START + 120, 1), WANTS[1]
    broker, rid = before_owners((later, first))
    broker.receive("here", says(rid, "pending", START + 60))
    waiting = broker.row(rid).waiting
    assert waiting is not None
    assert waiting.until == START


def test_owners_have_no_more_time_when_a_hold_was_lost_meanwhile() -> None:
    broker, rid = before_owners()
    broker.receive("here", says(rid, "pending"))
    first = broker.row(rid).waiting
    broker.advance(5_000)
    lost = m.Renewed(rid=rid, att=2, epoch=1, lost=(7,))
    broker.receive("here", lost)
    assert broker.case(rid).phase == "holding"
    held = (m.HeldSlot(0, 8),)
    broker.receive(
        "here", m.Visited(rid=rid, att=2, epoch=1, vote="none", held=held, approval=True)
    )
    for site in ("here", "there"):
        broker.receive(site, says(rid, "pending"))
    assert broker.case(rid).phase == "asking"
    assert first is not None
    assert broker.case(rid).record.waiting == first
    assert broker.case(rid).record.owners.asked_at == first.since
