"""Servers of one's own for a program or a test, and a clock to move: a hold runs out, another user books."""

from __future__ import annotations

from kalends.testing import LocalFacility

SITES = {"sdsc": {"sp2": 64}, "caltech": {"onyx": 1}}
BOTH = "sdsc/sp2:64 + caltech/onyx"
NOON = ("2027-03-01 12:00", "2027-03-01 14:00")


def main() -> None:
    with (
        LocalFacility(SITES, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        held = ann.hold(BOTH, duration="2h", window=NOON, keep="15m")
        print(f"ann: {held.state}")
        servers.clock.advance(minutes=16)
        print(f"ann, {servers.clock.now():%H:%M}: {ann.show(held.id).state}")
        print(f"bob: {bob.book(BOTH, duration='2h', window=NOON).state}")


if __name__ == "__main__":
    main()
