"""Calls that leave the choice of a machine for a job to a broker, and the place that it got."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import EndWord, Key, RequestId, TimeS, WaitMs
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.attributes import PlacePreference
from kalends.core.implementations import Implementation
from kalends.core.jobs import JobRequest
from kalends.core.requests import Attribute
from kalends.core.scripts import ScriptSource
from kalends.core.transport import JobData


class PlacedEnd(Answer, frozen=True, kw_only=True):
    """The end of a job that a broker placed: `at` (seconds UTC), after a run of `ran_s`, as its site reports.

    `status` is the exit status of its program, or a signal as a negative number.
    """

    at: int
    end: EndWord
    status: int = 0
    ran_s: int = 0

    @property
    def succeeded(self) -> bool:
        return self.end == "exit" and self.status == 0


class PlacedJob(Answer, frozen=True, kw_only=True):
    """The place of a job: number `number` on `machine`, at whose site it was submitted.

    `start_by` is the latest start that its site has promised (seconds UTC); 0: its queue promises no start,
    and nine in ten such jobs start by `late_start`. `implementation` is the name of the implementation that
    runs; "": there is only one. `also` are the job's other places until it has started at one. `ended` is how
    it ended, once its site has reported that.
    """

    machine: str
    number: int
    start_by: int = 0
    late_start: int = 0
    implementation: str = ""
    also: tuple[PlacedJob, ...] = ()
    ended: PlacedEnd | None = None


class PlaceJob(Body, frozen=True, kw_only=True):
    """Ask sites to bid for `job`, which names no machine, and submit it where it ends first.

    `on` are comparisons that a machine must meet (``site`` and ``name`` are the halves of its name,
    ``through`` the virtual sites on the way to it); bids that end after `end_by` (seconds UTC; 0: no limit)
    do not count. `prefer` are the delays that some machines are worth. The sites `homes` are always asked;
    of a virtual site, one of its sites is. With `implementations` each machine is asked for the one that
    would end first there, whose program, nodes and limit replace those of `job`, which are those of one of
    them. `pick` is the source of a script whose ``pick(bids)`` orders the bids, and `rank` of one whose
    ``rank(schedules, machine)`` orders, at each site, the ways to run it there. The time to transport `data`
    to a site, by the links that the broker knows, counts in its end there; sites that have it are homes, too.
    A `redundant` job gets a place at two sites, if two bid, and starts at the first that can; so it starts
    at most once, even if `job` does not ask for that, unless it may run again. With `by_limits`, bids are
    compared by the limit of the job, not by the run times of earlier jobs. `key` and `wait_ms` are as in
    `Book`.
    """

    key: Key
    job: JobRequest
    on: Annotated[tuple[Attribute, ...], Meta(max_length=limits.ATTRIBUTES_MAX)] = ()
    end_by: TimeS = 0
    prefer: Annotated[
        tuple[PlacePreference, ...], Meta(max_length=limits.PLACE_PREFERENCES_MAX)
    ] = ()
    pick: ScriptSource = ""
    rank: ScriptSource = ""
    data: Annotated[tuple[JobData, ...], Meta(max_length=limits.PLACE_DATA_MAX)] = ()
    implementations: Annotated[
        tuple[Implementation, ...], Meta(max_length=limits.IMPLEMENTATIONS_MAX)
    ] = ()
    homes: Annotated[
        tuple[Annotated[str, Meta(pattern=ids.whole(ids.NAME_PATTERN))], ...],
        Meta(max_length=limits.PLACE_HOMES_MAX),
    ] = ()
    redundant: bool = False
    by_limits: bool = False
    wait_ms: WaitMs = 30_000


class PlaceElsewhere(Body, frozen=True, kw_only=True):
    """Find another site for a job that a broker placed.

    The job keeps its place until it has another. It must be one that starts at most once and has not started,
    or one that may run again: a running one moves only if it starts there within minutes, and is then ended.
    `key` and `wait_ms` are as in `Book`.
    """

    id: RequestId
    key: Key
    wait_ms: WaitMs = 30_000
