"""Consequences of each fact: jobs move, nodes are given and taken back, effects are noted.

Nothing here asks whether something may happen: it has happened. `APPLY` says which method takes a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from kalends.batch.queue import facts as f
from kalends.batch.queue.accounts import AccountNumbers, JobAccounts
from kalends.batch.queue.dependencies import Dependencies
from kalends.batch.queue.effects import (
    Continue,
    Kill,
    Occupied,
    QueueEffects,
    Relimit,
    Resize,
    StandStill,
    Start,
)
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.job_table import JobTable
from kalends.batch.queue.kept_offers import KeptOffers
from kalends.batch.queue.machine_room import Given, MachineRoom
from kalends.batch.queue.milestones import MilestoneWatch
from kalends.batch.queue.no_shows import NoShows
from kalends.batch.queue.open_changes import OpenChanges
from kalends.batch.queue.own_policy import DEFAULT_POLICY, Watch, unwatched
from kalends.batch.queue.priority_classes import charged_class
from kalends.batch.queue.reserved_jobs import DONE, UNUSED, Reserved, ReservedJobs, slot_end_of
from kalends.core.steps import is_key_of_part
from kalends.scheduling.job import Job
from kalends.scheduling.scheduler import Scheduler

UNCHARGED: Final[frozenset[f.EndKind]] = frozenset({"not-started", "node-failed", "lost"})
"""Ends of attempts that were not their user's doing: nobody is charged for them."""


PARTS_OF_CREDIT_SECOND: Final = 1_000
"""A node-second for one credit an hour, in parts of a credit."""

BEGUN_SINCE: Final = (
    "it started after the backup was made from which the machine's store was restored"
)


