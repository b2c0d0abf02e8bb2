"""The calls of users and programs to brokers and sites: bodies, answers, and the table of all calls.

`OPERATIONS` is the single source of the HTTP routes, of the session calls, of the OpenAPI document
and of the client: name, method, path, types of body and answer, and required scope. A field of the body that
appears in the path as ``{field}`` is taken from the path.
"""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from kalends.contract.approval_calls import Approvals, ApprovalView, DecideApproval, ListApprovals
from kalends.contract.bodies import Answer, Body, NotebookForm
from kalends.contract.bulk_calls import SubmitJobs, SubmittedJobs
from kalends.contract.delay_calls import FindDelays, MachineDelays
from kalends.contract.fields import EndWord, Key, RequestId, ResourceName, TimeS, Units, Want
from kalends.contract.history_calls import HistoryPage, ReadHistory
from kalends.contract.job_calls import (
    ChangeJob,
    FindGaps,
    JobNews,
    JobRef,
    Jobs,
    JobView,
    ListJobs,
    MachineGaps,
    MachineLoad,
    MachinePlan,
    NewPlan,
    Replan,
    ServeNodes,
    SetPolicy,
    ShowPlan,
    ShowUsage,
    SubmitJob,
    Submitted,
    UsageView,
    WatchJob,
)
from kalends.contract.job_moves import MovedJobs, WatchJobs
from kalends.contract.notice_calls import (
    AddNoticeAddress,
    ChangeByOthers,
    ListNoticeAddresses,
    NoticeAddresses,
    NoticeAddressRef,
    NoticeAddressView,
    made_words,
)
from kalends.contract.output_calls import JobOutput, ReadOutput
from kalends.contract.pass_calls import AskSitePass, SitePass
from kalends.contract.reclaim_calls import ListReclaims, Reclaim, ReclaimRef, Reclaims, ReclaimView
from kalends.contract.slot_calls import ReadSlots, SlotPage
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import Problem, Refusal
from kalends.core.full_times import date_and_time
from kalends.core.identifiers import short_id
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from kalends.core.place_preferences import PlacePreference
from kalends.core.requests import Attribute, Request
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.scripts import (
    AgentMessage,
    RunCode,
    ScriptHash,
    ScriptName,
    ScriptSource,
)
from kalends.core.steps import StepPart

API_VERSION = 1

TEXT_MAX: Final = 120
"""Characters of a request's text in an interactive session."""

RequestState = Literal["open", "held", "reserved", "failed", "cancelled", "replaced"]
WaitMs = Annotated[int, Meta(ge=0, le=120_000)]
Patience = Literal["none", "held", "taken"]
"""What a request waits for: nothing; slots that others hold and may release; or also locked slots, until
they are cancelled (a waiting list)."""


# Resources and calendars (sites answer for their own; a broker asks its sites).


class ListResources(Body, frozen=True, kw_only=True):
    pass


class SiteStatus(Answer, frozen=True, kw_only=True):
    """A site as the broker sees it, with the broker's experience of its bids for jobs.

    The site answers within `answer_ms` half of the time (0: it was not asked yet), and a job would wait
    there for about `wait_s`. After a missing answer, it is not asked for `rests_s` (0: it is asked). The
    caller's last `learned_jobs` ran for `learned_share` of their limits: those at this site, or at others if
    there were none. `through` are the virtual sites on the way, separated by slashes; "": none. `version` is
    that of its kalends at the last connection ("older": not reported), and `lacks` are features that the
    broker knows and the site does not.
    """

    site: str
    url: str
    state: Literal["up", "down"]
    detail: str = ""
    answer_ms: int = 0
    wait_s: int = 0
    rests_s: int = 0
    through: str = ""
    learned_share: float = 1.0
    learned_jobs: int = 0
    version: str = ""
    lacks: tuple[str, ...] = ()


class Resources(Answer, NotebookForm, frozen=True, kw_only=True):
    resources: tuple[ResourceInfo, ...]
    sites: tuple[SiteStatus, ...] = ()


