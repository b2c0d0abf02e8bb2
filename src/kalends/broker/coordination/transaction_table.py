"""The requests that a broker replica works on: opened, found and ended here and nowhere else."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.phases import OPEN_PHASES
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import CaseOperation, Record
from kalends.broker.coordination.record.views import problem_of, view_of
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.planning.demand import start_window
from kalends.contract.calls import RequestView
from kalends.core.errors import LostRace
from kalends.core.intervals import Moment
from kalends.core.requests import Request

REQUEST_MS_MAX: Final = 60_000
LISTED_S_MAX: Final = 366 * 86_400
"""A request without an end stands on waiting lists for a year."""


class TransactionTable:
    """All requests of the replica `owner`; `ended` hears of each as it ends."""

    def __init__(
        self, owner: str, outbox: CoordinatorOutbox, *, ended: Callable[[Transaction], None]
    ) -> None:
        self.cases: dict[str, Transaction] = {}
        self.at_work_on = ""
        """The request that the present step is about: the one to blame if it breaks."""
        self._owner = owner
        self._outbox = outbox
        self._ended = ended
        self._numbers = itertools.count(1)
        self._open: Counter[str] = Counter()
        self._keys: dict[tuple[str, str], str] = {}

    def open(self, record: Record, now: Moment) -> Transaction:
        self.at_work_on = record.rid
        case = Transaction(record.rid, record, deadline_ms(record, now), next(self._numbers))
        self.cases[record.rid] = case
        self._keys[record.user, record.key] = record.rid
        self._open[record.user] += 1
        return case

    def open_of(self, user: str) -> int:
        """Return how many requests of `user` are worked on here."""
        return self._open[user]

    def working_on(self, user: str, key: str) -> Transaction | None:
        """The case of the request that `user` made with `key`, while this replica works on it."""
        return self.cases.get(self._keys.get((user, key), ""))

    def live(self, rid: str, att: int, phases: tuple[str, ...]) -> Transaction | None:
        """The case, if the message is about its current attempt and it waits for such a message."""
        case = self.cases.get(rid)
        if case is None or case.record.att != att or case.phase not in phases:
            return None
        return case

    def view(self, case: Transaction) -> RequestView:
        done = frozenset(site for site, part in case.parts.items() if part.done)
        return view_of(case.record, confirmed=done if case.phase == "telling" else None)

    # The register

    def write(self, case: Transaction, op: CaseOperation) -> None:
        """Have the register carry out `op`; its result is for this case alone."""
        self._outbox.write(replace(op, case=case.number))

    def asker(self, op: CaseOperation) -> Transaction | None:
        """The case that has asked for `op`, if it is not over meanwhile."""
        rid = op.record.rid if isinstance(op, r.Begin) else op.rid
        case = self.cases.get(rid)
        return case if case is not None and case.number == op.case else None

    def notice(self, record: Record) -> None:
        """Take `record` from the register: what another replica has taken over ends here.

        It may have been read before this replica itself took over: then its attempt is older.
        """
        case = self.cases.get(record.rid)
        if case is None or case.phase not in OPEN_PHASES or record.att < case.record.att:
            return
        if record.owner != self._owner:
            self.drop(case, record)

    # The end

    def answer(self, case: Transaction) -> None:
        """Send the state of `case` to all callers who wait for it."""
        view = self.view(case)
        for ticket in case.tickets:
            self._outbox.answer(ticket, view)
        case.tickets.clear()

    def drop(self, case: Transaction, row: Record | None) -> None:
        """The register says that this is not ours (any more): answer with what it says."""
        if row is not None:
            case.record = row
        else:
            case.record.state = "closed"
            if case.record.problem is None:
                error = LostRace("it was cancelled before it began", remedy="try again")
                case.record.problem = problem_of(error, case.record.reservation)
        self.end(case)

    def leave_unknown(self, case: Transaction) -> None:
        """Tell all waiting callers that the outcome is unknown, and drop the request."""
        self._outbox.leave_unknown(case.tickets)
        case.tickets.clear()
        self.end(case)

    def end(self, case: Transaction) -> None:
        """Answer all callers that still wait, and forget the request."""
        self.answer(case)
        self.forget(case)

    def forget(self, case: Transaction) -> None:
        case.enter("end")
        self._ended(case)
        if self.cases.pop(case.rid, None) is not None:
            self._keys.pop((case.record.user, case.record.key), None)
            self._open[case.record.user] -= 1


def deadline_ms(record: Record, now: Moment) -> int:
    """When `record` is given up if nothing has come of it (monotonic); see `kalends.contract.calls.Book`.

    One that owners are to approve has as long as they, to hold again what is lost meanwhile.
    """
    waiting = record.waiting
    if record.owners.approve and waiting is not None and waiting.approval:
        return now.monotonic_ms + max(waiting.until * 1000 - now.wall_ms, 0)
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
