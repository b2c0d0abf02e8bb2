"""Jobs in step: their parts start when all have their nodes, and end when one of them fails.

When all have ended, what is left of their slots is given back, on every site or on none: the reservation is
cancelled, by one word in the register.

Each site says which job its part is, and asks when that has its nodes. Once all have asked, the register
writes down where each part runs, and all are told at once: so nothing of a job in step begins anywhere before
every part can, each part knows the addresses of all, and whoever asks again is told the same.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Protocol, TypeVar

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.credentials import Credentials
from kalends.broker.coordination.decision_record import Record, Registered
from kalends.broker.coordination.hearing import is_of
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.places_elsewhere import NO_TICKET
from kalends.contract import messages as m
from kalends.core.errors import KalendsError
from kalends.core.intervals import Moment
from kalends.core.limits import STEP_PARTS_MAX
from kalends.core.steps import StepPart

T = TypeVar("T")

HEARD_MAX: Final = 10_000
"""Requests of whose parts something was heard: sites say it again when they come back."""


class CancelReserved(Protocol):
    """See `kalends.broker.coordination.user_calls.UserCalls.cancel`."""

    def __call__(
        self, record: Record, ticket: int, now: Moment, why: str = "", parts_ended_at: int = 0
    ) -> None: ...


@dataclass(eq=False)
class Steps:
    """What sites say of parts, in memory only; what counts for ever is in the register.

    `certain` tells whether the register has forgotten nothing, `owner_alive` whether another replica lives.
    """

    owner: str
    outbox: CoordinatorOutbox
    credentials: Credentials
    _: KW_ONLY
    certain: Callable[[], bool]
    owner_alive: Callable[[str], bool]
    cancel: CancelReserved
    _heard: OrderedDict[str, dict[str, StepPart]] = field(init=False, default_factory=OrderedDict)
    """By request and machine."""
    _come: OrderedDict[str, dict[str, StepPart]] = field(init=False, default_factory=OrderedDict)
    """The parts that have their nodes, likewise."""
    _failed: OrderedDict[str, m.PartNews] = field(init=False, default_factory=OrderedDict)
    """By request, until it is known what stands of it."""
    _ended: OrderedDict[str, dict[str, int]] = field(init=False, default_factory=OrderedDict)
    """When parts have ended (seconds UTC), by request and machine."""

    # Together

    def asked(self, reply_to: str, ask: m.StartAsk, now: Moment) -> None:
        """Ask the register whether all parts have come, for a site that proves its name."""
        proved = self.credentials.proves(ask.secret, ask.site, ask.rid) and self.certain()
        proved = proved and all(is_of(ask.site, part.machine) for part in ask.parts)
        parts: tuple[StepPart, ...] = ()
        if proved:
            come = _of(self._come, ask.rid)
            for part in ask.parts:
                _note(come, ask.site, part)
            parts = tuple(come.values())
        self.outbox.write(r.Assemble(ask.rid, ask.att, ask.site, reply_to, parts, proved))

    def assembled(self, op: r.Assemble, result: Registered) -> None:
        """Let all parts start once the register has written them down; else who asks waits for the others."""
        row = result.record
        if row is None or row.state == "open" or op.site not in row.chosen:
            return
        if result.won and row.started:
            self._come.pop(row.rid, None)
            parts = r.decode_parts(row.started)
            for site in row.chosen:
                to = op.reply_to if site == op.site else site
                self.outbox.send(to, self._says(row, site, "start", parts))
        elif row.state == "cancelled":
            self.outbox.send(op.reply_to, self._says(row, op.site, "over", ()))

    def _says(
        self, row: Record, site: str, says: m.StartVerdict, parts: tuple[StepPart, ...]
    ) -> m.StartSays:
        secret = self.credentials.secret(row, site)
        return m.StartSays(rid=row.rid, att=row.att, secret=secret, says=says, parts=parts)

    # All, or none

    def told(self, site: str, news: m.PartNews, now: Moment) -> None:
        """Note which job a part is; look first what stands of its request once one has failed, or ended."""
        if news.job:
            _note(_of(self._heard, news.rid), site, StepPart(news.machine, news.job))
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

    def examined(self, rid: str, result: Registered, now: Moment) -> None:
        """Cancel what has a part that failed: the sites end the others; and what has only parts that ended.

        What cannot be now is said again.
        """
        news, record = self._failed.pop(rid, None), result.record
        if record is None or record.state != "commit":
            self._ended.pop(rid, None)
            return
        if record.owner != self.owner and self.owner_alive(record.owner):
            return
        if news is not None and record.att == news.att and news.machine in record.machines:
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
        if not over.issuperset(record.machines):
            return 0
        if all(want.end <= now.wall_s for want in record.wants):
            return 0
        return max((ended[each] for each in record.machines if each in ended), default=0)

    # For those who look

    def parts_of(self, record: Record) -> tuple[StepPart, ...]:
        """Return the parts of which it is known which jobs they are, in their order."""
        if record.machines and record.started:
            return r.decode_parts(record.started)
        heard = self._heard.get(record.reservation, {}) | self._heard.get(record.rid, {})
        return tuple(heard[machine] for machine in record.machines if machine in heard)

    def all_known(self, record: Record) -> bool:
        """Return whether all sites have confirmed it, and said which jobs its parts are; or it is over."""
        known = len(self.parts_of(record)) == len(record.machines)
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
