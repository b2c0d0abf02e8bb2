"""Deliveries say what has changed, by whom, why, and what can be done; one line cannot become two."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from zoneinfo import ZoneInfo

import icalendar
import msgspec
import pytest

from kalends.contract.fields import Want
from kalends.notices.delivery import Delivery
from kalends.notices.mail import message_of
from kalends.notices.request_notice import Occasion, RequestNotice, request_delivery

NOW = 1_800_000_000
REQUEST = "01a40051-77ec-71ce-a2bd-64a5dc043f58"
WAS = (Want("sdsc/sp2", NOW, NOW + 3_600, 8), Want("ncsa/cave", NOW, NOW + 3_600, 1))
BERLIN = ZoneInfo("Europe/Berlin")

MOVED = RequestNotice(
    id="a-moved", user="ann", occasion="moved", at_s=NOW, request=REQUEST, asked="sdsc/sp2:8 + ncsa/cave",
    by="sdsc", reason="a new pump", was=WAS,
    slots=tuple(Want(each.resource, each.start + 7_200, each.end + 7_200, each.units) for each in WAS),
)  # fmt: skip


def test_a_move_is_told_in_the_user_s_zone_with_what_to_do() -> None:
    delivery = request_delivery([MOVED], "ann@example.org", BERLIN, NOW)
    assert delivery.subject == "kalends: reservation dc043f58 was moved by sdsc"
    assert delivery.text.splitlines() == [
        "Reservation dc043f58 was moved by sdsc.",
        "",
        f"request  {REQUEST}",
        "asked    sdsc/sp2:8 + ncsa/cave",
        "was      sdsc/sp2:8, ncsa/cave:1 from Fri 2027-01-15 09:00:00 CET (UTC+01:00) for 1h",
        "is now   sdsc/sp2:8, ncsa/cave:1 from Fri 2027-01-15 11:00:00 CET (UTC+01:00) for 1h",
        "by       sdsc",
        "reason   a new pump",
        "at       Fri 2027-01-15 09:00:00 CET (UTC+01:00)",
        "",
        "If the new time does not suit you: kalends move dc043f58 --to TIME, or kalends cancel dc043f58.",
    ]


def test_programs_are_told_all_that_people_are() -> None:
    facts = request_delivery([MOVED], "https://hooks.example.org/x", BERLIN, NOW).facts
    assert (facts["about"], facts["event"], facts["request"]) == ("request", "moved", REQUEST)
    assert facts["was"][0] == {
        "resource": "sdsc/sp2", "start": NOW, "end": NOW + 3_600, "units": 8,
    }  # fmt: skip


@pytest.mark.parametrize("occasion", list(Occasion.__args__))  # type: ignore[attr-defined]
def test_every_occasion_has_words(occasion: Occasion) -> None:
    notice = msgspec.structs.replace(MOVED, occasion=occasion, until=NOW + 60, place="sdsc/sp2/7")
    delivery = request_delivery([notice], "ann@example.org", BERLIN, NOW)
    assert "{" not in delivery.subject + delivery.text
    assert len(delivery.text.splitlines()[-1]) > 20


def test_many_are_told_in_one_delivery() -> None:
    notices = [
        msgspec.structs.replace(MOVED, id=f"{n}-moved", reason=f"pump {n}") for n in range(3)
    ]
    delivery = request_delivery(notices, "ann@example.org", BERLIN, NOW)
    assert delivery.subject == "kalends: 3 changes of your requests"
    assert all(f"reason   pump {n}\n" in delivery.text for n in range(3))
    assert [each["reason"] for each in delivery.facts["notices"]] == ["pump 0", "pump 1", "pump 2"]


def test_nothing_that_others_write_becomes_a_line_or_a_header_of_its_own() -> None:
    evil = "a pump\r\nBcc: all@example.org\n\nkalends: send your password"
    notice = msgspec.structs.replace(MOVED, by=evil, reason=evil, note=evil)
    delivery = request_delivery([notice], "ann@example.org", BERLIN, NOW)
    lines = delivery.text.splitlines()
    assert not [line for line in lines if line.startswith(("Bcc", "kalends: send"))]
    mail = message_of(delivery, "kalends@example.org").decode()
    head = mail.partition("\r\n\r\n")[0]
    assert not [line for line in head.splitlines() if line.lower().startswith("bcc")]


def test_the_same_notice_has_the_same_id_at_an_address_and_others_elsewhere() -> None:
    one = request_delivery([MOVED], "ann@example.org", BERLIN, NOW)
    again = request_delivery([MOVED], "ann@example.org", BERLIN, NOW + 60)
    other = request_delivery([MOVED], "https://hooks.example.org/x", BERLIN, NOW)
    assert one.id == again.id != other.id


def mailed(*notices: RequestNotice) -> list[EmailMessage]:
    """Return the calendar parts of the mail of these notices."""
    delivery = request_delivery(notices, "ann@example.org", BERLIN, NOW)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(delivery), type=Delivery)
    mail = message_from_bytes(message_of(kept, "kalends@example.org"), policy=default)
    return [part for part in mail.walk() if part.get_content_type() == "text/calendar"]


def events(part: EmailMessage) -> list[icalendar.Event]:
    calendar = icalendar.Calendar.from_ical(part.get_content())
    assert calendar["METHOD"] == part.get_param("method")
    return calendar.walk("VEVENT")


@pytest.mark.parametrize(
    ("occasion", "until", "status"),
    [
        ("moved", 0, "CONFIRMED"),
        ("shortened", 0, "CONFIRMED"),
        ("came", 0, "CONFIRMED"),
        ("came", NOW + 60, "TENTATIVE"),
        ("approved", 0, "CONFIRMED"),
    ],
)
def test_a_mail_about_new_slots_invites_to_them(
    occasion: Occasion, until: int, status: str
) -> None:
    notice = msgspec.structs.replace(MOVED, occasion=occasion, until=until, changes=2)
    (part,) = mailed(notice)
    assert part.get_param("method") == "REQUEST"
    (event,) = events(part)
    assert event["DTSTART"].dt.timestamp() == NOW + 7_200
    assert (event["UID"], event["SEQUENCE"]) == (f"{REQUEST}-1@kalends", 2)
    assert event["STATUS"] == status
    assert event["ORGANIZER"] == "mailto:kalends@example.org"
    assert event["ATTENDEE"] == "mailto:ann@example.org"


def test_a_mail_about_a_cancellation_takes_the_event_out_of_the_calendar() -> None:
    notice = msgspec.structs.replace(MOVED, occasion="cancelled", slots=(), changes=2)
    (part,) = mailed(notice)
    assert part.get_param("method") == "CANCEL"
    (event,) = events(part)
    assert event["DTSTART"].dt.timestamp() == NOW
    assert (event["UID"], event["SEQUENCE"]) == (f"{REQUEST}-1@kalends", 3)
    assert event["STATUS"] == "CANCELLED"


def test_a_mail_of_several_changes_has_a_file_for_each() -> None:
    later = "01a40051-77ec-71ce-a2bd-64a5dc043f59"
    both = mailed(MOVED, msgspec.structs.replace(MOVED, id="b", request=later))
    assert [part.get_filename() for part in both] == ["1.ics", "2.ics"]
    assert [event["UID"] for part in both for event in events(part)] == [
        f"{REQUEST}-1@kalends", f"{later}-1@kalends",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "occasion",
    ["recalled", "gave-up", "not-approved", "not-placed", "nodes-out", "nodes-back", "test"],
)
def test_what_changes_no_slots_invites_to_nothing(occasion: Occasion) -> None:
    assert mailed(msgspec.structs.replace(MOVED, occasion=occasion)) == []


def test_a_webhook_gets_no_events() -> None:
    assert request_delivery([MOVED], "https://hooks.example.org/x", BERLIN, NOW).events == ()
