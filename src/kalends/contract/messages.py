"""The protocol's messages between brokers and sites, as validated types.

A session carries `Frame`s; a frame carries many messages, all from one sender. Every message is
idempotent on ``(rid, att, kind)``: a receiver recomputes its answer from its state, so losing,
repeating and reordering are harmless. ``att`` is the attempt: ballot, fencing token and tag of every
vote at once. Unknown fields and wrong types are errors that name the path.

======== ============= ==========================================================================
message  direction     meaning
======== ============= ==========================================================================
Hello    site->broker  first on a session: who I am, my epoch, my resources
Welcome  broker->site  first on a session: which register I work for, what it remembers of you
Known    site->broker  the answer to Welcome: this life of mine, and whether I have forgotten something
Compare  broker->site  what do you keep for my register? A page of it
Compared site->broker  the answer to Compare
Relock   broker->site  this was committed with you, and you have forgotten it: lock it again
Relocked site->broker  it is locked; or what stands in the way
Recharge broker->site  this was committed with you, and is over: its charge and its refund
Settled  broker->site  all has been compared, and made good or named
Query    broker->site  what is free, as this principal may see it; touches nothing
View     site->broker  the answer to Query
Visit    broker->site  hold these slots, or promise them at once (``mode="vote"``), or wait in line
Visited  site->broker  what is held or promised, the place in line, or why not
Solicit  broker->site  what would you do with this job? Hold a place in a queue for it
Bid      site->broker  the places that are held for it, with their starts; or why there is none
Dispatch broker->site  let an agent choose here (and at sites near), and hold what it chooses
Report   site->broker  what is held for the agent's choice, and what else there would have been
Prepare  broker->site  promise what is held (phase one of two-phase commit)
Voted    site->broker  yes: durably promised; no; locked; stale
Decide   broker->site  the outcome of an attempt (phase two)
Done     site->broker  Decide or Cancel is durably applied
Forget   broker->site  all chosen sites have said Done: the commit record may go
Cancel   broker->site  a locked reservation is cancelled
Release  broker->site  holds are given up
Renew    broker->site  keep these holds alive; carries what pushes may have lost
Renewed  site->broker  which holds live, which are gone; recalls, repeated
OwnerAsk broker->site  all is held: put what needs its owner's approval before the owner
OwnerSays site->broker  it waits until then; it is approved, declined, or unanswered; or it is lost
Stale    site->broker  your attempt is over: re-read your register
Recall   site->broker  an older request wants what you hold: prepare it, or give it back
Give     broker->site  the answer to Recall: given back, still in line
Grant    site->broker  what you waited for is held for you
Locked   site->broker  what you waited for is locked by another: no waiting helps
Await    broker->site  tell me when something frees in these windows (a waiting list)
Awaited  site->broker  the place in that list; ``offered``: something has freed, you are asked first
Reclaim  site->broker  the owner takes a locked slot back: move the reservation, or cancel it
Inquire  site->broker  a promise has waited long: what was decided?
Outcome  broker->site  the answer to Inquire, from the register
StartAsk site->broker  the job's time has come: may it start here, and nowhere else? Or with all others?
StartSays broker->site  the answer to StartAsk; or the job has started elsewhere
ReadyAsk  broker->site  all parts of a job in step have their nodes: are yours still there?
Refer    to manager    which members of a virtual site are best asked for a place for this job?
Referred from manager  these: an opinion
Split    to manager    which are the best splits of a job over members of a virtual site?
Splits   from manager  so: an opinion; or which link carries too little
EndOfJob site->broker  a job that was placed here has ended: how, when, and how long it ran
EndNoted broker->site  the answer to EndOfJob: it is written down, or of no use any more
PartNews site->broker  which job a part of one in step is here; that it has failed, or ended
SlotLoss site->broker  units of a slot that has begun cannot be used; or they can again
LossNoted broker->site the answer to SlotLoss: it is written down, or of no use any more
PeerAsk  site->site    no broker answers: what do you know of this attempt?
PeerSays site->site    locked, prepared, or never (a durable refusal, written before it is said)
======== ============= ==========================================================================
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kalends.contract.costs import NOT_TOLD, Refund
from kalends.contract.costs import Cost as Cost
from kalends.contract.costs import Pays as Pays
from kalends.contract.fields import EndWord as EndWord
from kalends.contract.fields import RequestId as RequestId
from kalends.contract.fields import ResourceName as ResourceName
from kalends.contract.fields import SiteName as SiteName
from kalends.contract.fields import TimeS as TimeS
from kalends.contract.fields import Units as Units
from kalends.contract.fields import Want as Want
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.features import BID_HINTS, CANCELS, PRICES, SHARING, SPLITS, Feature, since
from kalends.core.implementations import Implementation, JobWay
from kalends.core.jobs import JobNumber, JobRequest
from kalends.core.money import Rate
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo, Slot
from kalends.core.scripts import (
    AgentMessages,
    Arguments,
    Asks,
    HeldChoice,
    Offered,
    RunCode,
    ScriptHash,
    ScriptSource,
    Starts,
    Stop,
    TermNeeds,
)
from kalends.core.steps import StepPart
from kalends.core.transport import Traffic

WIRE_VERSION = 2

Attempt = Annotated[int, Meta(ge=1, le=1_000_000)]
HOLD_ID_MAX = 1 << 62
HoldId = Annotated[int, Meta(ge=1, le=HOLD_ID_MAX)]
"""A claim's number at its site: store epoch << 40 | sequence; strictly increasing there."""
Count = Annotated[int, Meta(ge=0, le=(1 << 62))]
"""A whole number that every store and codec on the way can carry: clocks, epochs, positions."""
HoldIds = Annotated[tuple[HoldId, ...], Meta(max_length=limits.CLAIMS_MAX)]
LifeId = Annotated[str, Meta(pattern=ids.whole(ids.REGISTER_PATTERN))]
RegisterId = Annotated[str, Meta(pattern=ids.whole(ids.REGISTER_PATTERN))]
Terms = Annotated[str, Meta(max_length=16)]
Secret = Annotated[str, Meta(min_length=16, max_length=64)]
Proof = Annotated[str, Meta(max_length=64)]
"""A secret that proves the right to say something (`kalends.contract.proofs`), or "" for none."""
Warrant = Annotated[str, Meta(max_length=256)]
"""The register's own proof of what it tells a site: kept there, and shown to it should it ever forget."""

