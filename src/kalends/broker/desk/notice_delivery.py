"""Delivery of notices: one replica makes deliveries of what the register has to tell, and sends them.

That is the first by name of the live replicas. While two believe it of themselves, a delivery may come twice,
with one id. Notices are looked for with every heartbeat, and when this replica has stored some. One
write replaces a notice by its deliveries, so that after a crash at any point each notice is told, by the same
deliveries.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kalends.broker.desk.reminders import is_ahead, posted
from kalends.broker.register.contract import WaitingNotices
from kalends.broker.register.writes import MakeDeliveries, NoticeAddress, Result
from kalends.broker.replica.leases import Leases
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.times import zone_named
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.notices.notifier import Notifier
from kalends.notices.request_notice import TO_ONE, Bundler, RequestNotice, request_delivery
from kalends.serving.configuration import BrokerNotices
from kalends.serving.logs import Logger
from kalends.serving.metrics import Metrics

LOOKED_AT_MAX: Final = 500
"""Notices made into deliveries at one go: the rest follows with the next."""

SECTION: Final = "broker.notices"


class NoticeDelivery:
    """The notices of a broker. Without `rules` of its operator none is sent, and waiting ones are dropped.

    `reported` is told of a receiver that is away, and with "" that it is back. Raises as `Notifier`.
    """

    def __init__(
        self,
        rules: BrokerNotices | None,
        replica: Replica,
        leases: Leases,
        reported: Callable[[str, str], None],
        *,
        logger: Logger,
        metrics: Metrics,
    ) -> None:
        self._replica = replica
        self._leases = leases
        self._logger = logger
        self._delivering: Incarnation | None = None
        """The incarnation in which this replica delivers."""
        self._making = False
        """What was looked at is being made into deliveries."""
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        """What the present look may have missed is looked for after it."""
        self._closed = False
        self._bundler = Bundler(rules.minute_max if rules is not None else 1)
        self.notifier = Notifier(
            rules, section=SECTION, where="to", secret_of=self._secret_of, unwanted=self._unwanted,
            now_s=self._now_s, chance=random.random, reported=reported, logger=logger, metrics=metrics,
        )  # fmt: skip

    def beat(self) -> None:
        """Look whether it is for this replica to deliver, and what there is."""
        current = self._replica.current
        if current is None or self._closed or not self._is_mine(current):
            self.end_life()
            return
        self._again = True
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(current))

    async def _look(self, current: Incarnation) -> None:
        """Make deliveries; if the store cannot be read now, the next beat tries again."""
        try:
            while self._again:
                self._again = False
                await self._deliver(current)
        except Unavailable:
            pass
        except Exception as error:
            # The boundary of one look: whatever it met, the next beat looks again.
            self._logger.error("notices_not_looked_for", exc_info=error)
        # Whoever has cancelled this has no look under way any more, or another one.
        self._looking = None

    async def _deliver(self, current: Incarnation) -> None:
        if self._delivering is not current:
            self._stop_delivering()
            # What an earlier time of delivering has made is there when it is read.
            await current.store.writer.run(())
            deliveries = await current.store.deliveries()
            self._replica.check_still(current)
            self._delivering = current
            self.notifier.begin_life(*deliveries, partial(self._forget, current))
        if self.notifier.has_room and not self._making:
            await self._remind(current)
            waiting = await current.store.waiting_notices(self._bundler.at_once_max, LOOKED_AT_MAX)
            self._replica.check_still(current)
            self._make_deliveries(current, waiting)

    async def _remind(self, current: Incarnation) -> None:
        """Post the reminders that are due, each once."""
        due = await current.store.due_reminders(self._now_s(), LOOKED_AT_MAX)
        self._replica.check_still(current)
        if due:
            await current.store.writer.run(posted(due, LOOKED_AT_MAX))
            self._replica.check_still(current)
            self._again = self._again or len(due) == LOOKED_AT_MAX

    def end_life(self) -> None:
        """The store cannot be used, or another replica delivers."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._stop_delivering()

    def _stop_delivering(self) -> None:
        if self._delivering is not None:
            self._delivering = None
            self._making = False
            self.notifier.end_life()

    async def close(self) -> None:
        self._closed = True
        self.end_life()
        await self.notifier.close()

    def _is_mine(self, current: Incarnation) -> bool:
        me = current.coordinator.identity.owner
        listened = current.recognition.has_listened(self._replica.moment().monotonic_ms)
        return listened and me == min(self._leases.all_alive(), default=me)

    def _make_deliveries(self, current: Incarnation, waiting: WaitingNotices) -> None:
        for number in waiting.unreadable:
            self.notifier.lose(str(number), "its record in the store cannot be read")
        deliveries: list[Delivery] = []
        numbers = list(waiting.unreadable)
        for bundle in self._bundler.bundles(waiting.notices, self._now_s()):
            numbers += bundle
            notices = [waiting.notices[number] for number in bundle]
            deliveries += self._deliveries(notices, waiting.addresses[notices[0].user])
        if not numbers:
            return
        self._making = True
        write = MakeDeliveries(tuple(numbers), tuple(deliveries))
        made = partial(self._made, current, deliveries)
        current.store.writer.submit((write,), made, self._replica.fail)

    def _deliveries(
        self, notices: Sequence[RequestNotice], addresses: Sequence[NoticeAddress]
    ) -> list[Delivery]:
        """Return a delivery to each address of the user, or to the one address that a notice names."""
        deliveries = []
        for address in addresses:
            told = [
                each
                for each in notices
                if each.occasion not in TO_ONE or each.to == address.receiver
            ]
            if not told:
                continue
            try:
                to = self.notifier.address_of(address.user, address.receiver)
                deliveries.append(
                    request_delivery(told, to, zone_named(address.zone), self._now_s())
                )
            except KalendsError as error:  # The operator has changed what is allowed since.
                self.notifier.lose(told[0].id, error.detail)
            except Exception as error:
                # The boundary of one delivery: what breaks it keeps nobody else from being told.
                self.notifier.lose(told[0].id, repr(error))
        return deliveries

    def _made(
        self, current: Incarnation, deliveries: Sequence[Delivery], results: Sequence[Result]
    ) -> None:
        if self._delivering is not current:
            return
        self._making = False
        if results == [1]:
            self.notifier.take_up(deliveries)
            self.beat()  # There may be more since.

    def _forget(self, incarnation: Incarnation, ids: Sequence[str]) -> None:
        if self._replica.current is incarnation:
            done = DeliveriesDone(tuple(ids))
            incarnation.store.writer.submit((done,), lambda results: None, self._replica.fail)

    async def _address_of(self, delivery: Delivery) -> NoticeAddress | None:
        """Return the address of its user that a delivery is for; None where it was removed.

        Raises `Unavailable`.
        """
        for address in await self._replica.read(lambda store: store.addresses(delivery.user)):
            try:
                if self.notifier.address_of(address.user, address.receiver) == delivery.to:
                    return address
            except KalendsError:
                continue
        return None

    async def _unwanted(self, delivery: Delivery) -> str:
        """Return why a delivery is not sent any more, or ""."""
        if await self._address_of(delivery) is None:
            return "its user has removed this address"
        if delivery.facts.get("event") != "begins":
            return ""
        id = delivery.facts["request"]
        whole = await self._replica.read(lambda store: store.reservation(id))
        stands = whole is not None and is_ahead(whole.current, delivery, self._now_s())
        return "" if stands else "its reservation has begun, or is not at this time any more"

    async def _secret_of(self, delivery: Delivery) -> bytes | None:
        address = await self._address_of(delivery)
        return address.secret if address is not None and address.secret else None

    def _now_s(self) -> int:
        return self._replica.moment().wall_s
