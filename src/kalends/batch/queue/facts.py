"""Facts of a queue, which its journal keeps, and from which the queue is rebuilt.

Decisions are not among them. Which job starts when follows from the facts and the time that stands with
each, so a restart comes to the same plan, and nothing can be stored that contradicts it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kalends.core.jobs import JobNumber, JobRequest
from kalends.core.principals import Principal
from kalends.machines.partitions import Partition

Reason = Literal["user", "operator", "dependency", "limit", "time", "undecided"]
"""Why a job is held. Any number of reasons may hold it; it is queued when none does."""

EndKind = Literal["exit", "limit", "killed", "node-failed", "not-started", "lost"]
"""How a job came to its end: it ended by itself, at its limit, was killed, lost its node, could not be
started (no such command, say), or its shepherd died with it."""


class JobEnding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """End of an attempt; `status` is the exit status, or a signal as a negative number."""

    kind: EndKind
    status: int = 0
    detail: str = ""
    """In words, where there is more to say: why it could not be started, who killed it."""
    ran_s: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0
    """The most that one of its processes had."""
    strays: int = 0
    """Processes that it left behind, and that were ended."""
    of_site: bool = False
    """It could not be started, whatever it asks for: its site can start no job of its user at present."""

    @property
    def succeeded(self) -> bool:
        return self.kind == "exit" and self.status == 0


class JobLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of one user, or one project, at a time; 0: no limit."""

    jobs: int = 0
    """Jobs that have not ended."""
    running: int = 0
    nodes: int = 0
    """Nodes of running jobs."""
    longest_s: int = 0
    """The limit of one job."""
    node_seconds: int = 0
    """Used and reserved in one period of `Terms.period_s`."""