class ShowCalendar(Body, frozen=True, kw_only=True):
    """Slots of `resource` that touch ``[start, end)``, as the caller may see them."""

    resource: ResourceName
    start: TimeS
    end: TimeS


class CalendarView(Answer, NotebookForm, frozen=True, kw_only=True):
    """`free` lists the units that the caller could book now: ``(start, end, units)``; `slots` the taken ones.

    Complete up to `until`. Not a promise: others may book in the meantime. If a batch system is behind the
    resource, bookings by others there were last seen at `as_of`. `rules` are the owner's rules for the
    caller, in words. `now` is the time of the answer: before it nothing is free, and nothing closed.
    """

    resource: ResourceInfo
    start: int
    end: int
    until: int
    free: tuple[tuple[int, int, int], ...]
    slots: tuple[Slot, ...]
    as_of: int = 0
    rules: tuple[str, ...] = ()
    now: int = 0

    def __repr__(self) -> str:
        # Imported here, and below, because only people at a terminal ask for it.
        from kalends.core.markup import local_time

        start, end = local_time(self.start, UTC), local_time(self.end, UTC)
        when = f"{date_and_time(start)} to {date_and_time(end)} UTC"
        return f"<CalendarView {self.resource.name}: {when}, {len(self.slots)} slots taken>"


# Booking (brokers).


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
    the request by `until`.
    """

    since: int
    until: int
    ahead: int = 0
    awaited: tuple[str, ...] = ()
    earliest: int = 0
    listed: bool = False
    approval: bool = False


class PlacedEnd(Answer, frozen=True, kw_only=True):
    """The end of a job that a broker placed: `at` (seconds UTC), after a run of `ran_s`, as its site reports.

    `status` is the exit status of its program, or a signal as a negative number.
    """

    at: int
    end: EndWord
    status: int = 0
    ran_s: int = 0

    @property
    def succeeded(self) -> bool:
        return self.end == "exit" and self.status == 0


class PlacedJob(Answer, frozen=True, kw_only=True):
    """The place of a job: number `number` on `machine`, at whose site it was submitted.

    `start_by` is the latest start that its site has promised (seconds UTC); 0: its queue promises no start,
    and nine in ten such jobs start by `late_start`. `implementation` is the name of the implementation that
    runs; "": there is only one. `also` are the job's other places until it has started at one. `ended` is how
    it ended, once its site has reported that.
    """

    machine: str
    number: int
    start_by: int = 0
    late_start: int = 0
    implementation: str = ""
    also: tuple[PlacedJob, ...] = ()
    ended: PlacedEnd | None = None


class UnitsOut(Answer, frozen=True, kw_only=True):
    """`units` of a slot on `resource` that has begun cannot be used since `at` (seconds UTC)."""

    resource: str
    units: int
    at: int
    detail: str = ""


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
    units_out: tuple[UnitsOut, ...] = ()
    """Units of its slots that cannot be used at present, because of failed nodes for instance."""
    changed: ChangeByOthers | None = None
    """The last change by others; None if the user has changed the request since."""
    problem: Problem | None = None

    def __repr__(self) -> str:
        from kalends.core.markup import local_time, visible

        told = f"{short_id(self.id)} {visible(marked_state(self))}: {visible(self.text)[:TEXT_MAX]}"
        if self.start:
            starts = local_time(self.start, UTC)
            told += f", {date_and_time(starts)} UTC for {format_duration(self.end - self.start)}"
        return f"<RequestView {told}>"


def marked_state(view: RequestView) -> str:
    """Return the state, with the last change by others in a few words."""
    return f"{view.state} ({made_words(view.changed)})" if view.changed is not None else view.state


class RequestViews(tuple[RequestView, ...], NotebookForm):
    """Requests, newest first."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(["<RequestViews", *(f"  {view!r}" for view in self)]) + ">"


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


class Find(Body, frozen=True, kw_only=True):
    """Find the best `count` starts at which `request` is free now; nothing is booked.

    With `explain` the answer also prices each start, lists the bookings in the way of better ones, and
    shows how candidates would be polled.
    """

    request: Request
    count: Annotated[int, Meta(ge=1, le=100)] = 5
    explain: bool = False


