"""Questions of the servers of a broker to its register, which any store can answer.

Every read is one question, and its answer may come late: meanwhile anything may have happened, and the
incarnation in which it was asked may be over (`kalends.broker.replica.replica.Replica.read`). What is read is
durable. Reads raise `Unavailable` while the store cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kalends.broker.coordination.record.decision_record import Record, Unreadable
from kalends.broker.reconciliation.reconciler import ComparedRows
from kalends.broker.register.writes import (
    Feed,
    ListedSite,
    Named,
    NoticeAddress,
    Result,
    ShareRow,
    Write,
)
from kalends.contract.calls import RequestState
from kalends.contract.messages import Mark
from kalends.notices.delivery import StoredDeliveries
from kalends.notices.request_notice import RequestNotice
from kalends.stores.group_commit import StoreFailed

Op_contra = TypeVar("Op_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

Row = Record | Unreadable


def readable(row: Row) -> Record:
    """Return `row` as a record; raises `StoreDamaged` where it cannot be read."""
    if isinstance(row, Unreadable):
        raise row.error()
    return row


class WholeReservation(NamedTuple):
    """A request with all its changes as they were at one moment: `rows`, oldest first, at least one."""

    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        return self.rows[0].reservation

    @property
    def current(self) -> Row:
        """The newest record that was ever committed, else the first one."""
        return min(self.rows, key=_standing)

    @property
    def changing(self) -> str:
        """The id of an open move, extend or shrink, or ""."""
        open_changes = (row.rid for row in self.rows if row.rid != self.id and row.state == "open")
        return next(open_changes, "")

    def row(self, rid: str) -> Row | None:
        return next((row for row in self.rows if row.rid == rid), None)

    def of_key(self, user: str, key: str) -> Row | None:
        return next((row for row in self.rows if (row.user, row.key) == (user, key)), None)

    def meant_by(self, rid: str) -> Row:
        """Return the record that a user means by `rid`: the reservation as it stands, or one change of it."""
        named = self.row(rid)
        return named if named is not None and rid != self.id else self.current


def _standing(row: Row) -> tuple[bool, bool, str]:
    return row.state not in ("commit", "cancelled"), row.rid != row.reservation, row.rid


class Outlook(NamedTuple):
    """State that a replica reads when it begins, with each beat, and when a site comes.

    `beats` are those of each owner, `clock_bound` is above every logical time that was given out. `put_back`:
    the register has forgotten something, and is not compared with all its sites yet. `marks` say how far each
    site was when any replica heard of it last, and `lives` how far those that were asked for have come, if
    they are known.
    """

    beats: Mapping[str, int]
    clock_bound: int
    put_back: bool
    marks: Mapping[str, Mark]
    lives: Mapping[str, int]
    open_requests: Mapping[str, Mapping[str, int]]
    """The number of unfinished requests of each user, by the owner that works on them."""


class Stranded(NamedTuple):
    """A job that waits for lost sites. `rows` counts those of its reservation."""

    record: Record
    rows: int


class Script(NamedTuple):
    named: Named
    source: str


class WaitingNotices(NamedTuple):
    notices: Mapping[int, RequestNotice]
    """By number, oldest first."""
    unreadable: tuple[int, ...]
    addresses: Mapping[str, Sequence[NoticeAddress]]
    """Addresses of each user of these notices, in order."""


class DueReminder(NamedTuple):
    """A committed request begins `address.remind_s` after the time `due_s` (seconds UTC)."""

    due_s: int
    address: NoticeAddress
    record: Record


class BatchWriter(Protocol[Op_contra, Result_co]):
    """Writes in the order of their submission, each submission as a whole (`GroupCommit`)."""

    @property
    def idle(self) -> bool:
        """Everything that was submitted has been reported."""

    @property
    def stuck_s(self) -> float:
        """Seconds that the current transaction has taken, if they are too many; else 0."""

    @property
    def stuck_because(self) -> str:
        """The likely reason for that, in words for callers."""

    def submit(
        self,
        operations: Sequence[Op_contra],
        done: Callable[[Sequence[Result_co]], None],
        failed: Callable[[StoreFailed], None],
    ) -> None:
        """Store `operations` together; exactly one of `done` and `failed` is called, later."""

    async def run(self, operations: Sequence[Op_contra]) -> Sequence[Result_co]:
        """The results of `operations` once they are durable; raises `StoreFailed`."""


class Register(Protocol):
    """The register of one broker, opened by one of its replicas. Made and used on one event loop."""

    @property
    def writer(self) -> BatchWriter[Write, Result]: ...

    @property
    def identity(self) -> str:
        """Identity among all registers: all replicas read the same one, for ever."""

    @property
    def secret(self) -> str:
        """Source of all proofs of the register's word; it never leaves the broker."""

    @property
    def epoch(self) -> int:
        """Counts the openings by all replicas."""

    @property
    def promoted(self) -> bool:
        """Whether its database may lack what was stored last, since the failover, or the restore, of it."""

    async def believe(self) -> None:
        """All is there, as far as sites know: no later opening is `promoted`. Raises `Unavailable`."""

    async def close(self) -> None:
        """Write everything that was submitted, and let go of the store."""

    async def put_aside(self, settled: Sequence[WholeReservation]) -> int:
        """Let `settled` leave, of which nothing is left to be done; returns the number of requests.

        On a database, requests and sites find it as before. Raises `StoreFailed`, and `OSError` or
        `Unavailable` where it cannot be put aside.
        """

    # Replicas and sites

    async def look(self, lives: Collection[str] = ()) -> Outlook: ...

    async def listed_sites(self) -> Sequence[ListedSite]:
        """The sites that are not configured, in order of name and key."""

    async def left_behind(
        self, me: str, alive: Collection[str], attended: Collection[str], count_max: int
    ) -> Sequence[Row]:
        """Unfinished requests on which no replica works.

        Their owner is neither `me` nor one of those `alive`, or it is `me`, and they are not among those
        `attended`: at most `count_max` of either, not counting rows that cannot be read.
        """

    async def compared(
        self, after: str, until: str, rids: Sequence[str], count_max: int
    ) -> ComparedRows:
        """Rows for a comparison with a site: those of `rids`, and those after `after` and up to `until`
        ("": the last) that were ever committed; in order of id, the first `count_max` of them.
        """

    # Requests

    async def reservation(self, rid: str) -> WholeReservation | None:
        """The reservation that `rid` is, or is a change of."""

    async def by_key(self, user: str, key: str) -> WholeReservation | None:
        """The reservation of which one request was made by `user` with this key."""

    async def ids(self, user: str, part: str, count_max: int) -> Sequence[str]:
        """The newest ids of requests and changes of `user` that `is_part` says `part` is of."""

    async def reservations_of(self, rids: Collection[str]) -> Mapping[str, str]:
        """The reservations of those of `rids` that are changes of one."""

    async def listed(
        self, user: str, before: str, state: RequestState | str, count_max: int
    ) -> Sequence[WholeReservation]:
        """The newest reservations of `user` ("": of all) before the id `before` ("": the newest).

        With `state`, only those that stand so.
        """

    async def reservations(self, after: str, count_max: int) -> Sequence[WholeReservation]:
        """The first reservations after the id `after`, oldest first."""

    async def page(self, after: str, count_max: int) -> Sequence[Row]:
        """All rows with an id after `after`, in order of id."""

    # Jobs that are left to the broker

    async def ends(self, count_max: int) -> Sequence[Record]:
        """The last jobs of which it is known how they ended, and that can be read, in that order.

        With less than `count_max` there are no others.
        """

    async def stranded(
        self, sites: Collection[str], but: Collection[str], count_max: int
    ) -> Sequence[Stranded]:
        """Jobs that may start at none but these sites, or may run at one of them and start again elsewhere.

        None of those in `but`, and none that has ended, or is being moved.
        """

    async def left(self, site: str, why: str, count_max: int) -> Sequence[Record]:
        """Jobs that have left `site` for this reason, wait at another, and have started nowhere."""

    # Scripts and notices

    async def scripts(self, user: str) -> Sequence[Named]:
        """The scripts of `user`, in order of name."""

    async def script(self, user: str, reference: str) -> Script | None:
        """The script of `user` by its name, or by its whole hash."""

    async def addresses(self, user: str) -> Sequence[NoticeAddress]:
        """The addresses of `user`, in order."""

    async def feeds(self, user: str) -> Sequence[Feed]:
        """The calendar feeds of `user`, in order of name."""

    async def feed(self, hash: str) -> Feed | None:
        """The calendar feed whose secret has this hash."""

    async def shares(self, reservations: Collection[str]) -> Sequence[ShareRow]:
        """The shares of these reservations, in order of reservation and party."""

    async def shares_with(
        self, parties: Collection[str], before: str, count_max: int
    ) -> Sequence[ShareRow]:
        """The shares with `parties` of the newest reservations before the id `before` ("": of all)."""

    async def waiting_notices(self, of_user_max: int, count_max: int) -> WaitingNotices:
        """The oldest notices without deliveries, a limited number for each user."""

    async def due_reminders(self, now_s: int, count_max: int) -> Sequence[DueReminder]:
        """The oldest reminders that are due, and not posted, of requests that have not begun.

        In order of time. A request that cannot be read has none.
        """

    async def deliveries(self) -> StoredDeliveries:
        """The deliveries that are neither sent nor given up, oldest first."""
