"""Jobs in step: which jobs their parts are, when these began, and that all end when one of them fails.

When all have ended, what is left of their slots is given back, on every site or on none: the reservation is
cancelled, by one word in the register. How they start: `step_starts`.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeVar

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Registered
from kalends.broker.coordination.trust.answer_checks import is_of
from kalends.broker.coordination.user_calls import NO_TICKET
from kalends.contract import messages as m
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.core.limits import STEP_PARTS_MAX
from kalends.core.steps import StepPart

T = TypeVar("T")

HEARD_MAX: Final = 10_000
"""Requests of whose parts something was heard: sites say it again when they come back."""


@dataclass(eq=False)
class Steps:
    """Reports of sites about parts, in memory only; decisions are in the register.

    `owner_alive` tells whether another replica lives.
    """

    owner: str
    outbox: CoordinatorOutbox
    _: KW_ONLY
    owner_alive: Callable[[str], bool]
    cancel: Callable[..., None]
    """`UserCalls.cancel`."""
    _heard: OrderedDict[str, dict[str, StepPart]] = field(init=False, default_factory=OrderedDict)
    """By request and machine."""
    _failed: OrderedDict[str, m.PartNews] = field(init=False, default_factory=OrderedDict)
    """By request, until it is known what stands of it."""
    _ended: OrderedDict[str, dict[str, int]] = field(init=False, default_factory=OrderedDict)
    """When parts have ended (seconds UTC), by request and machine."""

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            handles=(on(m.PartNews, self.told),), follows=(after(r.Examine, self.examined),)
        )

    def told(self, site: str, news: m.PartNews, now: Moment) -> None:
        """Note which job a part is, and when it began.

        Look first what stands of its request once one has failed, or ended.
        """
        if news.job:
            self._heard_of(site, news, min(news.began_at, now.wall_s))
        if news.failed:
            self._failed[news.rid] = news
            if len(self._failed) > HEARD_MAX:
                self._failed.popitem(last=False)
        elif news.ended_at:
            _of(self._ended, news.rid)[news.machine] = min(news.ended_at, now.wall_s)
        else:
            self._ended.get(news.rid, {}).pop(news.machine, None)
        if news.failed or news.ended_at:
            self.outbox.write(r.Examine(news.rid))

    def _heard_of(self, site: str, news: m.PartNews, began_at: int) -> None:
        heard = _of(self._heard, news.rid)
        known = heard.get(news.machine)
        _note(heard, site, StepPart(news.machine, news.job, began_at=began_at))
        if began_at and (known is None or not known.began_at):
            self.outbox.write(r.NoteBegan(news.rid, news.machine, began_at))

    def examined(self, op: r.Examine, result: Registered, now: Moment) -> None:
        """Cancel what has a part that failed: the sites end the others; and what has only parts that ended.

        What cannot be now is said again.
        """
        if op.look:
            return
        news, record = self._failed.pop(op.rid, None), result.record
        if record is None or record.state != "commit":
            self._ended.pop(op.rid, None)
            return
        if record.owner != self.owner and self.owner_alive(record.owner):
            return
        if news is not None and record.att == news.att and news.machine in record.job.machines:
            name = f"{news.machine}/{news.job}" if news.job else news.machine
            with contextlib.suppress(KalendsError):
                self.cancel(record, NO_TICKET, now, f"{name} {news.detail or 'has failed'}")
        elif result.won and (at := self._all_ended_at(record, now)):
            with contextlib.suppress(KalendsError):
                self.cancel(record, NO_TICKET, now, "all its parts have ended", at)

    def _all_ended_at(self, record: Record, now: Moment) -> int:
        """Return when the last part ended (seconds UTC); 0 unless all have, and some of the slots is left."""
        ended = self._ended.get(record.rid, {})
        over = {want.resource for want in record.wants if want.end <= now.wall_s} | ended.keys()
        if not over.issuperset(record.job.machines):
            return 0
        if all(want.end <= now.wall_s for want in record.wants):
            return 0
        return max((ended[each] for each in record.job.machines if each in ended), default=0)

    # For those who look

    def parts_of(self, record: Record) -> tuple[StepPart, ...]:
        """Return the parts of which it is known which jobs they are, in their order."""
        if parts := record.job.parts:
            return parts
        heard = self._heard.get(record.reservation, {}) | self._heard.get(record.rid, {})
        return tuple(heard[machine] for machine in record.job.machines if machine in heard)

    def all_known(self, record: Record) -> bool:
        """Return whether all sites have confirmed it, and said which jobs its parts are; or it is over."""
        known = len(self.parts_of(record)) == len(record.job.machines)
        return record.state != "commit" or (record.done and known)


def _note(known: dict[str, StepPart], site: str, part: StepPart) -> None:
    """Take note of a part of `site`, which has no more of them than a job may have."""
    own = sum(is_of(site, machine) for machine in known)
    if part.machine in known or own < STEP_PARTS_MAX:
        known[part.machine] = part


def _of(known: OrderedDict[str, dict[str, T]], rid: str) -> dict[str, T]:
    """Return what is known of a request; that of the oldest ones is forgotten."""
    found = known.setdefault(rid, {})
    if len(known) > HEARD_MAX:
        known.popitem(last=False)
    return found