class Price(Answer, frozen=True, kw_only=True):
    """The cost of a start to others, as far as the caller may see it.

    `idle_unit_s`: units x seconds left in gaps too short for another booking like it, more than
    without it; `delays`: queued requests whose next possible start it would take away; `delayed_jobs` of the
    queues of machines, the longest delay of them being `longest_delay_s`: the client fills these in.
    """

    idle_unit_s: int = 0
    delays: int = 0
    delayed_jobs: int = 0
    longest_delay_s: int = 0


class Candidate(Answer, frozen=True, kw_only=True):
    """A possible start; `weight` is the sum of met preferences, and `alternative` counts from 0."""

    start: int
    end: int
    claims: tuple[ClaimView, ...]
    alternative: int = 0
    weight: float = 0.0
    price: Price | None = None


class Obstacle(Answer, frozen=True, kw_only=True):
    """A booking that would have to move, with the others of its list, for a start at `start`."""

    start: int
    resource: str
    slot: Slot


class PollPoint(Answer, frozen=True, kw_only=True):
    """A poll of `polled` candidates: the expected delay, and the chance that they are enough."""

    polled: int
    delay_ms: float
    chance: float


class PollView(Answer, frozen=True, kw_only=True):
    """How one ``N of {...}`` term would be polled: `chosen` of `candidates`, `needed` of them to be found.

    `busy` is the learned probability that a candidate is taken; `curve` the cost over the number polled.
    """

    term: int
    needed: int
    candidates: int
    chosen: int
    busy: float
    curve: tuple[PollPoint, ...] = ()


class Found(Answer, NotebookForm, frozen=True, kw_only=True):
    """Possible starts, best first; if there is none, `refusals` name the resources in the way.

    With `explain`, `obstacles` are the fewest bookings, as far as the caller may see them, that would have
    to move: for any start at all, or for the best one that the owners' rules allow, if that is better than
    all candidates. Without `fewest`, these are enough, but fewer might be. No obstacles means that none were
    found within the work allowed for one call. `as_of` is when sites last saw the bookings in the batch
    systems behind the candidates' resources. `approval` are the candidates' resources whose owners must
    approve the caller's bookings.
    """

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    fewest: bool = True
    polls: tuple[PollView, ...] = ()
    as_of: dict[str, int] = {}
    approval: tuple[str, ...] = ()


class ByKey(Body, frozen=True, kw_only=True):
    """Settle an unknown outcome: the request that was made with `key`, or `NotFound` (never arrived)."""

    key: Key


class ById(Body, frozen=True, kw_only=True):
    id: RequestId


class Finish(Body, frozen=True, kw_only=True):
    """Lock, release or cancel; a repeated call gives the same answer."""

    id: RequestId
    wait_ms: WaitMs = 30_000


class PlaceJob(Body, frozen=True, kw_only=True):
    """Ask sites to bid for `job`, which names no machine, and submit it where it ends first.

    `on` are comparisons that a machine must meet (``site`` and ``name`` are the halves of its name,
    ``through`` the virtual sites on the way to it); bids that end after `end_by` (seconds UTC; 0: no limit)
    do not count. `prefer` are the delays that some machines are worth. The sites `homes` are always asked;
    of a virtual site, one of its sites is. With `implementations` each machine is asked for the one that
    would end first there, whose program, nodes and limit replace those of `job`, which are those of one of
    them. `pick` is the source of a script whose ``pick(bids)`` orders the bids. A `redundant` job gets a
    place at two sites, if two bid, and starts at the first that can; so it starts at most once, even if
    `job` does not ask for that, unless it may run again. With `by_limits`, bids are compared by the limit of
    the job, not by the run times of earlier jobs. `key` and `wait_ms` are as in `Book`.
    """

    key: Key
    job: JobRequest
    on: Annotated[tuple[Attribute, ...], Meta(max_length=limits.ATTRIBUTES_MAX)] = ()
    end_by: TimeS = 0
    prefer: Annotated[
        tuple[PlacePreference, ...], Meta(max_length=limits.PLACE_PREFERENCES_MAX)
    ] = ()
    pick: ScriptSource = ""
    implementations: Annotated[
        tuple[Implementation, ...], Meta(max_length=limits.IMPLEMENTATIONS_MAX)
    ] = ()
    homes: Annotated[
        tuple[Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))], ...],
        Meta(max_length=limits.PLACE_HOMES_MAX),
    ] = ()
    redundant: bool = False
    by_limits: bool = False
    wait_ms: WaitMs = 30_000


