"""The client's calls for owners: the requests that need approval, and the owner's decisions."""

from __future__ import annotations

from kalends.client.methods.listing_calls import id_or_part, is_part, is_whole
from kalends.client.transports.call_line import CallLine
from kalends.contract.owner_calls import (
    Approvals,
    ApprovalView,
    DecideApproval,
    ListApprovals,
)
from kalends.core.errors import InvalidInput, NotFound


class ApprovalCalls:
    """The part of `kalends.Client` for owners; calls their site, and needs the scope ``admin``."""

    def __init__(self, line: CallLine) -> None:
        self._line = line

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """Return the requests that need the approval of this site's owner."""
        return (await self._line.call(ListApprovals(), "approvals", Approvals)).requests

    async def approve(self, id: str, *, word: str = "", revision: int = 1) -> ApprovalView:
        """Approve request `id` (or its end, while it waits), and send `word` to its user.

        `revision` is as listed; it changes with the slots of the request. Raises `NotFound`, and `Conflict`
        if the request was declined, has ended, or has other slots.
        """
        return await self._decide_approval(id, word, revision, approve=True)

    async def decline(self, id: str, *, word: str, revision: int = 1) -> ApprovalView:
        """Decline request `id` (as in `approve`): its slots are released at every site.

        Raises `InvalidInput` without a `word`, because the user would not know the reason.
        """
        if isinstance(word, str) and not word.strip():
            raise InvalidInput(
                "the comment is missing",
                where="word",
                remedy="write the reason in a few words for the user",
            )
        return await self._decide_approval(id, word, revision, approve=False)

    async def _decide_approval(
        self, id: str, word: str, revision: int, *, approve: bool
    ) -> ApprovalView:
        named = id_or_part(id, "kalends admin requests")
        if not is_whole(named):
            named = await self._waiting_id(named)
        body = DecideApproval(id=named, approve=approve, revision=revision, word=word)
        return await self._line.call(body, "approval_decide", ApprovalView)

    async def _waiting_id(self, part: str) -> str:
        """Return the id of the waiting request whose id ends or begins with `part`."""
        waiting = await self.approvals()
        found = [each.id for each in waiting if is_part(part, each.id)]
        if len(found) > 1:
            raise InvalidInput(
                f"{part} is part of {len(found)} ids", where="id", remedy="write more of it"
            )
        if not found:
            raise NotFound(
                f"no request {part} waits for approval here",
                where="id",
                remedy="see `kalends admin requests`; for a decided request, write the whole id",
            )
        return found[0]
