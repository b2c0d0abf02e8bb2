"""Requests that are shared, for those who may look: the socket of the kernel, and the listings with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.desk.request_queries import Records, Right, SeenRequest
from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.writes import ShareRow
from kalends.broker.service import BrokerService
from kalends.broker.sharing.share_rights import offer_to, parties_of, right_of, view_for_user
from kalends.contract import calls
from kalends.contract.request_views import SharingView
from kalends.core.identifiers import is_part
from kalends.core.limits import LISTING_MAX
from kalends.core.principals import Principal
from kalends.serving.auth.callers import Caller

PAGE: Final = 500
"""Shares of a user that a listing reads at once: those that have lapsed are left out afterwards."""


class SharedRequests:
    """Reads of shares. About requests of the caller, only `show` and the listings ask."""

    def __init__(self, service: BrokerService) -> None:
        self._service = service

    async def shares(self, reservations: Collection[str]) -> Sequence[ShareRow]:
        return await self._service.replica.read(lambda store: store.shares(reservations))

    async def right(self, caller: Caller, whole: WholeReservation) -> Right:
        """Return what the caller may do with a reservation that another holds (`Shared`)."""
        found = await self.shares((whole.id,))
        return right_of(found, caller.principal, self._service.moment().wall_s)

    def marked(
        self, view: calls.RequestView, shares: Collection[ShareRow], caller: Principal
    ) -> calls.RequestView:
        """Return `view` with what the caller sees of its `shares`."""
        now_s = self._service.moment().wall_s
        if view.user == caller.user:
            sharing = view_for_user(shares, caller.user, now_s)
        else:
            right = right_of(shares, caller, now_s)
            offer = offer_to(shares, caller, now_s)
            sharing = SharingView(may=right) if right else None
            if sharing is not None and offer is not None:
                sharing = structs.replace(
                    sharing, offered_to=caller.user, offered_until=offer.until
                )
        # A change by its holder does not know it.
        held = next((each for each in shares if each.party == f"holder:{view.user}"), None)
        if held is not None:
            view = structs.replace(view, given_by=held.user)
        return view if sharing is None else structs.replace(view, sharing=sharing)


@dataclass(frozen=True, eq=False)
class SharedListings:
    """``show``, ``list`` and ``ids``, with the requests that others share with the caller."""

    service: BrokerService
    records: Records
    shared: SharedRequests

    async def show(self, caller: Caller, body: calls.ById) -> calls.RequestView:
        view = await self.records.show(caller, body)
        return self.shared.marked(view, await self.shared.shares((view.id,)), caller.principal)

    async def list(self, caller: Caller, body: calls.ListRequests) -> calls.Requests:
        found = await self.records.list(caller, body)
        if body.everyone:
            return found
        own = {view.id: view for view in found.requests}
        async for view in self._views(caller, body):
            if body.state in ("", view.state):
                own[view.id] = view
            else:
                own.pop(view.id, None)
        views = [own[id] for id in sorted(own, reverse=True)[: body.count]]
        shares = await self.shared.shares(tuple(own))
        return calls.Requests(
            requests=tuple(
                self.shared.marked(
                    view, [each for each in shares if each.reservation == view.id], caller.principal
                )
                for view in views
            )
        )

    async def ids(self, caller: Caller, body: calls.FindIds) -> calls.Ids:
        found = await self.records.ids(caller, body)
        page, _ = await self._page(caller, "", LISTING_MAX)
        among = {id for id in page if is_part(body.part, id)}
        ids = sorted({*found.ids, *among}, reverse=True)
        return calls.Ids(ids=tuple(ids[:LISTING_MAX]))

    async def _views(
        self, caller: Caller, body: calls.ListRequests
    ) -> AsyncIterator[calls.RequestView]:
        """Yield what is shared with the caller, the newest first, until a page has the wanted state."""
        count, before = 0, body.before
        while count < body.count:
            page, last = await self._page(caller, before, PAGE)
            for id in page:
                view = await self._view(id)
                if view is not None:
                    yield view
                    count += body.state in ("", view.state)
                if count == body.count:
                    return
            if not last:
                return
            before = last

    async def _page(self, caller: Caller, before: str, count: int) -> tuple[Sequence[str], str]:
        """Return the newest that are shared with the caller, and the id before which there may be more."""
        now_s, parties = self.service.moment().wall_s, parties_of(caller.principal)
        found = await self.service.replica.read(
            lambda store: store.shares_with(parties, before, count)
        )
        shares: dict[str, list[ShareRow]] = {each.reservation: [] for each in found}
        # A page may end between the shares of one reservation.
        for each in await self.shared.shares(tuple(shares)):
            shares[each.reservation].append(each)
        held = f"holder:{caller.principal.user}"
        lasting = [
            id
            for id, of_it in shares.items()
            if right_of(of_it, caller.principal, now_s) or any(each.party == held for each in of_it)
        ]
        return lasting, found[-1].reservation if len(found) == count else ""

    async def _view(self, reservation: str) -> calls.RequestView | None:
        whole = await self.service.replica.read(lambda store: store.reservation(reservation))
        if whole is None or not isinstance(whole.current, Record):
            return None
        return structs.replace(self.records.view(SeenRequest(whole.current, whole)), notes=())
