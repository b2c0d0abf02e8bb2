"""The decision record of a request, and the operations on the register that keeps it.

The register holds one row a request; a commit is one conditional write at the current attempt, and
raising the attempt aborts the one before. Each operation says what must be true of the row; an
operation whose condition fails changes nothing and is answered with the row as it is (`won` false).

========= ======================================== =======================================
operation when                                     effect
========= ======================================== =======================================
Begin     no row of this id, nor of (user, key)    inserted, open, attempt 1
Note      open at this attempt                     what was planned or held is written down
Raise     open at this attempt                     attempt + 1, owned by the raiser
Commit    open at this attempt, and the request    commit; the replaced one is `replaced`
          that it replaces is a finished commit
          and with `elsewhere`: is a commit of a   the same, and its sites are told by the
          job that has started nowhere, or could   committer until they are done
          not be started; or with `running` of one
          that has, and has not ended
          and with `heir`: it was offered to its   the same, and all shares of it end
          user, and the offer was not withdrawn
Commit-   all of its requests are open at their    all of them are committed, and all that were
Series    attempts; each that one replaces is a    to be moved have their next attempts
          finished commit, of which no other
          change is open; none is replaced twice
Close     open at this attempt                     closed: the outcome is abort
Cancel    commit                                   cancelled, owned by the canceller, who tells the
                                                   sites until they are done
Finish    this state                               all its sites have said Done
Adopt     this state, not done                     owned by the adopter
Read      always                                   -
Examine   always; won: no change of it is open     what is told to its end is owned by the
                                                   examiner, if it was by `taken_from`
Ask       always; no row, and the asker is proved  -: absence must not be read as abort twice
          to be a site: a closed one is written
Permit    a commit with the site among those that  the site is where it starts, for ever
          were chosen, it has started nowhere
          else, and where it has started before it
          has ended, or may be taken as lost
NoteEnd   a commit, or cancelled, of a job at the    its end is written down, once for ever, as far
          site, which has not to start elsewhere,    as it can be true; of one that was to start
          and did not end before it was asked for;   elsewhere then, and has ended by itself, as
          or replaced after it had started there     the end of that, too
Assemble  a commit whose parts in step are all       where each of them runs, and when they start,
          ready, of which none has given up          for ever
GiveUp    a commit whose parts in step were not      that none of them starts, for ever
          assembled
NoteBegan a commit, or what it was, whose parts were  when a part has begun, once for ever
          assembled
NoteNodes a commit with the site among those that    how many units of its slots there cannot be used
          were chosen, and nothing newer was noted
Recover   no commit, cancelled or replaced           commit, to be told to its sites again; the
                                                   request that it replaces is `replaced`
========= ======================================== =======================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from kalends.contract.calls import Event, Patience, PlacedEnd, PlacedJob, RequestState, Waiting
from kalends.contract.costs import Cost, Pays
from kalends.contract.messages import Chosen, Mark, Want
from kalends.contract.notice_calls import ChangeByOthers
from kalends.core.attributes import PlacePreference
from kalends.core.errors import Problem, StoreDamaged
from kalends.core.identifiers import QUEUE_ENDING, split_resource
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from kalends.core.money import NO_CAP
from kalends.core.principals import Principal
from kalends.core.requests import Request
from kalends.core.steps import Step, StepPart
from kalends.core.transport import JobData
from kalends.notices.request_notice import RequestNotice

RecordState = Literal["open", "commit", "closed", "cancelled", "replaced"]

FORGOTTEN = "?"
"""The place of a start that the register may have forgotten: no site has such a name."""

GIVEN_UP = "[]"
"""The parts in step that start where one has given up: none (`encode_parts`)."""

COMMITTED: frozenset[RecordState] = frozenset({"commit", "cancelled", "replaced"})
"""States in which the outcome of the record's attempt is commit, for ever."""


