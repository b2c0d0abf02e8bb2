"""Requests that need an owner's approval: the calls, the owner's decision, and its refusal."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import RequestId, Want
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode

ApprovalState = Literal["pending", "approved", "declined", "lapsed"]


class ListApprovals(Body, frozen=True, kw_only=True):
    pass


class DecideApproval(Body, frozen=True, kw_only=True):
    """The owner's decision about request `id`, as listed with this `revision`; `word` is for its user.

    Repeating the decision changes nothing; another decision is refused.
    """

    id: RequestId
    approve: bool
    revision: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    word: Annotated[str, Meta(max_length=limits.OWNER_WORD_MAX)] = ""


class ApprovalView(Answer, frozen=True, kw_only=True):
    """A request that needs the owner's approval. It waits `since`, at most `until` (seconds UTC).

    `reservation` is the id that its user knows, if that is another: a change of a reservation has its own id.
    `slots` are those that need the owner's approval. `by` made the decision, with the comment `word`.
    """

    id: str
    revision: int
    state: ApprovalState
    user: str
    slots: tuple[Want, ...]
    since: int
    until: int
    reservation: str = ""
    groups: tuple[str, ...] = ()
    note: str = ""
    change: bool = False
    """Whether the request changes a reservation, which stays as it is until the decision."""
    word: str = ""
    by: str = ""


class Approvals(Answer, frozen=True, kw_only=True):
    """The waiting requests; the earliest deadline comes first."""

    requests: tuple[ApprovalView, ...]


def approval_refusal(where: str, declined: bool, word: str) -> Refusal:
    """Return the refusal of a request that the owner of `where` has `declined`, or did not answer in time."""
    if not declined:
        detail = "its owner did not answer in time"
        return Refusal(where=where, code=RefusalCode.UNANSWERED, detail=detail)
    said = f": {word}" if word else ""
    detail = f"its owner has declined it{said}"
    return Refusal(where=where, code=RefusalCode.DECLINED, detail=detail)