class JobFlow:
    """The state that the facts have made, and the effects since they were last taken."""

    def __init__(
        self,
        terms: f.Terms,
        scheduler_type: type[Scheduler] = Scheduler,
        watch: Watch = unwatched,
        *,
        prescribed: bool = False,
    ) -> None:
        """As `MachineRoom`."""
        self.terms = terms
        self.configured = terms
        """As the owner has set them; `terms` may have a policy that an operator has switched to."""
        self.effects = QueueEffects()
        self.table = JobTable()
        self.dependencies = Dependencies(self.table)
        self.room = MachineRoom(terms, scheduler_type, watch, prescribed=prescribed)
        self.accounts = JobAccounts(terms, self.room.granted)
        self.open_changes = OpenChanges(self.table, self.room)
        self.reserved = ReservedJobs(self.room.width)
        self.no_shows = NoShows(self.reserved.has_jobs)
        self.kept = KeptOffers()
        self.numbers = AccountNumbers()
        self.early: dict[int, BatchJob] = {}
        """Jobs whose time to be queued has not come, by number."""
        self.milestones = MilestoneWatch()
        self.unpriced: dict[int, None] = {}
        """Jobs that have begun, or gone on, and whose price is still to be told by `JobPriced`."""

    @property
    def policy(self) -> str:
        """The name of the policy that decides: the default one's if the owner's own was disabled."""
        return DEFAULT_POLICY if self.room.fault else self.terms.policy

    def take_effects(self) -> QueueEffects:
        """Return all effects since the last call."""
        taken, self.effects = self.effects, QueueEffects()
        if self.terms.handed_to:
            taken.occupied.clear()
        return taken

    def apply(self, fact: f.AnyFact, now: int) -> None:
        """Let `fact` have happened at `now`."""
        if due := self.room.due_back(now):
            self._give(self.room.resume(due, now), now)
        APPLY[type(fact)](self, fact, now)
        self._serve_reservations(now)
        self._give_back_unused(now)
        self._give_up_keeping(now)
        for number in self.room.overdue():
            self.effects.occupied.append(self.occupied(self.table.jobs[number]))

    # Waiting

    def submitted(self, fact: f.JobSubmitted, now: int) -> None:
        added = self.table.add(fact, now)
        self.milestones.submitted(added)
        for job in added:
            self.accounts.submitted(job)
            if job.reservation:
                self.reserved.add(job)
            if job.request.at:
                self._own_slot_changed((), (job.own_slot(self.room.width(job.request)),), now)
                self.effects.occupied.append(self.occupied(job))
            if job.request.held:
                job.reasons.add("user")
            if job.request.not_before > now:
                job.reasons.add("time")
                self.early[job.number] = job
            if self.dependencies.add(job):
                job.reasons.add("dependency")
            self._queue_unless_held(job, now)

    def taken(self, fact: f.OfferTaken, now: int) -> None:
        """It begins where it has its place; on its nodes, unless they were kept for too long by now."""
        job = self.table.jobs[fact.job]
        job.offered = False
        self.effects.moved.add(job.number)
        if "undecided" in job.reasons:
            job.reasons.discard("undecided")
            job.offered_s = 0
            self._queue_unless_held(job, now)
        if job.phase != "kept":
            return
        assert job.entry is not None
        if now - job.since_s > job.offered_s:
            self._run_again(job, now)
            return
        job.entry.stays = False
        job.started_s = job.since_s = now
        job.node_seconds = job.held_s = job.cost = 0
        job.enter("start")
        self._start(job, now)

    def held(self, fact: f.JobHeld, now: int) -> None:
        job = self.table.jobs[fact.job]
        if job.phase == "queued":
            self.accounts.unqueued(job)
            job.enter("hold")
            if job.entry is not None:
                self._give(self.room.hold(job.entry, now), now)
        self.effects.moved.add(job.number)
        job.reasons.add(fact.reason)
        self._queue_unless_held(job, now)
        self._queue_what_limits_allow(now)

    def released(self, fact: f.JobReleased, now: int) -> None:
        job = self.table.jobs[fact.job]
        if fact.reason == "dependency":
            self.dependencies.drop(job)
        elif fact.reason == "time":
            self.early.pop(job.number, None)
        job.reasons.discard(fact.reason)
        self._queue_unless_held(job, now)

    def withdrawn(self, fact: f.JobWithdrawn, now: int) -> None:
        self._withdraw(self.table.jobs[fact.job], fact.detail, now)

    def time_passed(self, fact: f.PolicyWoken, now: int) -> None:
        for job in [each for each in self.early.values() if each.request.not_before <= now]:
            del self.early[job.number]
            job.reasons.discard("time")
            self._queue_unless_held(job, now)
        self._queue_what_limits_allow(now)
        self.effects.actions += self.open_changes.withdraw(self.terms.change_s, now)
        self._give(self.room.pass_time(now), now)

    # On nodes

    def begun(self, fact: f.JobBegun, now: int) -> None:
        job = self.table.jobs[fact.job]
        job.enter("begun")
        self.effects.milestones += self.milestones.begun(job, again=job.begun_attempt > 0)
        job.begun_attempt = fact.attempt
        job.begun_times += 1
        if job.begun_times == 1:
            self.table.started(job)
        job.begun_s = min(max(fact.at_s, job.asked_s), now) if fact.at_s else job.asked_s
        if self.terms.handed_to:
            # Until now it has waited there.
            job.since_s = job.started_s = job.begun_s
            self._to_price(job)
        slot = self.reserved.slots.get(job.slot)
        if slot is not None:
            job.until_s = slot_end_of(job.request, slot, job.begun_s)
        self._say_limit(job)
        if job.request.malleable and job.phase == "running" and not job.reservation:
            assert job.entry is not None
            self._give(self.room.let_change(job.entry, now), now)
        self._tell_dependents(job, now)

    def void(self, fact: f.AttemptVoid, now: int) -> None:
        """Nothing of it has run: the next attempt is made on the same nodes, or the job waits again.

        It waits if one of its nodes has failed meanwhile, or if it was to stop; and if time has passed, for
        there may not be all of its time on these nodes any more before somebody's reservation.
        """
        job = self.table.jobs[fact.job]
        if job.reservation and job.phase == "starting" and job.until_s <= now:
            job.enter("kill")
            job.kill_detail = "its reservation has ended"
        if job.phase == "starting" and (job.reservation or now == job.asked_s):
            job.enter("void")
            self._start(job, now)
        elif job.phase != "ending" or (job.failed_node and not job.unwanted):
            self._run_again(job, now)
        else:
            job.enter("void")
            self._vacate(job, now)
            self._over(job, now)

    def attempts_seen(self, fact: f.AttemptsSeen, now: int) -> None:
        """What has begun since the journal was copied is not begun again, unless that does no harm.

        Nothing begins before all of it is known: one of them might.
        """
        idle = sorted(set(range(self.room.nodes)) - self.room.scheduler.cluster.out_nodes)
        self._give(self.room.drain(idle, BEGUN_SINCE, now), now)
        for each in fact.attempts:
            job = self.table.jobs[each.job]
            job.attempts_seen = each.last
            if not each.begun or job.request.rerun:
                continue
            if not job.under_way:
                self._withdraw(job, BEGUN_SINCE, now)
            elif job.phase != "ending":
                self._kill(job, BEGUN_SINCE, now)
        self._give(self.room.resume(idle, now), now)

    def kill_asked(self, fact: f.KillAsked, now: int) -> None:
        job = self.table.jobs[fact.job]
        job.unwanted = True
        self._kill(job, fact.detail, now)

    def ended(self, fact: f.JobEnded, now: int) -> None:
        job = self.table.jobs[fact.job]
        job.ending = fact.ending
        if job.failed_node and fact.ending.kind in ("killed", "lost"):
            job.ending = msgspec.structs.replace(
                fact.ending, kind="node-failed", detail=job.failed_node
            )
        if job.phase == "stopped":
            job.count_stand(now)
        job.enter("lost" if fact.ending.kind == "lost" else "ended")
        if self._runs_again(job):
            self._run_again(job, now)
        else:
            self._vacate(job, now)
            self._over(job, now)

    def size_changed(self, fact: f.SizeChanged, now: int) -> None:
        job = self.table.jobs[fact.job]
        assert job.entry is not None
        job.enter("changed")
        job.withdrawn = False
        if fact.why:
            job.refused, job.refused_s = fact.why, now
        if fact.nodes == job.entry.target:
            until_s, given = self.room.resized(job.entry, fact.took_s, now)
        else:
            until_s, given = self.room.kept(job.entry, now)
        job.take_nodes(self.room.nodes_of(job.entry), now)
        limit_s = until_s - job.entry.ending_s - job.started_s - job.stood_s
        if job.limit_s != limit_s:
            job.limit_s = limit_s
            self.effects.actions.append(Relimit(job, job.attempt, job.limit_s))
        self.effects.occupied.append(self.occupied(job))
        self.effects.moved.add(job.number)
        self._give(given, now)

    def size_wanted(self, fact: f.SizeWanted, now: int) -> None:
        entry = self.table.jobs[fact.job].entry
        assert entry is not None
        self._give(self.room.change_size(entry, fact.nodes, now), now)

    def stopped(self, fact: f.JobStopped, now: int) -> None:
        job = self.table.jobs[fact.job]
        assert job.entry is not None
        job.enter("stopped")
        job.stand(now)
        self.effects.occupied.append(Occupied(job.number, 0, 0, 0))
        self.effects.moved.add(job.number)
        self._give(self.room.stop_answered(job.entry, now, stands=True), now)

    def not_stopped(self, fact: f.StopFailed, now: int) -> None:
        job = self.table.jobs[fact.job]
        assert job.entry is not None
        job.enter("go on")
        self.effects.moved.add(job.number)
        self._give(self.room.stop_answered(job.entry, now, stands=False), now)

    # The machine

    def terms_set(self, fact: f.TermsSet, now: int) -> None:
        self.configured = fact.terms
        self._follow(fact.terms, now)

    def policy_switched(self, fact: f.PolicySwitched, now: int) -> None:
        self._follow(msgspec.structs.replace(self.terms, policy=fact.policy), now)

    def _follow(self, terms: f.Terms, now: int) -> None:
        self.terms = self.accounts.terms = terms
        self._give(self.room.switch(terms, now), now)
        self._queue_what_limits_allow(now)

    def policy_put_back(self, fact: f.PolicyPutBack, now: int) -> None:
        self._give(self.room.put_back(now), now)

    def replanned(self, fact: f.Replanned, now: int) -> None:
        self._give(self.room.replan(now), now)
        self.effects.moved.update(job.number for job in self.table if job.phase == "queued")

    def claims_changed(self, fact: f.ClaimsChanged, now: int) -> None:
        known = self.claims()
        gone = [known[booking] for booking in fact.gone if booking in known]
        came = self.no_shows.change(gone, fact.came, now)
        turned_out = self.reserved.change(fact.gone, came, now)
        staying = self.reserved.stay(turned_out, came, now)
        guests = {
            booking: [job.entry for job in jobs if job.entry is not None]
            for booking, jobs in staying.items()
        }
        given, unplaced = self.room.claims_changed(fact.gone, came, now, guests)
        self.effects.unplaced += unplaced
        for booking, jobs in staying.items():
            for job in jobs:
                turned_out.remove(job)
                self._stay_in(self.reserved.slots[booking], job)
        for job in turned_out:
            job.slot_end_s = now
            self.effects.occupied.append(self.occupied(job))
            if job.phase != "ending":
                self._kill(job, "its reservation no longer has these nodes", now)
        self._give(given, now)

    def drained(self, fact: f.NodesDrained, now: int) -> None:
        self._give(self.room.drain(fact.nodes, fact.detail, now, fact.until_s), now)

    def failed(self, fact: f.NodesFailed, now: int) -> None:
        """Nodes that have failed take nothing new; what ran there is ended, and may run again elsewhere."""
        self._give(self.room.drain(fact.nodes, fact.detail, now), now)
        gone = set(fact.nodes)
        for job in [
            each for each in self.table if each.on_nodes and not gone.isdisjoint(each.nodes)
        ]:
            if job.phase == "kept":
                self._run_again(job, now)
                continue
            job.failed_node = fact.detail or "a node has failed"
            self._kill(job, job.failed_node, now)

    def resumed(self, fact: f.NodesResumed, now: int) -> None:
        self._give(self.room.resume(fact.nodes, now), now)

    # What the steps above have in common

    def _queue_unless_held(self, job: BatchJob, now: int) -> None:
        """Queue a job that nothing holds any more; a limit may be the last to do so."""
        if "limit" in job.reasons:
            job.reasons.discard("limit")
            self.accounts.unhold(job)
        if job.reasons:
            return
        if self.accounts.may_queue(job, now):
            self._queue(job, now)
        else:
            job.reasons.add("limit")
            self.accounts.hold(job)

    def _queue_what_limits_allow(self, now: int) -> None:
        """Queue jobs that a limit has held, as far as there is room under it now."""
        while (job := self.accounts.first_free(now)) is not None:
            job.reasons.discard("limit")
            self.accounts.unhold(job)
            self._queue(job, now)

    def _queue(self, job: BatchJob, now: int) -> None:
        """Let the job wait for nodes, of the machine or of its reservation."""
        entry = self._queued(job, now)
        if entry is not None:
            self._give(self.room.queue(entry, now), now)

    def _queued(self, job: BatchJob, now: int) -> Job | None:
        """Let the job be queued, and return what the policy is to see of it; None in a reservation."""
        self.accounts.queued(job)
        job.enter("release")
        self.effects.moved.add(job.number)
        if job.entry is None and not job.reservation:
            job.entry = self._entry_of(job, now)
        return job.entry

    def _run_again(self, job: BatchJob, now: int) -> None:
        """An attempt was lost, or has not begun, not by its user's doing: the job waits at its old place."""
        job.enter("requeue")
        job.failed_node = job.kill_detail = ""
        if not job.offered:
            job.offered_s = 0
        entry = self._take_nodes_back(job, now)
        job.ending = None
        again = self._queued(job, now) if self.accounts.may_queue(job, now) else None
        if again is not None:
            given = self.room.run_again(entry, again, now)
        else:
            given = self.room.end(entry, now, by_itself=False)
        if job.phase == "held":
            self._queue_unless_held(job, now)
        if job.reservation:
            self.reserved.add(job)
        if job.request.at:
            self.effects.occupied.append(self.occupied(job))
        self._give(given, now)
        self._queue_what_limits_allow(now)

    def _entry_of(self, job: BatchJob, now: int) -> Job:
        terms, user, fair = self.terms, job.principal.user, self.terms.fair_share
        priority = terms.classes.get(job.request.priority or terms.default_class, 0)
        entry = self.room.entry_of(job, priority, self.numbers.of_user(user), now)
        name = user if fair.by == "user" else job.request.project
        entry.account = self.numbers.of_account(fair.by, name)
        entry.share = fair.shares.get(name, 1)
        return entry

    def _give(self, given: Iterable[Given], now: int) -> None:
        """Start what has got nodes, or let it go on; ask what is to have others, or to stop."""
        for number, nodes, changes, stops in given:
            job = self.table.jobs[number]
            if changes:
                self._ask_to_change(job, nodes, now)
            elif stops:
                job.stops += 1
                job.enter("stop")
                self.effects.actions.append(StandStill(job, job.attempt, job.stops))
                self.effects.moved.add(number)
            elif job.phase == "stopped":
                self._let_go_on(job, nodes, now)
            else:
                self._begin_attempt(job, nodes, now)
            self.effects.occupied.append(self.occupied(job))

    def _ask_to_change(self, job: BatchJob, nodes: tuple[int, ...], now: int) -> None:
        job.change += 1
        job.enter("ask")
        self.effects.actions.append(Resize(job, job.attempt, job.change, nodes))
        assert job.entry is not None
        # What it gains is its own from now on, what it gives up until it is gone.
        job.take_nodes(self.room.nodes_of(job.entry), now)
        self.effects.moved.add(job.number)

    def _let_go_on(self, job: BatchJob, nodes: tuple[int, ...], now: int) -> None:
        job.count_stand(now)
        job.take_nodes(nodes, now)
        job.enter("go on")
        self.effects.actions.append(Continue(job, job.attempt, job.stops, nodes))
        self.effects.moved.add(job.number)
        self._to_price(job)
        if job.request.malleable:
            assert job.entry is not None
            self._give(self.room.let_change(job.entry, now), now)

    def _begin_attempt(self, job: BatchJob, nodes: tuple[int, ...], now: int) -> None:
        assert job.entry is not None
        job.node_seconds = job.held_s = job.change = job.stops = job.stood_s = job.cost = 0
        job.steps = ()
        job.withdrawn, job.refused = False, ""
        job.started_s = now
        job.limit_s = job.entry.until_s - now - job.offered_s - job.entry.ending_s
        job.take_nodes(nodes, now)
        if job.offered:
            job.enter("keep")
            job.entry.stays = True
            self.kept.keep(job)
            self.effects.moved.add(job.number)
        else:
            job.enter("start")
            self._start(job, now)

    def _start(self, job: BatchJob, now: int) -> None:
        job.attempt = max(job.attempt, job.attempts_seen) + 1
        job.asked_s = now
        if job.reservation:
            job.limit_s = job.until_s - now
        self.effects.actions.append(Start(job, job.attempt, job.nodes))
        self.effects.moved.add(job.number)
        if not self.terms.handed_to:
            self._to_price(job)

    def _to_price(self, job: BatchJob) -> None:
        if job.pays is not None:
            self.unpriced[job.number] = None

    def priced(self, fact: f.JobPriced, now: int) -> None:
        self.unpriced.pop(fact.job, None)
        self.table.jobs[fact.job].steps = fact.steps

    def _own_slot_changed(
        self, gone: Collection[int], came: Collection[f.NodeClaim], now: int
    ) -> None:
        """A job whose start is fixed has its nodes booked, or does not need them any more."""
        self.reserved.change(gone, came, now)
        given, unplaced = self.room.claims_changed(gone, came, now, {})
        assert not unplaced, "there was room when it was asked for"
        self._give(given, now)

    def _withdraw(self, job: BatchJob, detail: str, now: int) -> None:
        job.kill_detail = detail
        before = job.phase
        if before == "queued":
            self.accounts.unqueued(job)
        job.enter("withdraw")
        if before == "kept":
            self._vacate(job, now)
        elif job.entry is not None:
            entry, job.entry = job.entry, None
            self._give(self.room.withdraw(entry, now), now)
        self._over(job, now)

    def _serve_reservations(self, now: int) -> None:
        """Start what has its turn in a reservation; withdraw what cannot have one any more."""
        for job, why in self.reserved.hopeless(now):
            self._withdraw(job, why, now)
        for job, slot in self.reserved.ready(now):
            entry = self._entry_of(job, now)
            given = self.room.start_in(slot.booking, entry, now)
            if given:
                job.entry, job.slot, job.slot_end_s = entry, slot.booking, slot.end
                job.until_s = slot_end_of(job.request, slot, now)
                self.no_shows.use(slot.booking)
                self._give(given, now)

    def _give_back_unused(self, now: int) -> None:
        """Give the queue the nodes of reservations without jobs."""
        unused = self.no_shows.give_back(self.terms.no_show_s, now)
        if unused:
            self._give_back(unused, UNUSED, now)

    def _give_up_keeping(self, now: int) -> None:
        """Give other jobs the nodes of offers that were open for too long."""
        for job in self.kept.overdue(self.terms.undecided_s, now):
            job.enter("requeue")
            job.reasons.add("undecided")
            entry = self._take_nodes_back(job, now)
            self.effects.moved.add(job.number)
            self._give(self.room.end(entry, now, by_itself=False), now)
            self._queue_what_limits_allow(now)

    def _give_back(self, slots: Collection[f.NodeClaim], why: str, now: int) -> None:
        for slot in slots:
            self.reserved.give_back(slot, why)
        given, _ = self.room.claims_changed([each.booking for each in slots], (), now, {})
        self._give(given, now)

    def _part_over(self, job: BatchJob, now: int) -> None:
        """The slot of a part is for it alone: its nodes are everybody's again, unless others run there."""
        if job.request.keep_slot:
            return
        reserved = Reserved(job.reservation, job.principal.user)
        slots = () if self.reserved.has_jobs(reserved) else self.reserved.slots_of(reserved)
        if slots:
            self.no_shows.used_up(slots)
            self._give_back(slots, DONE, now)

    def _stay_in(self, slot: f.NodeClaim, job: BatchJob) -> None:
        """The job goes on in a slot of other times, perhaps."""
        job.slot, job.slot_end_s = slot.booking, slot.end
        began_s = job.begun_s if job.begun_attempt == job.attempt else job.started_s
        job.until_s = slot_end_of(job.request, slot, began_s)
        self._say_limit(job)

    def _say_limit(self, job: BatchJob) -> None:
        """Tell the shepherd of a job in a reservation if it has another time by now."""
        if job.phase in ("running", "changing") and job.reservation:
            limit_s = max(job.until_s - job.begun_s, 1)
            if limit_s != job.limit_s:
                job.limit_s = limit_s
                self.effects.actions.append(Relimit(job, job.attempt, limit_s))

    def _kill(self, job: BatchJob, detail: str, now: int) -> None:
        if job.phase == "stopped":
            job.count_stand(now)
        job.enter("kill")
        job.kill_detail = detail
        self.effects.actions.append(Kill(job, job.attempt, detail))
        self.effects.moved.add(job.number)
        if job.entry is not None:
            self._give(self.room.let_be(job.entry, now), now)

    def _vacate(self, job: BatchJob, now: int) -> None:
        """All processes of an attempt are gone: its nodes are free."""
        by_itself = job.ending is not None and job.ending.kind in ("exit", "limit")
        by_itself = by_itself and not job.reservation
        entry = self._take_nodes_back(job, now)
        self._give(self.room.end(entry, now, by_itself=by_itself), now)
        self._queue_what_limits_allow(now)

    def _take_nodes_back(self, job: BatchJob, now: int) -> Job:
        """Account for what the job had, and return what the policy has seen of it."""
        assert job.entry is not None
        job.take_nodes((), now)
        if job.ending is None or job.ending.kind in UNCHARGED:
            job.node_seconds = job.cost = 0
        else:
            job.count_by(job.ending.ran_s)
        self.accounts.ended(job, job.node_seconds, now)
        priority = charged_class(self.terms, job.request.priority, self.policy)
        if job.pays is not None:
            job.credit_seconds = job.charge // PARTS_OF_CREDIT_SECOND
        elif not job.request.reservation:
            job.credit_seconds = job.node_seconds * self.terms.tariff.get(priority, 0)
        entry, job.entry = job.entry, None
        self.effects.occupied.append(Occupied(job.number, 0, 0, 0))
        return entry

    def _runs_again(self, job: BatchJob) -> bool:
        assert job.ending is not None
        return (
            job.ending.kind in ("lost", "node-failed")
            and job.request.rerun
            and not job.unwanted
            and job.begun_times < self.terms.attempts_max
        )

    def _over(self, job: BatchJob, now: int) -> None:
        """The job is done with, whatever has become of it."""
        job.over_s = now
        self.unpriced.pop(job.number, None)
        self.early.pop(job.number, None)
        if self.terms.handed_to:
            job.last_nodes = ()  # They were places here: which nodes it had there, nobody knows.
        self.dependencies.drop(job)
        self.accounts.over(job)
        if job.reservation:
            self.reserved.drop(job)
        if job.request.at:
            self.effects.occupied.append(Occupied(job.number, 0, 0, 0))
            self._own_slot_changed((-job.number,), (), now)
        self.table.remember(job)
        self.effects.over.append(job)
        if not job.offered:  # Of what nobody has taken, nobody is told.
            self.effects.milestones += self.milestones.over(job)
        self.effects.moved.add(job.number)
        self._tell_dependents(job, now)
        if is_key_of_part(job.key):
            self._part_over(job, now)
        self._queue_what_limits_allow(now)

    def _tell_dependents(self, job: BatchJob, now: int) -> None:
        self.effects.moved.add(job.number)
        for free in self.dependencies.happened(job):
            free.reasons.discard("dependency")
            self._queue_unless_held(free, now)

    def claims(self) -> dict[int, f.NodeClaim]:
        """Return the claims of the calendar that were told, and not over then, by their bookings.

        Also those that are not kept: nobody has come for them, or jobs beyond their time have the nodes.
        """
        return {**self.room.claims(), **self.no_shows.given_back}

    def occupied(self, job: BatchJob) -> Occupied:
        """Return what a job has of the calendar: the larger of two sizes while it changes.

        In its slot that is nothing, for the reservation stands there; unless that is its own.
        """
        entry = job.entry
        if job.request.at:
            slot = job.own_slot(max(self.room.width(job.request), len(job.nodes)))
            until_s = max(slot.end, entry.until_s if entry is not None else 0)
            return Occupied(job.number, slot.nodes, slot.start, until_s)
        assert entry is not None
        count = len(job.nodes)
        if job.reservation:
            begin_s = max(job.slot_end_s, job.since_s)
            return Occupied(
                job.number, count if entry.until_s > begin_s else 0, begin_s, entry.until_s
            )
        return Occupied(job.number, count, job.since_s, entry.until_s)


