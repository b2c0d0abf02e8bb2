"""The queue of one machine: requests become facts, and facts become starts and kills.

Calls check what is asked, and record facts. A fact is applied at once (`flow`), and stored before anything
that follows from it is done (`QueueEffects`: entries first). Applying reads nothing but the fact, its time,
and what the facts before have made. So after a crash the stored facts are replayed, and the queue is what it
was: the same jobs on the same nodes, the same plan. What was decided and may or may not have happened, a
start or a kill, is then looked up (`recover`), never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Final

from msgspec import structs

from kalends.batch.queue import facts as f
from kalends.batch.queue.checkpoint import QueueState
from kalends.batch.queue.effects import (
    Continue,
    Kill,
    LookUp,
    QueueEffects,
    Relimit,
    StandStill,
    Start,
)
from kalends.batch.queue.flow import JobFlow
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.own_policy import Watch, unwatched
from kalends.batch.queue.submission import check_submission
from kalends.core.errors import Conflict, InvalidInput, NotFound, StoreDamaged
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.scheduler import Scheduler

GONE: Final = "the record of its end was removed"

OWN_REASONS: Final[frozenset[f.Reason]] = frozenset({"user", "dependency", "time"})
"""What keeps a job back that its user may release: they said so themselves."""


class QueueBroken(Exception):
    """A fact could not be applied: memory may hold half a step, the store holds whole ones.

    The queue is to be used no more, and to be made again from what is stored.
    """


class BatchQueue:
    """The queue of the machine `name`. Not thread-safe; every call takes effect at once in memory.

    `entries` are those that were stored, all of them in order; or all behind `known`, if there is a
    checkpoint. `now` is in whole seconds UTC everywhere, and counts as the last one where it lies before
    it: for a clock that was set back, time stands still until it has caught up. Without `terms` it only
    follows. Raises `StoreDamaged` for entries that no queue can have made, and `InvalidInput` for `terms` of
    another machine than theirs.
    """

    def __init__(
        self,
        name: str,
        terms: f.Terms | None,
        now: int,
        entries: Iterable[f.JournalEntry] = (),
        *,
        scheduler_type: type[Scheduler] = Scheduler,
        watch: Watch = unwatched,
        known: QueueState | None = None,
        prescribed_to: int = 0,
    ) -> None:
        """What policies have decided about `entries` is compared with what they decide now.

        Up to number `prescribed_to` it is taken from there instead: for another version of a policy.
        """
        self.name = name
        self._prescribed_to = prescribed_to
        self.number = 0
        """The number of the last entry."""
        self.last_s = 0
        self._first_number = 1
        stored = iter(entries)
        if known is not None:
            self.number, self.last_s, self.flow = known
            self.flow.room.resume_as(scheduler_type, watch)
        else:
            first = next(stored, None)
            if first is None:
                assert terms is not None, "a queue that only follows needs facts to follow"
                self.flow = JobFlow(terms, scheduler_type, watch)
                self.record(f.TermsSet(terms), now)
                return
            if not isinstance(first.fact, f.TermsSet):
                raise StoreDamaged("the journal does not begin with the owner's terms", where=name)
            self.flow = JobFlow(
                first.fact.terms, scheduler_type, watch, prescribed=prescribed_to > 0
            )
            stored = chain((first,), stored)
        self.follow(stored)
        self._prescribed_to = min(prescribed_to, self.number)
        if terms is not None and self.flow.configured != terms:
            self.flow.room.check_machine(terms)
            self.record(f.TermsSet(terms), now)
        if terms is not None and self.flow.room.stands_in:
            self.record(f.Replanned(), now)

    def follow(self, entries: Iterable[f.JournalEntry]) -> None:
        """Take further facts as they were stored; what follows from them was done before, or elsewhere."""
        decisions = self.flow.room.decisions
        for entry in entries:
            fact = entry.fact
            self.flow.room.prescribed = entry.number <= self._prescribed_to
            if isinstance(fact, f.Decided):
                decisions.replay(fact.passes, fact.fault)
                entry = structs.replace(entry, fact=fact.about)
            else:
                decisions.replay((), "")
            try:
                self._apply(entry)
            except StoreDamaged:
                raise
            except Exception as error:
                raise StoreDamaged(
                    f"entry {entry.number} cannot be replayed by this version: {error!r}",
                    where=self.name,
                    remedy="install the version that wrote it, or restore the store from a backup",
                ) from error
        self.flow.take_effects()

    @property
    def next_number(self) -> int:
        """The number of the next job that is submitted."""
        return max(self.flow.table.next_number, self._first_number)

    def skip_numbers(self, before: int) -> None:
        """Give no job a number below this one, until the next restart: a forgotten job may have had it."""
        self._first_number = before

    @property
    def state(self) -> QueueState:
        """State after the facts, to be stored once all their effects were taken."""
        return QueueState(self.number, self.last_s, self.flow)

    # What users ask

    def submit(
        self, principal: Principal, request: JobRequest, key: str, now: int,
        pays: f.JobPays | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Take a job, or an array; return the number of the first, and how many. Repeating is harmless.

        What it `pays` at most was found to be there, and is reserved with this step.
        Raises `InvalidInput` for what can never run here, `NotAllowed` and `LimitExceeded` where the
        owner's limits are in the way, `KeyReused` for a key that has asked for something else; then
        nothing has happened.
        """
        table = self.flow.table
        known = table.submitted_before(principal.user, key, request)
        if known is not None:
            return known.first, known.number
        first = self.next_number
        check_submission(self.flow, principal, request, first, max(now, self.last_s))
        self.record(f.JobSubmitted(first, key, principal, request, pays=pays), now)
        return first, len(request.indices) or 1

    def hold(self, number: int, reason: f.Reason, now: int) -> None:
        """Keep a waiting job back; repeating is harmless. Raises `NotFound`, `Conflict` if it has begun."""
        job = self.job(number)
        if job.offered or job.under_way:
            said = "only offered" if job.offered else f"{job.phase}, not waiting"
            raise Conflict(f"job {number} is {said}", where="job", remedy="kill it instead")
        if reason not in job.reasons:
            self.record(f.JobHeld(number, reason), now)

    def release(self, number: int, reasons: Collection[f.Reason], now: int) -> None:
        """End such holds of a job; repeating is harmless. Raises `NotFound`."""
        job = self.job(number)
        for reason in sorted(job.reasons & set(reasons)):
            self.record(f.JobReleased(number, reason), now)

    def cancel(self, number: int, detail: str, now: int) -> None:
        """Withdraw a job that waits, or end one that has begun; repeating is harmless. Raises `NotFound`."""
        job = self.job(number)
        if not job.under_way:
            self.record(f.JobWithdrawn(number, detail), now)
        elif job.phase != "ending" or not job.unwanted:
            self.record(f.KillAsked(number, detail), now)

    @property
    def fault(self) -> str:
        """The reason why the owner's own policy was disabled; "" if it was not."""
        return self.flow.room.fault

    def job(self, number: int) -> BatchJob:
        """Return a job that is not over; raises `NotFound`."""
        job = self.flow.table.jobs.get(number)
        if job is None:
            raise NotFound(
                f"{self.name} has no job {number}, or the job has ended",
                where="job",
                remedy="kalends queue lists those that wait or run",
            )
        return job

    # What becomes of attempts

    def begun(self, number: int, attempt: int, now: int, at_s: int = 0) -> None:
        """The shepherd of an attempt has begun, `at_s` by its clock; 0: when it was asked to, it seems.

        Told again, or too late, it changes nothing.
        """
        job = self._at(number, attempt)
        if job is not None and job.begun_attempt != attempt:
            self.record(f.JobBegun(number, attempt, at_s), now)

    def attempts_seen(self, seen: Iterable[f.SeenAttempts], now: int) -> None:
        """There are later attempts of jobs than those that are known; told again, it changes nothing.

        No other attempt gets the number of one of these. A job of which any has begun may not run again.
        """
        jobs = self.flow.table.jobs
        if news := tuple(each for each in seen if each.job in jobs and jobs[each.job].misses(each)):
            self.record(f.AttemptsSeen(news), now)

    def void(self, number: int, attempt: int, now: int) -> None:
        """An attempt has not begun, and never can; or it had, and then its record is gone: it is lost."""
        job = self._at(number, attempt)
        if job is None:
            return
        if job.begun_attempt != attempt:
            self.record(f.AttemptVoid(number, attempt), now)
        else:
            self.record(f.JobEnded(number, attempt, f.JobEnding(kind="lost", detail=GONE)), now)

    def ended(self, number: int, attempt: int, ending: f.JobEnding, now: int) -> None:
        """All processes of an attempt are gone."""
        if self._at(number, attempt) is not None:
            self.record(f.JobEnded(number, attempt, ending), now)

    def size_changed(
        self, number: int, change: int, nodes: int, took_s: float, now: int, why: str = ""
    ) -> None:
        """Record the answer to a change: the program has `nodes` nodes now, or 0: it refuses, and says `why`.

        Whatever else it says that it has counts as refused. Told again, or too late, it changes nothing.
        """
        job = self.flow.table.jobs.get(number)
        if job is None or job.phase != "changing" or job.change != change:
            return
        assert job.entry is not None
        entry = job.entry
        if nodes != entry.target:
            why = why or f"the program reports {nodes} ranks, not {entry.target}"
            nodes = len(self.flow.room.nodes_before(entry))
        self.record(f.SizeChanged(number, change, nodes, took_s, why), now)

    def stopped(self, number: int, attempt: int, stop: int, now: int) -> None:
        """All of an attempt stands still, as it was asked to. Told again, or too late, it changes nothing."""
        if self._at_stop(number, attempt, stop):
            self.record(f.JobStopped(number, attempt, stop), now)

    def not_stopped(self, number: int, attempt: int, stop: int, detail: str, now: int) -> bool:
        """An attempt that has begun cannot be stopped; return whether that is news, else nothing changes."""
        news = self._at_stop(number, attempt, stop)
        if news:
            # Who has said so has begun.
            self.begun(number, attempt, now)
            self.record(f.StopFailed(number, attempt, stop, detail), now)
        return news

    def wanted(self, number: int, nodes: int, now: int) -> None:
        """Have a running program change its size as it wants to. Raises `Conflict` with why it cannot."""
        job = self.flow.table.jobs.get(number)
        if job is None or job.phase != "running" or job.entry is None:
            raise Conflict("the job changes its size, or ends", where="want", remedy="ask again")
        if job.reservation:
            raise Conflict("its nodes belong to a reservation", where="want")
        if not job.request.malleable or nodes not in job.request.sizes:
            sizes = ", ".join(map(str, job.request.sizes)) or str(job.request.nodes)
            raise Conflict(f"its job is for {sizes} nodes", where="want")
        if nodes == len(job.nodes):
            return
        why = self.flow.room.denies_size(job.entry, nodes, max(now, self.last_s))
        if why:
            raise Conflict(why, where="want")
        self.record(f.SizeWanted(number, nodes), now)

    # What the calendar and the operator say

    def claims_changed(
        self, gone: Collection[int], came: Collection[f.NodeClaim], now: int
    ) -> None:
        """The calendar has other claims than before; see `QueueEffects.unplaced`."""
        if gone or came:
            self.record(f.ClaimsChanged(tuple(gone), tuple(came)), now)

    def drain(self, nodes: Collection[int], detail: str, now: int, until_s: int = 0) -> None:
        """Let nodes take no new jobs until `until_s`, or (0) until they are resumed.

        Raises `InvalidInput` for nodes that are not there, and for a time that has passed.
        """
        named = checked_nodes(nodes, self.flow.room.nodes)
        if until_s and until_s <= max(now, self.last_s):
            raise InvalidInput("that time has passed", where="until", remedy="give a later time")
        self.record(f.NodesDrained(named, detail, until_s), now)

    def fail(self, nodes: Collection[int], detail: str, now: int) -> None:
        """Take nodes away from the jobs that run on them. Raises `InvalidInput` as `drain` does."""
        self.record(f.NodesFailed(checked_nodes(nodes, self.flow.room.nodes), detail), now)

    def resume(self, nodes: Collection[int], now: int) -> None:
        """Let nodes take jobs again. Raises `InvalidInput` as `drain` does."""
        self.record(f.NodesResumed(checked_nodes(nodes, self.flow.room.nodes)), now)

    def set_policy(self, policy: str, now: int) -> None:
        """Let another policy decide, until the owner sets other terms. Raises `InvalidInput`.

        One that was disabled decides again.
        """
        policy_maker(policy)
        if policy != self.flow.terms.policy:
            self.record(f.PolicySwitched(policy), now)
        elif self.fault:
            self.record(f.PolicyPutBack(), now)

    def replan(self, now: int) -> list[tuple[int, int, int]]:
        """Recompute the plan; return the jobs whose promised start changed: before, and now or 0."""
        before = self.flow.room.promises()
        self.record(f.Replanned(), now)
        after = self.flow.room.promises()
        return [
            (number, start_s, after.get(number, 0))
            for number, start_s in before.items()
            if after.get(number, 0) != start_s
        ]

    # Time, effects, recovery

    def advance(self, now: int) -> None:
        """Let time pass: call it when `next_due_s` has come."""
        due_s = self.next_due_s()
        if due_s is not None and max(now, self.last_s) >= due_s:
            self.record(f.PolicyWoken(), now)

    def next_due_s(self) -> int | None:
        """Return when `advance` is due without another event before; None: never."""
        times = [job.request.not_before for job in self.flow.early.values()]
        others = (
            self.flow.room.wake_at(self.last_s),
            self.flow.open_changes.due_s(self.flow.terms.change_s),
            self.flow.reserved.next_due_s(self.last_s),
            self.flow.accounts.next_due_s(self.last_s),
            self.flow.no_shows.next_due_s(self.flow.terms.no_show_s, self.last_s),
            self.flow.kept.next_due_s(self.flow.terms.undecided_s),
        )
        back = self.flow.room.back.values()
        return min([*times, *back, *(each for each in others if each is not None)], default=None)

    def take_effects(self) -> QueueEffects:
        """Return all effects since the last call."""
        return self.flow.take_effects()

    def recover(self) -> None:
        """After a restart: look up what may have been begun, and show the calendar what runs."""
        self._withdraw_hopeless(self.last_s)
        recover(self.flow)

    def lose_host(self, detail: str, now: int) -> list[int]:
        """In the place of `recover` on another host: end as lost what may have begun on the one before.

        Return the numbers of these jobs. Those that may run again wait, and others begin on their nodes.
        """
        self._withdraw_hopeless(self.last_s)
        effects = self.flow.effects
        # What was decided since the restart is still to be asked for, and begins here.
        begins = {each.job.number for each in effects.actions if isinstance(each, Start)}
        lost = {
            job.number: job.attempt
            for job in self.flow.table
            if job.under_way and job.number not in begins
        }
        for number, attempt in lost.items():
            self.ended(number, attempt, f.JobEnding(kind="lost", detail=detail), now)
        occupy(self.flow)
        effects.actions = [
            each for each in effects.actions if lost.get(each.job.number) != each.attempt
        ]
        there = self.flow.table.jobs
        effects.occupied = [
            each for each in effects.occupied if not each.nodes or each.number in there
        ]
        return list(lost)

    def record(self, fact: f.AnyFact, now: int) -> None:
        """Apply a fact. The caller has checked that it can be true."""
        self._record(fact, now)
        self._withdraw_hopeless(now)

    def _withdraw_hopeless(self, now: int) -> None:
        """End jobs that wait for what never comes: each by a fact of its own, as a chain of them is long."""
        hopeless = self.flow.dependencies.hopeless
        while hopeless:
            number = min(hopeless)
            self._record(f.JobWithdrawn(number, hopeless[number]), now)

    def _record(self, fact: f.AnyFact, now: int) -> None:
        entry = f.JournalEntry(self.number + 1, max(now, self.last_s), fact)
        decisions = self.flow.room.decisions
        decisions.record()
        self.flow.room.prescribed = False
        try:
            self._apply(entry)
        except Exception as error:
            raise QueueBroken(f"{self.name} broke at {type(fact).__name__}: {error!r}") from error
        taken = decisions.taken()
        if taken is not None:
            entry = structs.replace(entry, fact=f.Decided(fact, *taken))
        self.flow.effects.entries.append(entry)

    def _apply(self, entry: f.JournalEntry) -> None:
        if entry.number != self.number + 1 or entry.now < self.last_s:
            raise StoreDamaged(
                f"entry {entry.number} at {entry.now} follows entry {self.number} at {self.last_s}",
                where=self.name,
                remedy="restore the store from a backup",
            )
        self.flow.apply(entry.fact, entry.now)
        self.number, self.last_s = entry.number, entry.now

    def _at(self, number: int, attempt: int) -> BatchJob | None:
        """Return the job if this is the attempt that it is at."""
        job = self.flow.table.jobs.get(number)
        return job if job is not None and job.under_way and job.attempt == attempt else None

    def _at_stop(self, number: int, attempt: int, stop: int) -> bool:
        job = self._at(number, attempt)
        return job is not None and job.phase == "stopping" and job.stops == stop


