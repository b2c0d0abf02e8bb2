"""A site made of sites: one door to the machines of a campus, that nothing which was promised hangs on."""

from __future__ import annotations

import logging

import kalends
from kalends.testing import LocalFacility

SITES = {"sdsc": {"sp2": 64}, "physics": {"cluster": 16}, "biology": {"microscope": 1}}
CAMPUS = {"campus": ["physics", "biology"]}
ALL = "sdsc/sp2:32 + physics/cluster:8 + biology/microscope"


def main() -> None:
    logging.disable(logging.WARNING)  # The broker would tell of the sites that it loses.
    with (
        LocalFacility(SITES, now="2027-03-01T09:00Z", virtual=CAMPUS) as servers,
        servers.sync_client("ann", timeout_s=2.0) as ann,
    ):
        for site in ann.resources().sites:
            print(f"{site.site}: {site.state}{site.through and f', through {site.through}'}")
        behind = ann.find("{through=campus}:8", duration="1h").candidates[0].claims
        print(f"eight units behind the door: {behind[0].resource}")
        with servers.sync_client("ann", at="campus") as door:
            try:
                door.resources()
            except kalends.KalendsError as error:
                print(f"the door itself has nothing: {error.detail}")
        booked = ann.book(ALL, duration="2h", window=("2027-03-01 12:00", "2027-03-01 18:00"))
        print(f"all three, at one time or not at all: {booked.state}")
        servers.stop("campus")
        try:
            ann.book("physics/cluster", duration="1h", patience="none")
        except kalends.KalendsError as error:
            print(f"the door is shut: {error.detail}")
        print(f"what was promised stands: {ann.show(booked.id).state}")
        servers.start("campus")
        print(f"and can be cancelled once it is open: {ann.cancel(booked.id).state}")


if __name__ == "__main__":
    main()
