"""Paying: a microscope is cheaper at night; a student books within a budget, cancels late, reads the bill."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kalends.core.errors import LimitExceeded
from kalends.core.money import CREDIT, format_credits
from kalends.testing import LocalFacility

NIGHT = {"rrule": "FREQ=DAILY", "start": "20:00", "duration": "12h"}

SITES: dict[str, Any] = {
    "biology": {
        "microscope": {
            "grain": "1h",
            "prices": [
                {"name": "night", "hours": [NIGHT], "credits": 2.5},
                {"name": "day", "credits": 10},
            ],
            "cancel": {"free_until": "1d", "fee": 50},
        }
    }
}


def utc(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%a %H:%M")


with LocalFacility(SITES, now="2027-03-01T09:00Z") as servers:
    owner = servers.sync_client("owner", at="biology")
    student = servers.sync_client("anna")

    owner.grant_credits("user:anna", 25 * CREDIT, until="2027-07-01 00:00", note="spring term")

    try:
        student.book("biology/microscope", duration="4h", at="2027-03-03 09:00")
    except LimitExceeded as error:
        print("by day:", error.refusals[0].detail)

    fits = student.find(
        "biology/microscope", duration="4h", window=("2027-03-03 08:00", "2027-03-04 08:00"),
        prefer="price", at_most=15,
    )  # fmt: skip
    (night_time, *_) = fits.candidates
    print(
        "within 15.00:", utc(night_time.start), "for", format_credits(night_time.costs["biology"])
    )
    night = student.book("biology/microscope", duration="4h", at=night_time.start, at_most=15)
    day = student.book("biology/microscope", duration="1h", at="2027-03-01 15:00")
    for view in (night, day):
        print(
            "booked:", *(f"{format_credits(parts)} at {site}" for site, parts in view.costs.items())
        )

    gone = student.cancel(day.id)
    print("cancelled late:", format_credits(gone.refunds["biology"]), "paid back")
    student.cancel(night.id)

    with student.at_site("biology") as biology:
        statement = biology.credit_entries("user:anna", start="2027-03-01", until="2027-04-01")
    for entry in statement:
        about = entry.note or ("night" if entry.request == night.id else "day")
        print(
            f"{entry.kind:8}{format_credits(entry.amount):>8}{format_credits(entry.balance):>8}  {about}"
        )