class PlaceElsewhere(Body, frozen=True, kw_only=True):
    """Find another site for a job that a broker placed.

    The job keeps its place until it has another. It must be one that starts at most once and has not started,
    or one that may run again: a running one moves only if it starts there within minutes, and is then ended.
    `key` and `wait_ms` are as in `Book`.
    """

    id: RequestId
    key: Key
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
    """Return events of the caller's requests after number `after`; wait up to `wait_ms` for the first."""

    after: Annotated[int, Meta(ge=-1)] = -1
    """Number of the last event seen; -1: only events from now on."""
    id: str = ""
    wait_ms: WaitMs = 30_000


class Events(Answer, frozen=True, kw_only=True):
    """Events; `next` is the `after` of the next call."""

    events: tuple[Event, ...]
    next: int


# Agents (brokers keep a user's scripts; sites keep records of their runs).


class UploadAgent(Body, frozen=True, kw_only=True):
    """Store `source` under `name`, for the caller alone; a new source replaces the old one.

    Raises `InvalidInput` for a script that breaks rules of the language: `refusals` has all of them.
    """

    name: ScriptName
    source: ScriptSource


class AgentRef(Body, frozen=True, kw_only=True):
    """A script of the caller by its name, or by its whole hash."""

    name: Annotated[str, Meta(pattern=ids.whole(ids.SCRIPT_PATTERN))]


class ListAgents(Body, frozen=True, kw_only=True):
    pass


class AgentView(Answer, frozen=True, kw_only=True):
    """A script as its owner sees it; `source` only if one script was requested."""

    name: str
    script: ScriptHash
    size_bytes: int
    uploaded_at: int
    functions: tuple[str, ...] = ()
    """The functions that the script defines: ``choose``, ``recall``."""
    source: str = ""


class Agents(Answer, frozen=True, kw_only=True):
    agents: tuple[AgentView, ...]


class TellAgent(Body, frozen=True, kw_only=True):
    """Leave `value` for the agent of an open request, or replace the agent by `agent` from the next round on.

    `key` makes the call repeatable.
    """

    id: RequestId
    key: Key
    message: AgentMessage = ""
    """Plain data as JSON text; "" leaves none."""
    agent: Annotated[str, Meta(max_length=128)] = ""


class ListRuns(Body, frozen=True, kw_only=True):
    """List records of the caller's runs at this site, newest first; with `id`, of one request."""

    id: RequestId | Literal[""] = ""
    count: Annotated[int, Meta(ge=1, le=1_000)] = 50


class RunRef(Body, frozen=True, kw_only=True):
    run: Annotated[str, Meta(pattern=ids.whole(ids.RUN_PATTERN))]


class RunView(Answer, frozen=True, kw_only=True):
    """One run of a script at a site; `record` is the input of `kalends agent replay`, in MessagePack."""

    run: str
    at_ms: int
    id: str
    user: str
    script: ScriptHash
    function: str
    code: RunCode
    detail: str = ""
    line: int = 0
    steps: int = 0
    cpu_us: int = 0
    wall_us: int = 0
    engine: str = ""
    view_hash: str = ""
    chosen: int = 0
    """Slots that the script chose."""
    record: bytes = b""


class Runs(Answer, frozen=True, kw_only=True):
    runs: tuple[RunView, ...]


# For owners and their operators, and for auditors.


class ListBidders(Body, frozen=True, kw_only=True):
    pass


