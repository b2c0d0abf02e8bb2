"""A job is paid once, whatever is killed meanwhile: real sites, real programs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import kalends
from kalends.core.errors import LimitExceeded
from kalends.core.money import CREDIT

from .laboratory import MACHINE, USER, Laboratory, laboratories
from .servers import until

RULES = """
[site.machines.tariff]
normal = 3600
[[site.accounts]]
name = "project:none"
"""
"""A credit for each second of a node."""


@pytest.fixture
async def paid() -> AsyncIterator[Laboratory]:
    async for each in laboratories(rules=RULES):
        yield each


async def left(client: kalends.Client) -> tuple[float, float]:
    """The balance of the user, and what of it is reserved."""
    (account,) = [each for each in await client.credits() if each.account == f"user:{USER}"]
    return account.balance / CREDIT, account.reserved / CREDIT


async def test_a_job_is_charged_once_for_what_it_used_though_its_site_is_killed(
    paid: Laboratory,
) -> None:
    async with paid.client() as client:
        await client.grant_credits(f"user:{USER}", 50 * CREDIT)
        number = (await client.submit(paid.marking(2, limit_s=30))).job.job
        view = await client.job(MACHINE, number)
        assert (view.payer, view.cost_max) == (f"user:{USER}", 30 * CREDIT)
        assert await left(client) == (50, 30)
        with pytest.raises(LimitExceeded, match=r"30\.00 are reserved"):
            await client.submit(paid.job("true", limit_s=30))
        await paid.site.kill()

        async def ended() -> bool:
            return bool(paid.marked()[f"end {number}"])

        await until(ended, "it has ended while its site was dead")
        await paid.site.start()
        over = await paid.over(client, number)
        used = over.credit_seconds / 3_600
        assert 1 <= used <= 30
        assert await left(client) == (50 - used, 0)
        for _ in range(2):
            await paid.site.kill()
            await paid.site.start()
        assert await left(client) == (50 - used, 0)
        entries = await client.credit_entries(f"user:{USER}")
        assert [(each.kind, each.request) for each in entries] == [
            ("grant", ""),
            ("charge", f"{MACHINE}/{number}"),
        ]
