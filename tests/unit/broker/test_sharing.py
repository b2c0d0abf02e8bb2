"""Sharing at a real broker and real sites: participants, hand-over, and links for guests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from kalends.client.client import Client
from kalends.core.errors import Conflict, KalendsError, LimitExceeded, NotAllowed, NotFound
from kalends.core.times import parse_time
from kalends.serving.auth import callers
from kalends.testing import LocalFacility
from kalends.testing.facility import Resources

NOW, NINE, TEN = "2027-03-01T09:00Z", "2027-03-02T09:00Z", "2027-03-02T10:00Z"
NINE_S = parse_time(NINE, 0, "UTC")
BOTH = "sdsc/sp2:8 + ncsa/cave"
ASKED_FOR_BOB = [{"name": "word", "who": "user:bob", "approval": True}]
NOT_BOB = [{"name": "ann", "who": "user:ann", "may": "lock"}]


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalFacility]:
    """Access is open, but nobody audits or administers."""
    monkeypatch.setattr(callers, "SCOPES", callers.SCOPES - {"audit", "admin"})
    sites: dict[str, Resources] = {
        "sdsc": {"sp2": 64},
        "ncsa": {"cave": 1, "vault": {"capacity": 1, "access": NOT_BOB}},
        "emlab": {"lens": {"capacity": 1, "limits": ASKED_FOR_BOB}},
    }
    async with LocalFacility(sites, now=NOW) as servers:
        yield servers


async def test_a_participant_looks_and_changes_nothing_until_its_user_says_so(
    ann: Client, bob: Client
) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE)).id
    with pytest.raises(NotFound):
        await bob.show(id)
    shared = await ann.share(id, "bob")
    assert shared.sharing is not None
    assert [(each.party, each.may) for each in shared.sharing.parties] == [("user:bob", "look")]
    seen = await bob.show(id[:8])
    assert (seen.user, seen.sharing and seen.sharing.may) == ("ann", "look")
    assert [(each.id, each.sharing and each.sharing.may) for each in await bob.list()] == [
        (id, "look")
    ]
    for act in (bob.move(id, TEN), bob.cancel(id), bob.share(id, "carl"), bob.give(id, "carl")):
        with pytest.raises(NotAllowed, match="belongs to ann"):
            await act
    await ann.unshare(id, "bob")
    with pytest.raises(NotFound):
        await bob.show(id)
    assert await bob.list() == ()


async def test_a_change_by_a_participant_is_in_the_name_of_the_user_and_both_names_are_in_the_story(
    ann: Client, bob: Client
) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE)).id
    await ann.share(id, "bob", may_change=True)
    moved = await bob.move(id, TEN, key="bobs-move-1")
    again = await bob.move(id, TEN, key="bobs-move-1")
    assert (moved.user, again.changes) == ("ann", 1)
    assert moved.changed is not None
    assert (moved.changed.made, moved.changed.by) == ("moved", "bob")
    assert any("by bob" in event.detail for event in (await ann.why(id)).events)
    cancelled = await bob.cancel(id)
    assert cancelled.changed is not None
    assert (cancelled.state, cancelled.changed.by) == ("cancelled", "bob")


async def test_a_participant_can_leave_and_repeats_do_no_harm(ann: Client, bob: Client) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE)).id
    await ann.share(id, "bob")
    await ann.share(id, "bob", may_change=True)
    await bob.unshare(id, "bob")
    with pytest.raises(NotFound):
        await bob.show(id)
    with pytest.raises(NotFound, match="not shared"):
        await ann.unshare(id, "bob")
    for number in range(32):
        await ann.share(id, f"user{number}")
    with pytest.raises(LimitExceeded, match="32 parties"):
        await ann.share(id, "one-more")


async def test_a_reservation_is_handed_over_whole_and_its_giver_sees_only_what_was_theirs(
    ann: Client, bob: Client
) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE, note="run 7")).id
    offered = await ann.give(id, "bob")
    assert offered.sharing is not None
    assert (offered.state, offered.sharing.offered_to) == ("reserved", "bob")
    taken = await bob.accept_offer(id, key="bob-accepts")
    assert (await bob.accept_offer(id, key="bob-accepts")).user == "bob"
    assert (taken.id, taken.user, taken.state, taken.given_by) == (id, "bob", "reserved", "ann")
    assert [each.id for each in await bob.list()] == [id]
    assert [each.kind for each in (await bob.why(id)).events] == ["reserved", "handed-over"]
    moved = await bob.move(id, TEN)
    assert [moved.changes, (await bob.show(id)).given_by] == [2, "ann"]
    mine = await ann.show(id)
    assert (mine.state, mine.user, mine.start) == ("replaced", "ann", offered.start)
    with pytest.raises(Conflict):
        await ann.move(id, NINE)
    with pytest.raises(Conflict):
        await ann.cancel(id)
    assert (await bob.show(id)).state == "reserved"


async def test_an_offer_is_for_one_user_and_ends_when_it_is_declined_withdrawn_or_renewed(
    ann: Client, bob: Client, servers: LocalFacility
) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE)).id
    for end in (bob.decline_offer, ann.decline_offer):
        await ann.give(id, "bob")
        await end(id)
        with pytest.raises(NotFound):
            await bob.accept_offer(id)
    await ann.give(id, "bob")
    await ann.give(id, "carl")
    with pytest.raises(NotFound):
        await bob.accept_offer(id)
    async with servers.client("carl") as carl:
        assert (await carl.accept_offer(id)).user == "carl"


async def test_what_has_begun_or_was_cancelled_is_not_handed_over(ann: Client, bob: Client) -> None:
    id = (await ann.book("ncsa/cave", duration="1h", at=NINE)).id
    await ann.give(id, "bob")
    await ann.cancel(id)
    with pytest.raises(KalendsError):
        await bob.accept_offer(id)
    with pytest.raises(Conflict, match="cancelled"):
        await ann.give(id, "bob")


async def test_a_guest_link_shows_slots_without_names_until_it_is_revoked(ann: Client) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE, note="secret plans")).id
    first = (await ann.add_link(id)).address
    address = (await ann.add_link(id)).address
    async with aiohttp.ClientSession() as http:
        async with http.get(first) as answer:
            assert answer.status == 404
        async with http.get(address) as answer:
            text = await answer.text()
        async with http.get(f"{address}.json") as answer:
            shown = await answer.json()
        assert "ncsa/cave: 1, " in text
        assert "ann" not in text + str(shown)
        assert "secret plans" not in text + str(shown)
        assert [each["resource"] for each in shown["slots"]] == ["ncsa/cave", "sdsc/sp2"]
        await ann.revoke_link(id)
        async with http.get(address) as answer:
            assert answer.status == 404
    with pytest.raises(NotFound, match="no link"):
        await ann.revoke_link(id)


async def test_who_has_given_it_away_sees_and_does_nothing_with_what_is_another_users(
    ann: Client, bob: Client, servers: LocalFacility
) -> None:
    id = (await ann.book(BOTH, duration="1h", at=NINE, key="anns-booking")).id
    await ann.give(id, "bob")
    await bob.accept_offer(id)
    await bob.move(id, TEN)
    await bob.share(id, "eve")
    await bob.give(id, "carl")
    for view in (
        await ann.show(id),
        *await ann.list(),
        await ann.by_key("anns-booking"),
        await ann.book(BOTH, duration="1h", at=NINE, key="anns-booking"),
    ):
        assert (view.user, view.state, view.sharing) == ("ann", "replaced", None)
        assert view.start == NINE_S
    assert await ann.list(state="reserved") == ()
    for act in (ann.add_link(id), ann.revoke_link(id), ann.unshare(id, "eve")):
        with pytest.raises(NotAllowed, match="another user's"):
            await act
    with pytest.raises(NotAllowed, match="not offered"):
        await ann.decline_offer(id)
    async with servers.client("carl") as carl:
        assert (await carl.accept_offer(id)).user == "carl"


async def test_who_could_not_take_it_over_has_no_more_to_do_with_it(
    ann: Client, bob: Client
) -> None:
    id = (await ann.book("sdsc/sp2:64 + ncsa/vault", duration="1h", at=NINE)).id
    await ann.give(id, "bob")
    with pytest.raises(KalendsError, match="ncsa"):
        await bob.accept_offer(id)
    assert [each.kind for each in (await bob.why(id)).events] == ["reserved", "refused"]
    assert [each.kind for each in (await ann.why(id)).events] == ["reserved"]
    await ann.give(id, "carl")
    await ann.share(id, "eve")
    for act in (bob.add_link(id), bob.unshare(id, "eve")):
        with pytest.raises(NotAllowed, match="another user's"):
            await act
    with pytest.raises(NotAllowed, match="not offered"):
        await bob.decline_offer(id)
    seen = await bob.show(id)
    assert (seen.user, seen.state, seen.sharing) == ("bob", "failed", None)
    assert (await ann.show(id)).state == "reserved"


async def test_an_offer_that_ends_gives_up_its_acceptance_which_waits_for_an_owner(
    ann: Client, bob: Client, servers: LocalFacility
) -> None:
    id = (await ann.book("emlab/lens + sdsc/sp2:8", duration="1h", at=NINE)).id
    await ann.give(id, "bob")
    assert (await bob.accept_offer(id, wait_s=1)).state == "open"
    with pytest.raises(Conflict, match="approval"):
        await ann.move(id, TEN)
    await ann.decline_offer(id)
    assert (await bob.show(id)).state == "cancelled"
    assert (await ann.move(id, TEN)).changes == 1
    await ann.give(id, "bob")
    assert (await bob.accept_offer(id, wait_s=1)).state == "open"
    await ann.give(id, "carl")
    async with servers.client("carl") as carl:
        assert (await carl.accept_offer(id)).state == "reserved"


async def test_a_listing_goes_on_until_it_has_as_many_shared_requests_as_were_asked_for(
    ann: Client, bob: Client
) -> None:
    ids = [(await ann.book("sdsc/sp2:1", duration="1h", at=NINE)).id for _ in range(4)]
    for id in ids:
        await ann.share(id, "bob")
    await ann.cancel(ids[2])
    await ann.unshare(ids[3], "bob")
    assert [each.id for each in await bob.list(state="reserved", count=1)] == [ids[1]]
    assert [each.id for each in await bob.list(state="reserved", before=ids[1])] == [ids[0]]


async def test_a_participant_who_may_change_it_sees_that_it_is_offered_to_them(
    ann: Client, bob: Client
) -> None:
    id = (await ann.book("sdsc/sp2:1", duration="1h", at=NINE)).id
    await ann.share(id, "bob", may_change=True)
    await ann.give(id, "bob")
    for view in (await bob.show(id), *await bob.list()):
        assert view.sharing is not None
        assert (view.sharing.may, view.sharing.offered_to) == ("change", "bob")
        assert view.sharing.offered_until == NINE_S
