"""Calls that make, change, list and follow requests."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import IdPart, Key, RequestId, ResourceName, TimeS, Units, WaitMs
from kalends.contract.request_views import RequestView
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.jobs import JobRequest
from kalends.core.requests import Request

Patience = Literal["none", "held", "taken"]
"""What a request waits for: nothing; slots that others hold and may release; or also locked slots, until
they are cancelled (a waiting list)."""


class Book(Body, frozen=True, kw_only=True):
    """Book `request`: all of it or nothing. With `hold` the slots are only held, for `hold_s`.

    `key` makes the call repeatable: the same key and body give the same reservation, whoever of the
    broker's replicas is asked; the same key with another body is refused (`KeyReused`). Answers
    after at most `wait_ms`: a request still ``open`` then continues, and can be shown by id or key.

    `patience` is what the request may wait for, and `give_up_at` its deadline (seconds UTC; 0: a minute for
    held slots, the last possible start for locked ones). Without patience the request fails at once if a site
    does not answer; otherwise it waits for that site. A failed request keeps its key. With `hold` and
    patience "taken" the slots are held for `hold_s` from the moment they are free.

    `job` runs in step on all booked machines, or `jobs` on some of them; without `job` the others are only
    booked. The answer then has the job of each part (`parts`).
    """

    key: Key
    request: Request
    hold: bool = False
    hold_s: Annotated[int, Meta(ge=1, le=limits.HOLD_MS_MAX // 1000)] = 900
    patience: Patience = "held"
    give_up_at: TimeS = 0
    job: JobRequest | None = None
    jobs: Annotated[dict[ResourceName, JobRequest], Meta(max_length=limits.STEP_PARTS_MAX)] = {}
    wait_ms: WaitMs = 30_000


class ByKey(Body, frozen=True, kw_only=True):
    """Settle an unknown outcome: the request that was made with `key`, or `NotFound` (never arrived)."""

    key: Key


class ById(Body, frozen=True, kw_only=True):
    id: RequestId


class FindIds(Body, frozen=True, kw_only=True):
    """Find the caller's requests, and changes of them, whose ids begin or end with `part`."""

    part: IdPart


class Ids(Answer, frozen=True, kw_only=True):
    """Whole ids, the newest first."""

    ids: tuple[str, ...]


class Finish(Body, frozen=True, kw_only=True):
    """Lock, release or cancel; a repeated call gives the same answer."""

    id: RequestId
    wait_ms: WaitMs = 30_000


class Change(Body, frozen=True, kw_only=True):
    """Replace a reservation by the same resources at another time; the old one stays until the decision.

    `start` 0 keeps the start (extend, shrink); `duration_s` 0 keeps every stage's length (move);
    `units` are the new amounts of the resources that change.
    """

    id: RequestId
    key: Key
    start: TimeS = 0
    duration_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    units: Annotated[dict[ResourceName, Units], Meta(max_length=limits.TERMS_MAX)] = {}
    wait_ms: WaitMs = 30_000


class ListRequests(Body, frozen=True, kw_only=True):
    """The caller's requests, newest first; `everyone` needs the scope ``audit``."""

    state: Literal["", "open", "held", "reserved", "failed", "cancelled"] = ""
    everyone: bool = False
    count: Annotated[int, Meta(ge=1, le=limits.LISTING_MAX)] = 100
    before: str = ""
    """List only requests older than this id, for the next page."""


class Requests(Answer, frozen=True, kw_only=True):
    requests: tuple[RequestView, ...]


class Event(Answer, frozen=True, kw_only=True):
    """One thing that happened to a request: for `why` and `watch`. `at_ms` is the broker's wall clock."""

    number: int
    at_ms: int
    id: str
    kind: str
    detail: str = ""
    refusals: tuple[Refusal, ...] = ()


class Story(Answer, frozen=True, kw_only=True):
    request: RequestView
    events: tuple[Event, ...]


class Watch(Body, frozen=True, kw_only=True):
    """Watch events of the caller's requests after number `after`; wait up to `wait_ms` for the first."""

    after: Annotated[int, Meta(ge=-1)] = -1
    """Number of the last event seen; -1: only events from now on."""
    id: str = ""
    wait_ms: WaitMs = 30_000


class Events(Answer, frozen=True, kw_only=True):
    """Events; `next` is the `after` of the next call."""

    events: tuple[Event, ...]
    next: int
