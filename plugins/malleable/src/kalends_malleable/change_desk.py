"""The choice of the next demand for another size, and the answers to the others. Pure.

A demand waits for the next SOP. A later demand replaces it. A repeated demand that was answered gets the
same answer again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kalends_malleable.control_lines import SizeDemand, SizeReply
from kalends_malleable.program import listed


class ChangeDesk:
    """The demands on one program: at most one that waits, and the last answer."""

    def __init__(self, last: SizeReply | None = None) -> None:
        """`last` is the last answer, given by an earlier set of ranks."""
        self.last = last
        self._waiting: SizeDemand | None = None

    def hear(self, demand: SizeDemand) -> list[SizeReply]:
        """Take a demand; return an immediate answer, if there is one."""
        if self.last is not None and demand.number == self.last.number:
            return [self.last]
        latest = self._waiting.number if self._waiting is not None else 0
        if self.last is not None:
            latest = max(latest, self.last.number)
        if demand.number < latest:
            return [self._refused(demand.number, f"change {latest} has replaced it")]
        overtaken, self._waiting = self._waiting, demand
        if overtaken is None or overtaken.number == demand.number:
            return []
        return [self._refused(overtaken.number, f"change {demand.number} has replaced it")]

    def next(self, sizes: Sequence[int]) -> SizeDemand | SizeReply | None:
        """Return the waiting demand to carry out now, or the refusal of one that is not eligible."""
        demand, self._waiting = self._waiting, None
        if demand is None or demand.to in sizes:
            return demand
        why = f"{demand.to} ranks are not eligible here: this stage runs on {listed(sizes)}"
        return self.done(self._refused(demand.number, why))

    def done(self, reply: SizeReply) -> SizeReply:
        """Keep the answer to the demand that `next` returned, for repetitions; return it."""
        if self.last is None or reply.number > self.last.number:
            self.last = reply
        return reply

    @staticmethod
    def _refused(number: int, why: str) -> SizeReply:
        return SizeReply(number, 0, why=why)
