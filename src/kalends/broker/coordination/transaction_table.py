"""The desk of a broker replica: its open cases, and what every part of the coordinator does with them.

Effects are gathered here in order; what has happened is kept back until it is durable.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination import warrants
from kalends.broker.coordination.decision_record import CaseOperation, Operation, Record
from kalends.broker.coordination.effects import Answer, Effects, Happened, Mark
from kalends.broker.coordination.hearing import Complaints
from kalends.broker.coordination.pending_reclaim import Recovery
from kalends.broker.coordination.transaction import Case, problem_of, view_of
from kalends.broker.planning.demand import start_window
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.in_flight import InFlight
from kalends.broker.planning.polling.site_statistics import Odds
from kalends.contract import proofs
from kalends.contract.calls import Event, RequestView
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.errors import LostRace, Refusal
from kalends.core.intervals import Moment
from kalends.core.requests import Request

REQUEST_MS_MAX: Final = 60_000
LISTED_S_MAX: Final = 366 * 86_400
"""A request without an end stands on waiting lists for a year."""
RESEND_AFTER_MS: Final = 1_000
RESEND_EVERY_MS_MAX: Final = 8_000
TRAIL_MAX: Final = 64
ASIDE_MAX: Final = 3
"""A request that steps break at so often is left alone: it would break at the same again."""
UNANSWERED_MAX: Final = 4_096
"""Queries that may still be answered: what comes later teaches nothing of how long a site takes."""

QUERY_IDS: Final = 1 << 39
"""Queries of one start are numbered from anywhere below this; those of `asking` come after them all."""

OPEN_PHASES: Final = (
    "looking", "touring", "voting", "holding", "held", "waiting", "preparing",
)  # fmt: skip
"""Undecided, and no answer of the register is on its way that would tell of another owner."""


def deadline_ms(record: Record, now: Moment) -> int:
    """When `record` is given up if nothing has come of it (monotonic); see `kalends.contract.calls.Book`."""
    give_up_at = give_up_at_s(record)
    if not give_up_at:
        return now.monotonic_ms + REQUEST_MS_MAX
    return now.monotonic_ms + max(give_up_at * 1000 - now.wall_ms, 0)


def give_up_at_s(record: Record) -> int:
    """The time at which `record` is given up (seconds UTC); 0: some time after it was begun."""
    spec = record.spec
    if spec.give_up_at or spec.patience != "taken":
        return spec.give_up_at
    return _last_start(spec.request) or record.created_ms // 1000 + LISTED_S_MAX


def _last_start(request: Request) -> int:
    """After it no alternative can begin any more; 0 where the window has no end."""
    if not request.not_after:
        return 0
    return max(start_window(request, number)[1] for number in range(len(request.alternatives)))


class Identity(NamedTuple):
    """Who this replica is: `owner` is unique to this start, `coords` are the URLs of all replicas.

    `secret` is the register's: from it is derived what proves anything to sites (`kalends.contract.proofs`).
    """

    name: str
    owner: str
    coords: tuple[str, ...]
    secret: str = ""


_NOTED: Final = {
    "held": frozenset({"held"}),
    "waiting": frozenset({"waiting", "listed", "recalled"}),
}
"""The kinds of events that a Note of each sort is written for."""


class Desk:
    """All requests that this broker replica works on. Not thread-safe.

    `new_rid` brings randomness; `jitter` gives numbers in [0, 1); `owner_alive` tells
    whether another replica's lease runs; `scripts` gives the source of a hash, or ""; `certain` tells whether
    what the register has no decision of was never decided.
    """

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
        self.cases: dict[str, Case] = {}
        self.odds = Odds()
        """What sites are like, as looks have shown. In memory only: a new start learns anew."""
        self.draining = False
        self._new_rid = new_rid
        self._jitter = jitter
        self._open_per_user_max = open_per_user_max
        self._owner_alive = owner_alive
        self._scripts = scripts
        self._certain = certain
        self._seen: dict[str, dict[str, None]] = {}
        """For each site the scripts that it has been sent in this session, oldest first."""
        self._open: Counter[str] = Counter()
        self._keys: dict[tuple[str, str], str] = {}
        self._due: list[tuple[int, str]] = []
        # An answer that was on its way to this replica before it started again is for none of these.
        self._query_ids = itertools.count(1 + int(jitter() * QUERY_IDS))
        self._case_numbers = itertools.count(1)
        self._queries: dict[int, str] = {}
        self._unanswered: dict[int, tuple[str, int]] = {}
        """For each query the site, and when it was asked (monotonic ms); also for looks that are over."""
        self._recoveries: dict[str, Recovery] = {}
        """By the request that an owner reclaims."""
        self._recovering: dict[int, Recovery] = {}
        """By the number of a query."""
        self._complaints = Complaints()
        self._site_keys: dict[str, str] = {}
        self._effects = Effects()
        self._in_flight = InFlight()
        """What is asked for, and not answered yet."""
        self._under_way = InFlight()
        """What is asked for, and not decided yet."""
        self._gave_way: dict[str, frozenset[str]] = {}
        """Who stands on lists for what others of ours ask for, though it is free; and its resources."""
        self.at_work_on = ""
        """The request that the present step is about: who is to blame if it breaks."""
        self.aside: Counter[str] = Counter()
        """Requests that steps have broken at, and how often."""

    def working_on(self, user: str, key: str) -> Case | None:
        """The case of the request that `user` made with `key`, while this replica works on it."""
        return self.cases.get(self._keys.get((user, key), ""))

    def notice(self, record: Record) -> None:
        """Take `record` from the register: what another replica has taken over ends here."""
        case = self.cases.get(record.rid)
        if case is not None and case.phase in OPEN_PHASES and record.owner != self.identity.owner:
            self._drop(case, record)

    def view(self, case: Case) -> RequestView:
        done = frozenset(site for site, part in case.parts.items() if part.done)
        return view_of(case.record, confirmed=done if case.phase == "telling" else None)

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None

    def take_effects(self) -> Effects:
        """All effects since the last call, in order."""
        taken, self._effects = self._effects, Effects()
        return taken

    def effects_mark(self) -> Mark:
        """To be given to `set_aside` if the step that comes now breaks."""
        return self._effects.mark()

    def set_aside(self, rid: str, error: Exception, since: Mark) -> None:
        """A step broke at `rid`: forget its case, and what was to be done for it `since`.

        Whoever waits for it is told that the outcome is unknown. Others are as they were.
        """
        self.aside[rid] += 1
        left = "" if self.aside[rid] < ASIDE_MAX else ", and left alone until the next start"
        self._effects.alarms.append(f"request {rid} is set aside{left}: {error!r}")
        case = self.cases.pop(rid, None)
        if case is None:
            self._effects.withdraw(rid, rid, (), since)
            return
        self._effects.withdraw(rid, case.record.reservation, case.tickets, since)
        self._effects.unknown.extend(case.tickets)
        case.tickets.clear()
        self._keys = {key: of for key, of in self._keys.items() if of != rid}
        self._open[case.record.user] -= 1
        self._forget_queries(case)
        self._nothing_under_way(rid)
        case.phase = "over"

    def left_alone(self, rid: str) -> bool:
        """Whether `rid` has broken so often that it is not tried again before the next start."""
        return self.aside[rid] >= ASIDE_MAX

    def attended(self) -> set[str]:
        """Requests that are worked on, or left alone on purpose."""
        return {*self.cases, *(rid for rid in self.aside if self.left_alone(rid))}

    def _open_case(self, record: Record, now: Moment) -> Case:
        self.at_work_on = record.rid
        case = Case(record, deadline_ms(record, now), next(self._case_numbers))
        self.cases[record.rid] = case
        self._keys[record.user, record.key] = record.rid
        self._open[record.user] += 1
        return case

    def _ask_register(self, case: Case, op: CaseOperation) -> None:
        """Have `op` done; its result is for this case alone."""
        self._effects.operations.append(replace(op, case=case.number))

    def _case_of(self, op: CaseOperation) -> Case | None:
        """The case that has asked for `op`, if it is not over meanwhile."""
        rid = op.record.rid if isinstance(op, r.Begin) else op.rid
        case = self.cases.get(rid)
        return case if case is not None and case.number == op.case else None

    def _live(self, rid: str, att: int, phases: tuple[str, ...]) -> Case | None:
        """The case, if the message is about its current attempt and it waits for such a message."""
        case = self.cases.get(rid)
        if case is None or case.record.att != att or case.phase not in phases:
            return None
        return case

    def _answer(self, case: Case) -> None:
        view = self.view(case)
        self._effects.answers.extend(Answer(ticket, view) for ticket in case.tickets)
        case.tickets.clear()

    def _drop(self, case: Case, row: Record | None) -> None:
        """The register says that this is not ours (any more): answer with what it says."""
        rid = case.rid
        if row is not None:
            case.record = row
        else:
            case.record.state = "closed"
            if case.record.problem is None:
                error = LostRace("it was given up before it began", remedy="try again")
                case.record.problem = problem_of(error, case.record.reservation)
        self._over(case, rid)

    def _over(self, case: Case, rid: str = "") -> None:
        """Who still waits is answered. `rid` is given where the case's record has become another's."""
        self._answer(case)
        case.phase = "over"
        self._forget_queries(case)
        self._nothing_under_way(rid or case.rid)
        if self.cases.pop(rid or case.rid, None) is not None:
            self._keys.pop((case.record.user, case.record.key), None)
            self._open[case.record.user] -= 1

    def _forget_queries(self, case: Case) -> None:
        for query_id in case.queries:
            self._queries.pop(query_id, None)
        case.queries = {}

    def _nothing_under_way(self, rid: str) -> None:
        self._gave_way.pop(rid, None)
        self._let_pass(self._in_flight.drop(rid) | self._under_way.drop(rid))

    def _let_pass(self, resources: set[str]) -> None:
        """Nobody asks for something on `resources` any more: who gave way there looks again.

        Where it was refused, nothing comes free, and no list has anything to tell.
        """
        for rid in [rid for rid, wanted in self._gave_way.items() if wanted & resources]:
            del self._gave_way[rid]
            if (case := self.cases.get(rid)) is not None:
                case.stirred = True
                heapq.heappush(self._due, (0, rid))

    def _happened(
        self, case: Case, kind: str, detail: str, now: Moment, refusals: tuple[Refusal, ...] = ()
    ) -> None:
        record = case.record
        event = Event(
            number=self.clock.tick(now.wall_ms),
            at_ms=now.wall_ms,
            id=record.reservation,
            kind=kind,
            detail=detail,
            refusals=refusals[: limits.EVENT_REFUSALS_MAX],
        )
        record.trail = (*record.trail[-TRAIL_MAX + 1 :], event)
        case.untold.append(event)

    def _tell_watchers(self, case: Case, op: Operation, won: bool) -> None:
        """What happened is told once the operation that it came with is durable, and only if it won."""
        if isinstance(op, r.Begin | r.Finish | r.Read):
            return
        if isinstance(op, r.Note):
            kinds = _NOTED.get(op.of, frozenset())
            noted = [n for n, each in enumerate(case.untold, 1) if each.kind in kinds]
            of_op = case.untold[: noted[-1]] if noted else []
        else:
            of_op = [each for each in case.untold if each.kind != "held"]
        if won:
            self._effects.events.extend(Happened(case.record.user, event) for event in of_op)
        case.untold = [event for event in case.untold if event not in of_op]

    def _site_key(self, site: str) -> str:
        key = self._site_keys.get(site)
        if key is None:
            key = self._site_keys[site] = proofs.site_key(self.identity.secret, site)
        return key

    def _secret(self, record: Record, site: str) -> str:
        """What proves there that a message about `record` is ours; old records have one of their own."""
        return record.secret or proofs.of_request(self._site_key(site), record.rid)

    def _proofs(self, record: Record, told: str) -> dict[str, str]:
        """What proves the commit of `record` to each of its sites but `told`, which may be asked by them."""
        return {
            site: proofs.of_commit(self._site_key(site), record.rid, record.att, hold_ids)
            for site, hold_ids in record.chosen.items()
            if site != told
        }

    def _warrant(self, record: Record, site: str) -> str:
        """What proves to the register itself that `record` is committed, for `site` to keep."""
        return warrants.of_commit(self.identity.secret, site, record)

    def complain(self, site: str, complaint: str, now: Moment) -> None:
        """An alarm about what `site` says, unless it was told a moment ago."""
        if self._complaints.new(site, complaint, now.monotonic_ms):
            self._effects.alarms.append(f"{site} {complaint}")

    def _later(self, now: Moment, after_ms: int) -> int:
        return now.monotonic_ms + int(after_ms * (1 + 0.2 * self._jitter()))

    def _schedule(self, case: Case) -> None:
        """One entry in the heap at the earliest time of the case; stale entries do no harm."""
        times = [t for t in (case.phase_deadline_ms, case.resend_at_ms) if t]
        if case.renew_at_ms and case.phase in ("holding", "held", "preparing"):
            times.append(case.renew_at_ms)
        if times:
            heapq.heappush(self._due, (min(times), case.rid))
