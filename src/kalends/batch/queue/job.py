"""One job at its queue: the frozen request, and the record of its life."""

from __future__ import annotations

from dataclasses import dataclass, field

from kalends.batch.queue.facts import (
    JobEnding,
    JobPays,
    JobShare,
    NodeClaim,
    Reason,
    SeenAttempts,
)
from kalends.batch.queue.phases import ON_NODES, OVER, UNDER_WAY, JobEvent, JobPhase, next_phase
from kalends.core.jobs import JobRequest
from kalends.core.money import cost_by
from kalends.core.principals import Principal
from kalends.core.run_times import clocks_agree
from kalends.scheduling.job import Job


@dataclass(slots=True, eq=False)
class BatchJob:
    """A job and its state. `entry` is what the policy sees of it while it is queued or has nodes."""

    number: int
    principal: Principal
    request: JobRequest
    submitted_s: int
    key: str
    offered_s: int = 0
    """Its limit is counted by so much longer: it was offered, and may have to wait on its nodes."""
    offered: bool = False
    """Nobody has taken it yet."""
    index: int | None = None
    """Its place in an array, whose first job is `array`."""
    array: int = 0
    phase: JobPhase = "held"
    reasons: set[Reason] = field(default_factory=set)
    slot: int = 0
    """The booking in whose time and on whose nodes it runs, or ran."""
    slot_end_s: int = 0
    """Until then its nodes are the reservation's in the calendar."""
    until_s: int = 0
    """When the time of a job is over that has nodes of a reservation."""
    asked_s: int = 0
    """When its last attempt was asked for."""
    attempt: int = 0
    """The number of its last start; each has a shepherd and a record of its own."""
    attempts_seen: int = 0
    """Up to here numbers of attempts were used, as an old copy of the journal does not know."""
    entry: Job | None = None
    nodes: tuple[int, ...] = ()
    """The numbers of its nodes, in the order in which they were given."""
    last_nodes: tuple[int, ...] = ()
    """The nodes that it has, or had last."""
    started_s: int = 0
    """When the present attempt, or the last one, got its nodes."""
    since_s: int = 0
    """When it got just these nodes."""
    node_seconds: int = 0
    """Used by this attempt until `since_s`."""
    held_s: int = 0
    """How long it had nodes until then."""
    pays: JobPays | None = None
    """The account that pays for it, and the highest cost; None: it costs nothing in the owner's ledger."""
    steps: tuple[tuple[int, int, int], ...] = ()
    """The price of this attempt, as `cost_by` takes it."""
    cost: int = 0
    """What this attempt has cost until `since_s`, in parts of a credit."""
    credit_seconds: int = 0
    """Charged for it: node-seconds times credits for a node-hour; 3,600 of them are a credit."""
    begun_attempt: int = 0
    """The last attempt that has begun: something of it may have run."""
    begun_s: int = 0
    """When that was: its time counts from then."""
    begun_times: int = 0
    """How many of its attempts have begun."""
    unwanted: bool = False
    """Whether somebody has asked to end it: it does not run again."""
    failed_node: str = ""
    """What was said of a node of its that has failed; it is ending for that."""
    change: int = 0
    """The number of the last change of size that it was asked for."""
    withdrawn: bool = False
    """Whether that change is being taken back."""
    refused: str = ""
    """Why the last change was not made that has not been."""
    refused_s: int = 0
    """When that was heard."""
    stops: int = 0
    """The number of the last time that this attempt was asked to stop."""
    stopped_s: int = 0
    """When it stood still last."""
    stood_s: int = 0
    """How long this attempt has stood still, until it went on last."""
    limit_s: int = 0
    """How long this attempt may run, as far as is known on its present size; not counted while it stands."""
    kill_detail: str = ""
    ending: JobEnding | None = None
    over_s: int = 0

    def enter(self, event: JobEvent) -> None:
        """Take `event` by the table of phases: the only writer of the phase. Raises `IllegalEvent`."""
        self.phase = next_phase(self.phase, event)

    def misses(self, seen: SeenAttempts) -> bool:
        """Return whether there are attempts of it that it does not know of."""
        return max(self.attempt, self.attempts_seen) < seen.last

    def take_nodes(self, nodes: tuple[int, ...], now: int) -> None:
        """Have these nodes from now on, and account for those that it had."""
        self.node_seconds += len(self.nodes) * (now - self.since_s)
        until_s = min(now, self.steps[-1][1]) if self.steps else 0
        if self.nodes and until_s > self.since_s:
            self.cost += cost_by(self.steps, len(self.nodes), self.since_s, until_s)
        self.held_s += now - self.since_s if self.nodes else 0
        self.nodes, self.since_s = nodes, now
        self.last_nodes = nodes or self.last_nodes

    def count_by(self, ran_s: float) -> None:
        """Let its shepherd's clock tell how long this attempt ran, where the queue's cannot be right.

        The prices are those of so much time from its start, for a late end says nothing about its use.
        """
        if not ran_s or clocks_agree(self.held_s, ran_s):
            return
        known = (self.node_seconds, self.held_s) if self.held_s else (len(self.last_nodes), 1)
        node_s, held_s = known
        self.node_seconds = node_s * int(ran_s) // held_s
        if self.steps:
            start_s, until_s = self.steps[0][0], self.steps[-1][1]
            of_a_node = cost_by(self.steps, 1, start_s, min(start_s + int(ran_s), until_s))
            self.cost = of_a_node * self.node_seconds // max(int(ran_s), 1)

    def stand(self, now: int) -> None:
        """Stand still from now on, without nodes."""
        self.take_nodes((), now)
        self.stopped_s = now

    def count_stand(self, now: int) -> None:
        """Stand still no longer, whatever comes now."""
        self.stood_s += now - self.stopped_s

    def stood_until(self, now: int) -> int:
        """Return how long this attempt has stood still until `now`."""
        return self.stood_s + (max(now - self.stopped_s, 0) if self.phase == "stopped" else 0)

    @property
    def reservation(self) -> str:
        """In which it runs: its user's, or one of its own if its start is fixed; "" for none."""
        own = f"job {self.number}" if self.request.at else ""
        return self.request.reservation or own

    def own_slot(self, nodes: int) -> NodeClaim:
        """Return what is booked for a job whose start is fixed, and which takes so many nodes."""
        at, user = self.request.at, self.principal.user
        return NodeClaim(
            -self.number,
            at,
            at + self.request.limit_on(self.request.nodes),
            nodes,
            self.reservation,
            user,
            shape=self.request.shape,
        )

    @property
    def shares(self) -> tuple[JobShare, ...]:
        """The credit that is reserved for the job until it is over."""
        place = self.number - self.array if self.array else 0
        return self.pays.shares_of(place) if self.pays is not None else ()

    @property
    def charge(self) -> int:
        """The cost of its last attempt, in parts of a credit: never more than is reserved for it."""
        return min(self.cost, self.pays.most) if self.pays is not None else 0

    @property
    def waits_again(self) -> bool:
        """Whether it has lost the nodes on which it ran, and waits for others."""
        return self.phase == "queued" and self.begun_times > 0

    @property
    def over(self) -> bool:
        return self.phase in OVER

    @property
    def on_nodes(self) -> bool:
        return self.phase in ON_NODES

    @property
    def under_way(self) -> bool:
        return self.phase in UNDER_WAY
