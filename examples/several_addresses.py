"""A broker by two addresses: nothing answers at the first one, so each call goes on at the other."""

from __future__ import annotations

import kalends
from kalends.testing import LocalFacility

SITES = {"sdsc": {"sp2": 64}, "caltech": {"onyx": 1}}
BOTH = "sdsc/sp2:64 + caltech/onyx"
NOON = ("2027-03-01 12:00", "2027-03-01 14:00")
GONE = "http://127.0.0.1:9"


def main() -> None:
    with LocalFacility(SITES, now="2027-03-01T09:00Z") as servers:
        replicas = [GONE, servers.url(servers.broker)]
        with kalends.connect_sync(replicas, user="ann", zone="UTC") as ann:
            booked = ann.book(BOTH, duration="2h", window=NOON, key="noon-of-ann")
            again = ann.book(BOTH, duration="2h", window=NOON, key="noon-of-ann")
            print(f"ann: {booked.state}, and by the same key again: {again.id == booked.id}")
        with kalends.connect_sync(GONE, user="ann", zone="UTC", timeout_s=1.0) as ann:
            try:
                ann.resources()
            except kalends.Unavailable as error:
                print(f"with one address: {error.detail}")


if __name__ == "__main__":
    main()
