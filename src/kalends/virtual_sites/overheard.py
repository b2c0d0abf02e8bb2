"""What a virtual site learns of its members by listening: how soon they bid, and how long jobs would wait.

Every session of a broker with a member passes through it. It changes nothing on the way, and a frame that it
cannot read is none of its business: the two ends judge it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.errors import InvalidInput, RefusalCode, TooLarge
from kalends.core.intervals import Moment
from kalends.federation.bid_tally import BidTally
from kalends.federation.experience import Experience

SILENT_MS: Final = 10_000
"""Who has not bid by then did not hear the question: brokers wait for a second or so."""

ASKED_MAX: Final = 10_000
"""Questions that are remembered until they are answered; beyond it the oldest are forgotten."""

_TO_SITE: Final = msgspec.msgpack.Decoder(m.FrameToSite)
_TO_BROKER: Final = msgspec.msgpack.Decoder(m.FrameToBroker)

Frame = TypeVar("Frame", m.FrameToSite, m.FrameToBroker)

_Question = tuple[str, str, int]
"""Way to a member, request, attempt."""


class Overheard:
    """What is known of all members, by the way to each. Soft state: a new start learns anew."""

    def __init__(self) -> None:
        self.experience = Experience()
        self.tally = BidTally()
        self.sessions: Counter[str] = Counter()
        """Those that brokers have open now with each member; 0: they had."""
        self._asked_ms: dict[_Question, int] = {}
        """When each was asked (monotonic), the oldest first."""

    def said_to(self, way: str, frame: bytes, now: Moment) -> None:
        """A broker has said something to a member."""
        self._forget(now)
        if b"solicit" not in frame:
            return
        for message in _read(frame, _TO_SITE):
            if isinstance(message, m.Solicit):
                self._asked_ms.setdefault((way, message.rid, message.att), now.monotonic_ms)
                self.experience.asked(way, now)
                self.tally.of(way).asked += 1

    def said_by(self, way: str, frame: bytes, now: Moment) -> None:
        """A member has said something to a broker."""
        if b"bid" not in frame:
            return
        for message in _read(frame, _TO_BROKER):
            if isinstance(message, m.Bid):
                self._heard_bid(way, message, now)

    def _heard_bid(self, way: str, bid: m.Bid, now: Moment) -> None:
        asked_ms = self._asked_ms.pop((way, bid.rid, bid.att), None)
        if asked_ms is None:
            return
        delay_ms, counts = now.monotonic_ms - asked_ms, self.tally.of(way)
        if bid.offers:
            counts.bid += 1
            first_s = min(each.start_by or each.late_start for each in bid.offers)
            self.experience.bid(way, delay_ms, max(first_s - now.wall_s, 0), now)
            return
        reasons = {each.code for each in bid.refusals}
        counts.note_refusals(reasons)
        if RefusalCode.DRAINED in reasons:
            self.experience.refused(way, delay_ms, None, 0.0, now)

    def _forget(self, now: Moment) -> None:
        """Give up on questions that were asked long ago: those members were silent."""
        while self._asked_ms:
            question = next(iter(self._asked_ms))
            late = now.monotonic_ms - self._asked_ms[question] >= SILENT_MS
            if not late and len(self._asked_ms) < ASKED_MAX:
                return
            del self._asked_ms[question]
            if late:
                self.experience.silent(question[0], 0.0, now)
                self.tally.of(question[0]).silent += 1


def _read(frame: bytes, decoder: msgspec.msgpack.Decoder[Frame]) -> Sequence[m.Message]:
    try:
        return codec.decode_frame(frame, decoder).messages
    except (InvalidInput, TooLarge):
        return ()
