"""Sites that take credits; their ledgers are held against what customers were told: all is paid once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kalends.core.money import CREDIT

from .auditing import Connect, open_access
from .customers import Claim, Customer
from .facility import GRAIN_S, Facility
from .servers import Server

PRICES: Final = """
[[site.resources.prices]]
name = "all"
credits = 6
"""
"""A credit for each unit and grain. What has not begun is paid back whole."""

CREDIT_GRAINS: Final = 1_000_000
"""Each customer can pay for so many, of early slots and of late ones."""


async def grant(
    facility: Facility, customers: Sequence[Customer], *, connect: Connect = open_access
) -> None:
    """Give each customer two grants at each site: one for early slots only, and one for all."""
    for site in facility.sites:
        async with connect(site, "auditor") as client:
            for customer in customers:
                account, key = f"user:{customer.user}", f"grant-{customer.user}"
                early = customer.base_s + 24 * GRAIN_S
                parts = CREDIT_GRAINS * CREDIT
                await client.grant_credits(account, parts, until=early, key=f"{key}-early")
                await client.grant_credits(account, parts, key=key)


async def wrong_ledgers(
    facility: Facility, customers: Sequence[Customer], *, connect: Connect = open_access
) -> list[str]:
    """What ledgers have otherwise than customers were told, once all is at rest."""
    return [
        problem
        for site in facility.sites
        for customer in customers
        for problem in await _wrong_ledger(site, customer, connect)
    ]


async def _wrong_ledger(site: Server, customer: Customer, connect: Connect) -> list[str]:
    who = f"{customer.user} at {site.name}"
    account = f"user:{customer.user}"
    async with connect(site, "auditor") as client:
        (shown,) = [each for each in await client.credits() if each.account == account]
        entries = await client.credit_entries(account)
    problems = []
    if shown.reserved:
        problems.append(f"PAYMENT: {shown.reserved} parts of {who} are reserved for nothing")
    paid: Counter[str] = Counter()
    balance = 0
    for each in entries:
        balance += each.amount
        if each.balance != balance:
            problems.append(f"PAYMENT: the ledger of {who} does not add up: {each}")
        if each.kind != "grant":
            paid[each.request] -= each.amount
    if shown.balance != balance or sum(lot.left for lot in shown.lots) != balance:
        problems.append(f"PAYMENT: the balance of {who} is {shown}, its entries make {balance}")
    # A change has an id of its own there, which its customer does not know.
    have = sorted(cost for cost in paid.values() if cost)
    owe = sorted(cost for claims in customer.reserved.values() if (cost := _cost(site, claims)))
    if have != owe:
        problems.append(f"PAYMENT: {who} has paid {have} for reservations that cost {owe}")
    return problems


def _cost(site: Server, claims: Iterable[Claim]) -> int:
    """The price in parts of what `claims` take at `site`."""
    return sum(
        (end - start) // GRAIN_S * units * CREDIT
        for resource, start, end, units in claims
        if resource.startswith(f"{site.name}/")
    )
