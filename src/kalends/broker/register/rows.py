"""Rows of a register, as decisions see and change them in any store.

A store carries out writes by `kalends.broker.register.decisions`: it gives them the rows that
`kalends.broker.register.touched` names, which nobody else may change until it has stored what was decided.
All writes of a transaction are decided in their order on the same rows, so that each sees what was decided
before it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import Feed, ListedSite, Named, NoticeAddress, ShareRow
from kalends.contract.messages import Mark
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice

K_contra = TypeVar("K_contra", contravariant=True)
V = TypeVar("V")


class Table(Protocol[K_contra, V]):
    """Rows by their keys; a dictionary is one."""

    def get(self, key: K_contra, /) -> V | None: ...

    def __setitem__(self, key: K_contra, value: V, /) -> None: ...

    def pop(self, key: K_contra, default: None, /) -> object: ...


class StoredStart(NamedTuple):
    """A start of a job at `site`; "" until one of the sites `places` (by commas) has asked.

    `again`: it may be running there, and starts again elsewhere if that site is lost. For a job in step,
    `site` are its parts (`encode_parts`), and `places` the time when they start (milliseconds UTC).
    """

    site: str
    places: str
    again: bool = False


class StoredEnd(NamedTuple):
    """The end of a job, encoded, and its time (seconds UTC)."""

    at: int
    body: bytes


class KeptName(NamedTuple):
    """A name of a script; one that was `deleted` is remembered for a while."""

    named: Named
    deleted: bool


class Rows(Protocol):
    """The rows of one register, within a transaction."""

    @property
    def requests(self) -> Table[str, StoredRequest]:
        """Requests by rid; a row that is put in place of another has its user, key and reservation."""
        ...

    def of_key(self, user: str, key: str) -> StoredRequest | None: ...

    def reservation(self, reservation: str) -> Sequence[StoredRequest]:
        """Return the request of this id and all its changes, in order of rid."""
        ...

    def has_closed(self, user: str, common: str, but: str) -> bool:
        """Whether a request of `user`, not `but`, is closed whose key is `common`, a space and more."""
        ...

    def open_requests(self) -> Sequence[StoredRequest]: ...

    @property
    def starts(self) -> Table[str, StoredStart]:
        """Starts of jobs by rid."""
        ...

    def waiting_starts(self) -> Collection[str]:
        """Return the rids of those that may still start anywhere."""
        ...

    @property
    def endings(self) -> Table[str, StoredEnd]:
        """Ends of jobs by rid."""
        ...

    @property
    def sources(self) -> Table[str, str]:
        """Sources of scripts by hash."""
        ...

    @property
    def names(self) -> Table[tuple[str, str], KeptName]:
        """Names of scripts by client and name."""
        ...

    def names_of(self, client: str) -> Sequence[KeptName]:
        """Return those that are deleted, too; in order of name."""
        ...

    def add_use(self, rid: str, script: str) -> None:
        """Write down that an open request uses the script with this hash."""
        ...

    def end_uses(self, rid: str) -> Sequence[str]:
        """Write down that the request uses no script any more; returns the hashes of those that it did."""
        ...

    def is_wanted(self, script: str) -> bool:
        """Whether an open request uses the script with this hash, or a name stands for it."""
        ...

    @property
    def addresses(self) -> Table[tuple[str, str], NoticeAddress]:
        """Addresses by user and receiver."""
        ...

    def receivers(self, user: str) -> Collection[str]: ...

    @property
    def feeds(self) -> Table[tuple[str, str], Feed]:
        """Calendar feeds by user and name."""
        ...

    def feeds_of(self, user: str) -> Collection[str]:
        """Return the names of the feeds of `user`."""
        ...

    @property
    def shares(self) -> Table[tuple[str, str], ShareRow]:
        """Shares by reservation and party."""
        ...

    def shares_of(self, reservation: str) -> Collection[ShareRow]: ...

    def post(self, notice: RequestNotice) -> None:
        """Store a notice under a number that none had before."""
        ...

    def take_notices(self, numbers: Sequence[int]) -> bool:
        """Take out the notices with these numbers; False, and nothing is done, where one is not there."""
        ...

    def put_delivery(self, delivery: Delivery) -> None:
        """Store it in place of the one with its id, or behind all others."""
        ...

    def drop_delivery(self, id: str) -> None: ...

    @property
    def beats(self) -> Table[str, int]:
        """Beats of replicas by owner."""
        ...

    def owners_of(self, name: str) -> Sequence[str]:
        """Return the owners that are starts of the replica `name`."""
        ...

    @property
    def lives(self) -> Table[str, int]:
        """Positions of the register's lives."""
        ...

    @property
    def sites(self) -> Table[str, Mark]: ...

    @property
    def listed_sites(self) -> Table[tuple[str, str], ListedSite]:
        """Sites by name and key."""
        ...

    def all_listed_sites(self) -> Sequence[ListedSite]:
        """Return them in order of name and key."""
        ...

    clock: int | None
    """The bound of the logical clock; None before the first beat."""

    put_back: bool
    """The register has forgotten something, and is not compared with all its sites yet."""
