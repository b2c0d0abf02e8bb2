"""The calls about credit at a site: grants, balances, entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kalends.contract import credit_calls
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.service import SiteEngine
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Handler


class CreditOperations:
    """One handler for each operation."""

    def __init__(self, engine: Callable[[], SiteEngine]) -> None:
        self._engine = engine

    def handlers(self) -> dict[str, Handler]:
        return {
            "credits_grant": self.grant,
            "credits": self.accounts,
            "credit_entries": self.entries,
        }

    async def grant(
        self, caller: Caller, body: credit_calls.GrantCredits
    ) -> credit_calls.CreditAccount:
        """Answer once it is durable, with the account as it is then."""
        engine = self._engine()
        if body.start >= body.until:
            raise InvalidInput(
                "the grant would pay for no slot",
                where="until",
                remedy="give an end after the start",
            )

        def entered(participant: Participant, now: Moment) -> None:
            paying = participant.wing(Credits)
            if body.take:
                paying.take(body.key, body.account, body.amount, now, note=body.note)
            else:
                paying.grant(
                    body.key, body.account, body.amount, now, start=body.start, until=body.until,
                    note=body.note,
                )  # fmt: skip

        await engine.called(entered)
        return _account(engine.participant.wing(Credits), body.account)

    def accounts(
        self, caller: Caller, body: credit_calls.ListCredits
    ) -> credit_calls.CreditAccounts:
        paying = self._engine().participant.wing(Credits)
        names = paying.accounts.may_see(caller.principal) if body.own else _seen(caller, paying)
        return credit_calls.CreditAccounts(accounts=tuple(_account(paying, each) for each in names))

    def entries(self, caller: Caller, body: credit_calls.ListEntries) -> credit_calls.CreditEntries:
        """Each user sees the own account, and projects that the user may charge."""
        paying = self._engine().participant.wing(Credits)
        own = paying.accounts.may_see(caller.principal)
        if body.account not in own and body.account not in _seen(caller, paying):
            raise NotFound(
                f"no account {body.account} that you may see",
                where="account",
                remedy="kalends admin credits list shows the accounts",
            )
        found = [
            each
            for each in _views(paying, body.account)
            if each.number > body.after and body.start <= each.at < body.end
        ]
        page = found[: credit_calls.PAGE]
        return credit_calls.CreditEntries(entries=tuple(page), more=len(page) < len(found))


def _seen(caller: Caller, paying: Credits) -> list[str]:
    own = paying.accounts.may_see(caller.principal)
    if {"audit", "admin"} & {*caller.scopes}:
        return sorted({*paying.ledger.accounts(), *paying.accounts.names()})
    return own


def _account(paying: Credits, name: str) -> credit_calls.CreditAccount:
    lots = tuple(
        credit_calls.CreditLot(
            key=lot.key.partition(":")[2], left=left, start=lot.start, until=lot.until
        )
        for lot, left in paying.ledger.lots(name)
    )
    return credit_calls.CreditAccount(
        account=name, balance=paying.ledger.balance(name), reserved=paying.reserved(name),
        debt=paying.accounts.debt(name), lots=lots, complete_from=paying.ledger.complete_from(name),
    )  # fmt: skip


def _views(paying: Credits, account: str) -> Iterator[credit_calls.CreditEntryView]:
    """Yield the entries that changed `account`, in order, each with the balance after it."""
    balance = 0
    for entry in paying.ledger.of(account):
        amount = sum(share.amount for share in entry.shares if share.account == account)
        balance += amount
        named = not entry.about and entry.kind != "carried"
        yield credit_calls.CreditEntryView(
            number=entry.number, at=entry.at, account=entry.account, kind=entry.kind, amount=amount,
            balance=balance, request=entry.about, user=entry.user,
            key=entry.key.partition(":")[2] if named else "", note=entry.note,
        )  # fmt: skip
