"""The client's calls of an owner: the requests that wait for approval, and the owner's word."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final

from kalends.client.calls import CallSender
from kalends.contract.approval_calls import (
    Approvals,
    ApprovalView,
    DecideApproval,
    ListApprovals,
)
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import REQUEST_ID_PATTERN

_FULL: Final = re.compile(REQUEST_ID_PATTERN)


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
        if not isinstance(id, str):
            raise InvalidInput(
                f"{id!r} is not an id", where="id", remedy="give one that `approvals` lists"
            )
        named = id.strip().lower()
        if not _FULL.fullmatch(named):
            named = await self._waiting_id(named)
        body = DecideApproval(id=named, approve=approve, revision=revision, word=word)
        return await self._caller.call(body, "approval_decide", ApprovalView)

    async def _waiting_id(self, part: str) -> str:
        """Return the id of the request that waits, and whose id ends or begins with `part`."""
        waiting = await self.approvals()
        found = [each.id for each in waiting if each.id.endswith(part) or each.id.startswith(part)]
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
