"""``kalends notify``, and how lists mark what others have made, against a real server on loopback."""

from __future__ import annotations

import json

import msgspec
from client_broker import NOW_S, Broker
from command_line import Run

from kalends.contract.fields import Want
from kalends.contract.notice_calls import ChangeByOthers


def test_an_address_is_added_listed_tested_and_removed(run: Run) -> None:
    added = run("notify", "add")
    assert added.stdout.startswith("notices go to ")
    assert "secret" not in added.stdout
    address = added.stdout.removeprefix("notices go to ").split(",")[0]
    header, row = run("notify", "list").stdout.splitlines()
    assert header.split()[:3] == ["TO", "BY", "TIMES"]
    assert row.split()[:3] == [address, "mail", "Europe/Berlin"]
    assert run("notify", "test").stdout == f"sending a test notice to {address}\n"
    assert run("notify", "remove", address).stdout == f"removed {address}\n"
    assert run("notify", "remove", address).exit_code == 1


def test_the_secret_of_a_webhook_is_printed_once(run: Run) -> None:
    url = "https://hooks.example.org/kalends"
    assert "  secret   whsec_c2VjcmV0\n" in run("notify", "add", url).stdout
    assert "whsec_" not in run("notify", "list").stdout
    (listed,) = json.loads(run("notify", "list", "--json").stdout)["data"]
    assert (listed["to"], listed["kind"]) == (url, "webhook")


def test_what_others_have_made_is_marked_with_what_when_who_and_why(
    run: Run, broker: Broker
) -> None:
    run("book", "sdsc/sp2:64", "--for", "2h", "--at", "2027-01-15 12:00")
    (id,) = broker.requests
    broker.requests[id] = msgspec.structs.replace(
        broker.requests[id],
        changed=ChangeByOthers(
            made="moved", by="sdsc", at=NOW_S, reason="a new pump",
            was=(Want("sdsc/sp2", NOW_S, NOW_S + 7_200, 64),),
        ),
    )  # fmt: skip
    shown = run("show", id).stdout
    assert (
        "  changed  moved by sdsc on Fri 2027-01-15 09:00:00 CET (UTC+01:00): a new pump\n" in shown
    )
    assert "  before   sdsc/sp2:64 from Fri 2027-01-15 09:00:00 CET (UTC+01:00) for 2h\n" in shown
    assert "changed" in run("why", id).stdout
    assert "reserved (moved by sdsc)" in run("list").stdout
