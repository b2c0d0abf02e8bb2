"""Bounded waiting: who waits ends within one turn for itself and one for every older request."""

from __future__ import annotations

from collections.abc import Iterator


class Turns:
    """`turn_ms` is how long one request can stand in the way of another.

    So long as `doubt_ms` after the faults a site may not have asked what became of a promise from before.
    """

    def __init__(self, turn_ms: int, doubt_ms: int = 0) -> None:
        self._turn_ms = turn_ms
        self._doubt_ms = doubt_ms
        self._stamps: dict[str, tuple[int, str]] = {}
        self._since_ms: dict[str, int] = {}
        self._ended_ms: dict[str, int] = {}
        self._healed_ms: int | None = None

    def asked(self, rid: str, stamp: int) -> None:
        """It may stand in the way of younger ones."""
        self._stamps[rid] = (stamp, rid)

    def listed(self, rid: str, stamp: int) -> None:
        """It waits for what is locked: for as long as it likes."""
        self.asked(rid, stamp)
        self._since_ms.pop(rid, None)

    def waits(self, rid: str, now_ms: int) -> None:
        """It is in line somewhere."""
        self._since_ms.setdefault(rid, now_ms)

    def healed(self, at_ms: int) -> None:
        """There are no faults any more from `at_ms` on."""
        self._healed_ms = at_ms

    def are_fair(self, now_ms: int) -> bool:
        """Whether there are no faults any more."""
        return self._healed_ms is not None and now_ms > self._healed_ms

    def ended(self, rid: str, now_ms: int) -> str:
        """What is wrong with its end, or ""."""
        if rid in self._ended_ms:
            return ""
        self._ended_ms[rid] = now_ms
        return self._late(rid, now_ms)

    def unfinished(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """Those that have not ended, and what is wrong with that."""
        for rid in sorted(self._since_ms.keys() - self._ended_ms.keys()):
            if late := self._late(rid, now_ms):
                yield rid, late

    def _late(self, rid: str, now_ms: int) -> str:
        since_ms = self._since_ms.get(rid)
        if since_ms is None or self._healed_ms is None:
            return ""
        since_ms = max(since_ms, self._healed_ms)
        doubt_ms = max(self._healed_ms + self._doubt_ms - since_ms, 0)
        older = sum(
            stamp < self._stamps[rid] and self._ended_ms.get(other, since_ms) >= since_ms
            for other, stamp in self._stamps.items()
        )
        if now_ms - since_ms <= (older + 1) * self._turn_ms + doubt_ms:
            return ""
        return f"{rid} has waited {now_ms - since_ms} ms behind {older} older ones"
