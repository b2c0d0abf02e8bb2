"""The parts of the wing of jobs, and the messages and results that they take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from kalends.broker.coordination.owners.pending_reclaim import PendingReclaim
from kalends.broker.coordination.parts import CoordinatorPart, on
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.wings import Ground
from kalends.broker.jobs.parts.job_ends import JobEnds
from kalends.broker.jobs.parts.places_elsewhere import check_may_leave, submit_elsewhere
from kalends.broker.jobs.parts.solicitation import BID_MS_MAX, Solicitation
from kalends.broker.jobs.parts.start_answers import StartAnswers
from kalends.broker.jobs.parts.step_starts import StepStarts
from kalends.broker.jobs.parts.steps import Steps
from kalends.contract import messages as m
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.core.transport import Rates


class JobParts:
    """All parts. Bids are waited for at most `bid_ms_max`; `lost` gives the sites that are away for long."""

    def __init__(
        self,
        ground: Ground,
        *,
        bid_ms_max: int = BID_MS_MAX,
        rates: Rates | None = None,
        lost: Callable[[Moment], Collection[str]] = lambda now: (),
    ) -> None:
        outbox, credentials, self._calls = ground.outbox, ground.credentials, ground.calls
        self.bids = Solicitation(ground, bid_ms_max, rates or Rates())
        self.ends = JobEnds(ground, self.bids.candidates.learned, self.bids.tally)
        self.starts = StartAnswers(outbox, credentials, ground.certain, lost)
        self.step_starts = StepStarts(outbox, credentials, ground.certain)
        self.steps = Steps(
            ground.identity.owner,
            outbox,
            owner_alive=ground.owner_alive,
            cancel=ground.calls.cancel,
        )

    @property
    def parts(self) -> Sequence[CoordinatorPart]:
        own = CoordinatorPart(
            handles=(on(m.StartAsk, self.start_asked),), gives_back=self.place_elsewhere
        )
        return (
            self.bids.part, self.ends.part, self.starts.part, self.step_starts.part, self.steps.part, own,
        )  # fmt: skip

    def start_asked(self, reply_to: str, ask: m.StartAsk, now: Moment) -> None:
        """A job has its nodes: it starts here alone, or with the other parts."""
        (self.step_starts if ask.parts else self.starts).asked(reply_to, ask, now)

    def place_elsewhere(self, recovery: PendingReclaim, record: Record, now: Moment) -> str:
        """A job that may go elsewhere does, if there is a place; its site asks again if there is none."""
        with contextlib.suppress(KalendsError):  # Draining, or too much of this user is open.
            check_may_leave(record)
            return submit_elsewhere(
                self._calls, record, now.wall_ms, now, by=recovery.owners, why=recovery.reason
            )
        return ""
