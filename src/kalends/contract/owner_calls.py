"""Calls of owners: requests that need their approval, the decision and its refusal; and reclaimed periods."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import IdPart, Key, ResourceName, TimeS, Want
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode

ApprovalState = Literal["pending", "approved", "declined", "lapsed"]


class ListApprovals(Body, frozen=True, kw_only=True):
    pass


class DecideApproval(Body, frozen=True, kw_only=True):
    """The owner's decision about request `id`, as listed with this `revision`; `word` is for its user.

    A part of an id must be of one request alone, among those that wait or are decided. Repeating the decision
    changes nothing; another decision is refused.
    """

    id: IdPart
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
    first: str = ""
    """The user who approved it first, if two people have to."""


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


class Reclaim(Body, frozen=True, kw_only=True):
    """Reclaim `resource` during ``[start, end)``: it accepts no new claims, and reservations are moved.

    The broker of each reservation moves all its parts together to the best other time, or cancels it, and
    sends the `reason` to its user. A reservation that begins within `notice_s` from now stays. With `units`,
    only so many are reclaimed: the others can be booked, and as few reservations are moved as free them.
    `key` makes the call repeatable; with `dry_run` nothing is changed, and the answer shows the expected
    outcome.
    """

    key: Key
    resource: ResourceName
    start: TimeS
    end: TimeS
    notice_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    reason: Annotated[str, Meta(max_length=200)] = ""
    units: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    dry_run: bool = False


class ReclaimRef(Body, frozen=True, kw_only=True):
    key: Key


class ListReclaims(Body, frozen=True, kw_only=True):
    pass


ReclaimedState = Literal["waiting", "moved", "cancelled", "gone", "stays"]


class ReclaimedReservation(Answer, frozen=True, kw_only=True):
    """A reservation, and its present or earlier part of the reclaimed period.

    It waits to be moved, was moved to `to_start` on `to_resource`, or was cancelled; or it stays for the
    reason `why`. "gone": it was moved or cancelled, and the site no longer knows which.
    """

    id: str
    user: str
    start: int
    end: int
    units: int
    state: ReclaimedState
    why: str = ""
    to_resource: str = ""
    to_start: int = 0
    to_end: int = 0


Standing = Literal["move", "keep", "cancel"]
"""What becomes of the reservations in a period that its owner closes."""


class ReclaimView(Answer, frozen=True, kw_only=True):
    """A reclaim: `waiting` reservations are still there, `gone` ones have been moved or cancelled.

    With `units`, only so many units are reclaimed. `lacking` are the times and numbers of units that others
    still have of them, and `beside` is the number of reservations that fit in the rest. `exact`: fewer
    reservations could not be moved.
    """

    key: str
    resource: str
    start: int
    end: int
    reason: str = ""
    waiting: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
    """Reservations that begin within the notice, and stay."""
    units: int = 0
    lacking: tuple[tuple[int, int, int], ...] = ()
    beside: int = 0
    exact: bool = True
    reservations: tuple[ReclaimedReservation, ...] = ()
    """All of `waiting`, `gone` and `spared`, with details."""
    closure: str = ""
    """Key of the closure that it is a part of; "" if it is none."""
    standing: Standing = "move"


class Reclaims(Answer, frozen=True, kw_only=True):
    reclaims: tuple[ReclaimView, ...]


class CloseSite(Body, frozen=True, kw_only=True):
    """Close `resources` (none: all of the site) during ``[start, end)``: nothing new is taken there.

    By `standing`, reservations in that time are kept, moved as in a reclaim, or cancelled as a whole, also
    if they have begun. Their users get the `reason`. The `key` makes the call repeatable: for a closure
    that stands, the call changes `standing` and `reason`, and `start` and `end` may be 0. With `dry_run`
    nothing is changed, and the answer lists the reservations.
    """

    key: Annotated[Key, Meta(max_length=72)]
    resources: Annotated[
        tuple[ResourceName, ...], Meta(max_length=limits.RESOURCES_CLOSED_MAX)
    ] = ()
    start: TimeS = 0
    end: TimeS = 0
    standing: Standing = "keep"
    reason: Annotated[str, Meta(max_length=200)] = ""
    dry_run: bool = False


class OpenSite(Body, frozen=True, kw_only=True):
    """End the closure of this `key`, or (`""`) all of them: the time can be booked again."""

    key: Annotated[Key, Meta(max_length=72)] | Literal[""] = ""


class ClosureView(Answer, frozen=True, kw_only=True):
    """A closed period: a reclaim for each resource, with the reservations in it."""

    key: str
    start: int
    end: int
    standing: Standing
    parts: tuple[ReclaimView, ...]
    reason: str = ""


class Closures(Answer, frozen=True, kw_only=True):
    closures: tuple[ClosureView, ...]


class CheckIn(Body, frozen=True, kw_only=True):
    """The user of reservation `id` came for its slots at this site. Owners may say so for any user."""

    id: IdPart


class CheckedIn(Answer, frozen=True, kw_only=True):
    """The check-in of reservation `id` at `came_at` (seconds UTC); it counts for `slots`."""

    id: str
    user: str
    came_at: int
    slots: tuple[Want, ...]
