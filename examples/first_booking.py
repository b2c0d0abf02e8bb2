"""Find a common time of a machine, a beamline and a room; book all of them, or none.

Run it while `kalends demo --keep` runs, with the environment that it prints.
"""

from __future__ import annotations

import kalends

REQUEST = "sdsc/sp2:64 + caltech/beamline + ncsa/cave"
ZONE = "America/Los_Angeles"


def main() -> None:
    with kalends.connect_sync(zone=ZONE) as broker:
        for resource in broker.resources().resources:
            print(f"{resource.name}: {resource.capacity} x {resource.description}")

        week = ("next monday", "next monday 23:59")
        found = broker.find(REQUEST, duration="2h", window=week, count=2)
        for candidate in found.candidates:
            print(f"possible: {kalends.as_datetime(candidate.start, ZONE):%a %H:%M}")

        booked = broker.book(REQUEST, duration="2h", window=week, note="run 7")
        print(f"{booked.state}: {kalends.as_datetime(booked.start, ZONE):%a %H:%M}")
        for claim in booked.claims:
            print(f"  {claim.resource}: {claim.units}")

        print(f"cancelled: {broker.cancel(booked.id).state}")


if __name__ == "__main__":
    main()
