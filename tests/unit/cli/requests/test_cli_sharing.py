"""``kalends share``, ``unshare``, ``give``, ``accept`` and ``decline``, and what listings say of it."""

from __future__ import annotations

import pytest
from client_broker import Broker
from command_line import Run
from msgspec.structs import replace

from kalends.cli.requests.sharing_texts import sharing_words
from kalends.contract.request_views import SharedWith, SharingView


@pytest.fixture
def id(run: Run, broker: Broker) -> str:
    assert run("book", "sdsc/sp2", "--for", "1h", "--at", "now+1d").exit_code == 0
    return next(iter(broker.requests))


def test_a_request_is_shared_and_no_more_and_its_parties_are_named(run: Run, id: str) -> None:
    assert "with bob, who may change it" in run("share", id, "bob", "--may-change").stdout
    assert "with bob, who may look at it" in run("share", id, "bob").stdout
    assert "with group optics" in run("share", id, "--to-group", "optics").stdout
    assert run("unshare", id, "bob").exit_code == 0
    for wrong in ((), ("bob", "--link"), ("--link", "--may-change")):
        assert run("share", id, *wrong).exit_code == 2


def test_a_link_is_printed_once_and_revoked(run: Run, id: str, broker: Broker) -> None:
    shown = run("share", id, "--link").stdout
    assert f"{broker.url}/shared/{'s' * 43}\n" in shown
    assert "revoked" in run("unshare", id, "--link").stdout


def test_an_offer_is_made_accepted_and_declined(run: Run, id: str) -> None:
    assert "offered  to bob until" in run("give", id, "bob", "--days", "2").stdout
    assert "given    by ann" in run("accept", id).stdout
    assert run("decline", id).exit_code == 0


def test_listings_say_who_shares_and_whom_it_is_offered_to(
    run: Run, id: str, broker: Broker
) -> None:
    view = broker.requests[id]
    for sharing, words in (
        (SharingView(may="look"), [f"shared by {view.user}"]),
        (SharingView(may="take"), [f"offered by {view.user}"]),
        (SharingView(may="change", offered_to="bob"), [f"offered by {view.user}"]),
        (SharingView(offered_to="bob", offered_until=1, link=True), ["offered to bob", "shared"]),
        (SharingView(parties=(SharedWith(party="user:b", may="look", at=1),)), ["shared"]),
    ):
        assert sharing_words(replace(view, sharing=sharing)) == words


def test_a_booking_in_anothers_name_says_who_made_it_and_a_series_cannot_be(run: Run) -> None:
    when = ("sdsc/sp2", "--for", "1h", "--at", "now+1d", "--on-behalf-of", "bob")
    booked = run("--user", "ann", "book", *when)
    assert "user     bob" in booked.stdout
    assert "booked   by ann, in the name of bob" in booked.stdout
    assert run("hold", *when).exit_code == 0
    refused = run("book", *when, "--every", "week", "--times", "3")
    assert (refused.exit_code, "--on-behalf-of" in refused.stderr) == (2, True)
