"""What has happened to a request, and the parts of the site that have to know.

The part that makes something happen announces it, and does not know who listens. The listeners stand in one
list, in `participant`. A listener changes its own record, or notes in the book that room came free; it sends
nothing, stores nothing and announces nothing but `attempt_over`. So effects stand in the order of the part
that made them, and no announcement comes back to where it began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claim_sets import Stake


@dataclass(slots=True)
class Consequences:
    """The listeners to each event, in order.

    `committed` also tells of repeats, and of commits that chose nothing here; its stake is None where the
    site knows nothing of the request. `attempt_over` means all attempts of a request up to a number.
    `cleared` means that a request claims nothing any more; `cancelled` that a Cancel has been answered.
    """

    committed: tuple[Callable[[Stake | None, str, int], None], ...] = ()
    refused: tuple[Callable[[Stake, int], None], ...] = ()
    superseded: tuple[Callable[[Stake], None], ...] = ()
    cleared: tuple[Callable[[Stake], None], ...] = ()
    cancelled: tuple[Callable[[str], None], ...] = ()
    promised: tuple[Callable[[Stake, Moment], None], ...] = ()
    attempt_over: tuple[Callable[[str, int], None], ...] = ()

    def on_committed(self, stake: Stake | None, rid: str, att: int) -> None:
        for hear in self.committed:
            hear(stake, rid, att)

    def on_refused(self, stake: Stake, att: int) -> None:
        for hear in self.refused:
            hear(stake, att)

    def on_superseded(self, stake: Stake) -> None:
        for hear in self.superseded:
            hear(stake)

    def on_cleared(self, stake: Stake) -> None:
        for hear in self.cleared:
            hear(stake)

    def on_cancelled(self, rid: str) -> None:
        for hear in self.cancelled:
            hear(rid)

    def on_promised(self, stake: Stake, now: Moment) -> None:
        for hear in self.promised:
            hear(stake, now)

    def on_attempt_over(self, rid: str, att: int) -> None:
        for hear in self.attempt_over:
            hear(rid, att)
