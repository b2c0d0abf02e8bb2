"""The client's calls of an owner: the requests that wait for approval, and the owner's word."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kalends.client.calls import CallSender
from kalends.client.methods.id_parts import id_or_part, is_part, is_whole
from kalends.contract.approval_calls import (
    Approvals,
    ApprovalView,
    DecideApproval,
    ListApprovals,
)
from kalends.core.errors import InvalidInput, NotFound


class ApprovalCalls(ABC):
    """The part of `kalends.Client` for owners: asks their site, and needs the scope ``admin``."""

    @property
    @abstractmethod
    def _caller(self) -> CallSender:
        """Makes the calls."""

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """List the requests that wait for the approval of this site's owner."""
        return (await self._caller.call(ListApprovals(), "approvals", Approvals)).requests

    async def approve(self, id: str, *, word: str = "", revision: int = 1) -> ApprovalView:
        """Approve request `id` (its end will do while it waits), and tell its user `word`.

        `revision` is as listed: other slots of the same request have another one. Raises `NotFound`, and
        `Conflict` where it is declined, is over, or is for other slots.
        """
        return await self._decide_approval(id, word, revision, approve=True)

    async def decline(self, id: str, *, word: str, revision: int = 1) -> ApprovalView:
        """Decline request `id`, as `approve` approves one: it is given up at every site.

        Raises `InvalidInput` without a `word`, for its user would not know why.
        """
        if isinstance(word, str) and not word.strip():
            raise InvalidInput(
                "no word is given",
                where="word",
                remedy="say why in a few words: its user reads them",
            )
        return await self._decide_approval(id, word, revision, approve=False)

    async def _decide_approval(
        self, id: str, word: str, revision: int, *, approve: bool
    ) -> ApprovalView:
        named = id_or_part(id, "kalends admin requests")
        if not is_whole(named):
            named = await self._waiting_id(named)
        body = DecideApproval(id=named, approve=approve, revision=revision, word=word)
        return await self._caller.call(body, "approval_decide", ApprovalView)

    async def _waiting_id(self, part: str) -> str:
        """Return the id of the request that waits, and whose id ends or begins with `part`."""
        waiting = await self.approvals()
        found = [each.id for each in waiting if is_part(part, each.id)]
        if len(found) > 1:
            raise InvalidInput(
                f"{part} is a part of {len(found)} ids", where="id", remedy="write more of it"
            )
        if not found:
            raise NotFound(
                f"no request {part} waits for approval here",
                where="id",
                remedy="see `kalends admin requests`; what is decided is named by its whole id",
            )
        return found[0]
