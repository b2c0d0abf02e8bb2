"""Bookings in the name of another user, at a real broker and real sites."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kalends.broker.sharing.deputies import Deputies
from kalends.client.client import Client
from kalends.core.errors import InvalidInput, KeyReused, NotAllowed, NotFound
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.serving.auth import callers
from kalends.serving.configuration import DeputyConfiguration
from kalends.testing import LocalFacility
from kalends.testing.facility import Resources

NOW, NINE, TEN = "2027-03-01T09:00Z", "2027-03-02T09:00Z", "2027-03-02T10:00Z"
BOTH = "sdsc/sp2:8 + ncsa/cave"
OPTICS = [{"name": "optics", "who": "group:optics", "may": "lock"}]
DEPUTIES = [{"who": "user:ann", "users": {"bob": ["optics"], "eva": []}}]


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalFacility]:
    """Access is open, but nobody audits or administers."""
    monkeypatch.setattr(callers, "SCOPES", callers.SCOPES - {"audit", "admin"})
    sites: dict[str, Resources] = {
        "sdsc": {"sp2": 64},
        "ncsa": {"cave": {"capacity": 1, "access": OPTICS}},
    }
    settings = {"deputies": DEPUTIES, "notices": {"webhook_hosts": ["127.0.0.1"]}}
    async with LocalFacility(sites, now=NOW, settings=settings) as servers:
        yield servers


async def test_a_booking_in_anothers_name_is_theirs_by_their_rights_and_says_who_made_it(
    ann: Client, bob: Client
) -> None:
    with pytest.raises(NotFound):  # Ann is in no group, and does not see the cave.
        await ann.book(BOTH, duration="1h", at=NINE)
    booked = await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="bob")
    assert (booked.state, booked.user, booked.booked_by) == ("reserved", "bob", "ann")
    own = await bob.show(booked.id)
    assert (own.user, own.booked_by) == ("bob", "ann")
    assert own.sharing is not None
    assert [(each.party, each.may) for each in own.sharing.parties] == [("user:ann", "change")]
    assert (await ann.list(state="reserved"))[0].id == booked.id


async def test_a_deputy_changes_it_and_its_user_ends_that(ann: Client, bob: Client) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="bob", key="named-one")).id
    again = await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="bob", key="named-one")
    assert again.id == id
    moved = await ann.move(id, TEN)
    assert (moved.user, moved.booked_by) == ("bob", "ann")
    assert (await bob.shrink(id, by="30m")).booked_by == "ann"
    await bob.unshare(id, "ann")
    with pytest.raises(NotFound):
        await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="bob", key="named-one")
    with pytest.raises(NotFound):
        await ann.cancel(id)
    assert (await bob.cancel(id)).state == "cancelled"


async def test_a_key_is_one_request_for_each_deputy_and_user(ann: Client) -> None:
    own = await ann.hold("sdsc/sp2:8", duration="1h", at=NINE, key="one-key-one")
    bobs = await ann.hold(
        "sdsc/sp2:8", duration="1h", at=NINE, key="one-key-one", on_behalf_of="bob"
    )
    evas = await ann.hold(
        "sdsc/sp2:8", duration="1h", at=NINE, key="one-key-one", on_behalf_of="eva"
    )
    with pytest.raises(KeyReused) as reused:
        await ann.book("sdsc/sp2:9", duration="1h", at=NINE, key="one-key-one", on_behalf_of="bob")
    assert "for:" not in str(reused.value)
    assert [each.user for each in (own, bobs, evas)] == ["ann", "bob", "eva"]
    assert (await ann.lock(bobs.id)).state == "reserved"


async def test_only_deputies_book_in_anothers_name_and_only_for_whom_the_operator_named(
    ann: Client, bob: Client
) -> None:
    with pytest.raises(NotAllowed, match="in the name of carl") as refused:
        await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="carl")
    assert "kalends give" in refused.value.remedy
    with pytest.raises(NotAllowed, match="in the name of ann"):
        await bob.book(BOTH, duration="1h", at=NINE, on_behalf_of="ann")
    assert await bob.list() == await ann.list() == ()


async def test_nothing_of_a_deputy_runs_as_the_user(ann: Client) -> None:
    job = JobRequest(machine="", limit_s=60, command=("/bin/true",))
    with pytest.raises(InvalidInput, match="job cannot be submitted"):
        await ann.submit_in_step("sdsc/sp2:8", job, duration="1h", at=NINE, on_behalf_of="bob")
    await ann.upload_agent("mine", "def choose(view, request):\n    return view['free']\n")
    with pytest.raises(InvalidInput, match="script cannot be used"):
        await ann.book(BOTH, duration="1h", at=NINE, agent="mine", on_behalf_of="bob")
    with pytest.raises(InvalidInput, match="your own name"):
        await ann.book(BOTH, duration="1h", at=NINE, on_behalf_of="ann")


def test_the_first_entry_that_fits_says_the_groups_and_a_changed_list_counts_at_once() -> None:
    office = DeputyConfiguration(who="group:office", users={"bob": ("a",), "eva": ()})
    everyone = DeputyConfiguration(who="everyone", users={"bob": ("b",)})
    deputies = Deputies([office, everyone])
    clerk, guest = Principal("ann", ("office",)), Principal("gus")
    assert deputies.holder(clerk, "bob") == Principal("bob", ("a",))
    assert deputies.holder(guest, "bob") == Principal("bob", ("b",))
    with pytest.raises(NotAllowed):
        deputies.holder(guest, "eva")
    deputies.configure([])
    with pytest.raises(NotAllowed):
        deputies.holder(clerk, "bob")
