"""The requests that wait for an owner's approval, and the owner's word: calls and answers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import RequestId, Want
from kalends.core import limits
from kalends.core.features import APPROVAL

ApprovalState = Literal["pending", "approved", "declined", "lapsed"]


class ListApprovals(Body, frozen=True, kw_only=True):
    pass


class DecideApproval(Body, frozen=True, kw_only=True):
    """The owner's word about request `id`, as it was listed with this `revision`; `word` is for its user.

    The same word again changes nothing; another one is refused.
    """

    id: RequestId
    approve: bool
    revision: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    word: Annotated[str, Meta(max_length=limits.OWNER_WORD_MAX)] = ""


class ApprovalView(Answer, frozen=True, kw_only=True):
    """A request before the owner. It waits `since`, at most `until` (seconds UTC).

    `reservation` is what its user calls it, where that is another id: a change of a reservation has its own.
    `slots` are those that need the owner's word. `by` has said `word`.
    """

    SINCE: ClassVar = APPROVAL

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
    """It changes a reservation, which stands until this is decided."""
    word: str = ""
    by: str = ""


class Approvals(Answer, frozen=True, kw_only=True):
    """Those who wait, the first to be over first."""

    requests: tuple[ApprovalView, ...]
