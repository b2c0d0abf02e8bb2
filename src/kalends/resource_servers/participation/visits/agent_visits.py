"""An agent's visit at a site: its state, and the conversion between scripts and messages."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from kalends.agents.world.answers import BadResult
from kalends.agents.world.offers import Offer
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.scripts import RunCode, script_hash
from kalends.resource_servers.participation.claims.claim_sets import Claim
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.runs import RunTable

SCRIPTS_KEPT_MAX: Final = 256
"""Sources that are remembered by their hash: at most 32 MB. Of others the source is asked for again."""

MESSAGE_DEPTH_MAX: Final = 8

NEAR_BYTES_MAX: Final = 2_000_000
"""What the reports of all near sites may have together: with the site's own they fit into a frame."""

NEAR_EACH_BYTES_MAX: Final = 256 * 1024

_DEFINES_RECALL: Final = re.compile(r"^def\s+recall\s*\(", re.MULTILINE)


class AgentLimits(NamedTuple):
    """The owner's terms for agents: see `kalends.serving.configuration.AgentsConfiguration`."""

    enabled: bool = True
    held_max: int = 16
    near: tuple[str, ...] = ()


class SlotChoice(NamedTuple):
    """What is to be held, best first; `code` says whether a script chose it, or why not."""

    code: RunCode
    slots: Sequence[Offer]
    detail: str = ""
    line: int = 0
    sent: tuple[str, ...] = ()


@dataclass(slots=True)
class AgentVisit:
    """One attempt's visit, from its Dispatch until nothing of it is held here any more.

    In memory only, as holds are. `offers` are kept until it is answered. `errand` is the run under
    way, and `run` the last one; `relays` are those passed on and not answered yet, `near` the reports
    of the others.
    """

    dispatch: m.Dispatch
    asker: str
    """Where the report goes: a session, or a site that has passed the visit on."""
    offers: list[Offer] = field(default_factory=list)
    errand: int = 0
    run: str = ""
    ran_again: bool = False
    fell_back: bool = False
    relays: set[int] = field(default_factory=set)
    near: dict[str, m.SiteReport] = field(default_factory=dict)
    own: m.SiteReport | None = None
    common: m.CommonTimes | None = None
    """What was answered for all, if it was: nothing else is held here any more."""
    answered: bool = False
    answers_recalls: bool = field(init=False)
    """Whether the script seems to define ``recall``; if it does not after all, its run fails.

    No more once its broker has chosen what it keeps, and renews that.
    """
    through: tuple[str, ...] = ()
    """The virtual sites that its broker comes by."""
    keeps_until_ms: int = 0
    """It has said that it keeps its slots: until then (monotonic) it is not asked again."""

    def __post_init__(self) -> None:
        self.answers_recalls = _DEFINES_RECALL.search(self.dispatch.source) is not None

    @property
    def att(self) -> int:
        return self.dispatch.att

    def report(self, claims: Iterable[Claim]) -> m.Report:
        """The answer, of which only what is among `claims` is still held."""
        assert self.own is not None
        alive = {claim.hold_id for claim in claims}
        held = tuple(slot for slot in self.own.held if slot.hold_id in alive)
        own = msgspec.structs.replace(self.own, held=held)
        bytes_max = min(NEAR_BYTES_MAX // max(len(self.near), 1), NEAR_EACH_BYTES_MAX)
        near = tuple(
            _fitted(self.near[stop.site], bytes_max)
            for stop in self.dispatch.near
            if stop.site in self.near
        )
        return m.Report(rid=self.dispatch.rid, att=self.att, sites=(own, *near))


@dataclass(eq=False)
class AgentVisits:
    """The visits of agents by request, and the end of their runs."""

    runs: RunTable
    _visits: dict[str, AgentVisit] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._visits)

    def __contains__(self, rid: str) -> bool:
        return rid in self._visits

    def get(self, rid: str) -> AgentVisit | None:
        return self._visits.get(rid)

    def begin(self, visit: AgentVisit) -> None:
        self._visits[visit.dispatch.rid] = visit

    def forget(self, rid: str) -> None:
        del self._visits[rid]

    def att_of(self, rid: str) -> int:
        """Return the attempt of `rid` whose agent is here, or 0."""
        visit = self._visits.get(rid)
        return visit.att if visit is not None else 0

    def secret_of(self, rid: str) -> str | None:
        visit = self._visits.get(rid)
        return visit.dispatch.secret if visit is not None else None

    def end(self, rid: str, att: int) -> None:
        """End the visits of attempts of `rid` up to `att`, and drop their runs and relays."""
        visit = self._visits.get(rid)
        if visit is not None and visit.att <= att:
            del self._visits[rid]
            for number in (visit.errand, *visit.relays):
                self.runs.drop(number)

    def renewed(self, rid: str, source: str) -> None:
        """Note that the broker has chosen what it keeps: no agent gives that back any more."""
        visit = self._visits.get(rid)
        if visit is not None and visit.answered:
            visit.asker = source
            visit.answers_recalls = False

    def forget_answered(self, rid: str) -> None:
        """Forget a visit that is answered and holds nothing: it may be made again."""
        visit = self._visits.get(rid)
        if visit is not None and visit.answered:
            del self._visits[rid]


