"""The owner's accounts: who may charge them, how far into debt they go, and whose budget they are part of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kalends.calendars import is_meant
from kalends.core.errors import InvalidInput
from kalends.core.principals import Principal

EVERY_USER: Final = "everyone"
"""The rule of this name is for the users' own accounts that have none."""


class PayingAccount(msgspec.Struct, frozen=True):
    """``user:NAME`` or ``project:NAME``; `members` are whom access rules call so.

    Its balance may be as low as minus `debt` (parts). What it pays, its `parent` pays, too: each has its
    budget.
    """

    name: str
    members: tuple[str, ...] = ()
    parent: str = ""
    debt: int = 0


class PayingAccounts:
    """All accounts that the owner has configured; raises `InvalidInput` for parents that go in a circle."""

    def __init__(self, accounts: Iterable[PayingAccount] = ()) -> None:
        self._accounts = {each.name: each for each in accounts}
        for each in self._accounts.values():
            seen = {each.name}
            while each.parent:
                if each.parent not in self._accounts or each.parent in seen:
                    why = "is its own parent" if each.parent in seen else "is not configured"
                    raise InvalidInput(
                        f"the account {each.parent} {why}",
                        where="accounts",
                        remedy="name another account as the parent, or none",
                    )
                seen.add(each.parent)
                each = self._accounts[each.parent]

    def payer(self, principal: Principal, project: str) -> str:
        """Return the account of `project` that `principal` may charge, or the own one; "" if there is
        none."""
        if not project:
            return f"user:{principal.user}"
        name = f"project:{project}"
        account = self._accounts.get(name)
        if account is None or not any(is_meant(who, principal) for who in account.members):
            return ""
        return name

    def may_see(self, principal: Principal) -> list[str]:
        """Return the accounts that `principal` may charge."""
        projects = [
            each.name
            for each in self._accounts.values()
            if any(is_meant(who, principal) for who in each.members)
        ]
        return [f"user:{principal.user}", *sorted(projects)]

    def names(self) -> list[str]:
        """Return all accounts that the owner has configured."""
        return [name for name in self._accounts if name != EVERY_USER]

    def path(self, name: str) -> tuple[str, ...]:
        """Return `name` and those of which it is a part, up to the last."""
        found = [name]
        while (account := self._accounts.get(found[-1])) is not None and account.parent:
            found.append(account.parent)
        return tuple(found)

    def debt(self, name: str) -> int:
        """Return how far the account may be negative."""
        if (account := self._accounts.get(name)) is not None:
            return account.debt
        of_users = self._accounts.get(EVERY_USER) if name.startswith("user:") else None
        return of_users.debt if of_users is not None else 0
