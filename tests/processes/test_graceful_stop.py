"""Stopping under load loses nothing; a second server on the same store or port is told so."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from tests.support.ports import free_urls

from .auditing import audit
from .crowd import while_working
from .customers import DAY_S, Customer, base_now_s
from .facility import Facility, make_facility, site_text, write
from .servers import Server, StartFailed, running

pytestmark = pytest.mark.xdist_group("one-at-a-time")

BOOKINGS_BETWEEN = 4


async def stop_each_once(facility: Facility, customers: list[Customer]) -> list[int]:
    """Stop and start every server in the middle of the work; their exit codes."""
    codes = []
    for server in facility.servers:
        await customers[0].booked_again(BOOKINGS_BETWEEN)
        codes.append(await server.stop())
        await server.start()
    return codes


async def test_servers_stopped_under_load_end_with_0_and_lose_nothing(tmp_path: Path) -> None:
    facility = make_facility(tmp_path, sites=2)
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    customers = [
        Customer(f"customer{number}", urls, facility.resources, base_s, random.Random(number))
        for number in range(4)
    ]
    codes: list[int] = []

    async def stopping() -> None:
        codes.extend(await stop_each_once(facility, customers))

    async with running(*facility.servers), contextlib.AsyncExitStack() as opened:
        for customer in customers:
            await opened.enter_async_context(customer)
        await while_working(customers, stopping())
        for customer in customers:
            await customer.settle_everything()
        assert await audit(facility, customers, start_s=base_s, end_s=base_s + DAY_S) == []
    assert codes == [0] * len(facility.servers)


async def test_a_second_server_on_the_same_store_is_refused_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, sites=1, replicas=1)
    (site,), (broker,) = facility.sites, facility.brokers
    async with running(site, broker):
        for first in (site, broker):
            text = first.configuration.read_text()
            (url,) = free_urls(1)
            text = text.replace(first.url.removeprefix("http://"), url.removeprefix("http://"))
            second = Server(
                f"second {first.name}", write(tmp_path / f"second-{first.name}.toml", text), url
            )
            with pytest.raises(StartFailed) as refused:
                await second.start()
            assert refused.value.code == 1
            assert "another process" in refused.value.errors
            await first.healthy()


async def test_a_second_server_on_the_same_port_is_refused_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    (site,) = make_facility(tmp_path, sites=1, replicas=0).sites
    text = site_text("other", site.url)
    second = Server("other", write(tmp_path / "other.toml", text), site.url)
    async with running(site):
        with pytest.raises(StartFailed) as refused:
            await second.start()
        assert refused.value.code == 1
        assert "is taken: another program listens there" in refused.value.errors
        await site.healthy()


async def test_a_second_signal_ends_a_server_at_once_and_breaks_nothing(tmp_path: Path) -> None:
    facility = make_facility(tmp_path, sites=1, replicas=1)
    base_s = base_now_s()
    (url,) = [broker.url for broker in facility.brokers]
    async with (
        running(*facility.servers),
        Customer("ada", [url], facility.resources, base_s, random.Random(1)) as ada,
    ):
        await ada.book_patiently("site0/cluster:3", 0)
        for server in facility.servers:
            await asyncio.gather(server.stop(), server.stop())
            await server.start()
        assert await audit(facility, [ada], start_s=base_s, end_s=base_s + DAY_S) == []
        assert len(ada.reserved) == 1
