"""Wait for a room that is taken: two users, a waiting list, and who gets it when it comes free.

Run it while `kalends demo --keep` runs, with the environment that it prints.
"""

from __future__ import annotations

import os
from pathlib import Path

import kalends

BOTH = "sdsc/sp2:16 + ncsa/cave"
START = "next monday 10:00"
ZONE = "America/Los_Angeles"


def connected(user: str) -> kalends.SyncClient:
    token = (Path(os.environ["KALENDS_FACILITY"]) / "tokens" / user).read_text().strip()
    return kalends.connect_sync(token=token, zone=ZONE)


def progress(view: kalends.RequestView) -> None:
    """Called while a request waits, each time that something has changed."""
    if view.waiting is not None:
        print(f"{view.waiting.ahead} ahead of it for {', '.join(view.waiting.awaited)}")


def main() -> None:
    with connected("ada") as ada, connected("operator") as operator:
        in_the_way = operator.book("ncsa/cave", duration="2h", at=START)

        try:
            ada.book(BOTH, duration="2h", at=START, patience="none")
        except kalends.NoCommonTime as error:
            for refusal in error.refusals:
                print(f"{refusal.where}: {refusal.detail}")

        asked = ada.book(BOTH, duration="2h", at=START, patience="taken", wait_s=1)
        ada.wait(asked.id, until_listed=True, on_progress=progress)
        print(f"waiting: {len(ada.waiting_list())}")

        operator.cancel(in_the_way.id)
        booked = ada.wait(asked.id, wait_s=60)
        print(f"{booked.state}: {kalends.as_datetime(booked.start, ZONE):%a %H:%M}")
        ada.cancel(booked.id)

        rather = ada.book(
            BOTH, duration="2h", window=("next monday", "next monday 23:59"),
            prefer=["afternoons", "15:00-16:00 +2"],
        )  # fmt: skip
        print(f"rather then: {kalends.as_datetime(rather.start, ZONE):%a %H:%M}")

        for copy in ada.book_copies("sdsc/sp2:16", 3, duration="1h", at=START, note="three runs"):
            print(f"{copy.state}: {kalends.as_datetime(copy.start, ZONE):%a %H:%M}")


if __name__ == "__main__":
    main()
