"""Delivery of notices: one replica makes deliveries of what the register has to tell, and sends them.

That is the first by name of the live replicas. While two believe it of themselves, a delivery may come twice,
with one id. Notices are looked for with every heartbeat, and when this replica has stored some. One
write replaces a notice by its deliveries, so that after a crash at any point each notice is told, by the same
deliveries.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kalends.broker.register.broker_store import Result
from kalends.broker.register.notice_table import (
    MakeDeliveries,
    NoticeAddress,
    addresses_of,
    waiting_notices,
)
from kalends.broker.replica.leases import Leases
from kalends.broker.replica.replica import Incarnation, Replica
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.times import zone_named
from kalends.notices.delivery import Delivery
from kalends.notices.delivery_table import DeliveriesDone, stored_deliveries
from kalends.notices.notifier import Notifier
from kalends.notices.request_notice import Bundler, RequestNotice, request_delivery
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
        self._delivering: Incarnation | None = None
        """The incarnation in which this replica delivers."""
        self._making = False
        """What was looked at is being made into deliveries."""
        self._closed = False
        self._bundler = Bundler(rules.minute_max if rules is not None else 1)
        self.notifier = Notifier(
            rules, section=SECTION, where="to", secret_of=self._secret_of, wanted=self._wanted,
            now_s=self._now_s, chance=random.random, reported=reported, logger=logger, metrics=metrics,
        )  # fmt: skip

    def beat(self) -> None:
        """Look whether it is for this replica to deliver, and what there is."""
        current = self._replica.current
        if current is None or self._closed or not self._is_mine(current):
            self.end_life()
            return
        # What cannot be read now is looked for at the next beat.
        with contextlib.suppress(Unavailable):
            self._deliver(current)

    def _deliver(self, current: Incarnation) -> None:
        if self._delivering is not current:
            self.end_life()
            deliveries = current.store.read(stored_deliveries)
            self._delivering = current
            self.notifier.begin_life(*deliveries, partial(self._forget, current))
        if self.notifier.has_room and not self._making:
            self._make_deliveries(current)

    def end_life(self) -> None:
        """The store cannot be used, or another replica delivers."""
        if self._delivering is not None:
            self._delivering = None
            self._making = False
            self.notifier.end_life()

    async def close(self) -> None:
        self._closed = True
        self._delivering = None
        await self.notifier.close()

    def _is_mine(self, current: Incarnation) -> bool:
        me = current.coordinator.identity.owner
        certain = current.recognition.is_certain(self._replica.moment().monotonic_ms)
        return certain and me == min(self._leases.all_alive(), default=me)

    def _make_deliveries(self, current: Incarnation) -> None:
        waiting = current.store.read(waiting_notices, self._bundler.at_once_max, LOOKED_AT_MAX)
        for number in waiting.unreadable:
            self.notifier.lose(str(number), "its record in the store cannot be read")
        deliveries: list[Delivery] = []
        numbers = list(waiting.unreadable)
        for bundle in self._bundler.bundles(waiting.notices, self._now_s()):
            numbers += bundle
            deliveries += self._deliveries(current, [waiting.notices[number] for number in bundle])
        if not numbers:
            return
        self._making = True
        write = MakeDeliveries(tuple(numbers), tuple(deliveries))
        made = partial(self._made, current, deliveries)
        current.store.writer.submit((write,), made, self._replica.fail)

    def _deliveries(self, current: Incarnation, notices: Sequence[RequestNotice]) -> list[Delivery]:
        """Return a delivery to each address of the user, or to the one address that a notice names."""
        deliveries = []
        for address in current.store.read(addresses_of, notices[0].user):
            told = [
                each for each in notices if each.occasion != "test" or each.to == address.receiver
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

    def _address_of(self, delivery: Delivery) -> NoticeAddress | None:
        """Return the address of its user that a delivery is for; None where it was removed."""
        current = self._delivering
        if current is None:
            return None
        for address in current.store.read(addresses_of, delivery.user):
            try:
                if self.notifier.address_of(address.user, address.receiver) == delivery.to:
                    return address
            except KalendsError:
                continue
        return None

    def _wanted(self, delivery: Delivery) -> bool:
        return self._address_of(delivery) is not None

    def _secret_of(self, delivery: Delivery) -> bytes | None:
        address = self._address_of(delivery)
        return address.secret if address is not None and address.secret else None

    def _now_s(self) -> int:
        return self._replica.moment().wall_s
