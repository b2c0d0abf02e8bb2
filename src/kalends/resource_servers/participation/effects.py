"""Effects of a step of the participant for its shell, and their order.

**Persist before send**: the facts of a step, and of every step before it, are durable before any
message of that step leaves. A shell may collect the effects of many steps and store them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from kalends.agents.runs import ScriptRun
from kalends.backends.records import Errand
from kalends.contract import messages as m
from kalends.contract.messages import Dispatch, Message, StartVerdict
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.core.steps import StepPart

LIGHT: Final = (m.Hello, m.View, m.Inquire, m.StartAsk, m.PeerAsk)
"""Greetings, questions, and views that may be stale when they arrive: no decision rests on them."""


class SiteFact(msgspec.Struct, frozen=True):
    """Something to store; each kind says what is true from now on."""


class EntryStored(SiteFact, frozen=True):
    """Fact: the ledger of credits has the entry `body` of this `key`. The position counts it."""

    key: str
    number: int
    body: bytes


class EntriesFolded(SiteFact, frozen=True):
    """Fact: the ledger has the entries `carried` in place of those with these `keys`."""

    keys: tuple[str, ...]
    carried: tuple[EntryStored, ...]


class Send(NamedTuple):
    """`message` to a broker's session (by the name it came with) or to a URL."""

    to: str
    message: Message


class RunTask(NamedTuple):
    """Run `job`, and hand its outcome to `RunTable.errand_done` with this `number`."""

    number: int
    rid: str
    job: ScriptRun


class Relay(NamedTuple):
    """Pass `dispatch` on to the near `site`, and hand its report to `RunTable.relayed`."""

    number: int
    site: str
    dispatch: Dispatch


class Provision(NamedTuple):
    """Ask the batch system `system`, and hand its answer to `Provisions.answered` with this `number`.

    As a message, it leaves when the facts of its step, and of all before, are durable.
    """

    number: int
    system: str
    errand: Errand


class PlaceAsk(NamedTuple):
    """Give `job` of `principal` a place in the queue of each machine, under the hold id that stands with it.

    On a machine that `jobs` names it is the job that stands there. What comes of it is handed to
    `PlacedJobs.offered` with this `number`. Each is counted for `counted_s` longer than the job's limit
    (`kalends.batch.queue.offers`).

    On a machine that `ways` names it may be another of these jobs, which differ in how they run; the script
    `rank` of the job orders them ("": the owner's aim does).
    """

    number: int
    rid: str
    principal: Principal
    job: JobRequest
    jobs: Mapping[str, JobRequest]
    places: tuple[tuple[str, int], ...]
    counted_s: int
    ways: Mapping[str, Sequence[JobRequest]] = MappingProxyType({})
    rank: str = ""


class StartWord(NamedTuple):
    """What the broker of a request says about the start of its job here; `at` is where it has started.

    `parts` are those of a job in step, which start with it, `in_ms` milliseconds from now.
    """

    rid: str
    says: StartVerdict
    at: str
    parts: tuple[StepPart, ...] = ()
    in_ms: int = 0


@dataclass(slots=True)
class ParticipantEffects:
    """`alarms` are for the operator: something happened that the protocol forbids.

    `reports` are, too: what a state is called, and what is wrong with it, or "" once that is over.
    `errands`, `relays` and `asks` wait for nothing to be stored: what they bring is checked anew.
    """

    facts: list[SiteFact] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)
    errands: list[RunTask] = field(default_factory=list)
    relays: list[Relay] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)
    asks: list[PlaceAsk] = field(default_factory=list)
    starts: list[StartWord] = field(default_factory=list)

    @property
    def weigh(self) -> bool:
        """Whether others rely on what leaves: it may not leave a site that was taken over meanwhile."""
        return bool(self.provisions) or any(
            not isinstance(each.message, LIGHT) for each in self.sends
        )

    def __bool__(self) -> bool:
        told = self.alarms or self.reports
        away = self.errands or self.relays or self.provisions or self.asks or self.starts
        return bool(self.facts or self.sends or told or away)