class FairShares(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Between whom a policy shares the machine out, if it does; who is not named has one share."""

    by: Literal["user", "project"] = "user"
    shares: dict[str, int] = {}


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner's terms of the queue: a fact like others, because decisions depend on it."""

    machine: str
    """The machine as its text says: ``pool:64``, ``mesh2d:32x32:4x4``."""
    policy: str = "easy"
    classes: dict[str, int] = msgspec.field(
        default_factory=lambda: {"low": 1, "normal": 2, "high": 3}
    )
    """Priority classes, and the number that stands for each in policies; larger is more urgent."""
    default_class: str = "normal"
    class_members: dict[str, tuple[str, ...]] = {}
    """Users and groups that may name a class; without an entry: all, if it is not above the default."""
    user: JobLimits = JobLimits()
    project: JobLimits = JobLimits()
    members: dict[str, tuple[str, ...]] = {}
    """The members of each project, as rules name them. Where there are none, anybody may name any project."""
    period_s: int = 30 * 86_400
    """Node-seconds are counted anew after so long."""
    fair_share: FairShares = FairShares()
    tariff: dict[str, int] = {}
    """Credits for a node-hour by priority class, in force when a job is over; none for those not named."""
    reserved_credits: int = 0
    """Credits for a node-hour that is reserved, used or not."""
    ending_s: int = 0
    """The nodes of a job are planned for so much longer than its limit: until it has been ended, and all of
    it is gone."""
    change_s: int = 60
    """So long a program has to answer when it is asked to change its size; then that is taken back."""
    may_delay: Literal["none", "waiting-room", "all"] = "waiting-room"
    """Which waiting jobs a new reservation may delay: "waiting-room" are those without a promised start."""
    no_show_s: int = 0
    """The nodes of a reservation go back to the queue when nobody has used them for so long; 0: never."""
    undecided_s: int = 0
    """Nodes are kept idle for so long at most for an offer that nobody decides on; 0: until it is decided."""
    attempts_max: int = 3
    """A job that is lost or whose node fails begins so often, if it may run again."""
    handed_to: str = ""
    """The batch system that decides in the place of the policy: jobs are handed over at once; "": none."""


class JobShare(msgspec.Struct, frozen=True, array_like=True):
    """`amount` parts of a credit in a `lot` of `account`."""

    account: str
    lot: str
    amount: int


class JobPays(msgspec.Struct, frozen=True, omit_defaults=True):
    """`account` pays at most `most` parts of a credit for each job of a submission.

    So much is reserved until the job is over. `shares` are those of all its jobs together, and each job has
    its part of them, in their order.
    """

    account: str
    most: int
    shares: tuple[JobShare, ...]

    def shares_of(self, place: int) -> tuple[JobShare, ...]:
        """Return what is reserved for the job with this `place`, counted from 0."""
        first, end = place * self.most, (place + 1) * self.most
        passed: dict[str, int] = {}
        found = []
        for share in self.shares:
            begins = passed.get(share.account, 0)
            passed[share.account] = begins + share.amount
            amount = min(begins + share.amount, end) - max(begins, first)
            if amount > 0:
                found.append(JobShare(share.account, share.lot, amount))
        return tuple(found)


class Fact(msgspec.Struct, frozen=True, tag=True, tag_field="fact", omit_defaults=True):
    """Base of all facts."""


class TermsSet(Fact, frozen=True):
    terms: Terms


class PolicySwitched(Fact, frozen=True):
    """An operator lets another policy decide than the owner's terms name, until these change."""

    policy: str


class JobSubmitted(Fact, frozen=True):
    """Jobs `first` and the following, one for each index, or one alone."""

    first: JobNumber
    key: str
    principal: Principal
    request: JobRequest
    offered_s: int = 0
    """If not 0, it is an offer: it has its place in the queue, and begins once somebody takes it. So long
    that may take when its nodes are free; they are counted as its own for that time, too."""
    pays: JobPays | None = None
    """What is reserved for it at its owner; None: it costs nothing, or its reservation pays."""


class JobPriced(Fact, frozen=True):
    """A job that runs costs `steps`: from a start to an end, parts for a node and a second.

    They are told when it begins, and stand for this attempt; after the last of them it costs nothing.
    """

    job: JobNumber
    steps: tuple[tuple[int, int, int], ...]


class OfferTaken(Fact, frozen=True):
    """From now on it is a job as others."""

    job: JobNumber


class JobHeld(Fact, frozen=True):
    job: JobNumber
    reason: Reason


class JobReleased(Fact, frozen=True):
    job: JobNumber
    reason: Reason


class JobWithdrawn(Fact, frozen=True):
    """It was waiting, and never ran."""

    job: JobNumber
    detail: str = ""


class KillAsked(Fact, frozen=True):
    job: JobNumber
    detail: str = ""


class JobBegun(Fact, frozen=True):
    """The shepherd of this attempt has begun, and will start the program."""

    job: JobNumber
    attempt: int
    at_s: int = 0
    """When that was by the shepherd's clock; 0: it is not known."""


class SeenAttempts(msgspec.Struct, frozen=True, array_like=True):
    """Attempts of a job up to `last`; `begun`: something of those that were not known may have run."""

    job: JobNumber
    last: int
    begun: bool


class AttemptsSeen(Fact, frozen=True):
    """There are records of attempts of which this journal knows nothing: it is an old copy."""

    attempts: tuple[SeenAttempts, ...]


class AttemptVoid(Fact, frozen=True):
    """This attempt has not begun, and never can: the next one is made, on the same nodes."""

    job: JobNumber
    attempt: int


class JobEnded(Fact, frozen=True):
    """All processes of this attempt are gone."""

    job: JobNumber
    attempt: int
    ending: JobEnding


class SizeChanged(Fact, frozen=True):
    """A program has made the change of size that it was asked for, or has not (`nodes` as before).

    Nodes that it has given up are free: its shepherd has seen those leave who were there.
    """

    job: JobNumber
    change: int
    nodes: int
    took_s: float = 0.0
    why: str = ""
    """Why it has not, in the words of the program."""


class SizeWanted(Fact, frozen=True):
    """A running program wants to have `nodes` nodes, and nothing spoke against it."""

    job: JobNumber
    nodes: int


class JobStopped(Fact, frozen=True):
    """All of this attempt stands still, as it was asked to: its nodes are free."""

    job: JobNumber
    attempt: int
    stop: int


class StopFailed(Fact, frozen=True):
    """This attempt could not be stopped as it was asked to, and goes on."""

    job: JobNumber
    attempt: int
    stop: int
    detail: str = ""


class PolicyWoken(Fact, frozen=True):
    """The policy looked again, for something was due."""


class Replanned(Fact, frozen=True):
    """The plan was recomputed, as if all waiting jobs came now, in their order of arrival."""


class PolicyPutBack(Fact, frozen=True):
    """The owner's own policy, which was disabled, decides again."""


class NodeClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """Nodes that the calendar keeps for somebody during ``[start, end)``: held, promised or locked.

    What is locked is a slot of the `reservation` of `user`. The request that has locked it is another one
    if the reservation was changed: `request` is then its id.
    """

    booking: int
    start: int
    end: int
    nodes: Annotated[int, Meta(ge=1)]
    reservation: str = ""
    user: str = ""
    request: str = ""
    shape: tuple[int, ...] = ()
    """What its job asks for on a machine with a topology, if its start is fixed."""


class ClaimsChanged(Fact, frozen=True):
    """The calendar's claims have changed, all at once: the bookings `gone` are no more, and others `came`."""

    gone: tuple[int, ...] = ()
    came: tuple[NodeClaim, ...] = ()


class NodesDrained(Fact, frozen=True):
    """These nodes take no new jobs until `until_s`, or (0) until they are resumed; running jobs continue."""

    nodes: tuple[int, ...]
    detail: str = ""
    until_s: int = 0


class NodesFailed(Fact, frozen=True):
    """These nodes are gone, and what ran there."""

    nodes: tuple[int, ...]
    detail: str = ""


class NodesResumed(Fact, frozen=True):
    nodes: tuple[int, ...]


class Allotment(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A policy lets a job start, or go on, on so many nodes, or asks it to change to them; 0: to stop."""

    job: JobNumber
    nodes: int
    changes: bool = False
    place: Partition | None = None
    """Which nodes, on a machine where not any will do."""


# The tag is the name that it has in journals.
class Decided(Fact, frozen=True, tag="ByOwnPolicy"):
    """A fact, and what the policy has decided about it, pass by pass; later passes nothing.

    With a `fault` the owner's own policy was disabled in the last of them, after what it had decided there.
    """

    about: AnyFact
    passes: tuple[tuple[Allotment, ...], ...]
    fault: str = ""


AnyFact = (
    TermsSet
    | PolicySwitched
    | JobSubmitted
    | JobPriced
    | OfferTaken
    | JobHeld
    | JobReleased
    | JobWithdrawn
    | KillAsked
    | JobBegun
    | AttemptsSeen
    | AttemptVoid
    | JobEnded
    | SizeChanged
    | SizeWanted
    | JobStopped
    | StopFailed
    | PolicyWoken
    | Replanned
    | PolicyPutBack
    | Decided
    | ClaimsChanged
    | NodesDrained
    | NodesFailed
    | NodesResumed
)


class JournalEntry(msgspec.Struct, frozen=True):
    """A fact with its number and its time, in whole seconds UTC that never go back."""

    number: int
    now: int
    fact: AnyFact

    @property
    def said(self) -> AnyFact:
        """The fact itself, without what was decided about it."""
        return self.fact.about if isinstance(self.fact, Decided) else self.fact


encode_fact: Final = msgspec.msgpack.Encoder().encode

_DECODER: msgspec.msgpack.Decoder[AnyFact] = msgspec.msgpack.Decoder(AnyFact)
decode_fact: Final = _DECODER.decode
"""Read a stored fact; raises `msgspec.DecodeError` or `msgspec.ValidationError`."""
