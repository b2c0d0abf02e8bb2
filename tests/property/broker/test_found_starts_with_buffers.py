"""What a broker finds at owners with buffers can be booked there."""

from __future__ import annotations

import random

import pytest
from tests import effort

import kalends
from kalends.testing import LocalFacility

SITES = {
    "lab": {
        "room": {"buffer": {"before": "5m", "after": "10m"}, "grain": "5m"},
        "pool": {"capacity": 3, "buffer": {"gap": "20m"}, "grain": "5m"},
    },
    "hall": {"desk": {"capacity": 2, "buffer": {"before": "10m", "after": "5m", "shared": True}}},
}
DAY = "2027-03-02T"
WINDOW = (DAY + "08:00Z", DAY + "16:00Z")
WISHES = (
    "lab/room + hall/desk",
    "lab/pool:2 + hall/desk:2",
    "lab/room for 30m + lab/room @+45m for 30m",
    "lab/pool:2 for 30m + lab/pool:2 @+40m for 30m",
    "lab/pool:2 for 30m + lab/pool:1 @+40m for 30m + hall/desk",
    "2 of {kind=any}",
)


@pytest.mark.parametrize("seed", range(effort.examples(6)))
def test_every_start_that_is_found_is_booked_and_the_first_is_the_one_that_is_had(
    seed: int,
) -> None:
    chance = random.Random(seed)
    sites = {
        site: {name: {**each, "attributes": {"kind": "any"}} for name, each in resources.items()}
        for site, resources in SITES.items()
    }
    with (
        LocalFacility(sites, now="2027-03-01T09:00Z") as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("bob") as bob,
    ):
        had = []
        for _ in range(12):
            wish = chance.choice(WISHES)
            length = f"{chance.choice((20, 30, 60))}m"
            found = bob.find(wish, duration=length, window=WINDOW, count=4)
            for candidate in found.candidates:
                booked = bob.book(wish, duration=length, at=candidate.start)
                assert booked.state == "reserved"
                bob.cancel(booked.id)
            try:
                ours = ann.book(wish, duration=length, window=WINDOW, patience="none")
            except kalends.KalendsError:
                assert not found.candidates
                continue
            assert found.candidates
            had.append(ours.id)
            if chance.random() < 0.4:
                ann.cancel(had.pop(chance.randrange(len(had))))
            effort.steps["starts found at owners with buffers"] += 1