class BidderView(Answer, frozen=True, kw_only=True):
    """Statistics of a site's bids to this broker, since the start of the broker.

    Counts: `asked` for bids; `bid` in time, or `late`; `refused`, by reason; `silent` up to the deadline.
    `chosen` bids were the best, and `placed` jobs then got a place. `there` of these have not ended, by the
    site's reports or by their expected ends; the first ends at `next_end` at the latest (seconds UTC; 0:
    there is none). `status` is what every user sees.
    """

    status: SiteStatus
    asked: int = 0
    bid: int = 0
    late: int = 0
    silent: int = 0
    refused: dict[str, int] = {}
    chosen: int = 0
    placed: int = 0
    there: int = 0
    next_end: int = 0


class Bidders(Answer, frozen=True, kw_only=True):
    """Statistics of all sites; `herd` is the busiest tenth of the sites' share of all questions."""

    bidders: tuple[BidderView, ...]
    herd: float = 0.0


class Audit(Body, frozen=True, kw_only=True):
    after: str = ""
    """List only request ids after this one, for the next page."""


class AuditClaim(Answer, frozen=True, kw_only=True):
    """A claim as a site has it; `state` distinguishes prepared from held."""

    id: str
    att: int
    resource: str
    start: int
    end: int
    units: int
    state: Literal["held", "prepared", "locked", "cancelled"]


class AuditRecord(Answer, frozen=True, kw_only=True):
    """A decision as a broker's register has it."""

    id: str
    att: int
    state: str
    chosen: dict[str, tuple[int, ...]] = {}


class Audited(Answer, frozen=True, kw_only=True):
    """The result of an audit: `problems` is empty if all invariants that can be seen here hold; `settled` are
    problems since the start of the server that have ended.

    A broker's first page also has the differences between its register and the claims of the sites; sites
    that were not compared are `unreached`.
    """

    claims: tuple[AuditClaim, ...] = ()
    records: tuple[AuditRecord, ...] = ()
    problems: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    more: bool = False


class Reconcile(Body, frozen=True, kw_only=True):
    """Compare a broker's register with every site, repair differences, and list losses.

    A site returns the registers that are not compared yet. With `go_on` a site, or a broker whose register
    was restored, accepts new bookings before all are compared.
    """

    wait_ms: WaitMs = 30_000
    go_on: bool = False


class LostReservation(Answer, frozen=True, kw_only=True):
    """A reservation that its site has lost, and whose slots other requests, `blockers`, have now."""

    id: str
    user: str
    wants: tuple[Want, ...]
    blockers: tuple[str, ...]


class SiteReconciled(Answer, frozen=True, kw_only=True):
    """The result of the comparison with one site.

    `relocked` were lost by the site, `cancelled` were cancelled ones that it still had, `recovered` were
    lost by the register; `lost` could not be repaired.
    """

    site: str
    compared: int = 0
    relocked: int = 0
    cancelled: int = 0
    recovered: int = 0
    lost: tuple[LostReservation, ...] = ()


class Reconciled(Answer, frozen=True, kw_only=True):
    """The progress of comparisons.

    A broker returns the `sites` whose comparison has ended, those still `comparing` with the number of
    reservations that the present pass has compared, and those that were `unreached`. A site returns
    `at_risk`: for each register that has not compared since the site started, the number of its
    reservations. `recovering`: the site's store was restored to an earlier state, and the site accepts
    nothing new yet.
    """

    sites: tuple[SiteReconciled, ...] = ()
    comparing: dict[str, int] = {}
    unreached: tuple[str, ...] = ()
    recovering: bool = False
    at_risk: dict[str, int] = {}


class Drain(Body, frozen=True, kw_only=True):
    """Refuse new claims (`on`), or accept them again; promises are kept."""

    on: bool


Role = Literal["site", "broker", "virtual"]
"""The role, name and status of a server."""


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok", "starting", "draining", "failing"]
    role: Role
    name: str
    version: str
    detail: str = ""


