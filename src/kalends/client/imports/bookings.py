"""Bookings of another system become reservations of their users: each once, however often it is imported."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from kalends.client.imports.booking_rows import (
    BadRow,
    BookingRow,
    read_bookings,
    read_names,
)
from kalends.client.inputs.zones import local_zone
from kalends.contract.request_views import ClaimView, RequestView
from kalends.contract.resource_calls import CalendarView
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NoCommonTime,
    NotAuthenticated,
    NotFound,
    OutcomeUnknown,
    Problem,
    Unavailable,
)
from kalends.core.language import format_alternatives
from kalends.core.refusals import error_of
from kalends.core.requests import Request
from kalends.core.zone_names import given_zone

if TYPE_CHECKING:
    from kalends.client.client import Client

AsUser = Callable[[str, tuple[str, ...]], "Client"]
"""Returns a client that calls the broker as this user, who is in these groups."""

TRIES_MAX: Final = 100
"""A refused booking keeps its key; each later import of the row takes the next one."""

WAIT_S: Final = 30.0

CLIENTS_MAX: Final = 32
"""Users who are called for at a time: a file may name thousands."""


class ImportedRow(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a row: its place in the file, the booking, and its id if there is a reservation.

    It is ``made``, or ``free`` in a dry run; ``there`` from an earlier import; it ``waits`` for others or for
    an owner; it is ``over``, or was ``refused``; or the row is ``bad``, at the column that `problem` names.
    """

    where: str
    state: Literal["made", "free", "there", "waits", "over", "refused", "bad"]
    user: str = ""
    request: str = ""
    start: int = 0
    end: int = 0
    id: str = ""
    detail: str = ""
    problem: Problem | None = None


async def import_bookings(
    path: Path | str,
    as_user: AsUser,
    *,
    zone: str = "",
    names: Path | str | None = None,
    resource: str = "",
    dry_run: bool = False,
    stop: bool = False,
) -> list[ImportedRow]:
    """Book what is in a table (CSV) or a calendar (``.ics``) of another system, each row as its user.

    `as_user` returns a client of the broker that calls as a user with groups. Each row is checked by the
    owners' rules as any booking, and one that is refused stops no other, unless `stop`. A row that was
    imported before changes nothing. With `dry_run` nothing is booked. Times without a zone are those of
    `zone` (default: this computer's); `names` is a table of names there and here, and `resource` is for
    events without a place. Raises `InvalidInput` for the file as a whole, and the errors of calls that no
    row is to blame for.
    """
    rows, _ = read_bookings(
        Path(path),
        zone=given_zone(zone) if zone else local_zone(),
        now_s=int(time.time()),
        names=read_names(Path(names)) if names is not None else None,
        resource=resource,
    )
    return await import_rows(rows, as_user, dry_run=dry_run, stop=stop)


async def import_rows(
    rows: Iterable[BookingRow | BadRow],
    as_user: AsUser,
    *,
    dry_run: bool = False,
    stop: bool = False,
) -> list[ImportedRow]:
    """Book rows that were read; see `import_bookings`."""
    done: list[ImportedRow] = []
    async with AsyncExitStack() as clients:
        importing = _Import(as_user, clients, dry_run=dry_run)
        for row in rows:
            done.append(await importing.one(row))
            if stop and done[-1].problem is not None:
                break
    return done


