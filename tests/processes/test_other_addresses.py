"""Clients that are given the addresses of two replicas go on at the other one when theirs is killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.contract.calls import RequestView
from kalends.core.errors import LimitExceeded
from tests.support.patience import PATIENCE_S

from .customers import base_now_s
from .facility import CAPACITY, GRAIN_S, Facility, connected, make_facility, write
from .servers import running, until

pytestmark = pytest.mark.xdist_group("one-at-a-time")

TERMS = f"site0/cluster:{CAPACITY} + site1/cluster:{CAPACITY}"
KEY = "booking-of-ada"
GONE = "http://127.0.0.1:9"
"""Nothing listens there."""


@pytest.fixture
async def facility(tmp_path: Path) -> AsyncIterator[Facility]:
    made = make_facility(tmp_path, sites=2)
    async with running(*made.servers):
        await connected(made)
        yield made


def addresses(facility: Facility) -> list[str]:
    return [broker.url for broker in facility.brokers]


def client_of(facility: Facility, user: str) -> kalends.Client:
    return kalends.connect(addresses(facility), user=user, zone="UTC")


async def held_by_bob(facility: Facility) -> RequestView:
    """All that there is, at the replica that stays: whoever wants it waits until `bob` releases it."""
    async with kalends.connect(facility.brokers[1].url, user="bob", zone="UTC") as bob:
        return await bob.hold(TERMS, duration=GRAIN_S, at=base_now_s(), keep="10m")


async def waits(client: kalends.Client, at: int) -> RequestView:
    """A request of ``ada`` for what bob has, which waits."""
    return await client.book(
        TERMS, duration=GRAIN_S, at=at, key=KEY, wait_s=0.1, give_up_at=f"now+{PATIENCE_S:.0f}s"
    )


async def the_first_dies_and_bob_lets_go(facility: Facility, held: RequestView) -> None:
    await facility.brokers[0].kill()
    async with kalends.connect(facility.brokers[1].url, user="bob", zone="UTC") as bob:
        await bob.release(held.id)


async def made_once(facility: Facility) -> RequestView:
    """The one request of ``ada``, by the replica that stays."""
    async with kalends.connect(facility.brokers[1].url, user="ada", zone="UTC") as ada:
        (view,) = await ada.list()
        assert (await ada.resolve(KEY)).id == view.id
        return view


async def is_open_at(facility: Facility, url: str) -> RequestView:
    async with kalends.connect(url, user="ada", zone="UTC") as ada:

        async def waiting() -> RequestView | None:
            found = list(await ada.list(state="open"))
            return found[0] if found and found[0].waiting is not None else None

        return await until(waiting, "the request waits")


async def test_a_booking_that_waits_at_a_killed_replica_ends_at_the_other_one_by_its_key(
    facility: Facility,
) -> None:
    held = await held_by_bob(facility)
    async with client_of(facility, "ada") as ada:
        booking = asyncio.create_task(
            ada.book(TERMS, duration=GRAIN_S, at=held.start, key=KEY, wait_s=100.0,
                     give_up_at=f"now+{PATIENCE_S:.0f}s")
        )  # fmt: skip
        await is_open_at(facility, facility.brokers[0].url)
        await the_first_dies_and_bob_lets_go(facility, held)
        async with asyncio.timeout(PATIENCE_S):
            booked = await booking
    assert booked.state == "reserved"
    assert (await made_once(facility)).id == booked.id


@pytest.mark.parametrize("all_requests", [True, False])
async def test_a_watch_goes_on_at_the_other_replica_and_tells_the_end(
    facility: Facility, *, all_requests: bool
) -> None:
    held = await held_by_bob(facility)
    async with client_of(facility, "ada") as ada:
        asked = await waits(ada, held.start)

        async def until_reserved() -> list[str]:
            kinds = []
            async for event in ada.watch("" if all_requests else asked.id):
                kinds.append(event.kind)
                if event.kind == "reserved":
                    break
            return kinds

        watching = asyncio.create_task(until_reserved())
        await asyncio.sleep(0.5)  # So that it hears of nothing before the first replica is killed.
        await the_first_dies_and_bob_lets_go(facility, held)
        async with asyncio.timeout(PATIENCE_S):
            assert (await watching).count("reserved") == 1


async def test_the_command_line_goes_on_at_the_other_replica(facility: Facility) -> None:
    held = await held_by_bob(facility)
    command = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "book", TERMS, "--for", f"{GRAIN_S}s",
        "--at", kalends.as_datetime(held.start, "UTC").isoformat(), "--key", KEY, "--user", "ada",
        "--until", "now+5m", "--broker", ",".join(addresses(facility)), "--json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await is_open_at(facility, facility.brokers[0].url)
    await the_first_dies_and_bob_lets_go(facility, held)
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await command.communicate()
    assert command.returncode == 0
    assert json.loads(said)["data"]["state"] == "reserved"
    assert (await made_once(facility)).state == "reserved"


async def test_the_limit_of_open_requests_holds_over_all_replicas_together(tmp_path: Path) -> None:
    made = make_facility(tmp_path, sites=2)
    for broker in made.brokers:
        text = broker.configuration.read_text()
        limit = "[broker.limits]\nopen_per_principal_max = 2\n"
        write(broker.configuration, f"{text}\n{limit}")
    async with running(*made.servers):
        await connected(made)
        held = await held_by_bob(made)
        one, other = (
            kalends.connect(broker.url, user="ada", zone="UTC") for broker in made.brokers
        )
        async with one, other:
            for number in range(2):
                await one.book(TERMS, duration=GRAIN_S, at=held.start, key=f"{KEY}-{number}",
                               wait_s=0.1, give_up_at="now+5m")  # fmt: skip

            async def refused() -> bool:
                found = await asyncio.gather(
                    other.book(TERMS, duration=GRAIN_S, at=held.start, wait_s=0.0,
                               patience="none"),
                    return_exceptions=True,
                )  # fmt: skip
                return isinstance(found[0], LimitExceeded)

            await until(refused, "the other replica has counted them")


async def test_a_site_is_booked_at_and_called_at_the_address_where_it_serves(
    tmp_path: Path,
) -> None:
    made = make_facility(tmp_path, sites=2, replicas=1)
    (broker,) = made.brokers
    text = broker.configuration.read_text()
    for site in made.sites:
        text = text.replace(f'url = "{site.url}"', f'url = "{GONE},{site.url}"')
    write(broker.configuration, text)
    async with (
        running(*made.servers),
        kalends.connect(broker.url, user="ada", zone="UTC") as ada,
    ):
        await connected(made)
        booked = await ada.book(TERMS, duration=GRAIN_S, at=base_now_s())
        assert booked.state == "reserved"
        async with await ada.at_site("site1") as site:
            assert (await site.whoami()).server == "site1"
