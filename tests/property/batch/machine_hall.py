"""A machine hall in memory: a queue, its store, and shepherds that keep the rule of their records.

Everything may happen at any time: requests to start lie about, hints get lost, the server dies between
any two of its effects and is made again from what was stored. The auditor looks after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kalends.batch.queue import facts as f
from kalends.batch.queue.checkpoint import decode_state, encode_state
from kalends.batch.queue.effects import (
    Action,
    Continue,
    Kill,
    LookUp,
    Relimit,
    Resize,
    StandStill,
    Start,
    Withdraw,
)
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import ALL
from kalends.scheduling.prediction.predictor import FollowingScheduler

from . import patient_twins

Attempt = tuple[int, int]
Record = Literal["empty", "begun", "ended", "void"]


@dataclass
class Run:
    """The shepherd of one attempt, and its record, which outlive the server."""

    nodes: tuple[int, ...]
    """Those on which it has ranks."""
    record: Record = "empty"
    alive: bool = False
    """Processes of it are there."""
    ending: f.JobEnding | None = None
    last_change: int = 0
    asked: tuple[int, tuple[int, ...]] | None = None
    """The change that its program has not answered, and the nodes that it is to have then."""
    before: tuple[int, ...] = ()
    """The nodes that it had before it began with that change; none: it has not begun."""
    answers: list[tuple[int, int]] = field(default_factory=list)
    """In its record: changes, and how many ranks the program said that it has then; 0: it refused."""
    stop: int = 0
    """The number of the last stop that it was asked for."""
    stops: bool = False
    """It was asked to stop, and runs yet."""
    stands: bool = False
    """Nothing of it runs: it is on no node."""
    stood: list[tuple[int, bool]] = field(default_factory=list)
    """In its record: stops, and whether it has come to a stand."""

    @property
    def runs_on(self) -> tuple[int, ...]:
        """The nodes on which something of it may run."""
        return self.nodes if self.alive and not self.stands else ()

    def ask_to_stop(self, number: int) -> None:
        """As a shepherd does it: an old number changes nothing, nor does one that was said before."""
        if not self.alive or number <= self.stop:
            return
        self.stop = number
        if self.stands:
            self.stood.append((number, True))
        else:
            self.stops = True

    def stand(self, *, can: bool) -> None:
        """It has come to a stand, or cannot be brought to that."""
        self.stood.append((self.stop, can))
        self.stops, self.stands = False, can

    def go_on(self, number: int, nodes: tuple[int, ...]) -> bool:
        """Return whether it goes on: no other stop than that counts."""
        if not (self.alive and self.stands and number == self.stop):
            return False
        self.stands, self.nodes = False, nodes
        return True

    def ask(self, number: int, nodes: tuple[int, ...]) -> None:
        if self.alive and number > self.last_change:
            self.last_change, self.asked = number, (number, nodes)

    def withdraw(self, number: int, nodes: tuple[int, ...]) -> None:
        """Take a change back, unless the program has begun with it or has answered."""
        if not self.alive or self.before:
            return
        if number > self.last_change or (self.asked is not None and self.asked[0] == number):
            self.answers.append((number, 0))
            self.last_change, self.asked = number, None


@dataclass
class Hall:
    terms: f.Terms
    now: int = 1_000
    store: list[f.JournalEntry] = field(default_factory=list)
    runs: dict[Attempt, Run] = field(default_factory=dict)
    asked: list[Attempt] = field(default_factory=list)
    """Requests to start that no shepherd has taken yet."""
    accepted: set[int] = field(default_factory=set)
    """Jobs whose submission was answered."""
    told_over: dict[int, str] = field(default_factory=dict)
    checkpoint: bytes = b""
    unstored_checkpoint: bytes = b""
    claims: dict[int, f.NodeClaim] = field(default_factory=dict)
    """What the calendar keeps for others, and the queue has taken."""

    def __post_init__(self) -> None:
        self.unplaced: set[int] = set()
        """Claims whose nodes are not kept free."""
        self.actions: list[Action] = []
        self.answers: list[int] = []
        self.queue = BatchQueue("lab/box", self.terms, self.now, self.store)
        self.gather()

    # The server

    def gather(self) -> None:
        """Take the effects of a step; nothing is stored or done yet."""
        effects = self.queue.take_effects()
        self.unstored = [*getattr(self, "unstored", ()), *effects.entries]
        self.actions += effects.actions
        self.over = [*getattr(self, "over", ()), *effects.over]
        # A job is beyond its time there: the site asks again when it has ended.
        self.unplaced.update(effects.unplaced)
        if effects.over and self.unplaced:
            again, self.unplaced = self.unplaced, set()
            came = [self.claims[each] for each in sorted(again) if each in self.claims]
            self.queue.claims_changed(sorted(again), came, self.now)
            self.gather()

    def flush(self, entries: int = 1 << 30, actions: int = 1 << 30) -> None:
        """Store, and then do, perhaps only a part of what is to be: then the server dies."""
        stored, self.unstored = self.unstored[:entries], self.unstored[entries:]
        self.store += stored
        if self.unstored:
            return
        self.checkpoint = self.unstored_checkpoint or self.checkpoint
        self.accepted.update(self.answers)
        self.answers.clear()
        for job in self.over:
            assert self.told_over.setdefault(job.number, job.phase) == job.phase
        self.over = []
        done, self.actions = self.actions[:actions], self.actions[actions:]
        for action in done:
            self.carry_out(action)

    def carry_out(self, action: Action) -> None:
        number, attempt = action.job.number, action.attempt
        if isinstance(action, Start):
            self.runs.setdefault((number, attempt), Run(action.nodes))
            self.asked.append((number, attempt))
        elif isinstance(action, Kill):
            run = self.runs.get((number, attempt))
            if run is not None and run.record == "begun" and run.alive:
                self.program_ends((number, attempt), f.JobEnding(kind="killed", status=-9))
        elif isinstance(action, LookUp):
            self.look((number, attempt), recovering=True)
        elif isinstance(action, Resize | Withdraw):
            run = self.runs[number, attempt]
            tell = run.ask if isinstance(action, Resize) else run.withdraw
            tell(action.change, action.nodes)
        elif isinstance(action, StandStill):
            run = self.runs.setdefault((number, attempt), Run(action.job.nodes))
            if run.record == "empty":
                run.record = "void"
            run.ask_to_stop(action.stop)
        elif isinstance(action, Continue):
            if self.runs[number, attempt].go_on(action.stop, action.nodes):
                self.check_alone((number, attempt))
        else:
            assert isinstance(action, Relimit)
            assert action.limit_s > 0

    def check_alone(self, attempt: Attempt) -> None:
        """Nobody else has a process where this attempt has."""
        others = {
            node for each, run in self.runs.items() if each != attempt for node in run.runs_on
        }
        nodes = self.runs[attempt].runs_on
        assert others.isdisjoint(nodes), f"{attempt} is on nodes of another: {nodes}"

    def crash(self) -> None:
        """Die, and begin anew from what was stored; what is asked of the zygote may still come."""
        self.actions, self.unstored, self.answers, self.over = [], [], [], []
        self.unstored_checkpoint = b""
        self.queue = self.begun_anew()
        full = BatchQueue("lab/box", self.terms, self.now, self.store)
        assert state_of(full) == state_of(self.queue), "a checkpoint makes another queue"
        assert plan_of(full) == plan_of(self.queue), "a checkpoint makes another plan"
        if self.store:
            prescribed = BatchQueue("lab/box", None, 0, self.store, prescribed_to=ALL)
            # Only the policy itself knows which sizes it has thought of for those that wait.
            assert state_of(prescribed)[:-1] == state_of(full)[:-1], (
                "what was decided makes another queue"
            )
        self.queue.recover()
        self.gather()
        self.compare_claims()

    def begun_anew(self) -> BatchQueue:
        known = decode_state(self.checkpoint) if self.checkpoint else None
        behind = self.store[known.number if known else 0 :]
        return BatchQueue("lab/box", self.terms, self.now, behind, known=known)

    def make_checkpoint(self) -> None:
        """As the follower does it: of what is stored, from the last checkpoint on."""
        known = decode_state(self.checkpoint) if self.checkpoint else None
        behind = self.store[known.number if known else 0 :]
        if behind:
            queue = BatchQueue(
                "lab/box", None, 0, behind, scheduler_type=FollowingScheduler, known=known
            )
            self.unstored_checkpoint = encode_state(queue.state)

    def look(self, attempt: Attempt, *, recovering: bool = False) -> None:
        """Read a record, as a server does that has had no hint; only a recovering one makes it void."""
        job = self.queue.flow.table.jobs.get(attempt[0])
        if job is None:
            return
        run = self.runs.setdefault(attempt, Run(job.nodes))
        if run.record == "begun" and run.alive:
            self.queue.begun(*attempt, self.now)
            for change, ranks in run.answers:
                self.queue.size_changed(attempt[0], change, ranks, 0.7, self.now)
            for stop, stands in run.stood:
                if stands:
                    self.queue.stopped(*attempt, stop, self.now)
                else:
                    self.queue.not_stopped(*attempt, stop, "it cannot", self.now)
        elif run.record in ("begun", "ended"):
            self.queue.begun(*attempt, self.now)
            self.queue.ended(*attempt, run.ending or f.JobEnding(kind="lost"), self.now)
        elif run.record == "void" or recovering:
            run.record = "void"
            self.queue.void(*attempt, self.now)
        self.gather()

    def look_at_all(self) -> None:
        for job in list(self.queue.flow.table):
            if job.under_way:
                stale = (job.number, job.attempt) not in self.asked
                self.look((job.number, job.attempt), recovering=stale)

    # The calendar

    def claim(self, claim: f.NodeClaim) -> None:
        """As the site does it: the calendar has seen that there is room beside what runs."""
        self.claims[claim.booking] = claim
        self.queue.claims_changed((), (claim,), self.now)
        self.gather()

    def unclaim(self, booking: int) -> None:
        del self.claims[booking]
        self.unplaced.discard(booking)
        self.queue.claims_changed((booking,), (), self.now)
        self.gather()

    def replace(self, booking: int, claim: f.NodeClaim) -> None:
        """Another claim takes the place of one: it is locked, or moved with its reservation."""
        del self.claims[booking]
        self.unplaced.discard(booking)
        self.claims[claim.booking] = claim
        self.queue.claims_changed((booking,), (claim,), self.now)
        self.gather()

    def booked(self) -> dict[int, f.NodeClaim]:
        """All that the calendar has: also what is booked for jobs whose start is fixed."""
        fixed = [job for job in self.queue.flow.table if job.request.at]
        return {**self.claims, **{-job.number: job.own_slot(job.request.nodes) for job in fixed}}

    def compare_claims(self) -> None:
        """After a restart: holds have gone that the queue had stored, and others have come."""
        known = self.queue.flow.claims()
        self.unplaced = self.queue.flow.room.unplaced()
        here = {
            number: claim for number, claim in self.claims.items() if claim.end > self.queue.last_s
        }
        gone = [number for number in known if here.get(number) != known[number]]
        came = [claim for number, claim in here.items() if known.get(number) != claim]
        self.queue.claims_changed(gone, came, self.now)
        self.gather()

    def offered(self) -> list[int]:
        return [job.number for job in self.queue.flow.table if job.offered]

    # Shepherds

    def shepherd_begins(self, which: int) -> None:
        if not self.asked:
            return
        attempt = self.asked.pop(which % len(self.asked))
        run = self.runs[attempt]
        if run.record == "empty":
            run.record, run.alive = "begun", True
            self.check_alone(attempt)

    def program_ends(self, attempt: Attempt, ending: f.JobEnding) -> None:
        run = self.runs[attempt]
        assert run.alive
        run.record, run.alive, run.ending = "ended", False, ending

    def program_begins_to_change(self, attempt: Attempt) -> None:
        """It is told to go: from now on it may have ranks on all the nodes that it had or is to have."""
        run = self.runs[attempt]
        assert run.asked is not None
        if run.before:
            return
        nodes = tuple(dict.fromkeys((*run.nodes, *run.asked[1])))
        run.before, run.nodes = run.nodes, nodes
        self.check_alone(attempt)

    def program_answers(self, attempt: Attempt, ranks: int | None) -> None:
        """It does what it was asked to, and says so; or says that it has `ranks`, and is as it was."""
        self.program_begins_to_change(attempt)
        run = self.runs[attempt]
        assert run.asked is not None
        (number, nodes), run.asked = run.asked, None
        before, run.before = run.before, ()
        run.nodes = nodes if ranks is None else before
        if ranks == len(nodes):
            ranks = 0
        run.answers.append((number, len(nodes) if ranks is None else ranks))

    def shepherd_dies(self, attempt: Attempt) -> None:
        """With everything that it has started, before it could say how that ended."""
        self.runs[attempt].alive = False

    def running(self) -> list[Attempt]:
        return [attempt for attempt, run in self.runs.items() if run.alive]

    def asked_to_stop(self) -> list[Attempt]:
        return [attempt for attempt in self.running() if self.runs[attempt].stops]

    def asked_to_change(self) -> list[Attempt]:
        return [attempt for attempt in self.running() if self.runs[attempt].asked is not None]

    # The auditor

    def check(self) -> None:
        begun: dict[int, list[int]] = {}
        for (number, attempt), run in self.runs.items():
            if run.record in ("begun", "ended"):
                begun.setdefault(number, []).append(attempt)
        jobs = {
            number: fact.request
            for entry in self.store
            if isinstance(fact := entry.said, f.JobSubmitted)
            for number in range(fact.first, fact.first + (len(fact.request.indices) or 1))
        }
        offers = {
            fact.first
            for entry in self.store
            if isinstance(fact := entry.said, f.JobSubmitted) and fact.offered_s
        }
        taken = {fact.job for entry in self.store if isinstance(fact := entry.said, f.OfferTaken)}
        for number, attempts in begun.items():
            assert number in taken or number not in offers, f"{number} was only offered"
            assert number in jobs, f"job {number} has begun, and was never stored"
            assert len(attempts) == 1 or jobs[number].rerun, f"job {number} began twice: {attempts}"
        table = self.queue.flow.table
        has = [node for job in table for node in job.nodes]
        assert len(has) == len(set(has)), "two jobs have one node"
        for (number, attempt), run in self.runs.items():
            job = table.jobs.get(number)
            if run.alive and job is not None and job.attempt == attempt:
                assert set(run.runs_on) <= set(job.nodes), (
                    f"{number} has nodes that it was not given"
                )
        for number in self.accepted:
            # Of an offer that nobody took, nothing has to be remembered.
            forgotten = number in offers and number not in taken
            known = number in table.jobs or number in table.past
            assert known or forgotten, f"job {number} is lost"
        cluster = self.queue.flow.room.scheduler.cluster
        assert cluster.free + cluster.out_of_service >= 0, cluster.free
        self.check_claims()
        flow, last_s = self.queue.flow, self.queue.last_s
        assert patient_twins.first_free(flow, last_s) is None, "a limit holds what it need not"
        assert patient_twins.hopeless(flow, last_s) == [], "somebody waits for what never comes"
        again = BatchQueue("lab/box", self.terms, self.now, [*self.store, *self.unstored])
        assert state_of(again) == state_of(self.queue), "replay makes another queue"

    def check_claims(self) -> None:
        """No job whose time is not over has nodes that were claimed before it began, but its own."""
        now = self.queue.last_s
        given_back = self.queue.flow.no_shows.given_back
        kept = {
            number: each
            for number, each in self.booked().items()
            if number not in self.unplaced and number not in given_back
        }
        claimed = sum(each.nodes for each in kept.values() if each.start <= now < each.end)
        cluster = self.queue.flow.room.scheduler.cluster
        running = sum(
            job.granted
            for _, order, job in cluster.ends
            if order not in cluster.overdue and order not in cluster.guests
        )
        assert running + claimed <= cluster.nodes, (running, claimed)
        inside = [job for job in self.queue.flow.table if job.reservation and job.on_nodes]
        assert all(job.slot not in given_back for job in inside), "somebody has come for it"
        for number, claim in kept.items():
            taken = sum(len(job.nodes) for job in inside if job.slot == number)
            assert taken <= claim.nodes, (taken, claim)
        for job in inside:
            slot = kept.get(job.slot, self.claims.get(job.slot))
            if slot is None or slot.reservation != job.reservation:
                assert job.phase == "ending" or job.slot_end_s <= now, "it runs, and has no slot"
            elif job.slot not in self.unplaced:
                assert job.until_s <= slot.end
                assert job.started_s < slot.end


def state_of(queue: BatchQueue) -> tuple[object, ...]:
    flow = queue.flow
    return (
        queue.number,
        queue.last_s,
        [
            (
                job.number,
                job.phase,
                sorted(job.reasons),
                job.attempt,
                job.nodes,
                job.ending,
                job.change,
                job.withdrawn,
                job.limit_s,
                job.node_seconds,
                job.stops,
                job.stood_s,
            )
            for job in flow.table
        ],
        dict(flow.table.past),
        dict(flow.table.submissions),
        flow.table.next_number,
        dict(flow.accounts.uses),
        flow.room.fault,
        dict(flow.no_shows.given_back),
        [(job.id, job.nodes, job.order) for job in flow.room.scheduler.policy.waiting()],
    )


def plan_of(queue: BatchQueue) -> object:
    """What it will do next, as a queue that has just begun."""
    return queue.flow.room.promises(), queue.next_due_s(), queue.flow.room.unplaced()
