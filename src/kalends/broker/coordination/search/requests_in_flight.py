"""The broker's own requests do not race: what one asks for counts as taken for the next.

A request that gave way to another of ours looks again when that one has its answer: where it was
refused, nothing comes free, and no waiting list has anything to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.planning.in_flight import Free, InFlight
from kalends.contract.messages import Want
from kalends.core.spans import Step


class RequestsInFlight:
    """The slots that each request is asking for; `recheck` is told whose way is clear."""

    def __init__(self, recheck: Callable[[str], None]) -> None:
        self._recheck = recheck
        self._unanswered = InFlight()
        self._undecided = InFlight()
        self._gave_way: dict[str, frozenset[str]] = {}
        """Requests on lists for what others of ours ask for, though it is free; and its resources."""

    def ask(self, record: Record, wants: tuple[Want, ...]) -> None:
        self._unanswered.note(record.rid, record.stamp, wants)
        self._undecided.note(record.rid, record.stamp, wants)

    def answered(self, rid: str, site: str) -> None:
        """`site` has said what it gives to `rid`: from now on its views show that."""
        self._let_pass(self._unanswered.drop(rid, site))

    def end(self, rid: str) -> None:
        """`rid` asks for nothing any more."""
        self._gave_way.pop(rid, None)
        self._let_pass(self._unanswered.drop(rid) | self._undecided.drop(rid))

    def give_way(self, rid: str, resources: Iterable[str]) -> None:
        self._gave_way[rid] = frozenset(resources)

    def look_again(self, rid: str) -> None:
        """`rid` looks by itself: it need not be told to."""
        self._gave_way.pop(rid, None)

    def less_unanswered(self, free: Free, rid: str) -> dict[str, Sequence[Step]]:
        """`free` without what others ask for and have no answer about."""
        return self._unanswered.less(free, rid)

    def less_older(self, free: Free, record: Record) -> dict[str, Sequence[Step]]:
        """`free` without what undecided requests that are older than `record` ask for."""
        return self._undecided.less(free, record.rid, before=(record.stamp, record.rid))

    def others(self, rid: str, resources: Iterable[str]) -> bool:
        """Whether another request waits for an answer about one of `resources`."""
        return self._unanswered.others(rid, resources)

    def _let_pass(self, resources: set[str]) -> None:
        for rid in [rid for rid, wanted in self._gave_way.items() if wanted & resources]:
            del self._gave_way[rid]
            self._recheck(rid)
