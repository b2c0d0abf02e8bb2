"""The rows of a batch: as they were locked, as decisions change them, and what has changed.

Nothing here asks the database: what is not among the rows was not there when they were locked, and nobody
else can add it before the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kalends.broker.register.found_rows import named
from kalends.broker.register.rows import KeptName, StoredEnd, StoredStart
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import Feed, ListedSite, NoticeAddress, ShareRow
from kalends.contract.messages import Mark
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice
from kalends.stores.postgres.session import Row

K = TypeVar("K")
V = TypeVar("V")


class Tracked(dict[K, V]):
    """A table whose `changed` keys were put or taken out since it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[K] = set()

    def read(self, key: K, value: V) -> None:
        super().__setitem__(key, value)

    def __setitem__(self, key: K, value: V) -> None:
        self.changed.add(key)
        super().__setitem__(key, value)

    def pop(self, key: K, default: Any = None) -> Any:
        self.changed.add(key)
        return super().pop(key, default)

    def put(self) -> Iterator[tuple[K, V]]:
        """The changed rows that are there, in order of key."""
        return ((key, self[key]) for key in sorted(self.changed) if key in self)  # type: ignore[type-var]

    def taken(self) -> list[K]:
        """The keys of changed rows that are not there, in order."""
        return sorted(key for key in self.changed if key not in self)  # type: ignore[type-var]


class TrackedRequests(Tracked[str, StoredRequest]):
    """Requests by rid, which are found by their keys and reservations, too."""

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[tuple[str, str], str] = {}
        self.by_reservation: dict[str, set[str]] = {}

    def read(self, key: str, value: StoredRequest) -> None:
        super().read(key, value)
        self._found_by(value)

    def __setitem__(self, key: str, value: StoredRequest) -> None:
        super().__setitem__(key, value)
        self._found_by(value)

    def pop(self, key: str, default: Any = None) -> Any:
        gone = super().pop(key, default)
        if gone is not None:
            self.by_key.pop((gone.user, gone.key), None)
            self.by_reservation[gone.reservation].discard(key)
        return gone

    def _found_by(self, request: StoredRequest) -> None:
        self.by_key[request.user, request.key] = request.rid
        self.by_reservation.setdefault(request.reservation, set()).add(request.rid)