class CallerView(Answer, frozen=True, kw_only=True):
    """The caller's identity at the server called `server`, and the rights of the caller's token there.

    `user` and `groups` end with the `realm` of the issuer, if it has one. `key` is the id of the key that
    vouches for them; "open": the server asks for no token. The token is for the servers that accept one of
    `audiences` (the first of them; older servers do not report any). It is valid until `expires_at` (0: no
    end); `now` is the time of the server's clock (seconds UTC).
    """

    server: str
    role: Role
    user: str
    realm: str = ""
    groups: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    key: str
    audiences: tuple[str, ...] = ()
    expires_at: int = 0
    now: int


Scope = Literal["", "any", "use", "audit", "admin", "broker"]
"""The scope that a call needs: "" is open to all, "any" to every accepted token, "use" to users.

"broker" vouches for users.
"""


Changes = Literal["nothing", "something", "request"]
"""The kind of change by a call, which decides what a lost answer means.

"nothing": the call changes nothing. "something": the change may have been carried out. "request": likewise,
and the call `by_key` finds the outcome by the key.
"""


class Operation(msgspec.Struct, frozen=True):
    """One call: `name` on sessions and in the client, `method` and `path` over HTTP."""

    name: str
    changes: Changes
    method: Literal["GET", "POST"]
    path: str
    body: type[Body]
    answer: type[Answer]
    scope: Scope
    roles: tuple[Role, ...]
    summary: str


class Nothing(Body, frozen=True, kw_only=True):
    pass


_BROKER: tuple[Role, ...] = ("broker",)
_SITE: tuple[Role, ...] = ("site",)
_BOTH: tuple[Role, ...] = ("site", "broker")
_ALL: tuple[Role, ...] = ("site", "broker", "virtual")
_BROKER_OR_VIRTUAL: tuple[Role, ...] = ("broker", "virtual")