APPLY: Final[Mapping[type[f.Fact], Callable[[JobFlow, Any, int], None]]] = {
    f.TermsSet: JobFlow.terms_set,
    f.PolicySwitched: JobFlow.policy_switched,
    f.JobSubmitted: JobFlow.submitted,
    f.JobPriced: JobFlow.priced,
    f.OfferTaken: JobFlow.taken,
    f.JobHeld: JobFlow.held,
    f.JobReleased: JobFlow.released,
    f.JobWithdrawn: JobFlow.withdrawn,
    f.KillAsked: JobFlow.kill_asked,
    f.JobBegun: JobFlow.begun,
    f.AttemptsSeen: JobFlow.attempts_seen,
    f.AttemptVoid: JobFlow.void,
    f.JobEnded: JobFlow.ended,
    f.SizeChanged: JobFlow.size_changed,
    f.SizeWanted: JobFlow.size_wanted,
    f.JobStopped: JobFlow.stopped,
    f.StopFailed: JobFlow.not_stopped,
    f.PolicyWoken: JobFlow.time_passed,
    f.Replanned: JobFlow.replanned,
    f.PolicyPutBack: JobFlow.policy_put_back,
    f.ClaimsChanged: JobFlow.claims_changed,
    f.NodesDrained: JobFlow.drained,
    f.NodesFailed: JobFlow.failed,
    f.NodesResumed: JobFlow.resumed,
}
"""Which method takes a fact."""
