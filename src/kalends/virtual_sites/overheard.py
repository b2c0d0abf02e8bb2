"""Knowledge of a virtual site about its members, from their messages: delays of bids, and waits of jobs.

Every session of a broker with a member passes through it. It changes nothing on the way, and a frame that it
cannot read is none of its business: the two ends judge it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import msgspec

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.errors import InvalidInput, RefusalCode, TooLarge
from kalends.core.intervals import Moment
from kalends.core.limits import MEMBERS_MAX
from kalends.federation.bid_tally import BidTally
from kalends.federation.experience import Experience
from kalends.federation.offered_places import told_wait_s

SILENT_MS: Final = 10_000
"""A member that has not bid by then did not hear the question: brokers wait for about a second."""

ASKED_MAX: Final = 10_000
"""Questions that are remembered until they are answered; beyond it the oldest are forgotten."""

_TO_SITE: Final = msgspec.msgpack.Decoder(m.FrameToSite)
_TO_BROKER: Final = msgspec.msgpack.Decoder(m.FrameToBroker)

Frame = TypeVar("Frame", m.FrameToSite, m.FrameToBroker)

_Question = tuple[str, int]
"""A request and its attempt."""


class _Solicited(NamedTuple):
    """When it was asked (monotonic), and for how long places are held."""

    at_ms: int
    hold_ms: int


class Overheard:
    """Knowledge of all members, by the way to each. Soft state: a new start learns anew."""

    def __init__(self) -> None:
        self.experience = Experience()
        self.tally = BidTally()
        self.sessions: Counter[str] = Counter()
        """The number of sessions that brokers have open with each member; 0 if all have ended."""

    @contextmanager
    def session(self, way: str) -> Iterator[SessionHeard]:
        """A broker has a session with a member, until the end of the ``with``."""
        self._make_room(way)
        self.sessions[way] += 1
        try:
            yield SessionHeard(self, way)
        finally:
            self.sessions[way] -= 1

    def _make_room(self, way: str) -> None:
        """Forget members without a session, if there are too many: a member may invent some below it."""
        if way in self.sessions or len(self.sessions) < MEMBERS_MAX:
            return
        for gone in [each for each, open_now in self.sessions.items() if not open_now]:
            del self.sessions[gone]
            self.tally.forget(gone)


class SessionHeard:
    """One session of a broker with the member at `way`; what it had asked ends with it."""

    def __init__(self, overheard: Overheard, way: str) -> None:
        self._overheard = overheard
        self._way = way
        self._asked: dict[_Question, _Solicited] = {}
        """The oldest first."""

    def said_to(self, frame: bytes, now: Moment) -> None:
        """The broker has said something to the member."""
        self._forget(now)
        if b"solicit" not in frame and b"release" not in frame:
            return
        for message in _read(frame, _TO_SITE):
            if isinstance(message, m.Solicit):
                asked = _Solicited(now.monotonic_ms, message.hold_ms)
                self._asked.setdefault((message.rid, message.att), asked)
                self._overheard.experience.asked(self._way, now)
                self._overheard.tally.of(self._way).asked += 1
            elif isinstance(message, m.Release):
                # The broker waits for it no longer: it is not to blame for saying nothing now.
                self._asked.pop((message.rid, message.att), None)

    def said_by(self, frame: bytes, now: Moment) -> None:
        """The member has said something to the broker."""
        if b"bid" not in frame:
            return
        for message in _read(frame, _TO_BROKER):
            if isinstance(message, m.Bid):
                self._heard_bid(message, now)

    def _heard_bid(self, bid: m.Bid, now: Moment) -> None:
        asked = self._asked.pop((bid.rid, bid.att), None)
        if asked is None:
            return
        experience, counts = self._overheard.experience, self._overheard.tally.of(self._way)
        delay_ms = now.monotonic_ms - asked.at_ms
        if bid.offers:
            counts.bid += 1
            wait_s = told_wait_s(bid.first_start, asked.hold_ms, now.wall_s)
            experience.bid(self._way, delay_ms, wait_s, now)
            return
        reasons = {each.code for each in bid.refusals}
        counts.note_refusals(reasons)
        if RefusalCode.DRAINED in reasons:
            closed_s = bid.closed_until and bid.closed_until - now.wall_s
            experience.refused(self._way, delay_ms, now, closed_s)

    def _forget(self, now: Moment) -> None:
        """Give up on questions that were asked long ago: the member was silent."""
        while self._asked:
            question, asked = next(iter(self._asked.items()))
            late = now.monotonic_ms - asked.at_ms >= SILENT_MS
            if not late and len(self._asked) < ASKED_MAX:
                return
            del self._asked[question]
            if late:
                self._overheard.experience.silent(self._way, 0.0, now)
                self._overheard.tally.of(self._way).silent += 1


def _read(frame: bytes, decoder: msgspec.msgpack.Decoder[Frame]) -> Sequence[m.Message]:
    try:
        return codec.decode_frame(frame, decoder).messages
    except (InvalidInput, TooLarge):
        return ()
