"""What one slot of a resource of capacity 1 may answer: a register with an owner, as a pure function.

A slot is one instant of a resource. Its `State` is who has locked it, and who holds it
or is promised it: a change of a reservation claims what its own old lock still takes. Every new hold
has a higher number than all before it (a fence number). An `Action` is what one message asked of this
slot and what was answered, or what the site did by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from tests.simulation.listening import milliseconds

NOBODY: Final = frozenset[int]()


class Lock(NamedTuple):
    rid: str
    att: int
    ids: frozenset[int]


class Claim(NamedTuple):
    """A hold or a promise. No `ids`: whoever made it was never told its number."""

    rid: str
    att: int
    state: Literal["held", "promised"]
    ids: frozenset[int]
    until_ms: int = 0
    """A hold does not run out before; 0: at any time."""

    def matches(self, ids: frozenset[int]) -> bool:
        return not self.ids or bool(self.ids & ids)


class State(NamedTuple):
    lock: Lock | None = None
    claim: Claim | None = None
    fence: int = 0
    """The highest hold id so far."""
    ended: frozenset[str] = frozenset()
    """Requests that had it locked."""


AVAILABLE: Final = State()


class Action(NamedTuple):
    """`ids` are those of this slot that the message, or its answer, names.

    ========= ==================================== ==============================================
    kind      said                                 meaning
    ========= ==================================== ==============================================
    visit     held, promised, refused, waiting, "" "": nothing is known of the answer
    grant     held                                 a visit that waited has got it
    prepare   yes, no, ""
    commit    done, ""
    abort     done, ""                             `refuse`: a peer was told "never"
    cancel    done, ""
    ask                                            an owner is asked for `ids`: what else is held ends
    release                                        `mode`: "" all, "some", or "give" back
    renew                                          `ids` are kept, `lost` are not
    look      free, taken                          `mode` is what counts as taken
    recall                                         the holder was told to give it back
    taken     back                                 the holder was told that `lost` are gone
    crash     "durable", ""                        holds are gone, promises and locks stay; where owners
                                                   approve (durable), holds may stay as well
    ========= ==================================== ==============================================
    """

    kind: str
    rid: str = ""
    att: int = 0
    said: str = ""
    ids: frozenset[int] = NOBODY
    lost: frozenset[int] = NOBODY
    mode: str = ""
    replaces: str = ""
    wanted: bool = True
    """A visit of slots elsewhere ends what an earlier attempt had here."""
    until_ms: int = 0
    """For holds made or renewed: they do not run out before."""
    bare: bool = False
    """A refusal, or what is shown as taken, has no other reason than this slot's claims."""


def step(state: State, action: Action, latest: int) -> Iterator[State]:
    """The states that may follow; holds whose time is over may have ended before."""
    yield from _STEPS[action.kind](state, action)
    claim = state.claim
    if claim is not None and claim.state == "held" and claim.until_ms <= milliseconds(latest):
        yield from _STEPS[action.kind](state._replace(claim=None), action)


def reads(actions: Sequence[Action]) -> Callable[[Action, State], bool]:
    """Looks, refusals, and all that strangers do: who has nothing here, nor gets it, changes nothing."""
    takers = frozenset(action.rid for action in actions if _may_take(action))

    def changes_nothing(action: Action, state: State) -> bool:
        if action.kind == "look" or (action.kind == "prepare" and action.said == "no"):
            return True
        owns = any(owner is not None and owner.rid == action.rid for owner in state[:2])
        return action.kind != "crash" and action.rid not in takers and not owns

    return changes_nothing


def _may_take(action: Action) -> bool:
    """Whether its request may have something here afterwards."""
    if action.kind == "visit":
        return action.wanted and action.said in ("held", "promised", "")
    return action.kind in ("grant", "commit")


