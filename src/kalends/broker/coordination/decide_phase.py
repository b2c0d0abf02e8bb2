"""Telling the sites what was decided: phase two of two-phase commit, and the cancelling afterwards.

A commit is told until every chosen site has durably locked; only then may the sites forget the decision.
A cancel is told to each site once that one has locked: no site can keep it from the others.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Final

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.credentials import Credentials
from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.effects import Effects, Mark
from kalends.broker.coordination.event_log import EventLog
from kalends.broker.coordination.hearing import Hearing
from kalends.broker.coordination.identity import Identity
from kalends.broker.coordination.outbox import Outbox
from kalends.broker.coordination.pending_reclaim import Recovery
from kalends.broker.coordination.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Case, SitePart, by_site
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.contract import messages as m
from kalends.contract.calls import RequestView
from kalends.core.clock import LogicalClock
from kalends.core.intervals import Moment

RESEND_AFTER_MS: Final = 1_000
QUERY_IDS: Final = 1 << 39
"""Queries of one start are numbered from anywhere below this; those of `asking` come after them all."""
ASIDE_MAX: Final = 3
"""A request that steps break at so often is left alone: it would break at the same again."""


class Telling:
    """Decide, Cancel and Forget, and the Done that answers the first two."""

    table_type = TransactionTable
    hearing_type = Hearing

    def __init__(
        self,
        identity: Identity,
        directory: Directory,
        clock: LogicalClock,
        *,
        new_rid: Callable[[Moment], str],
        jitter: Callable[[], float],
        open_per_user_max: int = 256,
        owner_alive: Callable[[str], bool] = lambda owner: False,
        scripts: Callable[[str], str] = lambda script: "",
        certain: Callable[[], bool] = lambda: True,
    ) -> None:
        self.identity = identity
        self.directory = directory
        self.clock = clock
        self.outbox = self._outbox = Outbox()
        self._table = self.table_type(identity.owner, self._outbox, ended=self._ended)
        self.cases = self._table.cases
        self.odds = Odds()
        """What sites are like, as looks have shown. In memory only: a new start learns anew."""
        self.draining = False
        self._new_rid = new_rid
        self._open_per_user_max = open_per_user_max
        self._owner_alive = owner_alive
        self._scripts = scripts
        self._certain = certain
        self._seen: dict[str, dict[str, None]] = {}
        """For each site the scripts that it has been sent in this session, oldest first."""
        self._deadlines = Deadlines(jitter)
        # An answer that was on its way to this replica before it started again is for none of these.
        self._query_ids = itertools.count(1 + int(jitter() * QUERY_IDS))
        self._queries: dict[int, str] = {}
        self._unanswered: dict[int, tuple[str, int]] = {}
        """For each query the site, and when it was asked (monotonic ms); also for looks that are over."""
        self._recoveries: dict[str, Recovery] = {}
        """By the request that an owner reclaims."""
        self._recovering: dict[int, Recovery] = {}
        """By the number of a query."""
        self._hearing = self.hearing_type(alarm=self._outbox.alarm, lose=directory.lose)
        self._credentials = Credentials(identity.secret)
        self._log = EventLog(clock, self._outbox)
        self._in_flight = RequestsInFlight(self._recheck)
        self.aside: Counter[str] = Counter()
        """Requests that steps have broken at, and how often."""

    def _recheck(self, rid: str) -> None:
        case = self._table.cases.get(rid)
        if case is not None:
            case.stirred = True
            self._deadlines.wake(rid)

    def _ended(self, case: Case) -> None:
        self._forget_queries(case)
        self._in_flight.end(case.rid)

    def _forget_queries(self, case: Case) -> None:
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def take_effects(self) -> Effects:
        """Return all effects since the last call, in order."""
        return self._outbox.take()

    def effects_mark(self) -> Mark:
        """To be given to `set_aside` if the step that comes now breaks."""
        return self._outbox.mark()

    def notice(self, record: r.Record) -> None:
        """Take `record` from the register: what another replica has taken over ends here."""
        self._table.notice(record)

    def working_on(self, user: str, key: str) -> Case | None:
        """The case of the request that `user` made with `key`, while this replica works on it."""
        return self._table.working_on(user, key)

    def view(self, case: Case) -> RequestView:
        return self._table.view(case)

    def complain(self, site: str, complaint: str, now: Moment) -> None:
        """Raise an alarm about what `site` says, unless the same was raised a moment ago."""
        self._hearing.complain(site, complaint, now)

    @property
    def at_work_on(self) -> str:
        return self._table.at_work_on

    @at_work_on.setter
    def at_work_on(self, rid: str) -> None:
        self._table.at_work_on = rid

    def set_aside(self, rid: str, error: Exception, since: Mark) -> None:
        """A step broke at `rid`: forget its case, and what was to be done for it `since`.

        Whoever waits for it is told that the outcome is unknown. Others are as they were.
        """
        self.aside[rid] += 1
        left = "" if self.aside[rid] < ASIDE_MAX else ", and left alone until the next start"
        self._outbox.alarm(f"request {rid} is set aside{left}: {error!r}")
        case = self._table.cases.get(rid)
        if case is None:
            self._outbox.withdraw(rid, rid, (), since)
            return
        self._outbox.withdraw(rid, case.record.reservation, case.tickets, since)
        self._outbox.leave_unknown(case.tickets)
        case.tickets.clear()
        self._table.forget(case)

    def left_alone(self, rid: str) -> bool:
        """Whether `rid` has broken so often that it is not tried again before the next start."""
        return self.aside[rid] >= ASIDE_MAX

    def attended(self) -> set[str]:
        """Requests that are worked on, or left alone on purpose."""
        return {*self._table.cases, *(rid for rid in self.aside if self.left_alone(rid))}

    def _tell_parts(self, case: Case) -> None:
        """The sites of a decided record, when the attempt itself was another's or before a restart."""
        for site, wants in by_site(case.record.wants).items():
            hold_ids = case.record.chosen.get(site, ())
            done = case.record.done or case.record.told
            case.parts[site] = SitePart(site, wants, hold_ids, voted=True, done=done)

    def _tell(self, case: Case, now: Moment) -> None:
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self._deadlines.later(now, RESEND_AFTER_MS)
        self._deadlines.schedule(case)
        for part in case.parts.values():
            self._tell_one(case, part)

    def _tell_one(self, case: Case, part: SitePart) -> None:
        record = case.record
        if not part.done:
            decide = m.Decide(
                rid=record.rid,
                att=record.att,
                secret=self._credentials.secret(record, part.site),
                outcome="commit",
                proofs=self._credentials.commit_proofs(record, part.site),
                warrant=self._credentials.commit_warrant(record, part.site),
                chosen=record.chosen,
            )
            self._outbox.send(part.site, decide)
        elif case.phase == "cancelling" and not part.freed:
            secret = self._credentials.secret(record, part.site)
            warrant = self._credentials.cancel_warrant(record, part.site)
            cancel = m.Cancel(rid=record.rid, att=record.att, secret=secret, warrant=warrant)
            self._outbox.send(part.site, cancel)

    def _all_done(self, case: Case) -> bool:
        return all(part.done for part in case.parts.values())

    def _done(self, site: str, done: m.Done) -> None:
        case = self._table.live(done.rid, done.att, ("telling", "cancelling"))
        if case is None or (part := case.parts.get(site)) is None or done.of == "abort":
            return
        if done.of == "commit" and not part.done:
            part.done = True
            if case.phase == "cancelling":
                self._tell_one(case, part)
            elif self._all_done(case):
                self._all_told(case)
        elif done.of == "cancel" and case.phase == "cancelling" and not part.freed:
            part.freed = True
            if all(part.freed for part in case.parts.values()):
                case.record.done = True
                self._table.answer(case)
                self._table.write(case, r.Finish(case.rid, "cancelled"))

    def _all_told(self, case: Case) -> None:
        """Locked everywhere: the sites may forget the decision."""
        case.record.done = True
        case.resend_at_ms = 0
        self._table.write(case, r.Finish(case.rid, "commit"))

    def _forget(self, case: Case) -> None:
        """Only once that is durable: a replica that does not know it would tell them again."""
        for part in case.parts.values():
            secret = self._credentials.secret(case.record, part.site)
            forget = m.Forget(rid=case.rid, att=case.record.att, secret=secret)
            self._outbox.send(part.site, forget)

    def _abort_parts(self, case: Case, att: int) -> None:
        """Best effort: a site that misses this asks the register by itself."""
        for part in case.parts.values():
            secret = self._credentials.secret(case.record, part.site)
            decide = m.Decide(rid=case.rid, att=att, secret=secret, outcome="abort")
            self._outbox.send(part.site, decide)
