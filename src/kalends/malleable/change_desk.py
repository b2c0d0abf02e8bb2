"""Which demand for another size is carried out next, and what the others are told. Pure.

A demand waits for the next SOP. A later one takes its place; one that has been answered is answered
again, in the same words.
"""

from __future__ import annotations

from collections.abc import Sequence

from kalends.malleable.control_lines import SizeDemand, SizeReply
from kalends.malleable.program import listed


class ChangeDesk:
    """The demands on one program: one that waits at most, and the last answer."""

    def __init__(self, last: SizeReply | None = None) -> None:
        """`last` is the answer that was given last, by a set of ranks before this one."""
        self.last = last
        self._waiting: SizeDemand | None = None

    def hear(self, demand: SizeDemand) -> list[SizeReply]:
        """Take a demand; return what is to be answered at once."""
        if self.last is not None and demand.number == self.last.number:
            return [self.last]
        latest = self._waiting.number if self._waiting is not None else 0
        if self.last is not None:
            latest = max(latest, self.last.number)
        if demand.number < latest:
            return [self._refused(demand.number, f"change {latest} was asked for after it")]
        overtaken, self._waiting = self._waiting, demand
        if overtaken is None or overtaken.number == demand.number:
            return []
        return [self._refused(overtaken.number, f"change {demand.number} was asked for after it")]

    def next(self, sizes: Sequence[int]) -> SizeDemand | SizeReply | None:
        """Return what waits: a demand to be carried out now, or the refusal of one that is not eligible."""
        demand, self._waiting = self._waiting, None
        if demand is None or demand.to in sizes:
            return demand
        why = f"{demand.to} ranks are not eligible here: this stage runs on {listed(sizes)}"
        return self.done(self._refused(demand.number, why))

    def done(self, reply: SizeReply) -> SizeReply:
        """Keep the answer to the demand that `next` returned, to be given again; return it."""
        if self.last is None or reply.number > self.last.number:
            self.last = reply
        return reply

    @staticmethod
    def _refused(number: int, why: str) -> SizeReply:
        return SizeReply(number, 0, why=why)
