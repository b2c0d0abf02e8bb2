"""``kalends ics`` and ``kalends list --ics``, against a real server on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import icalendar
from client_broker import Broker
from command_line import Run
from msgspec import structs


def test_a_reservation_is_printed_as_a_calendar_file(run: Run, broker: Broker) -> None:
    run("book", "sdsc/sp2:64", "--for", "2h", "--at", "2027-01-16 12:00", "--note", "run 7")
    (id,) = broker.requests
    printed = run("ics", id[-8:])
    assert printed.exit_code == 0
    (event,) = icalendar.Calendar.from_ical(printed.stdout_bytes).walk("VEVENT")
    assert event["UID"] == f"{id}-1@kalends"
    assert event["DTSTART"].to_ical() == b"20270116T110000Z"
    assert event["SUMMARY"] == "run 7 (sdsc/sp2:64)"
    assert all(line.endswith(b"\r") for line in printed.stdout_bytes.split(b"\n")[:-1])


def test_a_list_is_one_file_of_all_that_has_a_time(run: Run, broker: Broker) -> None:
    for hour in (12, 14):
        run("book", "sdsc/sp2:64", "--for", "1h", "--at", f"2027-01-16 {hour}:00")
    first, second = broker.requests
    run("cancel", first)
    events = icalendar.Calendar.from_ical(run("list", "--ics").stdout_bytes).walk("VEVENT")
    states = {str(event["UID"]): str(event["STATUS"]) for event in events}
    assert states == {f"{first}-1@kalends": "CANCELLED", f"{second}-1@kalends": "CONFIRMED"}


def test_the_file_is_a_text_in_json(run: Run, broker: Broker) -> None:
    run("book", "sdsc/sp2:64", "--for", "2h", "--at", "2027-01-16 12:00")
    told = json.loads(run("ics", *broker.requests, "--json").stdout)
    assert told["kind"] == "calendar-file"
    assert icalendar.Calendar.from_ical(told["data"]).walk("VEVENT")


def test_a_request_without_a_time_is_refused_with_its_state(run: Run, broker: Broker) -> None:
    run("book", "sdsc/sp2:64", "--for", "2h", "--at", "2027-01-16 12:00")
    (id,) = broker.requests
    broker.requests[id] = structs.replace(broker.requests[id], state="failed")
    refused = run("ics", id)
    assert refused.exit_code != 0
    assert refused.stdout == ""
    assert "is failed, and has no time" in refused.stderr


def test_waiting_requests_have_no_file(run: Run) -> None:
    refused = run("list", "--waiting", "--ics")
    assert refused.exit_code == 2
    assert "--waiting excludes --ics" in refused.stderr


def test_a_feed_is_made_listed_and_revoked_and_its_address_shown_once(
    run: Run, broker: Broker
) -> None:
    added = run("feed", "add", "phone")
    address = f"{broker.url}/feed/{'s' * 43}.ics"
    assert f"  {address}\n" in added.stdout
    listed = run("feed", "list")
    assert listed.stdout.splitlines()[1].split()[0] == "phone"
    assert "/feed/" not in listed.stdout + run("feed", "list", "--json").stdout
    assert run("feed", "revoke", "phone").stdout == "revoked phone\n"
    assert run("feed", "revoke", "phone").exit_code == 1


def test_find_asks_only_for_times_at_which_the_user_is_free(
    run: Run, broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "mine.ics"
    path.write_text(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTART:20270116T110000Z\r\n"
        "DTEND:20270116T120000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
        newline="",
    )
    window = ("--after", "2027-01-16 10:00", "--before", "2027-01-16 16:00")
    found = run("find", "sdsc/sp2:8", "--for", "1h", *window, "--free-for", str(path))
    assert found.exit_code == 0
    asked = [body.request for name, body in broker.seen if name == "find"]  # type: ignore[attr-defined]
    hours = [(each.not_before // 3_600 % 24, each.not_after // 3_600 % 24) for each in asked]
    assert hours == [(9, 11), (12, 15)]
    path.write_text("no calendar")
    refused = run("find", "sdsc/sp2:8", "--for", "1h", *window, "--free-for", str(path))
    assert refused.exit_code == 2
    assert refused.stdout == ""
