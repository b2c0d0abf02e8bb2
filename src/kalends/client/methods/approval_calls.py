"""The client's calls for owners: the requests that need approval, and the owner's decisions."""

from __future__ import annotations

from kalends.client.methods.listing_calls import id_or_part
from kalends.client.transports.call_line import CallLine
from kalends.contract.day_calls import DayView, ShowDay
from kalends.contract.owner_calls import (
    Approvals,
    ApprovalView,
    CheckedIn,
    CheckIn,
    DecideApproval,
    ListApprovals,
)
from kalends.core.errors import InvalidInput


class ApprovalCalls:
    """The part of `kalends.Client` for owners; calls their site, and needs the scope ``admin``."""

    def __init__(self, line: CallLine) -> None:
        self._line = line

    async def today(self, *, day: str = "", zone: str = "") -> DayView:
        """Return one day of this site: who comes, what waits, what has changed, what needs a hand.

        `day` is a date or a word (``2027-03-01``, ``tomorrow``) in the `zone`, or in that of the resources.
        Raises `InvalidInput` for a day or zone that is none.
        """
        return await self._line.call(ShowDay(day=day, zone=zone), "today", DayView)

    async def check_in(self, id: str) -> CheckedIn:
        """Note at this site that the user of reservation `id` (or a part of the id) came.

        It counts for slots that run, or begin within half an hour. Repeating it changes nothing. Raises
        `NotFound` if there is no such slot, and `Conflict` once the reservation is being given back.
        """
        named = id_or_part(id, "kalends list")
        return await self._line.call(CheckIn(id=named), "check_in", CheckedIn)

    async def approvals(self) -> tuple[ApprovalView, ...]:
        """Return the requests that need the approval of this site's owner."""
        return (await self._line.call(ListApprovals(), "approvals", Approvals)).requests

    async def approve(self, id: str, *, word: str = "", revision: int = 1) -> ApprovalView:
        """Approve request `id` (or the beginning or end of its id), and send `word` to its user.

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
        body = DecideApproval(id=named, approve=approve, revision=revision, word=word)
        return await self._line.call(body, "approval_decide", ApprovalView)