class Blocker(NamedTuple):
    """A held claim of request `rid` that an older request needs gone, for the sake of `piece`."""

    rid: str
    claim: Claim
    piece: Piece


@dataclass(slots=True)
class PendingRecall:
    """Attempt `att` of a request that waits: for the runs `asked`; `resume` goes on with it."""

    att: int
    asked: dict[int, Blocker]
    given: list[Blocker]
    resume: Callable[[Moment], None]


class ScriptCache:
    """Sources by their hash; those that were not used for longest are forgotten first."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, str] = OrderedDict()

    def take(self, script: str, source: str) -> str | None:
        """The source of `script`: the given one, else what is remembered, else None.

        Raises `ValueError` for a given one that has another hash; then nothing is remembered.
        """
        if source and script_hash(source) != script:
            raise ValueError("the source in the message has another hash")
        known = source or self._sources.get(script)
        if known is None:
            return None
        self._sources[script] = known
        self._sources.move_to_end(script)
        if len(self._sources) > SCRIPTS_KEPT_MAX:
            self._sources.popitem(last=False)
        return known


def received(inbox: Iterable[str]) -> tuple[Any, ...]:
    """The values of a client's messages; one that is no JSON text of plain data is left out."""
    values = []
    for text in inbox:
        try:
            value = msgspec.json.decode(text)
            msgspec.msgpack.encode(value)  # As it goes to a worker: JSON's numbers have no end.
        except (msgspec.DecodeError, OverflowError, RecursionError):
            continue
        if _depth(value) <= MESSAGE_DEPTH_MAX:
            values.append(value)
    return tuple(values)


def sent_texts(sent: Sequence[Any]) -> tuple[str, ...]:
    """Return a script's messages for its client; raises `BadResult` for what cannot be one."""
    if len(sent) > limits.AGENT_MESSAGES_MAX:
        raise BadResult(f"more than {limits.AGENT_MESSAGES_MAX} messages were left for the client")
    return tuple(_text(value) for value in sent)


def _text(value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadResult("a message for the client is not plain data") from error
    if len(text) > limits.AGENT_MESSAGE_CHARS_MAX:
        raise BadResult(
            f"a message for the client is longer than {limits.AGENT_MESSAGE_CHARS_MAX} characters"
        )
    return text


def _depth(value: Any) -> int:
    """How deep lists and dicts are nested; counted no further than one too many."""
    depth, level = 0, [value]
    while level and depth <= MESSAGE_DEPTH_MAX:
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1
    return depth


def _fitted(report: m.SiteReport, bytes_max: int) -> m.SiteReport:
    """Return `report` with its proof as a whole, if the whole answer is sure to fit into a frame then."""
    whole = msgspec.structs.replace(report, seals=report.seals[:1])
    if len(msgspec.msgpack.encode(whole)) <= bytes_max:
        return whole
    return silent(report.site, "its report is too long to pass on")


def silent(site: str, detail: str) -> m.SiteReport:
    """The report of a near site that was not visited, or did not answer."""
    return m.SiteReport(
        site, refusals=(Refusal(where=site, code=RefusalCode.SITE_DOWN, detail=detail),)
    )
