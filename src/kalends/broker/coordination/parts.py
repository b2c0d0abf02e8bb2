"""The sockets of the coordinator: what it calls of its parts, by message, by operation and by phase.

A part is no class with a base: it states what is to be called of it, and leaves out the rest. The coordinator
reads the list once, when it is made. A message has one taker and a phase one owner: two are an error. An
answer of the register may have several followers, in the order of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kalends.broker.coordination.owners.pending_reclaim import PendingReclaim
from kalends.broker.coordination.phases import NEXT_PHASE, Phase
from kalends.broker.coordination.record.decision_record import Commit, Operation, Record, Registered
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.contract import messages as m
from kalends.core.intervals import Moment

M = TypeVar("M", bound=m.Message)
Op = TypeVar("Op", bound=Operation)

Handler = Callable[[str, Any, Moment], None]
"""Takes a message of one type, from a site, now."""

Follower = Callable[[Any, Registered, Moment], None]
"""Takes one operation on the register, and its durable result."""


class PhaseOwner(NamedTuple):
    """Calls about a request in one of `phases`; None is not called."""

    phases: Sequence[Phase]
    resend: Callable[[Transaction, Branch], None] | None = None
    """Say again what a site has not answered: always the message, never an assumption."""
    too_late: Callable[[Transaction, Moment], None] | None = None
    """The time of the phase is over, that of the request is not."""
    over: Callable[[Transaction, Moment], None] | None = None
    """The time of the request is over."""
    woken: Callable[[Transaction, Moment], None] | None = None
    """Some time of the request has come, and neither of these two."""
    asked_again: Callable[[Transaction, Moment], bool] | None = None
    """The time to say things again has come. Return whether this has done all there is to do."""
    site_back: Callable[[Transaction, m.Hello, Moment], bool] | None = None
    """A site is connected. Return whether what it may have missed is to be said again."""
    forgot: Callable[[Transaction, Branch, Moment], None] | None = None
    """What this site has promised may be gone."""
    stale: Callable[[Transaction, Collection[str], Moment], None] | None = None
    """These sites say that the attempt is over, and it is not."""
    reread: Callable[[Transaction, Record | None, Moment], None] | None = None
    """The row of a request that is decided was read."""
    holds: bool = False
    """Sites hold something, which is to be renewed."""


UNOWNED: Final = PhaseOwner(())
"""The owner of phases that only an answer of the register ends."""


class CoordinatorPart(NamedTuple):
    """Calls of one part; None is not called."""

    handles: Sequence[tuple[type[m.Message], Handler]] = ()
    follows: Sequence[tuple[type, Follower]] = ()
    phases: Sequence[PhaseOwner] = ()
    begins: Callable[[Transaction, Moment], bool] | None = None
    """Begin an attempt. Return False if this is not the way of such a request."""
    commits: Callable[[Transaction, Commit, Moment], bool] | None = None
    """It has all its votes. Return True if this part sees to its commit, with that of others."""
    greeted: Callable[[str], None] | None = None
    """This site is connected, whatever requests there are."""
    committed: Callable[[Transaction, Moment], None] | None = None
    closed: Callable[[Transaction, Moment], None] | None = None
    ended: Callable[[Transaction], object] | None = None
    """The request is worked on no more."""
    gives_back: Callable[[PendingReclaim, Record, Moment], str] | None = None
    """An owner reclaims a place in a queue. Return the request that takes its place; "" if there is none."""
    broke: Callable[[str], None] | None = None
    """A step broke at this request."""


def on(kind: type[M], take: Callable[[str, M, Moment], None]) -> tuple[type[m.Message], Handler]:
    """State which part takes messages of `kind`; here, and only here, the two types are compared."""
    return kind, take


def after(kind: type[Op], take: Callable[[Op, Registered, Moment], None]) -> tuple[type, Follower]:
    """State what follows the results of `kind`."""
    return kind, take


def takers(parts: Iterable[CoordinatorPart]) -> dict[type[m.Message], Handler]:
    """Return what takes each type of message. Raises `ValueError` if two do."""
    found: dict[type[m.Message], Handler] = {}
    for kind, take in (each for part in parts for each in part.handles):
        if kind in found:
            raise ValueError(f"two parts take {kind.__name__}")
        found[kind] = take
    return found


def followers(parts: Iterable[CoordinatorPart]) -> dict[type, list[Follower]]:
    """Return what follows the results of each operation, in order."""
    found: dict[type, list[Follower]] = {}
    for kind, take in (each for part in parts for each in part.follows):
        found.setdefault(kind, []).append(take)
    return found


def owners_of_phases(parts: Iterable[CoordinatorPart]) -> dict[Phase, PhaseOwner]:
    """Return the owner of each phase. Raises `ValueError` if two parts own one."""
    found: dict[Phase, PhaseOwner] = dict.fromkeys(NEXT_PHASE, UNOWNED)
    for owner in (each for part in parts for each in part.phases):
        for phase in owner.phases:
            if found[phase] is not UNOWNED:
                raise ValueError(f"two parts own {phase}")
            found[phase] = owner
    return found