class Placement(msgspec.Struct, frozen=True, omit_defaults=True, tag="place"):
    """A place in a queue for `job`; the request says on what. See `kalends.contract.calls.PlaceJob`."""

    job: JobRequest
    implementations: tuple[Implementation, ...] = ()
    prefer: tuple[PlacePreference, ...] = ()
    homes: tuple[str, ...] = ()
    pick: str = ""
    rank: str = ""
    data: tuple[JobData, ...] = ()
    redundant: bool = False
    by_limits: bool = False
    elsewhere: tuple[str, ...] = ()
    """Sites where it is not wanted: it has its place there until it has another."""
    running: Literal["no", "there", "lost", "not-started"] = "no"
    """Whether it has started at one of these; whether that one is lost; whether it could not start there."""
    sooner_than: int = 0
    """It keeps its place unless another one starts before this (seconds UTC); 0: whenever it does."""
    restarts: int = 0
    """At how many places it has started before."""

    @property
    def asks_first(self) -> bool:
        """Whether the job asks the register before it starts."""
        return self.job.at_most_once or self.job.rerun


class StepJob(msgspec.Struct, frozen=True, tag="step"):
    """Jobs that run in step in the slots."""

    step: Step


class SeriesPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The occurrence `name` of the series `id`, which each of its requests describes whole.

    The rule counts from the local time `first` in `zone`. If they are `together`, all `count` requests of
    the series are committed, or none. Each may begin `give_s` earlier or later. If it `keeps_going`, those
    beyond an owner's horizon wait for it.
    """

    id: str
    name: str
    rule: str
    zone: str
    first: str
    skip: tuple[str, ...] = ()
    together: bool = False
    count: int = 1
    give_s: int = 0
    keeps_going: bool = False


class SeriesChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The call of this `key` and `digest` changes occurrences of a series, each `later_s` by the local clock.

    `id` is of one carrying out of it. Of its requests, `count` are committed together, or none; 0: each by
    itself.
    """

    id: str
    key: str
    digest: str
    later_s: int = 0
    count: int = 0


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request; `wants` are given when they are fixed from the start.

    `agent` is the agent as it was named, `script` the hash of its script at that moment. `what` is more than
    slots, if it is given.
    """

    request: Request
    text: str = ""
    hold: bool = False
    hold_s: int = 0
    wants: tuple[Want, ...] = ()
    agent: str = ""
    script: str = ""
    what: Placement | StepJob | None = None
    by_others: ChangeByOthers | None = None
    """It is a change that is asked for by others than its user."""
    patience: Patience = "held"
    give_up_at: int = 0
    """Seconds UTC; 0: see `kalends.contract.calls.Book`."""
    series: SeriesPart | None = None
    change: SeriesChange | None = None
    """It is one of the changes that a call makes of a series."""
    by_participant: bool = False
    """They are a participant, who acts in the name of its user."""
    heir_of: str = ""
    """It takes over the reservation of this user."""
    deputy: str = ""
    """This user has booked it, in the name of its user."""

    @property
    def placement(self) -> Placement | None:
        return self.what if isinstance(self.what, Placement) else None

    @property
    def step(self) -> Step | None:
        return self.what.step if isinstance(self.what, StepJob) else None

    @property
    def waits_for_horizon(self) -> bool:
        """Whether it is an occurrence of a series that is asked for once an owner's horizon allows."""
        return self.series is not None and bool(self.give_up_at)


class Left(msgspec.Struct, frozen=True):
    """Message of an agent at `site` for its client: plain data as JSON text."""

    at_ms: int
    site: str
    text: str