OPERATIONS: tuple[Operation, ...] = (
    Operation("health", "nothing", "GET", "/healthz", Nothing, Health, "", _ALL,
              "Report the health of the server"),
    Operation("whoami", "nothing", "GET", "/v1/whoami", Nothing, CallerView, "any", _ALL,
              "Show the caller's identity at the server"),
    Operation("resources", "nothing", "GET", "/v1/resources", ListResources, Resources, "use", _BOTH,
              "List the resources that the caller may see"),
    Operation("calendar", "nothing", "POST", "/v1/calendar", ShowCalendar, CalendarView, "use", _BOTH,
              "Show the slots of a resource, taken and free for the caller"),
    Operation("find", "nothing", "POST", "/v1/find", Find, Found, "use", _BROKER,
              "Find possible starts of a request; book nothing"),
    Operation("book", "request", "POST", "/v1/requests", Book, RequestView, "use", _BROKER,
              "Book or hold every part of a request, or nothing"),
    Operation("job_place", "request", "POST", "/v1/requests/jobs", PlaceJob, RequestView, "use", _BROKER,
              "Submit a job to the site that bids the earliest end"),
    Operation("job_place_elsewhere", "request", "POST", "/v1/requests/{id}/elsewhere", PlaceElsewhere,
              RequestView, "use", _BROKER, "Find another site for a job"),
    Operation("by_key", "nothing", "POST", "/v1/requests/by-key", ByKey, RequestView, "use", _BROKER,
              "Look up a request by its idempotency key, to resolve an unknown outcome"),
    Operation("list", "nothing", "POST", "/v1/requests/list", ListRequests, Requests, "use", _BROKER,
              "List the caller's requests, newest first"),
    Operation("show", "nothing", "GET", "/v1/requests/{id}", ById, RequestView, "use", _BROKER,
              "Show a request"),
    Operation("why", "nothing", "GET", "/v1/requests/{id}/why", ById, Story, "use", _BROKER,
              "Explain what happened to a request, and which rules refused it"),
    Operation("lock", "something", "POST", "/v1/requests/{id}/lock", Finish, RequestView, "use", _BROKER,
              "Lock all slots that a request holds, or none"),
    Operation("release", "something", "POST", "/v1/requests/{id}/release", Finish, RequestView, "use",
              _BROKER, "Release all slots that a request holds"),
    Operation("cancel", "something", "POST", "/v1/requests/{id}/cancel", Finish, RequestView, "use", _BROKER,
              "Cancel a reservation at all its sites"),
    Operation("change", "request", "POST", "/v1/requests/{id}/change", Change, RequestView, "use", _BROKER,
              "Move, extend or shrink a reservation; if refused, it stays as it was"),
    Operation("watch", "nothing", "POST", "/v1/watch", Watch, Events, "use", _BROKER,
              "Follow the events of the caller's requests"),
    Operation("notify_list", "nothing", "GET", "/v1/notices", ListNoticeAddresses, NoticeAddresses, "use",
              _BROKER, "List the caller's addresses for notices"),
    Operation("notify_add", "something", "POST", "/v1/notices", AddNoticeAddress, NoticeAddressView, "use",
              _BROKER, "Add a mail address or a webhook for the caller's notices"),
    Operation("notify_remove", "something", "POST", "/v1/notices/remove", NoticeAddressRef,
              NoticeAddressView, "use", _BROKER, "Remove an address for the caller's notices"),
    Operation("notify_test", "something", "POST", "/v1/notices/test", NoticeAddressRef, NoticeAddressView,
              "use", _BROKER, "Send a test notice to an address of the caller"),
    Operation("site_pass", "nothing", "POST", "/v1/passes", AskSitePass, SitePass, "use", _BROKER,
              "Give the caller a pass for a site, instead of the caller's own token"),
    Operation("agent_upload", "something", "POST", "/v1/agents", UploadAgent, AgentView, "use", _BROKER,
              "Check a script and store it under a name"),
    Operation("agent_list", "nothing", "GET", "/v1/agents", ListAgents, Agents, "use", _BROKER,
              "List the caller's scripts"),
    Operation("agent_show", "nothing", "GET", "/v1/agents/{name}", AgentRef, AgentView, "use", _BROKER,
              "Show a script of the caller, with its source"),
    Operation("agent_delete", "something", "POST", "/v1/agents/{name}/delete", AgentRef, AgentView, "use",
              _BROKER, "Delete a script; open requests still use it"),
    Operation("agent_tell", "something", "POST", "/v1/requests/{id}/agent", TellAgent, RequestView, "use",
              _BROKER, "Send a message to a request's agent, or replace the agent"),
    Operation("agent_runs", "nothing", "POST", "/v1/runs", ListRuns, Runs, "use", _SITE,
              "List the runs of the caller's scripts at this site, newest first"),
    Operation("agent_run", "nothing", "GET", "/v1/runs/{run}", RunRef, RunView, "use", _SITE,
              "Show a run, with the record that replays it"),
    Operation("audit", "nothing", "POST", "/v1/audit", Audit, Audited, "audit", _BOTH,
              "List all claims or decisions, and every violated invariant"),
    Operation("bidders", "nothing", "GET", "/v1/bidders", ListBidders, Bidders, "audit", _BROKER_OR_VIRTUAL,
              "Show statistics of the sites' bids"),
    Operation("drain", "something", "POST", "/v1/drain", Drain, Health, "admin", _BOTH,
              "Refuse new claims, or accept them again"),
    Operation("reconcile", "something", "POST", "/v1/reconcile", Reconcile, Reconciled, "admin", _BOTH,
              "Compare a broker with its sites, and repair differences"),
    Operation("reclaim", "something", "POST", "/v1/reclaims", Reclaim, ReclaimView, "admin", _SITE,
              "Reclaim a period for the owner; its reservations are moved or cancelled"),
    Operation("reclaims", "nothing", "GET", "/v1/reclaims", ListReclaims, Reclaims, "admin", _SITE,
              "List the reclaimed periods, and the reservations still in them"),
    Operation("approvals", "nothing", "GET", "/v1/approvals", ListApprovals, Approvals, "admin", _SITE,
              "List the requests that need the owner's approval"),
    Operation("approval_decide", "something", "POST", "/v1/approvals/{id}", DecideApproval, ApprovalView,
              "admin", _SITE, "Approve a request, or decline it"),
    Operation("job_submit", "something", "POST", "/v1/jobs", SubmitJob, Submitted, "use", _SITE,
              "Submit a job, or an array of jobs, to a machine's queue"),
    Operation("jobs_submit", "something", "POST", "/v1/jobs/many", SubmitJobs, SubmittedJobs, "use", _SITE,
              "Submit many jobs to a machine's queue"),
    Operation("jobs", "nothing", "POST", "/v1/jobs/list", ListJobs, Jobs, "use", _SITE,
              "List jobs, with the predicted starts of waiting ones"),
    Operation("job", "nothing", "POST", "/v1/jobs/show", JobRef, JobView, "use", _SITE, "Show one job"),
    Operation("job_watch", "nothing", "POST", "/v1/jobs/watch", WatchJob, JobNews, "use", _SITE,
              "Wait for a change of a job"),
    Operation("jobs_watch", "nothing", "POST", "/v1/jobs/moved", WatchJobs, MovedJobs, "use", _SITE,
              "Wait for a change of any of the caller's jobs"),
    Operation("job_change", "something", "POST", "/v1/jobs/change", ChangeJob, JobView, "use", _SITE,
              "Hold, release or kill a job"),
    Operation("job_output", "nothing", "POST", "/v1/jobs/output", ReadOutput, JobOutput, "use", _SITE,
              "Read the output of a job"),
    Operation("job_usage", "nothing", "POST", "/v1/jobs/usage", ShowUsage, UsageView, "use", _SITE,
              "Sum up the node-seconds used, by user and project"),
    Operation("slots", "nothing", "POST", "/v1/slots", ReadSlots, SlotPage, "use", _SITE,
              "List reservations of a batch system, with their use by jobs"),
    Operation("job_history", "nothing", "POST", "/v1/jobs/history", ReadHistory, HistoryPage, "use", _SITE,
              "List ended jobs, with all that they used"),
    Operation("machine_plan", "nothing", "POST", "/v1/machines/plan", ShowPlan, MachinePlan, "use", _SITE,
              "Show the schedule of a machine, with its free nodes"),
    Operation("machine_gaps", "nothing", "POST", "/v1/machines/gaps", FindGaps, MachineGaps, "use", _SITE,
              "List the gaps in which a job would start on a machine at once"),
    Operation("machine_delays", "nothing", "POST", "/v1/machines/delays", FindDelays, MachineDelays, "use",
              _SITE, "List the waiting jobs that a reservation would delay"),
    Operation("machine_nodes", "something", "POST", "/v1/machines/nodes", ServeNodes, MachineLoad, "admin",
              _SITE, "Drain, fail or resume nodes of a machine"),
    Operation("machine_policy", "something", "POST", "/v1/machines/policy", SetPolicy, MachineLoad, "admin",
              _SITE, "Switch the policy of a machine's queue"),
    Operation("machine_replan", "something", "POST", "/v1/machines/replan", Replan, NewPlan, "admin", _SITE,
              "Recompute the plan of a machine's queue"),
    Operation("reclaim_end", "something", "POST", "/v1/reclaims/{key}/end", ReclaimRef, ReclaimView, "admin",
              _SITE, "Withdraw a reclaim; the period can be booked again"),
)  # fmt: skip

OPERATION: dict[str, Operation] = {operation.name: operation for operation in OPERATIONS}


class _CallHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=0, le=(1 << 53))]
    name: Annotated[str, Meta(max_length=32)]


class Call(_CallHead, frozen=True, forbid_unknown_fields=True):
    """One call on a client's session (WebSocket ``/v1/calls``): `number` pairs it with its reply."""

    body: dict[str, object] = {}


class UnreadCall(_CallHead, frozen=True, forbid_unknown_fields=True):
    """A `Call` as a server reads it from a frame, with `body` not decoded yet."""

    body: msgspec.Raw = msgspec.Raw(b"\x80")


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reply to a call: exactly one of `answer` and `problem`."""

    number: int
    answer: object = None
    problem: Problem | None = None


CallFrame = Annotated[list[UnreadCall], Meta(max_length=limits.FRAME_MESSAGES_MAX)]
"""A client's session frame: MessagePack of several calls in flight."""
