"""Occurrences beyond an owner's horizon: each is an open request that is asked for as soon as it can be.

So it is stored, taken over, shown and cancelled like any other one that waits.
"""

from __future__ import annotations

from typing import Final

from kalends.broker.coordination.parts import CoordinatorPart
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.voting.decide_phase import RESEND_AFTER_MS
from kalends.broker.coordination.wings import Ground
from kalends.broker.planning.horizons import reach_of
from kalends.contract.calls import Waiting
from kalends.core.intervals import Moment
from kalends.core.requests import DAY_S

LOOK_EVERY_S: Final = DAY_S
"""An owner may change the horizon meanwhile."""

MARGIN_S: Final = 300
"""The largest lag of a site's clock that is allowed for."""


class HorizonWaits:
    """The part of the coordinator: it begins what a series keeps for later."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(begins=self._begins)

    def _begins(self, case: Transaction, now: Moment) -> bool:
        """Wait until the request lies within the horizon; then let the attempt go its way."""
        record = case.record
        known = record.waiting
        if not record.spec.waits_for_horizon or case.cancel_wanted or case.parts:
            return False
        reach = reach_of(record.spec.request, self._ground.directory.resources)
        if reach is not None:
            awaited: tuple[str, ...] = (reach.resource,)
            opens = record.spec.request.not_after - reach.seconds + MARGIN_S
        elif known is not None and known.opens:
            awaited, opens = known.awaited, known.opens
        else:
            return False
        if opens <= now.wall_s:
            if known is not None and known.opens:
                record.waiting = None
            return False
        if case.phase != "waiting":
            case.enter("list")
        case.phase_deadline_ms = case.deadline_ms
        left_s = min(opens - now.wall_s, LOOK_EVERY_S)
        case.resend_at_ms = now.monotonic_ms + left_s * 1_000
        # From then on, as long as a site is away.
        case.resend_every_ms = RESEND_AFTER_MS
        self._ground.deadlines.schedule(case)
        record.listed = True
        if known is None or (known.awaited, known.opens) != (awaited, opens):
            waiting = Waiting(
                since=now.wall_s, until=record.spec.give_up_at, awaited=awaited, opens=opens
            )
            self._ground.prepare.note_waiting(case, waiting)
        return True