class NodesLack(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last report of a site, under `number`, about slots on one resource: `nodes` units cannot be used.

    Its user has been sent `told` notices of this resource.
    """

    number: int
    nodes: int
    at: int
    detail: str = ""
    told: int = 0


class AgentFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of the agent of a request."""

    rounds: int = 0
    """How many of its rounds have ended."""
    failed: tuple[str, ...] = ()
    """`agent_failed` of `kalends.contract.calls.RequestView`."""
    only: tuple[int, ...] = ()
    """The common starts that its next round is about; empty: all."""
    inbox: tuple[str, ...] = ()
    """What the client has left for it, and no round has taken yet."""
    left: tuple[Left, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """Key and digest of the calls that left something for it: each counts once."""


class OwnerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The approval of a request by the owners of its slots, and the nodes that fail there."""

    approve: bool = False
    """They are to approve its `wants`: no attempt looks for others, as long as these can be held."""
    asked_at: int = 0
    """When they were first asked (seconds UTC)."""
    words: tuple[str, ...] = ()
    """What they have said."""
    needed: tuple[str, ...] = ()
    """Resources of what its user holds that they have to approve before it is locked."""
    nodes_out: dict[str, NodesLack] = {}
    """By resource, what its site has reported of its slots."""


class JobFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of the job, or of the job in step, of a request.

    `started` and `ended` are columns: readers put them in place of the values in the body.
    """

    placed: PlacedJob | None = None
    """Where it is: from when its place is asked to be promised."""
    machines: tuple[str, ...] = ()
    """Where the parts of a job in step run, in their order."""
    started: str | None = None
    """The site where a job starts that asks first; "" until one has asked.

    For a job in step, its parts once all have arrived (`encode_parts`), or `GIVEN_UP`.
    """
    ended: PlacedEnd | None = None
    """How it ended, as its site reported."""
    parts_ended_at: int = 0
    """Cancelled since all parts of a job in step had ended, the last of them then (seconds UTC)."""

    @property
    def place(self) -> PlacedJob | None:
        """The place of the job; until it has started, with all others where it may."""
        if self.placed is None or self.started in (None, "", FORGOTTEN):
            return self.placed
        places = (self.placed, *self.placed.also)
        at = (each for each in places if split_resource(each.machine)[0] == self.started)
        return replace(next(at, self.placed), also=())

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """The parts of a job in step once all have arrived; empty if one has given up."""
        return decode_parts(self.started) if self.machines and self.started else ()


NO_AGENT: Final = AgentFacts()
NO_OWNERS: Final = OwnerFacts()
NO_JOB: Final = JobFacts()


class Record(msgspec.Struct, omit_defaults=True):
    """One request. `reservation` is the id that users see, which survives move, extend and shrink.

    `att` and `owner` are the current attempt and the broker replica that may commit it; `wants` is
    what is planned, held or reserved; `done`: nothing remains to be told to any site.
    """

    rid: str
    user: str
    key: str
    digest: str
    stamp: int
    owner: str
    reservation: str
    created_ms: int
    spec: Spec
    groups: tuple[str, ...] = ()
    att: int = 1
    state: RecordState = "open"
    wants: tuple[Want, ...] = ()
    chosen: Chosen = {}
    replaces: str = ""
    changes: int = 0
    """How many changes of the reservation were made before this one, and this one; 0: it is the first."""
    done: bool = False
    told: bool = False
    """When it was cancelled, all sites had locked and may have forgotten the commit since."""
    held_until_ms: int = 0
    recalled_until: int = 0
    """As in `kalends.contract.calls.RequestView`."""
    problem: Problem | None = None
    trail: tuple[Event, ...] = ()
    alternative: int = 0
    """The number of the one that `wants` are of."""
    waiting: Waiting | None = None
    changed_by: tuple[SeriesChange, ...] = ()
    """The changes of its series that have moved it while it waited for a horizon, oldest first."""
    listed: bool = False
    """It stands, or stood, on waiting lists, and its user has not been told since what has come of it."""
    ended_by: ChangeByOthers | None = None
    """It was cancelled, or released, by others than its user."""
    agent: AgentFacts = NO_AGENT
    owners: OwnerFacts = NO_OWNERS
    job: JobFacts = NO_JOB
    costs: dict[str, Cost] = {}
    """The cost of its slots at each site, as it was promised there."""
    cancelled_at: int = 0
    """When it was cancelled (seconds UTC): what sites pay back is by that."""
    reclaimed: bool = False
    """It was cancelled because an owner has taken slots of it back: its user pays no fee anywhere."""
    refunds: dict[str, int] = {}
    """What each site has paid back when it was cancelled (parts)."""

    @property
    def asks_first(self) -> bool:
        """Whether it is a job that asks the register before it starts."""
        place = self.spec.placement
        return place is not None and place.asks_first

    @property
    def may_start_twice(self) -> bool:
        """Whether it is a job of which another may run, somewhere, at the same time."""
        place = self.spec.placement
        return place is not None and place.job.rerun and not place.job.at_most_once

    @property
    def may_start(self) -> bool:
        """Whether it is a job that asks before it starts, and has asked nowhere yet."""
        return self.state == "commit" and self.job.started == ""

    @property
    def awaited(self) -> bool:
        """Whether it is a job that has another place, and has not ended where it has started before."""
        return self.state == "replaced" and bool(self.job.started) and self.job.ended is None

    @property
    def could_not_start(self) -> bool:
        """Whether it is a job of which nothing has begun, by the word of its site, and nothing will there."""
        return (
            self.state == "commit"
            and self.spec.placement is not None
            and self.job.ended is not None
            and self.job.ended.end == "not-started"
            and self.job.started != FORGOTTEN
        )

    def may_end_at(self, att: int, site: str) -> bool:
        """Whether it is a job that was placed at `site` by attempt `att`, and starts nowhere else."""
        started = self.job.started
        if self.job.placed is None or self.state not in COMMITTED or self.may_start:
            return False
        if self.state == "replaced" and not started:
            return False
        return self.att == att and site in self.chosen and started in (None, site, FORGOTTEN)

    @property
    def is_told(self) -> bool:
        """Whether nothing more becomes of it in a moment: it is settled, or it waits for an owner's word or
        horizon.
        """
        waiting = self.waiting
        later = waiting is not None and (waiting.approval or bool(waiting.opens))
        return self.public_state != "open" or later

    @property
    def begins(self) -> int:
        """The start of its first slot (seconds UTC); 0 if it has none but places in queues."""
        starts = (each.start for each in self.wants if not each.resource.endswith(QUEUE_ENDING))
        return min(starts, default=0)

    @property
    def principal(self) -> Principal:
        return Principal(self.user, self.groups)

    def is_asked_by(self, digest: str) -> bool:
        """Whether a call of this digest, with its key, asks for it; a recovered one has no digest."""
        return self.digest in ("", digest)

    def pays(self, site: str) -> Pays | None:
        """Return who pays at `site`, and how much at most; None: the user, whatever it costs."""
        budgets, projects = self.spec.request.at_most, self.spec.request.projects
        # Nobody pays more because an owner moves a reservation.
        by_others = self.spec.by_others is not None and not self.spec.by_participant
        for_owner = bool(self.replaces) and by_others
        if not (budgets or projects or for_owner):
            return None
        project = projects.get(site, projects.get("", ""))
        at_most = 0 if for_owner else budgets.get(site, budgets.get("", NO_CAP))
        return Pays(project, at_most, reclaimed=for_owner)

    @property
    def public_state(self) -> RequestState:
        """State as users see it: a released hold is also cancelled."""
        if self.state == "open":
            return "held" if self.held_until_ms else "open"
        if self.state == "closed":
            return "failed" if self.problem is not None else "cancelled"
        return "reserved" if self.state == "commit" else self.state


class OfCase(msgspec.Struct, frozen=True, kw_only=True):
    """Operation of a case on the register: its result is for that case alone, and for no later one.

    `case` is the number of `kalends.broker.coordination.transaction.Transaction`. A replica may have lost a
    request and taken it over again while an operation of the first time was still on its way. `notices` are
    stored with what it does, if its condition holds.
    """

    case: int = 0
    notices: tuple[RequestNotice, ...] = ()


class Begin(OfCase, frozen=True):
    """`source` is that of the record's script: kept until the request is decided."""

    record: Record
    source: str = ""


class Note(OfCase, frozen=True):
    """`of` says what is written down: what is held, what was said to the agent, what it waits for, or that
    owners are to approve it.

    `source`, of the hash `script`, where another agent goes on: kept until the request is decided.
    """

    rid: str
    att: int
    body: bytes
    of: Literal["held", "agent", "waiting", "approval"] = "held"
    script: str = ""
    source: str = ""


class Raise(OfCase, frozen=True):
    """The result brings the source of `script`, if that is given and still stored."""

    rid: str
    att: int
    owner: str
    body: bytes
    script: str = ""


class Heir(NamedTuple):
    """The `reservation` was offered to `user` by `giver`, and changes hands at `at` (seconds UTC)."""

    reservation: str
    user: str
    giver: str
    at: int


class Commit(OfCase, frozen=True):
    """With `places`, the job asks before it starts at any of these sites.

    `elsewhere`: what it replaces is the place of a job, which must not have started, or has ended as not
    started; or, if it is `running`, has not ended. `again`: it is looked after as long as it runs, for its
    site may be lost.
    """

    rid: str
    att: int
    replaces: str
    body: bytes
    places: tuple[str, ...] = ()
    elsewhere: bool = False
    running: bool = False
    again: bool = False
    begins: int = 0
    """The start of its first slot: see `Record.begins`."""
    heir: Heir | None = None
    """It is a hand-over: its condition is that the offer stands, and it ends all shares."""


class CommitSeries(msgspec.Struct, frozen=True):
    """The commits of all requests of the series, or of the change of one, `rid`.

    `moved` are attempts of occurrences that wait for a horizon and are to be at other times with them.
    """

    rid: str
    commits: tuple[Commit, ...]
    moved: tuple[Raise, ...] = ()


class Close(OfCase, frozen=True):
    rid: str
    att: int
    body: bytes


class Cancel(OfCase, frozen=True):
    rid: str
    owner: str
    body: bytes


class Finish(OfCase, frozen=True):
    """`refunds`: the parts that sites have paid back for a cancelled reservation."""

    rid: str
    state: RecordState
    refunds: dict[str, int] = {}


class Adopt(OfCase, frozen=True):
    rid: str
    state: RecordState
    owner: str


class Read(OfCase, frozen=True):
    rid: str


class Examine(msgspec.Struct, frozen=True):
    """The row, and (`won`) that no move, extend or shrink of it is under way.

    With `taken_from`, a replica that is gone, `owner` is to look after it from now on. `look` is the number
    of the look that a reclaim waits for; 0 if news of a part of a job in step asks.
    """

    rid: str
    look: int = 0
    owner: str = ""
    taken_from: str = ""


class Recover(msgspec.Struct, frozen=True):
    """A commit, or the cancel of a change, that sites keep, and the register has forgotten.

    `record` is as they know it.
    """

    record: Record


class Remember(msgspec.Struct, frozen=True):
    """`site` was last heard of as of `mark`."""

    site: str
    mark: Mark


class Ask(msgspec.Struct, frozen=True):
    """The outcome of attempt `att`, for the asker at `reply_to`.

    `proved`: the asker is `site`, by its `secret`.
    `certain`: where there is no decision, none was made. If not, none is made here.
    """

    rid: str
    att: int
    secret: str
    reply_to: str
    site: str = ""
    proved: bool = False
    certain: bool = True


class Permit(msgspec.Struct, frozen=True):
    """The job of attempt `att` may start at `site`, which has asked from `reply_to`, and nowhere else.

    `proved`: the asker is that site, and `certain`: the register has forgotten nothing; else nothing is
    written. Where it has started before at one of the sites `lost`, it need not have ended, if it may start
    twice.
    """

    rid: str
    att: int
    site: str
    reply_to: str
    proved: bool
    lost: tuple[str, ...] = ()
    certain: bool = True


class NoteEnd(msgspec.Struct, frozen=True):
    """The job of attempt `att` has ended at `site`, which has said so from `reply_to`."""

    rid: str
    att: int
    site: str
    end: PlacedEnd
    reply_to: str


class Assemble(msgspec.Struct, frozen=True):
    """These `parts` of the job in step are ready; the site that asks wants to start its own.

    If they are all, they start at `begins_ms` (UTC), unless the slot of one is over by then.
    `proved`, `certain`: as for `Permit`.
    """

    rid: str
    att: int
    site: str
    reply_to: str
    parts: tuple[StepPart, ...]
    proved: bool
    begins_ms: int
    certain: bool = True


class GiveUp(msgspec.Struct, frozen=True):
    """The parts of the job in step at `site` wait no longer: none starts anywhere, if none is to start yet.

    `proved`, `certain`: as for `Permit`.
    """

    rid: str
    att: int
    site: str
    reply_to: str
    proved: bool
    certain: bool = True


class NoteBegan(msgspec.Struct, frozen=True):
    """The program of the part on `machine` of the job in step began at `at` (seconds UTC)."""

    rid: str
    machine: str
    at: int


class NoteNodes(msgspec.Struct, frozen=True):
    """The `site` of `resource` reports `lack` of the slots of attempt `att`, from `reply_to`."""

    rid: str
    att: int
    site: str
    resource: str
    lack: NodesLack
    reply_to: str


Telling = Note | Commit | Close | Cancel
"""Operations that may bring notices."""

CaseOperation = Begin | Note | Raise | Commit | Close | Cancel | Finish | Adopt | Read
Operation = (
    CaseOperation
    | Examine
    | Ask
    | Permit
    | NoteEnd
    | Assemble
    | GiveUp
    | NoteBegan
    | NoteNodes
    | Recover
    | CommitSeries
)


class Unreadable(msgspec.Struct, frozen=True):
    """A row whose body cannot be read, for `reason`; its columns can. Nobody acts on it."""

    rid: str
    user: str
    key: str
    reservation: str
    att: int
    state: RecordState
    owner: str
    done: bool
    reason: str

    @property
    def public_state(self) -> RequestState:
        """As far as the columns tell: what is held shows as open, what was released as failed."""
        if self.state == "closed":
            return "failed"
        return "reserved" if self.state == "commit" else self.state

    def error(self) -> StoreDamaged:
        """Return the error for the caller; the reason is for the operator."""
        return StoreDamaged(
            "the broker cannot read the stored record of this request",
            where="store",
            remedy="ask the broker's operator, who sees it in `kalends admin doctor`",
            request_id=self.reservation,
        )


class Registered(msgspec.Struct, frozen=True):
    """The answer to `operation`, after it is durable. `record` is the row, where it was not won.

    There is a row that cannot be read where `unreadable` is given: then nothing follows from `record`.
    The parts of a job in step start at `begins_ms` (UTC) if they were assembled. `source` is what a `Raise`
    has asked for.
    """

    operation: Operation
    won: bool
    record: Record | None = None
    unreadable: Unreadable | None = None
    begins_ms: int = 0
    source: str = ""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Record)
_PARTS = msgspec.json.Decoder(tuple[StepPart, ...])


def encode_parts(parts: Sequence[StepPart]) -> str:
    return msgspec.json.encode(parts).decode()


def decode_parts(text: str) -> tuple[StepPart, ...]:
    """Raises `msgspec.DecodeError` for a text that is no parts."""
    return _PARTS.decode(text)


def encode_record(record: Record) -> bytes:
    return _ENCODER.encode(record)


def decode_record(body: bytes) -> Record:
    """Raises `msgspec.DecodeError` for bytes that are no record."""
    return _DECODER.decode(body)