def _visit(state: State, visit: Action) -> Iterator[State]:
    mine = _own(state, visit.rid)
    if state.lock is not None and state.lock.rid == visit.rid:
        # Only a stale visit, and the report of what an agent had chosen, can come so late.
        if visit.said in ("", "refused") or visit.ids <= state.lock.ids:
            yield state
        return
    again = mine is not None and mine.att == visit.att
    if visit.said in ("held", "promised") and visit.wanted:
        yield from _take(state, visit, mine, again=again)
        return
    if mine is not None and mine.att > visit.att:
        return
    if again:
        # A hold of this attempt can be refused its promise; it cannot be refused, or wait.
        assert mine is not None
        if not visit.wanted or visit.said == "" or (
            mine.state == "held" and visit.said == "refused" and not visit.bare
        ):  # fmt: skip
            yield state
        return
    left = state._replace(claim=None) if mine is not None else state
    if visit.bare and visit.said == "refused" and not (left.claim or left.lock):
        return
    yield left
    # A hold that nobody was told of ends with the crash that swallowed the answer; a promise stays.
    if visit.said == "" and visit.mode == "vote" and visit.wanted and _has_room(left, visit):
        yield left._replace(claim=Claim(visit.rid, visit.att, "promised", NOBODY))


def _take(state: State, visit: Action, mine: Claim | None, *, again: bool) -> Iterator[State]:
    taken: Literal["held", "promised"] = "held" if visit.said == "held" else "promised"
    if mine is not None and again and (mine.ids == visit.ids or not mine.ids):
        if visit.mode == "agent" or taken == mine.state:
            yield _known(state, mine._replace(ids=visit.ids))
        elif taken == "promised" and visit.mode == "vote":
            yield _known(state, mine._replace(ids=visit.ids, state=taken, until_ms=0))
        return
    if mine is not None and again and visit.mode == "agent" and visit.ids <= mine.ids:
        yield state
        return
    if mine is not None and mine.att >= visit.att:
        return
    left = state._replace(claim=None) if mine is not None else state
    if not _has_room(left, visit):
        return
    kept = mine is not None and visit.mode == "hold" and visit.ids <= mine.ids
    if kept or min(visit.ids) > state.fence:
        yield _known(left, Claim(visit.rid, visit.att, taken, visit.ids, visit.until_ms))


def _grant(state: State, grant: Action) -> Iterator[State]:
    """Of a visit that waited, which held nothing meanwhile; said again it changes nothing."""
    mine = _own(state, grant.rid)
    if mine is not None and (mine.att, mine.ids) == (grant.att, grant.ids):
        yield state
    elif mine is None and _has_room(state, grant) and min(grant.ids) > state.fence:
        claim = Claim(grant.rid, grant.att, "held", grant.ids, grant.until_ms)
        yield _known(state, claim)


def _prepare(state: State, prepare: Action) -> Iterator[State]:
    mine = _own(state, prepare.rid)
    named = mine is not None and mine.att == prepare.att and mine.matches(prepare.ids)
    if prepare.said == "no":
        if not (named and mine is not None and mine.state == "promised"):
            yield state
        return
    if prepare.said == "":
        yield state
    if mine is None:
        # Said again after the outcome; or what is promised is elsewhere.
        locked = state.lock is not None and state.lock.rid == prepare.rid
        if not prepare.ids or locked or prepare.rid in state.ended:
            yield state
    elif mine.att != prepare.att:
        if not prepare.ids:
            yield state
    elif not named:
        # Only what is named is kept of what is held; a promise is given once.
        if not prepare.ids:
            yield state if mine.state == "promised" else state._replace(claim=None)
    elif mine.state == "promised":
        yield state
    else:
        kept = mine.ids & prepare.ids or mine.ids
        yield state._replace(claim=mine._replace(state="promised", ids=kept, until_ms=0))


def _commit(state: State, commit: Action) -> Iterator[State]:
    mine = _own(state, commit.rid)
    replaced = state.lock is not None and state.lock.rid == commit.replaces != ""
    if commit.said == "":
        yield state
    if mine is not None and mine.att == commit.att:
        left = state._replace(claim=None, lock=None if replaced else state.lock)
        if not commit.ids or not mine.matches(commit.ids):
            if not commit.ids:
                yield left
        elif mine.state == "promised" and left.lock is None:
            ids = mine.ids & commit.ids or commit.ids
            ended = state.ended | {commit.rid}
            yield left._replace(lock=Lock(commit.rid, commit.att, ids), ended=ended)
        return
    if not commit.ids or commit.rid in state.ended:
        yield state
        if replaced:
            yield state._replace(lock=None)


