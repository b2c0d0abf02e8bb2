"""Calls and answers about changes of requests by others, and the addresses for notices."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Want
from kalends.core import identifiers as ids
from kalends.core import limits

Made = Literal["moved", "shortened", "cancelled", "placed-elsewhere"]
"""Changes of a request by others; `placed-elsewhere`: its job moved to another site."""

NoticeTo = Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.ADDRESS_PATTERN)))]


class ChangeByOthers(Answer, frozen=True, kw_only=True):
    """A change of a request by an owner, an operator or a participant, with their `reason`, `at` seconds UTC.

    `by` names the sites, or the user. `was` are the earlier slots.
    """

    made: Made
    by: str
    at: int
    reason: str = ""
    was: tuple[Want, ...] = ()


def made_text(changed: ChangeByOthers) -> str:
    """Return a change of a request, and its author, in a few words."""
    if changed.made == "cancelled":
        return f"by {changed.by}"
    return f"{changed.made.replace('-', ' ')} by {changed.by}"


class ListNoticeAddresses(Body, frozen=True, kw_only=True):
    """List the caller's addresses for notices."""


class AddNoticeAddress(Body, frozen=True, kw_only=True):
    """Add an address for notices: mail, or the URL of a webhook; "" is the caller's own mail address.

    Times in notices are in `zone`. Reminders come `remind_s` before each reservation begins; 0: none. Adding
    a webhook again gives it a new secret.
    """

    to: NoticeTo = ""
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"
    remind_s: Annotated[int, Meta(ge=0, le=limits.REMIND_S_MAX)] = 0


class NoticeAddressRef(Body, frozen=True, kw_only=True):
    """One of the caller's addresses, as added or as listed."""

    to: NoticeTo = ""


class NoticeAddressView(Answer, frozen=True, kw_only=True):
    """An address for the caller's notices, since `added_at` (seconds UTC).

    Reminders come `remind_s` before a reservation begins; 0: none. `secret` signs the calls of a webhook; it
    is only in the answer that added it. `problem` is why no notices are sent any more: the broker's operator
    no longer allows the address.
    """

    to: str
    kind: Literal["mail", "webhook"]
    zone: str
    added_at: int
    remind_s: int = 0
    secret: str = ""
    problem: str = ""

    def __repr__(self) -> str:
        """Return text without the secret, because a notebook stores its output."""
        return f"<{self.kind} to {self.to}{f': {self.problem}' if self.problem else ''}>"


class NoticeAddresses(Answer, frozen=True, kw_only=True):
    addresses: tuple[NoticeAddressView, ...]
