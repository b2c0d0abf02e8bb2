"""Requests as their users see them."""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final, Literal

from kalends.contract.bodies import Answer, NotebookForm
from kalends.contract.notice_calls import ChangeByOthers, made_text
from kalends.contract.placing_calls import PlacedJob
from kalends.core.durations import format_duration
from kalends.core.errors import Problem
from kalends.core.full_times import date_and_time
from kalends.core.identifiers import short_id
from kalends.core.steps import StepPart

TEXT_MAX: Final = 120
"""Characters of a request's text in an interactive session."""

RequestState = Literal["open", "held", "reserved", "failed", "cancelled", "replaced"]


class ClaimView(Answer, frozen=True, kw_only=True):
    """One resource's part of a reservation; `confirmed` once its site has durably confirmed it."""

    resource: str
    start: int
    end: int
    units: int
    confirmed: bool = False


class AgentNote(Answer, frozen=True, kw_only=True):
    """A message that an agent left for its client at a site: `value` is plain data."""

    at_ms: int
    site: str
    value: Any


class Waiting(Answer, frozen=True, kw_only=True):
    """The state of an open request's wait, as last reported.

    `since` and `until` (when it gives up) are seconds UTC; `ahead` is the greatest number of requests
    before it in any queue; `awaited` are the resources, or sites, that it waits for, and `earliest`
    the start that is tried now (0: any). `listed`: it is on waiting lists for locked slots, and holds
    nothing until then. `approval`: all slots are held, and the owners of the awaited resources must approve
    the request by `until`. `opens`: it is asked for then (seconds UTC; 0: it was asked for), once it lies
    within the horizons of the awaited resources.
    """

    since: int
    until: int
    ahead: int = 0
    awaited: tuple[str, ...] = ()
    earliest: int = 0
    listed: bool = False
    approval: bool = False
    opens: int = 0


class UnitsOut(Answer, frozen=True, kw_only=True):
    """`units` of a slot on `resource` that has begun cannot be used since `at` (seconds UTC)."""

    resource: str
    units: int
    at: int
    detail: str = ""


class SharedWith(Answer, frozen=True, kw_only=True):
    """A participant: ``user:NAME`` or ``group:NAME``, since `at` (seconds UTC)."""

    party: str
    may: Literal["look", "change"]
    at: int


class SharingView(Answer, frozen=True, kw_only=True):
    """The participants, the offer and the link of a request.

    `may` is what the caller may do with a request of another user: look at it, change it, or take it over.
    The rest is for its user: the participants, whom it is offered to, until when (seconds UTC), and whether
    a guest link shows it. The user whom it is offered to sees that offer, too.
    """

    may: Literal["", "look", "change", "take"] = ""
    parties: tuple[SharedWith, ...] = ()
    offered_to: str = ""
    offered_until: int = 0
    link: bool = False


class RequestView(Answer, NotebookForm, frozen=True, kw_only=True):
    """A request and its outcome.

    `id` stays the same over move, extend and shrink. For ``failed``, `problem` is the reason; for
    ``held``, `expires_at` is the end of the hold (seconds UTC).
    """

    id: str
    state: RequestState
    user: str
    text: str
    created_at: int
    start: int = 0
    end: int = 0
    claims: tuple[ClaimView, ...] = ()
    attempts: int = 1
    expires_at: int = 0
    note: str = ""
    agent: str = ""
    """The agent that chose, or will choose: its name in the request, and the hash of its script."""
    script: str = ""
    agent_failed: tuple[str, ...] = ()
    """The sites at which the agent failed in its last round, where the site's default chose."""
    notes: tuple[AgentNote, ...] = ()
    """Messages that the agent left for its client, oldest first."""
    changing: str = ""
    """The id of an open move, extend or shrink."""
    waiting: Waiting | None = None
    """Set while it is ``open`` and queued at a site."""
    placed: PlacedJob | None = None
    """The place of a job, if the broker placed one."""
    parts: tuple[StepPart, ...] = ()
    """The jobs of the parts of a job in step, in order; their hosts are known once all have nodes."""
    parts_ended_at: int = 0
    """When the last part ended (seconds UTC), if the slots were then released (``cancelled``)."""
    recalled_until: int = 0
    """Deadline (seconds UTC) to lock or release a hold that an older request recalls; then it is lost."""
    needs_approval: tuple[str, ...] = ()
    """Held resources whose owners must approve a lock."""
    priority: int | None = None
    """The priority that the broker granted; None if it does not report it."""
    costs: dict[str, int] = {}
    """The charge at each site, in parts of its credit; sites that charge nothing are left out."""
    refunds: dict[str, int] = {}
    """The parts that each site has paid back since it was cancelled."""
    units_out: tuple[UnitsOut, ...] = ()
    """Units of its slots that cannot be used at present, because of failed nodes for instance."""
    changed: ChangeByOthers | None = None
    """The last change by others; None if the user has changed the request since."""
    changes: int = 0
    """The number of times that its slots were changed: moved, extended, shrunk."""
    updated_at: int = 0
    """When its last event happened (seconds UTC)."""
    series: str = ""
    """The id of its series, and the name of its occurrence there: the local time by the rule."""
    occurrence: str = ""
    booked_by: str = ""
    """The user who has booked it in the name of `user`."""
    given_by: str = ""
    """The user who handed it over."""
    sharing: SharingView | None = None
    """Set by `show` and `list` if the request is shared, or offered to another user."""
    problem: Problem | None = None

    def __repr__(self) -> str:
        # Imported here because only people at a terminal ask for it.
        from kalends.core.markup import local_time, visible

        told = f"{short_id(self.id)} {visible(marked_state(self))}: {visible(self.text)[:TEXT_MAX]}"
        if self.start:
            starts = local_time(self.start, UTC)
            told += f", {date_and_time(starts)} UTC for {format_duration(self.end - self.start)}"
        return f"<RequestView {told}>"


def marked_state(view: RequestView) -> str:
    """Return the state, with the last change by others in a few words."""
    return f"{view.state} ({made_text(view.changed)})" if view.changed is not None else view.state


class RequestViews(tuple[RequestView, ...], NotebookForm):
    """Requests, newest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(["<RequestViews", *(f"  {view!r}" for view in self)]) + ">"