def checked_nodes(named: Collection[int], count: int) -> tuple[int, ...]:
    """Return the nodes that are `named`, of a machine of `count`; raises `InvalidInput` for others."""
    numbers = tuple(sorted(set(named)))
    if not numbers or numbers[0] < 0 or numbers[-1] >= count:
        raise InvalidInput(
            "no such nodes" if numbers else "no nodes are named",
            where="nodes",
            remedy=f"nodes are 0 to {count - 1}",
        )
    return numbers


def recover(flow: JobFlow) -> None:
    """Look up what may have been begun, ask again what was not answered, and show the calendar what runs.

    These effects may be missing after a restart, and do no harm twice.
    """
    occupy(flow)
    for job in flow.table:
        if job.under_way:
            flow.effects.actions.append(LookUp(job, job.attempt))
            _tell_again(flow, job)


def occupy(flow: JobFlow) -> None:
    """Show the calendar what runs, and what is booked for jobs whose start is fixed."""
    for job in flow.table:
        if job.on_nodes or job.request.at:
            flow.effects.occupied.append(flow.occupied(job))


def _tell_again(flow: JobFlow, job: BatchJob) -> None:
    actions = flow.effects.actions
    if job.phase == "ending":
        actions.append(Kill(job, job.attempt, job.kill_detail))
    elif job.phase == "stopping":
        actions.append(StandStill(job, job.attempt, job.stops))
    elif job.stops and job.on_nodes:
        actions.append(Continue(job, job.attempt, job.stops, job.nodes))
    if job.phase == "changing":
        actions.append(flow.open_changes.told(job))
    if job.change or job.reservation:
        actions.append(Relimit(job, job.attempt, job.limit_s))
