"""The client's calls about credit at an owner's site."""

from __future__ import annotations

from kalends.client.client_settings import ClientSettings
from kalends.client.inputs.request_builder import Time
from kalends.client.transports.call_line import CallLine
from kalends.contract.credit_calls import (
    CreditAccount,
    CreditAccounts,
    CreditEntries,
    CreditEntryView,
    GrantCredits,
    ListCredits,
    ListEntries,
)
from kalends.core.limits import TIME_S_MAX


class CreditCalls:
    """The part of `kalends.Client` about credit: it calls the site itself."""

    def __init__(self, line: CallLine, settings: ClientSettings) -> None:
        self._line = line
        self._settings = settings

    async def grant_credits(
        self, account: str, parts: int, *, start: Time | None = None, until: Time | None = None,
        note: str = "", key: str = "",
    ) -> CreditAccount:  # fmt: skip
        """Grant `parts` to ``user:NAME`` or ``project:NAME``, for slots from `start` to `until`.

        A credit has 3,600,000 parts. A repeated call with the same `key` counts once. Needs the scope
        ``admin``.
        """
        body = GrantCredits(
            key=key or self._settings.new_key(),
            account=account,
            amount=parts,
            start=0 if start is None else self._settings.time_s(start, where="start"),
            until=TIME_S_MAX if until is None else self._settings.time_s(until, where="until"),
            note=note,
        )
        return await self._line.call(body, "credits_grant", CreditAccount)

    async def take_credits(
        self, account: str, parts: int, *, note: str = "", key: str = ""
    ) -> CreditAccount:
        """Take `parts` back that `account` has left; raises `Conflict` if it has less."""
        body = GrantCredits(
            key=key or self._settings.new_key(), account=account, amount=parts, take=True, note=note
        )
        return await self._line.call(body, "credits_grant", CreditAccount)

    async def credits(self, *, own: bool = False) -> tuple[CreditAccount, ...]:
        """Return the accounts that you may charge at this site; with the scope ``audit``, all.

        `own` leaves out those that you may not charge.
        """
        return (await self._line.call(ListCredits(own=own), "credits", CreditAccounts)).accounts

    async def credit_entries(
        self, account: str, *, start: Time | None = None, until: Time | None = None
    ) -> tuple[CreditEntryView, ...]:
        """Return the statement of `account`: its entries from `start` to `until`, the oldest first."""
        start_s = 0 if start is None else self._settings.time_s(start, where="start")
        end_s = TIME_S_MAX if until is None else self._settings.time_s(until, where="until")
        found: list[CreditEntryView] = []
        more = True
        while more:
            after = found[-1].number if found else 0
            body = ListEntries(account=account, after=after, start=start_s, end=end_s)
            page = await self._line.call(body, "credit_entries", CreditEntries)
            found += page.entries
            more = page.more and bool(page.entries)
        return tuple(found)
