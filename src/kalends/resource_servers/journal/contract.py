"""Records of a site to store, and the ways to read them, in any kind of store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.batch.journal.contract import (
    JobEntries,
    JobHistory,
    JobJournal,
    JobOver,
    ReservedTime,
    StoredHost,
    StoredState,
)
from kalends.contract import calls
from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.notices.delivery import DeliveriesDone, Delivery, StoredDeliveries
from kalends.resource_servers.participation.claims.claims_at_rest import Restored
from kalends.resource_servers.participation.credits.entries import CreditEntry
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.slots import (
    NO_SLOTS,
    KnownSlots,
    ReservedSlot,
)
from kalends.resource_servers.participation.reclaims.reclaims import Reclaimed
from kalends.resource_servers.participation.registers import KnownRegister
from kalends.serving.logs import Logger
from kalends.stores.group_commit import Committed, GroupCommit

DRAINING: Final = "draining"
"""The setting that is not 0 while the owner drains the site: `WITHOUT_END`, or the end (seconds UTC)."""

WITHOUT_END: Final = 1
"""The value of `DRAINING` while a drain lasts until the owner ends it."""


MORNING: Final = "morning"
"""The setting that is the day of the owner's last mail, by its ordinal; 0: there was none."""


class Setting(NamedTuple):
    """To be stored: a number by its name."""

    name: str
    value: int


class Prune(NamedTuple):
    """To be done: one step of forgetting old facts that are true no more.

    The result is how many went in it; None when all were looked at, and the next step begins anew.
    """

    before_ms: int


JobOperation = JobEntries | JobOver | ReservedTime | StoredHost | StoredState
SiteOperation = SiteFact | Setting | Prune | JobOperation | Delivery | DeliveriesDone

NOTHING: Final = DeliveriesDone(())
"""An operation that changes nothing: once it is stored, this site is known to have the store."""


class Loaded(NamedTuple):
    """The readable part of a store, from which a life of a site begins."""

    stakes: Restored
    """Every stake that is needed, oldest fact first."""
    forgotten: list[str]
    horizon_s: int
    epoch: int
    reclaims: list[Reclaimed]
    set_aside: SetAside
    """What cannot be read."""
    passed: TimePassed
    registers: list[KnownRegister]
    past: Past = Past()
    recovering: bool = False
    draining: int = 0
    """The value of `DRAINING`."""
    morning: int = 0
    """The value of `MORNING`."""
    grants: Sequence[NodeGrant] = ()
    slots: KnownSlots = NO_SLOTS
    credits: Sequence[CreditEntry] = ()
    """The ledger, the oldest entry first."""


class Journal(Protocol):
    """The store of a site in one of its lives: from its opening until it fails, or is closed."""

    wall_ms: int
    """Time (UTC) of what is stored from now on, for people who read the journal: who submits sets it."""

    @property
    def fenced(self) -> bool:
        """Whether another process may take the store over: then no write of this life is let in any more.

        What others rely on leaves behind a write, also where there is nothing else to store.
        """

    def is_ours(self) -> bool:
        """Whether no other process can have taken the store over yet, by the clock of this one."""

    @property
    def epoch(self) -> int:
        """Higher than at any earlier opening."""

    @property
    def past(self) -> Past: ...

    @property
    def jobs(self) -> JobJournal:
        """The journals of queues, to be read before the first operation is submitted."""

    @property
    def writer(self) -> GroupCommit[SiteOperation, int | None]:
        """Stores what is submitted together, all of it or nothing. Only `Prune` has a result."""

    async def load(self) -> Loaded:
        """Raises `StoreDamaged` when the store as a whole cannot be read."""

    async def deliveries(self) -> StoredDeliveries:
        """Return the deliveries that are neither sent nor given up."""

    async def close(self) -> None:
        """Store everything that was submitted, and let others open the store."""


class SlotCursor(NamedTuple):
    """Behind which slot a page begins: its end and its name."""

    end: int = 0
    name: str = ""


class SlotUse(NamedTuple):
    """A slot, and what jobs used of it."""

    slot: ReservedSlot
    jobs: int
    used: int


class SlotHistory(Protocol):
    """Slots that end in ``[start, end)``, of one user or ("") of all; read as `JobHistory` is."""

    async def slots(
        self, resource: str, user: str, start: int, end: int, after: SlotCursor, count: int
    ) -> Sequence[SlotUse]:
        """Return slots behind `after`, by their ends."""

    async def slot_users(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotUser, ...]:
        """Return the sums of the slots by user."""

    async def slot_projects(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotProject, ...]:
        """Return what jobs used in these slots, by the projects of the batch system."""


class SiteHistory(JobHistory, SlotHistory, Protocol):
    """Jobs, reserved time and slots of the past."""


class RunsKept(NamedTuple):
    """Limits of the stored records of runs: numbers, of all users and of each, and their size."""

    records_max: int
    of_user_max: int
    bytes_max: int


class RunRecords(Protocol):
    """The newest records of agents' runs. Nothing rests on them: if they cannot be kept, the log says so."""

    async def open(self) -> None: ...

    def keep(self, number: int, at_ms: int, rid: str, job: ScriptRun, outcome: RunOutcome) -> None:
        """Write down a run, soon."""

    async def newest(self, user: str | None, rid: str, count: int) -> list[calls.RunView]:
        """Return runs of `user` (None: of all users) for the request `rid` ("" for any), newest first."""

    async def one(self, number: int, user: str | None) -> calls.RunView | None:
        """Return a run of `user` (None: of any user) with its record; None when there is no such here."""

    async def close(self) -> None:
        """Write what waits, and close the records."""


class SiteStorage(Protocol):
    """The place of all stores of a site, over all its lives."""

    @property
    def beat_s(self) -> float | None:
        """The interval at which this site has to store `NOTHING`, so that others see it; None: never."""

    async def open(self, observe: Callable[[Committed], None]) -> Journal:
        """Begin a life, alone with the store. `observe` hears of each transaction.

        Raises `Conflict`, `StoreDamaged` and `Unavailable`, and `ServedElsewhere` while another process of
        the site lives: then this one may look again soon.
        """

    def history(self, settled: Callable[[], Awaitable[None]]) -> SiteHistory:
        """Return the reader of the past; `settled` returns when all that was submitted is stored."""

    def runs(self, kept: RunsKept, logger: Logger) -> RunRecords:
        """Return the records of runs, within these limits."""

    async def close(self) -> None:
        """End all readers of the past."""
