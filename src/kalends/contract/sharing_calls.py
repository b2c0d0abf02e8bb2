"""Calls about sharing: participants of a reservation, hand-over to another user, and a link for guests."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key, RequestId, WaitMs, Want
from kalends.contract.request_calls import Book
from kalends.core import identifiers as ids

Party = Annotated[str, Meta(pattern=ids.whole(ids.PARTY_PATTERN))]
UserName = Annotated[str, Meta(pattern=ids.whole(ids.USER_PATTERN))]


class ShareWith(Body, frozen=True, kw_only=True):
    """Let `party` look at a request of the caller; with `may_change`, also move, resize and cancel it.

    Sharing it again with the same party replaces what that party may do.
    """

    id: RequestId
    party: Party
    may_change: bool = False


class Unshare(Body, frozen=True, kw_only=True):
    """Stop sharing a request with `party`; a user may also end the share with themselves."""

    id: RequestId
    party: Party


class OfferTo(Body, frozen=True, kw_only=True):
    """Offer a reservation to user `to`, who has `days` to accept it; until then it stays the caller's.

    An earlier offer of it ends.
    """

    id: RequestId
    to: UserName
    days: Annotated[int, Meta(ge=1, le=30)] = 7


class Accept(Body, frozen=True, kw_only=True):
    """Take over a reservation that was offered to the caller, if all its owners agree; else nothing changes.

    `key` makes the call repeatable, as that of a booking.
    """

    id: RequestId
    key: Key
    wait_ms: WaitMs = 30_000


class Decline(Body, frozen=True, kw_only=True):
    """Decline a reservation that was offered to the caller, or withdraw an offer of the caller."""

    id: RequestId


class BookFor(Book, frozen=True, kw_only=True):
    """Book in the name of `user`, as the operator of the broker lets the caller.

    The rights, limits and credit of `user` count. The caller may look at the request, and change it, until
    `user` ends that.
    """

    user: UserName


class AddLink(Body, frozen=True, kw_only=True):
    """Make a secret address that shows one request, for guests; an earlier one of it leads nowhere."""

    id: RequestId


class RevokeLink(Body, frozen=True, kw_only=True):
    """Revoke the secret address of a request."""

    id: RequestId


class GuestView(Answer, frozen=True, kw_only=True):
    """A request as guests see it: no user, note, reason or cost."""

    id: str
    state: str
    request: str
    slots: tuple[Want, ...]


class LinkView(Answer, frozen=True, kw_only=True):
    """The secret address of request `id`; "": it was revoked. It is a URL, or a path at this server."""

    id: str
    address: str = ""

    def __repr__(self) -> str:
        """Return text without the address, because a notebook stores its output."""
        return f"<link to {self.id}>"
