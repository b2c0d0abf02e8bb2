"""Calls about credit at an owner's site: owners grant it, users see what they have."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.costs import AccountName
from kalends.contract.fields import Key, TimeS
from kalends.core.limits import LISTING_MAX, TIME_S_MAX
from kalends.core.money import COST_MAX

Note = Annotated[str, Meta(max_length=200)]


class GrantCredits(Body, frozen=True, kw_only=True):
    """Grant `amount` parts to `account`, for slot times in ``[start, until)``; or `take` as many back.

    A repeat with the same `key` changes nothing.
    """

    key: Key
    account: AccountName
    amount: Annotated[int, Meta(ge=1, le=COST_MAX)]
    take: bool = False
    start: TimeS = 0
    until: TimeS = TIME_S_MAX
    note: Note = ""


class ListCredits(Body, frozen=True, kw_only=True):
    """List accounts: those that the caller may charge; with the scope audit all, unless only the `own`."""

    own: bool = False


class ListEntries(Body, frozen=True, kw_only=True):
    """List a page of the entries of `account` from ``[start, end)``, behind the number `after`."""

    account: AccountName
    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    start: TimeS = 0
    end: TimeS = TIME_S_MAX


class CreditLot(Answer, frozen=True, kw_only=True):
    """The parts `left` of a grant, which pays for slot times in ``[start, until)``."""

    key: str
    left: int
    start: int = 0
    until: int = TIME_S_MAX


class CreditAccount(Answer, frozen=True, kw_only=True):
    """The `balance` of an account in parts; `reserved` parts of it are promised. It may owe up to `debt`."""

    account: str
    balance: int
    reserved: int = 0
    debt: int = 0
    complete_from: int = 0
    """Earlier entries are folded into one, ``carried``; 0: none are."""
    lots: tuple[CreditLot, ...] = ()


class CreditAccounts(Answer, frozen=True, kw_only=True):
    accounts: tuple[CreditAccount, ...]


class CreditEntryView(Answer, frozen=True, kw_only=True):
    """Entry `number` of the ledger: `amount` parts more, or less, in `account`; `balance` is after it.

    What is ``carried`` is the sum of older entries, the last of which was made `at`.
    """

    number: int
    at: int
    account: str
    kind: Literal["grant", "take", "charge", "refund", "carried"]
    amount: int
    balance: int
    request: str = ""
    user: str = ""
    key: str = ""
    note: str = ""


class CreditEntries(Answer, frozen=True, kw_only=True):
    """A page of at most `PAGE` entries; `more` if others follow."""

    entries: tuple[CreditEntryView, ...]
    more: bool = False


PAGE = LISTING_MAX