Proofs = Annotated[dict[SiteName, Proof], Meta(max_length=limits.CLAIMS_MAX)]
"""For each other site of a committed request, the proof of the commit there: for a peer that asks."""
Url = Annotated[str, Meta(max_length=512)]
Way = Annotated[str, Meta(pattern=ids.whole(ids.WAY_PATTERN))]
"""How a member is reached from a virtual site: its name, after those of the virtual sites in between."""


LinkRate = Annotated[float, Meta(ge=0, le=1e30)]
"""Megabytes (10^6 bytes) a second between two members of a virtual site."""

Refusals = Annotated[tuple[Refusal, ...], Meta(max_length=limits.REFUSALS_MAX)]

StepParts = Annotated[tuple[StepPart, ...], Meta(max_length=limits.STEP_PARTS_MAX)]

Chosen = dict[SiteName, HoldIds]
"""Site to the hold ids that the decision chose there."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A polled site, and where its peers reach it when no broker answers.

    `secret` proves there that the site to which this is said takes part, and is for nobody else.
    """

    site: SiteName
    url: Url
    secret: Proof = ""


class HeldSlot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A claim that the site made for `want` number `index` of the visit."""

    index: Count
    hold_id: HoldId


class Message(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True,
    tag_field="kind", tag=str.lower,
):  # fmt: skip
    """Base of all messages; the tag on the wire is the class name in lower case."""


class Hello(Message, frozen=True, kw_only=True):
    """`near` are the sites that this one passes an agent's visit on to.

    `vote_ms` is for how long a vote of this site may be under way, because a batch system has to grant
    first what it promises; 0 where none stands behind it.
    """

    site: SiteName
    epoch: Count
    resources: Annotated[tuple[ResourceInfo, ...], Meta(max_length=limits.RESOURCES_MAX)]
    near: Annotated[tuple[SiteName, ...], Meta(max_length=64)] = ()
    vote_ms: Annotated[int, Meta(ge=0, le=limits.VOTE_MS_MAX)] = 0


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress of a store: a life of it, and its position then. Sites and registers send it to others.

    `proof` is of whose store it is (`kalends.contract.proofs`): others can show it, and make none up.
    """

    life: LifeId
    position: Count
    proof: Proof


class Welcome(Message, frozen=True, kw_only=True):
    """The answer to `Hello`, before anything else on the session.

    `register` is the identity of the broker's register: all its replicas have the same, and no other
    broker has. Reservations belong to the register that made them. `secret` is the site's key: what
    proves at this site whatever is said for the register (`kalends.contract.proofs`). `remembered` is
    what the register, and this replica of the broker, last heard of the site.
    """

    register: RegisterId
    secret: Proof = ""
    remembered: Annotated[tuple[Mark, ...], Meta(max_length=4)] = ()


class Known(Message, frozen=True, kw_only=True):
    """`behind`: the site's past is not the one that was remembered, or another register has found that:
    compare before anything new is asked for. `forgotten`: what the register, or this replica, was told
    before may be gone. `marks` are what the site remembers of the register.
    """

    behind: bool = False
    forgotten: bool = False
    marks: Annotated[tuple[Mark, ...], Meta(max_length=limits.MARKS_MAX)] = ()


class Compare(Message, frozen=True, kw_only=True):
    """`after` is the last request of the page before; "" begins again."""

    after: RequestId | Literal[""] = ""


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A site's record of one request: a promise, a reservation, or its end.

    `cost` is what the site has charged for it, and `refund` what it has paid back.
    """

    rid: RequestId
    att: Attempt
    state: Literal["promised", "locked", "cancelled", "replaced"]
    principal: Principal
    secret: Secret
    stamp: Count
    wants: Annotated[tuple[Want, ...], Meta(max_length=limits.CLAIMS_MAX)]
    chosen: Annotated[Chosen, Meta(max_length=limits.CLAIMS_MAX)] = {}
    replaces: RequestId | Literal[""] = ""
    warrant: Warrant = ""
    cost: Annotated[Cost | None, since(PRICES, hint=True)] = None
    refund: Annotated[Refund, since(PRICES, hint=True)] = NOT_TOLD


class Compared(Message, frozen=True, kw_only=True):
    """All that is kept of requests after `after`, up to `until` ("": to the last).

    What ended before `horizon` may have been dropped.
    """

    after: RequestId | Literal[""] = ""
    until: RequestId | Literal[""] = ""
    horizon: TimeS = 0
    kept: Annotated[tuple[Kept, ...], Meta(max_length=limits.COMPARED_MAX)] = ()


class Relock(Message, frozen=True, kw_only=True):
    """`wants` are what `chosen` chose at this site. The rest is as in `Visit`."""

    rid: RequestId
    att: Attempt
    stamp: Count
    principal: Principal
    secret: Secret
    wants: Annotated[tuple[Want, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    chosen: Annotated[Chosen, Meta(max_length=limits.CLAIMS_MAX)]
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    need: Annotated[int, Meta(ge=1, le=limits.CLAIMS_MAX)]
    coords: Annotated[tuple[Url, ...], Meta(max_length=16)] = ()
    proofs: Proofs = {}
    warrant: Warrant = ""
    replaces: RequestId | Literal[""] = ""
    cost: Annotated[Cost | None, since(PRICES, hint=True)] = None
    """What the site voted, and is charged again."""


class Relocked(Message, frozen=True, kw_only=True):
    """`blockers` are requests that have what is needed, or say why there is no room; empty: it is locked."""

    rid: RequestId
    blockers: Annotated[tuple[Annotated[str, Meta(max_length=256)], ...], Meta(max_length=256)] = ()


class Recharge(Message, frozen=True, kw_only=True):
    """This was committed with you, and is over: have the charge, and `refund`, in your ledger.

    It follows a restore of the site's store, and costs no more than the site has proved that it voted. If the
    refund is not known, it follows from `at`, when the register has cancelled it, and from `reclaimed`, as in
    `Cancel`.
    """

    SINCE: ClassVar[Feature] = PRICES

    rid: RequestId
    att: Attempt
    secret: Proof
    principal: Principal
    cost: Cost
    refund: Refund = NOT_TOLD
    at: TimeS = 0
    reclaimed: bool = False


class Settled(Message, frozen=True, kw_only=True):
    """The register of this broker has nothing left to compare with the site."""


class RoomNeed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`units` for `length_s` somewhere in ``[start, end)``, on `resource` or ("") on any asked about."""

    resource: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.RESOURCE_PATTERN)))]
    start: TimeS
    end: TimeS
    units: Units
    length_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]


