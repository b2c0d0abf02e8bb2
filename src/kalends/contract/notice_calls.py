"""What others have made of a request, and where its user is told of it: the calls, and their answers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Want
from kalends.core import identifiers as ids

Made = Literal["moved", "shortened", "cancelled", "placed-elsewhere"]
"""What may be made of a request without its user: `placed-elsewhere` is a job at another site."""

NoticeTo = Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.ADDRESS_PATTERN)))]


class ChangeByOthers(Answer, frozen=True, kw_only=True):
    """What an owner or an operator has made of a request, by their word `reason`, `at` seconds UTC.

    `by` names the sites, or the operator. `was` is what it had before.
    """

    made: Made
    by: str
    at: int
    reason: str = ""
    was: tuple[Want, ...] = ()


def made_words(changed: ChangeByOthers) -> str:
    """Say in a few words what was made of a request, and by whom."""
    if changed.made == "cancelled":
        return f"by {changed.by}"
    return f"{changed.made.replace('-', ' ')} by {changed.by}"


class ListNoticeAddresses(Body, frozen=True, kw_only=True):
    """List where the caller is told of changes."""


class AddNoticeAddress(Body, frozen=True, kw_only=True):
    """Tell the caller also at `to`: a mail address, or the URL of a webhook; "" is the caller's own address.

    Letters tell times in `zone`. To add a webhook again gives it a new secret.
    """

    to: NoticeTo = ""
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"


class NoticeAddressRef(Body, frozen=True, kw_only=True):
    """One of the caller's addresses, as it was added or as it is listed."""

    to: NoticeTo = ""


class NoticeAddressView(Answer, frozen=True, kw_only=True):
    """Where the caller is told of changes, since `added_at` (seconds UTC).

    `secret` signs the calls of a webhook: only the answer to its adding tells it. `problem` says why nothing
    goes there any more: the broker's operator has changed what is allowed.
    """

    to: str
    kind: Literal["mail", "webhook"]
    zone: str
    added_at: int
    secret: str = ""
    problem: str = ""

    def __repr__(self) -> str:
        """Without the secret: a notebook keeps what it has shown."""
        return f"<{self.kind} to {self.to}{f': {self.problem}' if self.problem else ''}>"


class NoticeAddresses(Answer, frozen=True, kw_only=True):
    addresses: tuple[NoticeAddressView, ...]