class _Import:
    """One run over a file: its clients, one for each user, and the slots that earlier rows have taken."""

    def __init__(self, as_user: AsUser, clients: AsyncExitStack, *, dry_run: bool) -> None:
        self._as_user = as_user
        self._open = clients
        self._clients: dict[tuple[str, tuple[str, ...]], Client] = {}
        self._dry_run = dry_run
        self._known = False
        self._places: dict[tuple[str, str], str] = {}
        self._taken: defaultdict[str, list[ClaimView]] = defaultdict(list)

    async def one(self, row: BookingRow | BadRow) -> ImportedRow:
        """Book a row, or try whether it is free; raises what no row is to blame for."""
        if isinstance(row, BadRow):
            return ImportedRow(where=row.where, state="bad", problem=row.error.to_problem())
        asked = ImportedRow(
            where=row.where, state="refused", user=row.user, request=row.request,
            start=row.start, end=row.end,
        )  # fmt: skip
        if first := self._places.get((row.user, row.key)):
            return replace(asked, state="there", detail=f"the same as {first}")
        self._places[row.user, row.key] = row.where
        try:
            client = await self._client(row)
            if row.end <= client.settings.now_s():
                return replace(asked, state="over")
            return await self._booked(client, row, asked)
        except (Unavailable, OutcomeUnknown):
            raise
        except KalendsError as error:
            if isinstance(error, NotAuthenticated) and not self._known:
                raise  # No row is to blame if the server knows none of the users.
            unclear = isinstance(error, InvalidInput) and not error.refusals
            problem = error.to_problem()
            return replace(asked, state="bad" if unclear else "refused", problem=problem)

    async def _booked(self, client: Client, row: BookingRow, asked: ImportedRow) -> ImportedRow:
        key, earlier = await self._key(client, row)
        self._known = True
        wanted = _request(client, row)
        if earlier is not None:
            return _there(asked, earlier, format_alternatives(wanted.alternatives))
        found = await client.find(wanted, count=1)
        if not found.candidates:
            return replace(asked, problem=error_of(found.refusals).to_problem())
        if self._dry_run:
            return await self._free(client, found.candidates[0].claims, asked)
        view = await client.book(wanted, key=key, wait_s=WAIT_S)
        made = "made" if view.state == "reserved" else "waits"
        return replace(asked, state=made, id=view.id)

    async def _key(self, client: Client, row: BookingRow) -> tuple[str, RequestView | None]:
        """Return the key of a row, and its reservation: the first key without a request that failed."""
        for attempt in range(TRIES_MAX):
            key = f"{row.key}-{attempt}" if attempt else row.key
            try:
                view = await client.by_key(key)
            except NotFound:
                return key, None
            if view.state != "failed":
                return key, view
        raise LimitExceeded(
            f"the row was refused in {TRIES_MAX} imports", remedy="book it by hand: kalends book"
        )

    async def _free(
        self, client: Client, claims: Iterable[ClaimView], asked: ImportedRow
    ) -> ImportedRow:
        """Return whether there is room that earlier rows leave, and count the row if so."""
        claims = tuple(claims)
        for claim in claims:
            taken = self._taken[claim.resource]
            before = [each for each in taken if each.start < claim.end and claim.start < each.end]
            if before:
                view = await client.calendar(claim.resource, start=claim.start, end=claim.end)
                if not _has_room(view, before, claim):
                    error = NoCommonTime("earlier rows of the file take the room")
                    return replace(asked, problem=error.to_problem())
        for claim in claims:
            self._taken[claim.resource].append(claim)
        return replace(asked, state="free")

    async def _client(self, row: BookingRow) -> Client:
        who = (row.user, row.groups)
        if who not in self._clients:
            if len(self._clients) >= CLIENTS_MAX:
                await self._open.aclose()
                self._clients.clear()
            client = self._as_user(*who)
            self._clients[who] = await self._open.enter_async_context(client)
        return self._clients[who]


def _request(client: Client, row: BookingRow) -> Request:
    """Return the request of a row; raises `InvalidInput` with the column."""
    try:
        return client.request(
            row.request, at=row.start, duration=row.end - row.start, note=row.note
        )
    except InvalidInput as error:
        if error.where != "note":
            error.detail, error.where = f"{error.where}: {error.detail}", "resource"
        raise


def _there(asked: ImportedRow, view: RequestView, text: str) -> ImportedRow:
    """Return that the row has a reservation, which may be another one by now than `text` at that time."""
    if view.state == "open":
        return replace(asked, state="waits", id=view.id)
    moved = (view.start, view.end) != (asked.start, asked.end)
    detail = "" if view.state == "reserved" else f"it is {view.state}"
    if view.state == "reserved" and moved:
        detail = "it stands at another time"
    if view.state == "reserved" and view.text != text:
        detail = f"it is of {view.text}"
    return replace(asked, state="there", id=view.id, detail=detail)


def _has_room(view: CalendarView, taken: Iterable[ClaimView], claim: ClaimView) -> bool:
    """Return whether `claim` fits into the free units without those that earlier rows have `taken`."""
    taken = tuple(taken)
    moments = {claim.start, *(each.start for each in taken), *(start for start, _, _ in view.free)}
    for at in moments:
        if claim.start <= at < claim.end:
            free = next((units for start, end, units in view.free if start <= at < end), 0)
            used = sum(each.units for each in taken if each.start <= at < each.end)
            if free - used < claim.units:
                return False
    return True