class Barred(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A need (its place in the query) that the owner's rules refuse at every time, whatever is booked."""

    need: Count
    refusal: Refusal


class Query(Message, frozen=True, kw_only=True):
    """`units` only bound the search to places that matter; 1 asks for everything.

    `counting` says which claims of others count as taken: all of them; those that are locked, for
    what is held may come free; or none, which shows the owners' rules alone. Room that is kept for
    requests older than `stamp` (0: for all that wait) counts as taken with "all".
    """

    query_id: Count
    stamp: Count = 0
    counting: Literal["all", "locked", "none"] = "all"
    principal: Principal
    wants: Annotated[tuple[Want, ...], Meta(max_length=limits.CLAIMS_MAX)]
    detail: bool = False
    """Also list the slots themselves, with states, for `kalends calendar`."""
    length_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    """The shortest length wanted; where the owner lets nobody book that long, nothing is shown as free."""
    replaces: RequestId | Literal[""] = ""
    """Count this request's locked claims as free: the view of a move, extend or shrink."""
    needs: Annotated[tuple[RoomNeed, ...], Meta(max_length=limits.NEEDS_MAX)] = ()
    """What is to be booked: what cannot be is not shown as free, and the rule that refuses it is named."""


class FreeSteps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Free capacity of one resource as this principal may use it: ``(start, end, units)``, in order.

    Gaps between steps are not free. Complete up to `until`.
    """

    resource: ResourceName
    until: TimeS
    steps: Annotated[
        tuple[tuple[TimeS, TimeS, Units], ...], Meta(max_length=limits.VIEW_STEPS_MAX)
    ] = ()
    slots: Annotated[tuple[Slot, ...], Meta(max_length=limits.LISTING_MAX)] = ()
    waiting: Annotated[
        tuple[tuple[TimeS, TimeS, Units], ...], Meta(max_length=limits.LISTING_MAX)
    ] = ()
    """With ``detail``: what requests on waiting lists hope for, of those that want it at one time only."""
    held: bool = False
    """Others hold some of it, or wait for it: looking with ``counting="locked"`` may show more."""
    refusal: Refusal | None = None
    as_of: TimeS = 0
    """When the site last saw what the batch system behind it has; 0 where there is none."""
    barred: Annotated[tuple[Barred, ...], Meta(max_length=limits.NEEDS_MAX)] = ()
    approval: bool = False
    """The owner has to approve what the asker books there."""
    rules: Annotated[
        tuple[Annotated[str, Meta(max_length=limits.TEXT_MAX)], ...],
        Meta(max_length=2 * limits.RULES_MAX),
    ] = ()
    """With ``detail``: the owner's rules that hold for the asker, in words."""
    terms: Annotated[Terms, since(PRICES, hint=True)] = ""
    """The list in the view by which it is priced; "" if it is free of charge."""


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a unit for the asker: ``(start, end, rate)`` without gaps (see `core/money`).

    `terms` name the rules behind it: resources with the same prices share one list.
    """

    terms: Terms
    steps: Annotated[
        tuple[tuple[TimeS, TimeS, Rate], ...], Meta(max_length=limits.VIEW_STEPS_MAX)
    ] = ()


class View(Message, frozen=True, kw_only=True):
    query_id: Count
    epoch: Count
    views: Annotated[tuple[FreeSteps, ...], Meta(max_length=limits.CLAIMS_MAX)]
    prices: Annotated[
        tuple[PriceList, ...], Meta(max_length=limits.CLAIMS_MAX), since(PRICES, hint=True)
    ] = ()


class Visit(Message, frozen=True, kw_only=True):
    """Hold or promise every slot of `wants`, or none of them.

    `need` of the `parts` must say yes for a commit; `coords` are where an Inquire may be posted;
    `secret` proves the request to this site, in every message about it, and this site to the broker.
    `jobs` run in step with those of other sites: on what is locked of each machine, in that time.
    """

    rid: RequestId
    att: Attempt
    stamp: Count
    mode: Literal["hold", "vote"]
    principal: Principal
    wants: Annotated[tuple[Want, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    need: Annotated[int, Meta(ge=1, le=limits.CLAIMS_MAX)]
    coords: Annotated[tuple[Url, ...], Meta(max_length=16)] = ()
    secret: Secret
    hold_ms: Annotated[int, Meta(ge=1, le=limits.HOLD_MS_MAX)]
    replaces: RequestId | Literal[""] = ""
    queue: bool = False
    """With ``mode="hold"``: where others hold it, wait in line; repeating the visit keeps the place."""
    considered: bool = False
    """A person considers the hold: when it is recalled they have longer to answer."""
    jobs: Annotated[dict[ResourceName, JobRequest], Meta(max_length=limits.STEP_PARTS_MAX)] = {}
    pays: Annotated[Pays | None, since(PRICES, hint=True)] = None
    heir_of: Annotated[str, Meta(max_length=128), since(SHARING)] = ""
    """The user whose reservation the principal takes over: as a booking of theirs, in its place."""


class Visited(Message, frozen=True, kw_only=True):
    """`vote` is "none" for a hold; refusals are given when nothing is held.

    `ahead` is the number of requests before this one in line, or -1: it does not wait. The refusals
    then say what it waits for. `approval`: what is held is not promised before its owner has approved it
    (`OwnerAsk`); a visit that votes is then answered as one that holds.
    """

    rid: RequestId
    att: Attempt
    epoch: Count
    vote: Literal["yes", "no", "none"]
    held: Annotated[tuple[HeldSlot, ...], Meta(max_length=limits.CLAIMS_MAX)] = ()
    refusals: Refusals = ()
    ahead: Annotated[int, Meta(ge=-1, le=(1 << 31))] = -1
    approval: bool = False
    cost: Annotated[Cost | None, since(PRICES, hint=True)] = None
    """What is charged once it is committed; without one, nothing is."""


class Solicit(Message, frozen=True, kw_only=True):
    """Hold a place for `job`, which names no machine, in the queue of each of `machines`.

    A place is held in its order: who is behind moves up when it is given up. It ends as a hold does, and
    is promised and locked by the same messages; the rest is as in `Visit`. A repeat at a higher attempt keeps
    the place. It is `get_best` of Weissman and Grimshaw 1996, section 4.

    `jobs` has the job as it would run on some of the machines, where it is another one than `job` there: in
    another implementation, for which alone a place is held there.

    If there are several `ways` to run it on a machine, the first is that one, and the site may choose
    another: by `rank`, a script of the job, or by its owner's aim. All are ways to run `implementations`.
    """

    rid: RequestId
    att: Attempt
    stamp: Count
    principal: Principal
    job: JobRequest
    machines: Annotated[
        tuple[ResourceName, ...], Meta(min_length=1, max_length=limits.SOLICITED_MACHINES_MAX)
    ]
    jobs: Annotated[
        dict[ResourceName, JobRequest], Meta(max_length=limits.SOLICITED_MACHINES_MAX)
    ] = {}
    implementations: Annotated[
        tuple[Implementation, ...],
        Meta(max_length=limits.IMPLEMENTATIONS_MAX),
        since(BID_HINTS, hint=True),
    ] = ()
    ways: Annotated[
        dict[ResourceName, Annotated[tuple[JobWay, ...], Meta(max_length=limits.WAYS_MAX)]],
        Meta(max_length=limits.SOLICITED_MACHINES_MAX),
        since(BID_HINTS, hint=True),
    ] = {}
    rank: Annotated[ScriptSource, since(BID_HINTS, hint=True)] = ""
    coords: Annotated[tuple[Url, ...], Meta(max_length=16)] = ()
    secret: Secret
    hold_ms: Annotated[int, Meta(ge=1_000, le=limits.PLACE_HOLD_MS_MAX)]


class PlaceOffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A place in the queue of `machine`, held as `hold_id` for the job that has the number `job` there.

    It is foreseen during ``[start, end)`` on `nodes` nodes. `start_by` is `start` where the queue's policy
    promises that it has nodes by then; 0: it does not, and `late_start` (the start that nine in ten such jobs
    make) is what is known. Neither is earlier than the place may be taken at the latest: where its nodes are
    free it begins at once when it is. Other bidders never hear of a place that is `undisclosed`.

    The nodes are the job's alone, or `shared` with others; `load` percent of the machine's are taken now. By
    the owner's tariff it costs `price` credits at most.
    """

    machine: ResourceName
    hold_id: HoldId
    job: JobNumber
    nodes: Units
    start: TimeS
    end: TimeS
    start_by: TimeS = 0
    late_start: TimeS = 0
    undisclosed: Annotated[bool, since(BID_HINTS, hint=True)] = False
    shared: Annotated[bool, since(BID_HINTS, hint=True)] = False
    load: Annotated[int, Meta(ge=0, le=100), since(BID_HINTS, hint=True)] = 0
    price: Annotated[float, Meta(ge=0, le=1e15), since(BID_HINTS, hint=True)] = 0.0
    way: Annotated[int, Meta(ge=0, lt=limits.WAYS_MAX), since(BID_HINTS, hint=True)] = 0
    """Which of the `ways` of the question it is for, if there were any."""
    chosen_by: Annotated[Literal["", "aim", "rank"], since(BID_HINTS, hint=True)] = ""
    rank_fault: Annotated[str, Meta(max_length=200), since(BID_HINTS, hint=True)] = ""
    """Why the job's script was ignored."""


class Bid(Message, frozen=True, kw_only=True):
    """The answer to `Solicit`; `refusals` say of machines why they offer no place, or of the site.

    A site that takes nothing now may say until when (`closed_until`).
    """

    rid: RequestId
    att: Attempt
    epoch: Count
    offers: Annotated[tuple[PlaceOffer, ...], Meta(max_length=limits.SOLICITED_MACHINES_MAX)] = ()
    refusals: Refusals = ()
    closed_until: Annotated[TimeS, since(BID_HINTS, hint=True)] = 0

    @property
    def first_start(self) -> int:
        """The earliest start that it tells; there must be an offer."""
        return min(each.start_by or each.late_start for each in self.offers)


class Dispatch(Message, frozen=True, kw_only=True):
    """Run the script `script` on the offers of `asks`, and hold what it chooses.

    `source` is left out where the site has seen it. `round` counts the visits of this request from 1;
    `inbox` is what its client has left for the agent. Visits named in `near` are passed on. The rest
    is as in `Visit`.
    """

    rid: RequestId
    att: Attempt
    stamp: Count
    round: Annotated[int, Meta(ge=1, le=1_000)] = 1
    principal: Principal
    script: ScriptHash
    source: ScriptSource = ""
    text: Annotated[str, Meta(max_length=limits.REQUEST_TEXT_MAX)] = ""
    arguments: Arguments = {}
    inbox: AgentMessages = ()
    starts: Starts
    asks: Asks
    near: Annotated[tuple[Stop, ...], Meta(max_length=64)] = ()
    meet: TermNeeds = ()
    """What only this site and those in `near` can serve. They may answer with their common starts alone."""
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    need: Annotated[int, Meta(ge=1, le=limits.CLAIMS_MAX)]
    coords: Annotated[tuple[Url, ...], Meta(max_length=16)] = ()
    secret: Secret
    hold_ms: Annotated[int, Meta(ge=1, le=limits.HOLD_MS_MAX)]
    register: RegisterId | Literal[""] = ""
    """Where the visit is passed on: the register of the broker that it comes from."""
    way: SiteName | Literal[""] = ""
    """Where the visit is passed on: by which site. `secret` then proves that it was sent this way."""
    pays: Annotated[Pays | None, since(PRICES, hint=True)] = None
    """Where the visit is passed on, there is none: each user pays from the own account."""


class SiteReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The result of an agent's visit at one site.

    `held` is in order of preference. `code` is "ok" when the script chose; any other says why the
    site's default chose instead (`detail`, and the `line` of the script where that is known).
    `wished` are the common starts that were preferred, best first, held or not; `offered` what there
    was to choose from. `refusals` say why nothing was on offer, or nothing could be held.
    """

    site: SiteName
    epoch: Count = 0
    code: RunCode = "ok"
    detail: Annotated[str, Meta(max_length=1_000)] = ""
    line: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    held: Annotated[tuple[HeldChoice, ...], Meta(max_length=limits.CLAIMS_MAX)] = ()
    wished: Annotated[tuple[TimeS, ...], Meta(max_length=limits.OFFERS_MAX)] = ()
    offered: Annotated[tuple[Offered, ...], Meta(max_length=limits.CLAIMS_MAX)] = ()
    refusals: Refusals = ()
    sent: AgentMessages = ()
    run: Annotated[str, Meta(max_length=64)] = ""
    """The number of the run's record at the site, for `kalends agent replay`."""
    approval: bool = False
    """As in `Visited`, of some of what is held."""
    seals: Annotated[tuple[Proof, ...], Meta(max_length=limits.CHOICES_MAX + 2)] = ()
    """Proofs of a report on a visit that another site passed on; see `common_times.seals_of`."""


class CommonPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A site of `CommonTimes`. It holds `held` slots, numbered from `first` on, the best first.

    The rest is as in `SiteReport`.
    """

    site: SiteName
    epoch: Count = 0
    first: Count = 0
    held: Annotated[int, Meta(ge=0, le=limits.CHOICES_MAX)] = 0
    sent: AgentMessages = ()
    run: Annotated[str, Meta(max_length=64)] = ""
    approval: bool = False


Pick = tuple[
    Annotated[int, Meta(ge=0, lt=limits.CLAIMS_MAX)],
    Annotated[int, Meta(ge=0, lt=limits.CHOICES_MAX)],
]
"""A held slot in few bytes: its place among what the site was asked for, and its place in what it holds."""

Picks = Annotated[tuple[Pick, ...], Meta(max_length=limits.CHOICES_MAX)]


class CommonTimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The common starts at which sites near one another hold what only they can serve.

    Each of `starts` is a common start with the picks of each of `sites`. `seal` joins what all but the first
    site have proved of these (`kalends.contract.common_times`).
    """

    sites: Annotated[tuple[CommonPart, ...], Meta(min_length=2, max_length=65)]
    starts: Annotated[
        tuple[tuple[TimeS, Annotated[tuple[Picks, ...], Meta(max_length=65)]], ...],
        Meta(min_length=1, max_length=limits.CLAIMS_MAX),
    ]
    seal: Proof


class Report(Message, frozen=True, kw_only=True):
    """The answer to `Dispatch`: first of the site itself, then of each site it was passed on to.

    Or `common` is in their place, where that was asked for.
    """

    rid: RequestId
    att: Attempt
    sites: Annotated[tuple[SiteReport, ...], Meta(max_length=65)] = ()
    common: CommonTimes | None = None


class Prepare(Message, frozen=True, kw_only=True):
    """`pays` holds whatever an agent's visit said, which a near site may have passed on without it."""

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    hold_ids: Annotated[tuple[HoldId, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    need: Annotated[int, Meta(ge=1, le=limits.CLAIMS_MAX)]
    pays: Annotated[Pays | None, since(PRICES, hint=True)] = None


class Voted(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    epoch: Count
    vote: Literal["yes", "no", "locked", "stale"]
    refusals: Refusals = ()
    cost: Annotated[Cost | None, since(PRICES, hint=True)] = None
    """As in `Visited`."""


class Decide(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    secret: Proof = ""
    outcome: Literal["commit", "abort"]
    proofs: Proofs = {}
    warrant: Warrant = ""
    chosen: Annotated[Chosen, Meta(max_length=limits.CLAIMS_MAX)] = {}


class Done(Message, frozen=True, kw_only=True):
    """`of` says which: a reservation's Decide and its Cancel are both answered Done."""

    rid: RequestId
    att: Attempt
    of: Literal["commit", "abort", "cancel"]
    refund: Annotated[Refund, since(PRICES, hint=True)] = NOT_TOLD
    """What a cancel has paid back."""


class Forget(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    secret: Proof = ""


class Cancel(Message, frozen=True, kw_only=True):
    """`at` is when the register decided this: a fee is by that time, and not by when the site hears of it.

    `reclaimed`: an owner has taken slots of it back. Its user pays no fee, here or elsewhere.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    warrant: Warrant = ""
    at: Annotated[TimeS, since(PRICES, hint=True)] = 0
    reclaimed: Annotated[bool, since(PRICES, hint=True)] = False


class Won(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The place that has won: at `site` the job is expected to run from `start` for `runs_s`.

    At the site that is told it would have ended `behind_s` later. It is what `no_go` tells in Weissman and
    Grimshaw 1996, section 4: a hint, which binds nobody.
    """

    site: SiteName
    start: TimeS
    runs_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)]
    behind_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0


class Release(Message, frozen=True, kw_only=True):
    """Empty `hold_ids`: all holds of the request, and its places in line and in waiting lists.

    A site whose bid has lost may hear what has `won`, if the winner's owner discloses it.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    hold_ids: HoldIds = ()
    won: Annotated[Won | None, since(BID_HINTS, hint=True)] = None


class Renew(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    secret: Proof = ""
    hold_ids: HoldIds
    hold_ms: Annotated[int, Meta(ge=1, le=limits.HOLD_MS_MAX)]
    considered: bool = False
    """As in `Visit`."""


class Renewed(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    epoch: Count
    kept: HoldIds = ()
    lost: HoldIds = ()
    recall_ms: Annotated[int, Meta(ge=0, le=limits.RECALL_MS_MAX)] = 0
    """An older request wants what is held here: what is left of the time to answer; 0: nobody does."""


class OwnerAsk(Message, frozen=True, kw_only=True):
    """All of the request is held: put what needs the owner's approval before the owner, if that is not done.

    Repeated as long as the request waits. `reservation` is what its user calls it, `note` what its user has
    written. What is held is kept alive by `Renew`, as ever, and may be recalled.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    hold_ids: Annotated[tuple[HoldId, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    reservation: RequestId | Literal[""] = ""
    note: Annotated[str, Meta(max_length=limits.OWNER_WORD_MAX)] = ""


class OwnerSays(Message, frozen=True, kw_only=True):
    """The owner's decision about `resources` of a request: the answer to `OwnerAsk`, and sent at changes.

    "pending": the owner may think until `until`. "approved": it may be promised. "declined", with the
    owner's `word`, or "lapsed", without one: it never will be. "lost": what is asked about is not held.
    """

    rid: RequestId
    att: Attempt
    state: Literal["pending", "approved", "declined", "lapsed", "lost"]
    resources: Annotated[tuple[ResourceName, ...], Meta(max_length=limits.CLAIMS_MAX)] = ()
    until: TimeS = 0
    word: Annotated[str, Meta(max_length=limits.OWNER_WORD_MAX)] = ""


class Stale(Message, frozen=True, kw_only=True):
    """`att` is the attempt of the message that came too late; `seen` is the highest known here."""

    rid: RequestId
    att: Attempt
    seen: Count


class Recall(Message, frozen=True, kw_only=True):
    """Prepare, or give back, all that is held here, within `left_ms`; then the site takes it back."""

    rid: RequestId
    att: Attempt
    left_ms: Annotated[int, Meta(ge=0, le=limits.RECALL_MS_MAX)]


class Give(Message, frozen=True, kw_only=True):
    """The held slots go to the older request; this one stays in line, by its own stamp."""

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    hold_ids: HoldIds


class Grant(Message, frozen=True, kw_only=True):
    """The answer, like `Visited`, to a visit that has waited; `held` numbers its wants."""

    rid: RequestId
    att: Attempt
    epoch: Count
    held: Annotated[tuple[HeldSlot, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    approval: bool = False


class Locked(Message, frozen=True, kw_only=True):
    """The request is not in line any more; `refusals` say what is taken."""

    rid: RequestId
    att: Attempt
    refusals: Refusals = ()


class Freed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something on `resource` has come free during ``[start, end)``: how much, a look tells."""

    resource: ResourceName
    start: TimeS
    end: TimeS


class Await(Message, frozen=True, kw_only=True):
    """Be told when room frees in the windows `wants`: of at least their units, for at least `length_s`.

    Room that frees is offered in order of stamp, one request at a time: until it answers by an Await
    that has `seen` the offer, or by a visit, or a few seconds have passed, nobody younger gets that room.
    Repeating it keeps the place in the list; without that it is lost after a minute.
    `seen` is the number of the last news of this list (see `Awaited`) that the asker has looked into; 0:
    none, for it is new there, or the site has not answered its look. With `pays`, room that the payer cannot
    pay for now is offered to those behind.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    stamp: Count
    principal: Principal
    wants: Annotated[tuple[Want, ...], Meta(min_length=1, max_length=limits.LISTING_MAX)]
    length_s: Annotated[int, Meta(ge=1, le=limits.DURATION_S_MAX)]
    seen: Count = 0
    pays: Annotated[Pays | None, since(PRICES, hint=True)] = None


class Awaited(Message, frozen=True, kw_only=True):
    """`ahead`: how many older requests wait for something in the same windows.

    `offered` has come free, and is kept for this request for some seconds. All that comes free in its
    windows is offered to it at some time, unless somebody before takes it.
    `news` is the number of the last thing that the asker should look into; it is told, and told again,
    until the asker has `seen` it. `fresh`: besides what is offered here something may have freed unseen,
    before it waited for all of this, or while what it was told was lost: look once more.
    `dear` says what came free, and went to others, because it costs more than can be paid.
    """

    rid: RequestId
    att: Attempt
    ahead: Annotated[int, Meta(ge=0, le=(1 << 31))] = 0
    offered: Annotated[tuple[Freed, ...], Meta(max_length=limits.LISTING_MAX)] = ()
    fresh: bool = False
    news: Count = 0
    dear: Annotated[Refusal | None, since(PRICES, hint=True)] = None


class Reclaim(Message, frozen=True, kw_only=True):
    """The owner needs `resources` during ``[start, end)``, which are locked for `rid` there.

    Repeated until the reservation is moved or cancelled: the site never breaks a lock by itself.
    `reason` is for the reservation's user. `lost`: it is not that the owner needs them; they cannot be kept.
    With `units`, the owner needs so many of each, and not all. With `cancel` the reservation is not moved,
    but cancelled at all its sites, also if it has begun.
    """

    rid: RequestId
    att: Attempt
    resources: Annotated[tuple[ResourceName, ...], Meta(min_length=1, max_length=limits.CLAIMS_MAX)]
    start: TimeS
    end: TimeS
    reason: Annotated[str, Meta(max_length=200)] = ""
    lost: bool = False
    units: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)] = 0
    cancel: Annotated[bool, since(CANCELS, hint=True)] = False


class Inquire(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    site: SiteName
    secret: Secret


class Outcome(Message, frozen=True, kw_only=True):
    """`done`: every chosen site has locked what is committed, or freed what was cancelled since."""

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    outcome: Literal["commit", "abort", "pending"]
    proofs: Proofs = {}
    warrant: Warrant = ""
    chosen: Annotated[Chosen, Meta(max_length=limits.CLAIMS_MAX)] = {}
    done: bool = False


class StartAsk(Message, frozen=True, kw_only=True):
    """May the job that `rid` has placed at `site` start there? It is to start at most once anywhere.

    `parts` of a job in step have their nodes at `site`: they are to start when all parts have theirs.
    `question` is that of the `ReadyAsk` that this answers at once; 0: it answers none. With
    `gives_up` these parts have waited for long enough, or are to end: none is to start, unless that is
    decided already. They keep their nodes until it is answered.
    """

    rid: RequestId
    att: Attempt
    site: SiteName
    secret: Secret
    parts: StepParts = ()
    question: Count = 0
    gives_up: bool = False


StartVerdict = Literal["start", "elsewhere", "over", "unknown"]
"""start: here, and nowhere else, for ever. elsewhere: it has started at another site, or may have. over: it
is cancelled, was placed anew, or a part has given up. unknown: it may have started elsewhere, for the
register has forgotten."""


class StartSays(Message, frozen=True, kw_only=True):
    """The register's decision about the start of `rid`; `at` is the place where it has started, if known.

    It is said to whoever asks, and to the other sites once it has started somewhere. `parts` are all those of
    a job in step, in their order, which start `in_ms` milliseconds from now.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    says: StartVerdict
    at: Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.NAME_PATTERN)))] = ""
    parts: StepParts = ()
    in_ms: Annotated[int, Meta(ge=0, le=limits.STEP_AHEAD_MS_MAX)] = 0


class ReadyAsk(Message, frozen=True, kw_only=True):
    """All parts of a job in step have their nodes: ask again at once, with this `question`.

    They start once the sites of all have done so within a few seconds.
    """

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    question: Count


class PartNews(Message, frozen=True, kw_only=True):
    """A part of the job in step `rid` is the job `job` of `machine`; 0: it could not be submitted there.

    `failed`: it has not ended well, or cannot start, as `detail` says. This is repeated until the site is
    told that the reservation is cancelled; so the other parts are ended, too. `ended_at`: it has ended well
    then (seconds UTC; 0: it has not), and its user has no other job in its slot. This is repeated likewise,
    and 0 takes it back: once all parts have ended, what is left of the slots is given back. Its program began
    at `began_at` (seconds UTC; 0: not yet).
    """

    rid: RequestId
    att: Attempt
    machine: ResourceName
    job: Annotated[int, Meta(ge=0, le=1 << 53)]
    failed: bool = False
    detail: Annotated[str, Meta(max_length=limits.TEXT_MAX)] = ""
    ended_at: TimeS = 0
    began_at: TimeS = 0


class MemberBidder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A member that could run a job, and is connected.

    `preference_s` and `runs_s` are as in `kalends.federation.site_choice.Bidder`.
    """

    way: Way
    preference_s: Annotated[float, Meta(ge=0, le=limits.WINDOW_S_MAX)] = 0.0
    runs_s: Annotated[float, Meta(ge=0, le=limits.WINDOW_S_MAX)] = 0.0


class Refer(Message, frozen=True, kw_only=True):
    """A question: which `count` of these members to ask for a place for a job. They are not asked yet."""

    rid: RequestId
    att: Attempt
    count: Annotated[int, Meta(ge=1, le=limits.MEMBERS_MAX)]
    candidates: Annotated[
        tuple[MemberBidder, ...], Meta(min_length=1, max_length=limits.MEMBERS_MAX)
    ]


class Referred(Message, frozen=True, kw_only=True):
    """The answer to `Refer`: an opinion. The broker asks these members itself, by sessions of its own."""

    rid: RequestId
    att: Attempt
    ways: Annotated[tuple[Way, ...], Meta(max_length=limits.MEMBERS_MAX)] = ()


class MemberMachine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine of a member, with all its nodes, that the user of a job may see."""

    way: Way
    machine: ResourceName
    nodes: Units


class Split(Message, frozen=True, kw_only=True):
    """A question: how best to split a job of `nodes` over these machines.

    Each node exchanges `traffic_mb_per_s` with all others together, in megabytes (10^6 bytes) a second.
    """

    SINCE: ClassVar[Feature] = SPLITS

    nodes: Units
    traffic_mb_per_s: Traffic = 0.0
    machines: Annotated[
        tuple[MemberMachine, ...], Meta(min_length=1, max_length=limits.SPLIT_MACHINES_MAX)
    ]


class NodeShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The nodes of a machine in a split."""

    machine: ResourceName
    nodes: Units


class LinkLack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The link that is in the way: `nodes` at `members` need `needs_mb_per_s` of its `mb_per_s`.

    It would carry a traffic of `fits_mb_per_s`.
    """

    members: tuple[SiteName, SiteName]
    nodes: tuple[Units, Units]
    mb_per_s: LinkRate
    needs_mb_per_s: LinkRate
    fits_mb_per_s: LinkRate


class Splits(Message, frozen=True, kw_only=True):
    """The answer to `Split`: an opinion, the best first; or none, and perhaps the link that is in the way."""

    SINCE: ClassVar[Feature] = SPLITS

    splits: Annotated[
        tuple[
            Annotated[tuple[NodeShare, ...], Meta(min_length=1, max_length=limits.TERMS_MAX)], ...
        ],
        Meta(max_length=limits.SPLITS_MAX),
    ] = ()
    lack: LinkLack | None = None


class EndOfJob(Message, frozen=True, kw_only=True):
    """The job that `rid` has placed here has ended `at` some time (seconds UTC), after it ran for `ran_s`.

    `status` is the exit status of its program, or a signal as a negative number. It is repeated until it was
    noted.
    """

    rid: RequestId
    att: Attempt
    end: EndWord
    status: Annotated[int, Meta(ge=-255, le=255)] = 0
    at: TimeS
    ran_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0


class EndNoted(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    secret: Proof = ""


class SlotLoss(Message, frozen=True, kw_only=True):
    """Since `at`, `nodes` units of slots of `rid` on `resource` that have begun cannot be used; 0: all can.

    `number` increases with every change at the site: the highest one counts. The message is repeated until it
    was noted, or the slots have ended. A slot that has not begun is moved to other nodes instead.
    """

    rid: RequestId
    att: Attempt
    resource: ResourceName
    number: HoldId
    nodes: Annotated[int, Meta(ge=0, le=limits.UNITS_MAX)]
    at: TimeS
    detail: Annotated[str, Meta(max_length=limits.TEXT_MAX)] = ""


class LossNoted(Message, frozen=True, kw_only=True):
    """`number` is that of the message that was noted."""

    rid: RequestId
    att: Attempt
    secret: Proof = ""
    resource: ResourceName
    number: HoldId


class PeerAsk(Message, frozen=True, kw_only=True):
    """`until` is the latest end of the asker's slots: how long a refusal must be remembered.

    `secret` proves that `site` takes part; `register` says whose request it is, and so by which key.
    """

    rid: RequestId
    att: Attempt
    site: SiteName
    register: RegisterId | Literal[""] = ""
    secret: Secret
    until: TimeS


class PeerSays(Message, frozen=True, kw_only=True):
    rid: RequestId
    att: Attempt
    site: SiteName
    says: Literal["locked", "prepared", "never"]
    proofs: Proofs = {}
    """With "locked": what proves the commit to the asker, and by the asker to others who ask it."""
    chosen: Annotated[Chosen, Meta(max_length=limits.CLAIMS_MAX)] = {}


ToSite = (
    Welcome
    | Compare
    | Relock
    | Recharge
    | Settled
    | Query
    | Visit
    | Solicit
    | Dispatch
    | Prepare
    | Decide
    | Forget
    | Cancel
    | Release
    | Renew
    | OwnerAsk
    | Give
    | Await
    | Outcome
    | StartSays
    | ReadyAsk
    | EndNoted
    | LossNoted
)
"""What a broker may send to a site on a session."""

ToBroker = (
    Hello
    | Known
    | Compared
    | Relocked
    | View
    | Visited
    | Bid
    | Report
    | Voted
    | Done
    | Renewed
    | OwnerSays
    | Stale
    | Recall
    | Grant
    | Locked
    | Awaited
    | Reclaim
    | Inquire
    | StartAsk
    | EndOfJob
    | PartNews
    | SlotLoss
)
"""What a site may send to a broker on a session."""

BetweenSites = PeerAsk | PeerSays


class FrameToSite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`lc` is the sender's logical clock at sending; receivers merge it.

    `wall_ms` is what its wall clock shows then (UTC), so that clocks that disagree are noticed; 0: not
    said.
    `proof` is a fresh token now and then: the session is believed for longer
    (`kalends.serving.auth.session_proof`).
    `mark` is how far the register is, where that has changed since the frame before.
    """

    v: Literal[2]
    source: SiteName
    lc: Count
    messages: Annotated[list[ToSite], Meta(max_length=limits.FRAME_MESSAGES_MAX)]
    wall_ms: Count = 0
    proof: Annotated[str, Meta(max_length=limits.TOKEN_CHARACTERS_MAX)] = ""
    mark: Mark | None = None


class FrameToBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frame like `FrameToSite`, the other way; `mark` is sent once a register has been welcomed."""

    v: Literal[2]
    source: SiteName
    lc: Count
    messages: Annotated[list[ToBroker], Meta(max_length=limits.FRAME_MESSAGES_MAX)]
    wall_ms: Count = 0
    mark: Mark | None = None
