"""Sites and brokers that are far apart, lose packets and are cut off: all settles after healing."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

import kalends
from kalends.core.errors import RefusalCode, Unavailable
from kalends.serving.auth.keys import write_key_pair
from tests.support.tokens import token

from .auditing import audit
from .crowd import while_working
from .customers import DAY_S, Customer, base_now_s
from .facility import Facility, Keys, broker_text, site_text, write
from .servers import Server, running
from .wide_area import WideArea, inside, wide_area

pytestmark = [pytest.mark.needs_root, pytest.mark.xdist_group("one-at-a-time")]

DELAY_MS = 25
LOSS = 0.02
CUT_S = 2.0
BETWEEN_S = 1.5

SITE0, SITE1, BROKER, USERS = 1, 2, 3, 4
AUDIENCE = ("site0", "site1", "broker")


class Apart(NamedTuple):
    """A facility whose servers are on hosts of their own; this process is on the users'."""

    network: WideArea
    facility: Facility
    signing: Path

    def token(self, user: str) -> str:
        scopes = ("use", "audit")
        return token(self.signing, user, AUDIENCE, scopes, issuer="tests", lifetime_s=3_600)

    def connect(self, server: Server, user: str) -> kalends.Client:
        return kalends.connect(server.url, token=self.token(user), zone="UTC")


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[Apart]:
    people, broker_key = tmp_path / "people", tmp_path / "broker-key"
    keys = Keys(write_key_pair(people), write_key_pair(broker_key), broker_key)
    async with wide_area(4, delay_ms=DELAY_MS, loss=LOSS) as network:
        urls = {
            name: f"http://{network.address(host)}:7100"
            for name, host in (("site0", SITE0), ("site1", SITE1), ("broker1", BROKER))
        }
        sites = [
            Server(
                name,
                write(tmp_path / f"{name}.toml", site_text(name, urls[name], keys=keys)),
                urls[name],
                inside=network.on(host),
            )
            for name, host in (("site0", SITE0), ("site1", SITE1))
        ]
        text = broker_text(urls["broker1"], {site.name: site.url for site in sites}, keys=keys)
        broker = Server(
            "broker1", write(tmp_path / "broker1.toml", text), urls["broker1"],
            inside=network.on(BROKER),
        )  # fmt: skip
        facility = Facility(sites, [broker])
        with inside(network.namespace(USERS)):
            async with running(*facility.servers):
                yield Apart(network, facility, people)


def a_customer(apart: Apart, user: str, base_s: int) -> Customer:
    urls = [broker.url for broker in apart.facility.brokers]
    return Customer(
        user, urls, apart.facility.resources, base_s, random.Random(), token=apart.token(user)
    )


async def cut_one_after_the_other(network: WideArea) -> None:
    for cut in ((SITE0,), (BROKER,), (SITE1, "in"), (SITE1, "out"), (BROKER, SITE0)):
        await asyncio.sleep(BETWEEN_S)
        await network.cut(*cut)
        await asyncio.sleep(CUT_S)
        await network.heal()


async def test_cuts_of_every_kind_during_bookings_lose_nothing_and_leave_nothing_behind(
    apart: Apart,
) -> None:
    base_s = base_now_s()
    customers = [a_customer(apart, f"customer{number}", base_s) for number in range(4)]
    async with contextlib.AsyncExitStack() as opened:
        for customer in customers:
            await opened.enter_async_context(customer)
        await while_working(customers, cut_one_after_the_other(apart.network))
        for customer in customers:
            await customer.settle_everything()
        violations = await audit(
            apart.facility, customers, connect=apart.connect, start_s=base_s, end_s=base_s + DAY_S
        )
    assert violations == []
    assert sum(customer.counts["booked"] for customer in customers) > 0
    assert (await apart.network.state())["cut"] > 0


async def test_a_booking_with_a_site_that_is_cut_off_fails_clearly_and_holds_nothing(
    apart: Apart,
) -> None:
    base_s = base_now_s()
    async with a_customer(apart, "ada", base_s) as ada:
        await ada.book_patiently("site0/cluster + site1/cluster", 0)
        await apart.network.cut(SITE0)
        (broker,) = apart.facility.brokers
        async with apart.connect(broker, "bob") as client:
            with pytest.raises(Unavailable) as failed:
                await client.book(
                    "site0/cluster + site1/cluster", at=base_s + 3600, duration="10m",
                    patience="none",
                )  # fmt: skip
            assert "site0" in [
                refusal.where
                for refusal in failed.value.refusals
                if refusal.code == RefusalCode.SITE_DOWN
            ]
            alone = await client.book("site1/cluster", at=base_s + 3600, duration="10m")
            await client.cancel(alone.id)
        await apart.network.heal()
        assert (
            await audit(
                apart.facility, [ada], connect=apart.connect, start_s=base_s, end_s=base_s + DAY_S
            )
            == []
        )
