"""Announcements of what has happened to a request, for the parts that depend on it.

The part that makes something happen announces it, and does not know who listens. The kernel's listeners
stand in one list, in `participant`; those of wings come behind them. A listener changes its own record, or
notes in the book that room came free; it sends nothing, stores nothing and announces nothing but
`attempt_over`. So effects stand in the order of the part that made them, and no announcement comes back to
where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, ParamSpec

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import Stake

P = ParamSpec("P")


class Announcement(Generic[P]):
    """Calls its `listeners` in order."""

    def __init__(self) -> None:
        self.listeners: tuple[Callable[P, None], ...] = ()

    def add(self, hear: Callable[P, None]) -> None:
        """Call `hear` after all that are here."""
        self.listeners += (hear,)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> None:
        for hear in self.listeners:
            hear(*arguments, **named)


@dataclass(slots=True)
class Consequences:
    """One announcement for each thing that can happen; requests are named by their ids."""

    released: Announcement[[m.Release, Moment]] = field(default_factory=Announcement)
    """A Release has come; nothing has followed from it yet."""
    committed: Announcement[[Stake | None, str, int]] = field(default_factory=Announcement)
    """Also of repeats, and of commits that chose nothing here; the stake is None where nothing is known."""
    refused: Announcement[[str, int]] = field(default_factory=Announcement)
    superseded: Announcement[[str]] = field(default_factory=Announcement)
    cleared: Announcement[[str]] = field(default_factory=Announcement)
    """The request claims nothing any more."""
    cancelled: Announcement[[str]] = field(default_factory=Announcement)
    """A Cancel has been taken, whatever there was to cancel."""
    intended: Announcement[[Stake]] = field(default_factory=Announcement)
    """Grants are to be asked for before the promise."""
    promised: Announcement[[Stake, Moment]] = field(default_factory=Announcement)
    lives_forgotten: Announcement[[Sequence[str]]] = field(default_factory=Announcement)
    """These lives are surely the site's own, and this image of its store does not know them."""
    attempt_over: Announcement[[str, int]] = field(default_factory=Announcement)
    """All attempts of the request up to this number."""
