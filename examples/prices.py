"""Prices: two owners write what a unit costs, and a student looks for what is cheap and within the budget."""

from __future__ import annotations

from typing import Any

from kalends.client.sync import SyncClient
from kalends.contract.calls import Found
from kalends.core.errors import NoCommonTime
from kalends.core.money import format_credits
from kalends.testing import LocalFacility

NIGHT = {"rrule": "FREQ=DAILY", "start": "20:00", "duration": "12h"}

SITES: dict[str, Any] = {
    "biology": {
        "microscope": {
            "grain": "1h",
            "prices": [
                {"name": "night", "hours": [NIGHT], "credits": 2.5},
                {"name": "industry", "who": "group:industry", "credits": 40},
                {"name": "day", "credits": 10},
            ],
            "cancel": {"free_until": "1d", "fee": 50},
        }
    },
    "sdsc": {"sp2": {"capacity": 128, "grain": "1h", "prices": [{"credits": 0.05}]}},
    "ncsa": {"cave": {"grain": "1h"}},
}
WINDOW = ("2027-03-02 09:00", "2027-03-03 09:00")

with LocalFacility(SITES, now="2027-03-01T09:00Z") as servers:
    student = servers.sync_client("anna")
    company = servers.sync_client("eve", groups=("industry",))

    view = student.calendar("biology/microscope", start=WINDOW[0], end=WINDOW[1])
    for start, _end, price in view.prices:
        print(f"from {start % 86_400 // 3_600:02}:00 UTC: {price / 1_000:g} credits for an hour")

    def found(
        client: SyncClient = student, terms: str = "biology/microscope", **options: Any
    ) -> Found:
        return client.find(terms, duration="4h", window=WINDOW, count=1, **options)

    def show(name: str, **options: Any) -> None:
        for each in found(**options).candidates:
            told = ", ".join(f"{format_credits(c)} at {site}" for site, c in each.costs.items())
            print(f"{name:20} {each.start % 86_400 // 3_600:02}:00  {told or 'free of charge'}")

    show("the earliest")
    show("the cheapest", prefer="price")
    show("at most 30 credits", at_most=30)
    show("industry", client=company)
    show("with 64 nodes", terms="biology/microscope + sdsc/sp2:64 + ncsa/cave")
    show(
        "the cheapest of both",
        terms="biology/microscope + sdsc/sp2:64",
        prefer="price",
        rates={"biology": 1, "sdsc": 20},
    )
    print("too dear:", found(at_most={"biology": 9.5}).refusals[0].detail)

    try:
        student.book("biology/microscope", duration="8h", window=WINDOW, at_most=9)
    except NoCommonTime as error:
        print("not booked:", error.refusals[0].detail)