def _abort(state: State, abort: Action) -> Iterator[State]:
    mine, lock = _own(state, abort.rid), state.lock
    if abort.said == "":
        yield state
    if abort.said and lock is not None and lock.rid == abort.rid and lock.att <= abort.att:
        return
    if mine is None or mine.att > abort.att:
        yield state
    elif not (abort.said == "refuse" and mine.state == "promised" and mine.att == abort.att):
        yield state._replace(claim=None)


def _cancel(state: State, cancel: Action) -> Iterator[State]:
    mine = _own(state, cancel.rid)
    if cancel.said == "":
        yield state
    if state.lock is not None and state.lock.rid == cancel.rid:
        yield state._replace(lock=None)
    elif mine is None or mine.state == "held":
        yield state


def _release(state: State, release: Action) -> Iterator[State]:
    """Promises are decided, not released."""
    mine = _own(state, release.rid)
    if mine is None or mine.state == "promised" or release.att < mine.att:
        yield state
        return
    if release.mode == "give":
        # All of this very attempt, or nothing.
        whole = release.att == mine.att and mine.ids <= release.ids
        yield state._replace(claim=None) if whole else state
        return
    left = mine.ids - release.ids if release.mode == "some" else NOBODY
    yield state._replace(claim=mine._replace(ids=left) if left else None)


def _ask(state: State, ask: Action) -> Iterator[State]:
    """Alternatives to what its owner is to approve are held no longer."""
    mine = _own(state, ask.rid)
    if mine is None or mine.state == "promised" or mine.att != ask.att or not mine.ids:
        yield state
        return
    left = mine.ids & ask.ids
    yield state._replace(claim=mine._replace(ids=left) if left else None)


def _renew(state: State, renew: Action) -> Iterator[State]:
    mine, lock = _own(state, renew.rid), state.lock
    known = mine.ids if mine is not None else NOBODY
    if lock is not None and lock.rid == renew.rid:
        known |= lock.ids
    unknown = renew.rid in state.ended or (mine is not None and not mine.ids)
    if not unknown and (renew.lost & known or not renew.ids <= known):
        return
    if mine is not None and mine.state == "held" and mine.until_ms:
        yield state._replace(claim=mine._replace(until_ms=renew.until_ms))
    else:
        yield state


def _look(state: State, look: Action) -> Iterator[State]:
    lock = state.lock if state.lock is None or state.lock.rid != look.replaces else None
    if look.said == "free":
        possible = lock is None and (state.claim is None or look.mode != "all")
    else:
        waits = state.claim is not None and (look.mode == "all" or state.claim.state == "promised")
        possible = not look.bare or bool(look.replaces) or lock is not None or waits
    if possible:
        yield state


def _recall(state: State, recall: Action) -> Iterator[State]:
    mine = _own(state, recall.rid)
    if mine is not None and mine.state == "held":
        yield state._replace(claim=mine._replace(until_ms=0))
    else:
        yield state


def _taken(state: State, taken: Action) -> Iterator[State]:
    mine, lock = _own(state, taken.rid), state.lock
    if lock is not None and lock.rid == taken.rid and lock.ids & taken.lost:
        return
    if mine is None or not mine.ids & taken.lost:
        yield state
    elif mine.state == "held":
        left = mine.ids - taken.lost
        yield state._replace(claim=mine._replace(ids=left) if left else None)


def _crash(state: State, crash: Action) -> Iterator[State]:
    held = state.claim is not None and state.claim.state == "held"
    if held and crash.said == "durable":
        yield state
    yield state._replace(claim=None) if held else state


def _own(state: State, rid: str) -> Claim | None:
    return state.claim if state.claim is not None and state.claim.rid == rid else None


def _has_room(state: State, action: Action) -> bool:
    return state.claim is None and (state.lock is None or state.lock.rid == action.replaces != "")


def _known(state: State, claim: Claim) -> State:
    return state._replace(claim=claim, fence=max(state.fence, *claim.ids))


_STEPS: Final[dict[str, Callable[[State, Action], Iterator[State]]]] = {
    "visit": _visit,
    "grant": _grant,
    "prepare": _prepare,
    "commit": _commit,
    "abort": _abort,
    "cancel": _cancel,
    "ask": _ask,
    "release": _release,
    "renew": _renew,
    "look": _look,
    "recall": _recall,
    "taken": _taken,
    "crash": _crash,
}