class RequestRow(NamedTuple):
    """A row of the table of requests, with its columns in their order."""

    rid: str
    user: str
    key: str
    reservation: str
    att: int
    state: str
    owner: str
    done: bool
    body: bytes | None
    begins: int = 0
    start_site: str | None = None
    start_places: str | None = None
    start_again: bool | None = None
    ended_at: int | None = None
    ended: bytes | None = None
    uses: Sequence[str] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that no statement changes in a row."""
        return self[:4]


class RequestChanges(NamedTuple):
    brought_back: list[str]
    """Requests that were put aside, and are stored as all others again."""
    deleted: list[str]
    inserted: list[RequestRow]
    updated: list[RequestRow]
    """Without a body where that stays as it is."""


class SiteRow(NamedTuple):
    name: str
    replica: str
    change: int
    life: str
    position: int
    proof: str


def standing_mark(rows: Iterable[SiteRow]) -> Mark | None:
    """Return the mark of a site out of those that its replicas have stored.

    It is the highest of the life that was stored last. Marks that were stored before another life's do not
    count.
    """
    standing: SiteRow | None = None
    for row in sorted(rows, key=lambda row: -row.change):
        if standing is not None and row.life != standing.life:
            break
        if standing is None or row.position >= standing.position:
            standing = row
    return Mark(*standing[3:]) if standing is not None else None


class LockedRows:
    """See `kalends.broker.register.rows.Rows`."""

    def __init__(self) -> None:
        self.stored: dict[str, RequestRow] = {}
        """Requests as they are in the table, with rows of our own that keep others from a place."""
        self.placeholders: set[str] = set()
        self.old: dict[str, RequestRow] = {}
        """Requests that were put aside."""
        self.requests = TrackedRequests()
        self.starts: Tracked[str, StoredStart] = Tracked()
        self.endings: Tracked[str, StoredEnd] = Tracked()
        self.sources: Tracked[str, str] = Tracked()
        """Only whether there is one was read: what is read has no text."""
        self.names: Tracked[tuple[str, str], KeptName] = Tracked()
        self.addresses: Tracked[tuple[str, str], NoticeAddress] = Tracked()
        self.feeds: Tracked[tuple[str, str], Feed] = Tracked()
        self.shares: Tracked[tuple[str, str], ShareRow] = Tracked()
        self.listed_sites: Tracked[tuple[str, str], ListedSite] = Tracked()
        self.beats: Tracked[str, int] = Tracked()
        self.lives: Tracked[str, int] = Tracked()
        """Nothing is read: a position only rises, and the table sees to that."""
        self.sites: Tracked[str, Mark] = Tracked()
        self.site_lives: dict[str, str] = {}
        self.clocks: dict[str, int] = {}
        self.new_clock: int | None = None
        self.was_put_back = False
        self.new_put_back: bool | None = None
        self.notices: set[int] = set()
        self.taken: set[int] = set()
        self.posted: list[RequestNotice] = []
        self.deliveries: dict[str, Delivery] = {}
        self.dropped: set[str] = set()
        self._uses: dict[str, dict[str, None]] = {}
        self._changed_uses: set[str] = set()
        self._users: dict[str, set[str]] = {}
        self._named: set[str] = set()

    # What was locked

    def read_request(self, row: RequestRow) -> None:
        self.stored[row.rid] = row
        if row.rid not in self.placeholders:
            self._know(row)

    def read_old_request(self, row: RequestRow) -> None:
        self.old[row.rid] = row
        self._know(row)

    def _know(self, row: RequestRow) -> None:
        self.requests.read(row.rid, StoredRequest(*row[:10]))  # type: ignore[arg-type]
        if row.start_site is not None and row.start_places is not None:
            start = StoredStart(row.start_site, row.start_places, bool(row.start_again))
            self.starts.read(row.rid, start)
        if row.ended_at is not None and row.ended is not None:
            self.endings.read(row.rid, StoredEnd(row.ended_at, row.ended))
        if row.uses:
            self._uses[row.rid] = dict.fromkeys(row.uses)

    def read_script(self, kind: str, script: str, by: str) -> None:
        """One row about a script: it is there, or a request `by` uses it, or a name stands for it."""
        if kind == "source":
            self.sources.read(script, "")
        elif kind == "use":
            # A row that we only keep free uses nothing yet.
            if by not in self.placeholders:
                self._users.setdefault(script, set()).add(by)
        else:
            self._named.add(script)

    def read_name(self, client: str, name: str, *columns: Any) -> None:
        *rest, deleted = columns
        self.names.read((client, name), KeptName(named(name, *rest), deleted))

    def read_sites(self, rows: Iterable[Row]) -> None:
        by_name: dict[str, list[SiteRow]] = {}
        for row in map(SiteRow._make, rows):
            by_name.setdefault(row.name, []).append(row)
        for name, found in by_name.items():
            mark = standing_mark(found)
            assert mark is not None
            self.sites.read(name, mark)
            self.site_lives[name] = mark.life

    # What has changed

    def changed_requests(self) -> RequestChanges:
        changed = self.requests.changed | self.starts.changed | self.endings.changed
        changed |= self._changed_uses
        # A reservation is put aside as a whole, and so it comes back.
        back = {self.old[rid].reservation for rid in changed & self.old.keys()}
        back.update(self.requests[rid].reservation for rid in changed & self.requests.keys())
        brought_back = sorted(rid for rid, row in self.old.items() if row.reservation in back)
        left = self.old.keys() - brought_back
        changes = RequestChanges(brought_back, [], [], [])
        for rid in sorted(changed.union(self.placeholders, brought_back)):
            before, request = self.stored.get(rid), self.requests.get(rid)
            if request is None or rid in left:
                if before is not None:
                    changes.deleted.append(rid)
                continue
            start, ending = self.starts.get(rid), self.endings.get(rid)
            after = RequestRow(*request, uses=[*self._uses.get(rid, ())])
            if start is not None:
                after = after._replace(
                    start_site=start.site, start_places=start.places, start_again=start.again
                )
            if ending is not None:
                after = after._replace(ended_at=ending.at, ended=ending.body)
            if before is None:
                changes.inserted.append(after)
            elif before.identity != after.identity or (after.body is None) != (before.body is None):
                changes.deleted.append(rid)
                changes.inserted.append(after)
            elif before != after:
                same = before.body == after.body
                changes.updated.append(after._replace(body=None) if same else after)
        return changes

    # What decisions see and change

    def of_key(self, user: str, key: str) -> StoredRequest | None:
        rid = self.requests.by_key.get((user, key))
        return self.requests.get(rid) if rid is not None else None

    def reservation(self, reservation: str) -> list[StoredRequest]:
        rids = self.requests.by_reservation.get(reservation, ())
        return [self.requests[rid] for rid in sorted(rids)]

    def has_closed(self, user: str, common: str, but: str) -> bool:
        return any(
            each.user == user and each.rid != but and each.state == "closed"
            and f"{common} " < each.key < f"{common}!"
            for each in self.requests.values()
        )  # fmt: skip

    def open_requests(self) -> list[StoredRequest]:
        return [each for each in self.requests.values() if each.state == "open"]

    def waiting_starts(self) -> list[str]:
        return [rid for rid, start in self.starts.items() if not start.site]

    def names_of(self, client: str) -> list[KeptName]:
        return [kept for (of, _), kept in sorted(self.names.items()) if of == client]

    def add_use(self, rid: str, script: str) -> None:
        self._changed_uses.add(rid)
        self._uses.setdefault(rid, {})[script] = None
        self._users.setdefault(script, set()).add(rid)

    def end_uses(self, rid: str) -> list[str]:
        used = [*self._uses.pop(rid, ())]
        if used:
            self._changed_uses.add(rid)
        for script in used:
            self._users.get(script, set()).discard(rid)
        return used

    def uses_of(self, rid: str) -> Collection[str]:
        return self._uses.get(rid, ())

    def is_wanted(self, script: str) -> bool:
        return (
            bool(self._users.get(script))
            or script in self._named
            or any(not each.deleted and each.named.script == script for each in self.names.values())
        )

    def receivers(self, user: str) -> Collection[str]:
        return [receiver for of, receiver in self.addresses if of == user]

    def feeds_of(self, user: str) -> Collection[str]:
        return [name for of, name in self.feeds if of == user]

    def shares_of(self, reservation: str) -> Collection[ShareRow]:
        return [share for _, share in sorted(self.shares.items()) if share[0] == reservation]

    def post(self, notice: RequestNotice) -> None:
        self.posted.append(notice)

    def take_notices(self, numbers: Sequence[int]) -> bool:
        if not self.notices.issuperset(numbers):
            return False
        self.notices.difference_update(numbers)
        self.taken.update(numbers)
        return True

    def put_delivery(self, delivery: Delivery) -> None:
        self.deliveries[delivery.id] = delivery

    def drop_delivery(self, id: str) -> None:
        self.deliveries.pop(id, None)
        self.dropped.add(id)

    def owners_of(self, name: str) -> list[str]:
        return [owner for owner in self.beats if owner.startswith(f"{name}:")]

    def all_listed_sites(self) -> list[ListedSite]:
        return [site for _, site in sorted(self.listed_sites.items())]

    @property
    def clock(self) -> int | None:
        if self.new_clock is not None:
            return self.new_clock
        return max(self.clocks.values(), default=None)

    @clock.setter
    def clock(self, value: int | None) -> None:
        self.new_clock = value

    @property
    def put_back(self) -> bool:
        return self.was_put_back if self.new_put_back is None else self.new_put_back

    @put_back.setter
    def put_back(self, value: bool) -> None:
        self.new_put_back = value
