"""At most once: a job that is to start once in the world asks the register before its first process.

The first site that asks is where it starts, for ever, and its question may be repeated. All other sites
with a place for it are told at once, so that nobody waits behind a job that does not come. What the register
may have forgotten is no permit. A job that has started at another place before is answered once it has ended
there; until then its site asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, after
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.contract import messages as m
from kalends.core.intervals import Moment

EARLY_MAX: Final = 1_000
"""Questions that are remembered; the others come again."""


@dataclass(eq=False)
class StartAnswers:
    """Answers sites whose job has come up; `certain` tells whether the register has forgotten nothing.

    `lost` gives the sites that are lost: what may start twice is not waited for there.
    """

    outbox: CoordinatorOutbox
    credentials: Credentials
    certain: Callable[[], bool]
    lost: Callable[[Moment], Collection[str]]
    _early: dict[str, r.Permit] = field(init=False, default_factory=dict)
    """The last questions that came before such an end, by the reservation."""

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            follows=(
                after(r.Permit, lambda op, found, now: self.decided(op, found.won, found.record)),
                after(r.NoteEnd, lambda op, found, now: self.over(found.record, now)),
            )
        )

    def asked(self, reply_to: str, ask: m.StartAsk, now: Moment) -> None:
        """Ask the register for a site that proves its name; others learn nothing, and leave nothing."""
        proved = self.credentials.proves(ask.secret, ask.site, ask.rid)
        lost, certain = tuple(sorted(self.lost(now))), self.certain()
        self.outbox.write(r.Permit(ask.rid, ask.att, ask.site, reply_to, proved, lost, certain))

    def decided(self, permit: r.Permit, won: bool, row: Record | None) -> None:
        """Say what the register has written down; where it starts, to the sites where it does not as well."""
        if row is None or row.state == "open" or permit.site not in row.chosen:
            return
        if row.may_start and row.job.ended is None and row.att == permit.att:
            self._early[row.reservation] = permit
            if len(self._early) > EARLY_MAX:
                del self._early[next(iter(self._early))]
            return
        here = row.job.started or ""
        says: m.StartVerdict = "over"
        if won:
            says = "start"
        elif row.state == "commit" and here:
            says = "unknown" if here == r.FORGOTTEN else "elsewhere"
        self.outbox.send(permit.reply_to, self._says(row, permit.site, says))
        if won:
            for site in row.chosen:
                if site != permit.site:
                    self.outbox.send(site, self._says(row, site, "elsewhere"))

    def over(self, row: Record | None, now: Moment) -> None:
        """Where it has started before, a job has ended: ask for its next start again."""
        if row is not None and row.state == "replaced" and not row.awaited:
            permit = self._early.pop(row.reservation, None)
            if permit is not None:
                lost = tuple(sorted(self.lost(now)))
                self.outbox.write(replace(permit, certain=self.certain(), lost=lost))

    def _says(self, row: Record, site: str, says: m.StartVerdict) -> m.StartSays:
        at = (row.job.started or "") if says == "elsewhere" else ""
        secret = self.credentials.secret(row, site)
        return m.StartSays(rid=row.rid, att=row.att, secret=secret, says=says, at=at)
