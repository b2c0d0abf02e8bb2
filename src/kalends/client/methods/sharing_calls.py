"""The client's part about sharing: participants, hand-over to another user, and links for guests."""

from __future__ import annotations

from msgspec.structs import replace

from kalends.client.inputs.given_values import milliseconds
from kalends.client.methods.answers import settled
from kalends.client.methods.listing_calls import ListingCalls
from kalends.client.transports.call_line import CallLine
from kalends.contract import sharing_calls as bodies
from kalends.contract.request_views import RequestView
from kalends.core.errors import InvalidInput


class SharingCalls:
    """The part of `kalends.Client` that shares requests and hands reservations over."""

    def __init__(self, line: CallLine, listing: ListingCalls) -> None:
        self._line = line
        self._listing = listing

    async def share(
        self, id: str, user: str = "", *, group: str = "", may_change: bool = False
    ) -> RequestView:
        """Let `user`, or all of `group`, look at request `id`; with `may_change` also change it.

        A participant who may change it can move, extend, shrink and cancel it, in your name: your limits and
        your credit count. Sharing it again with the same party replaces what that party may do.
        """
        body = bodies.ShareWith(
            id=await self._listing.full_id(id), party=_party(user, group), may_change=may_change
        )
        return await self._line.call(body, "share", RequestView)

    async def unshare(self, id: str, user: str = "", *, group: str = "") -> RequestView:
        """Stop sharing request `id` with `user` or `group`; also to leave a request that others share."""
        body = bodies.Unshare(id=await self._listing.full_id(id), party=_party(user, group))
        return await self._line.call(body, "unshare", RequestView)

    async def give(self, id: str, to: str, *, days: int = 7) -> RequestView:
        """Offer reservation `id` to user `to`: it is yours until that user accepts it.

        The offer lapses after `days`, or when the first slot begins. `decline_offer` withdraws it.
        """
        body = bodies.OfferTo(id=await self._listing.full_id(id), to=to, days=days)
        return await self._line.call(body, "give", RequestView)

    async def accept_offer(self, id: str, *, key: str = "", wait_s: float = 30.0) -> RequestView:
        """Take over reservation `id`, which another user has offered to you.

        Its owners check it as a booking of yours: your rights, limits and credit count. If one of them
        refuses, nothing changes, and this raises the reason. `key` makes the call safe to repeat.
        """
        body = bodies.Accept(
            id=await self._listing.full_id(id),
            key=key or self._line.settings.new_key(),
            wait_ms=milliseconds(wait_s),
        )
        return settled(await self._line.call(body, "accept", RequestView))

    async def decline_offer(self, id: str) -> RequestView:
        """Decline reservation `id`, which was offered to you, or withdraw your own offer of it."""
        body = bodies.Decline(id=await self._listing.full_id(id))
        return await self._line.call(body, "decline", RequestView)

    async def add_link(self, id: str) -> bodies.LinkView:
        """Make a secret address that shows request `id` to guests, who need no login.

        `address` of the answer is shown only once; with `.json` at its end it gives JSON. Repeating the call
        makes another address, and then the earlier one leads nowhere.
        """
        body = bodies.AddLink(id=await self._listing.full_id(id))
        view = await self._line.call(body, "link_add", bodies.LinkView)
        if not view.address.startswith("/"):
            return view
        url = self._line.settings.access.servers()[0].url.rstrip("/")
        return replace(view, address=f"{url}{view.address}")

    async def revoke_link(self, id: str) -> bodies.LinkView:
        """Revoke the secret address of request `id`: it leads nowhere. Raises `NotFound`."""
        body = bodies.RevokeLink(id=await self._listing.full_id(id))
        return await self._line.call(body, "link_revoke", bodies.LinkView)


def _party(user: str, group: str) -> str:
    if bool(user) == bool(group):
        raise InvalidInput(
            "a request is shared with a user or a group", where="user", remedy="give one of them"
        )
    return f"user:{user}" if user else f"group:{group}"
