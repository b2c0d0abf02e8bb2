"""The incarnations of a replica: each lasts from an opening of its store to the store's failure, or the stop.

When the store fails, nobody knows which of the last operations were stored, and so the coordinator's
memory is worth nothing: it is dropped with everything that waited, and a new incarnation begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.reconciliation.recognition import Recognition
from kalends.broker.register.broker_store import BrokerStore
from kalends.broker.replica import store_errors
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger

STUCK_S: Final = 1.0
"""A write takes milliseconds. After this time whoever waits is told that the store is stuck."""


class Incarnation(NamedTuple):
    """`name` is drawn at random; marks call it a life (`kalends.contract.messages.Mark`)."""

    name: str
    store: BrokerStore
    coordinator: Coordinator
    recognition: Recognition


class Replica:
    """The present incarnation, if the store can be used. `failed` hears of its end."""

    def __init__(
        self, logger: Logger, failed: Callable[[], None], moment: Callable[[], Moment]
    ) -> None:
        self.current: Incarnation | None = None
        self.failure = ""
        self.moment = moment
        self._logger = logger
        self._failed = failed
        self._failed_store: BrokerStore | None = None

    @property
    def coordinator(self) -> Coordinator:
        """Raises `Unavailable` while the store cannot be used."""
        return self._in_use().coordinator

    @property
    def store(self) -> BrokerStore:
        """Raises `Unavailable` while the store cannot be used."""
        return self._in_use().store

    @property
    def cases(self) -> Mapping[str, Transaction]:
        return self.current.coordinator.cases if self.current is not None else {}

    @property
    def stuck_s(self) -> float:
        """Seconds since the store last accepted a write."""
        return self.current.store.writer.stuck_s if self.current is not None else 0.0

    def begin(self, current: Incarnation) -> None:
        self.current = current
        self.failure = ""

    def fail(self, error: Exception) -> None:
        """Forget all state in memory, because it may differ from the store."""
        current, self.current = self.current, None
        if current is None:
            return
        self.failure = str(error)
        self._logger.error("broker_begins_anew", exc_info=error)
        self._failed_store = current.store
        self._failed()

    def end(self) -> Incarnation | None:
        """Return the present incarnation, which ends here."""
        current, self.current = self.current, None
        return current

    async def close_failed(self) -> None:
        """Close the store of the incarnation that failed last."""
        failed, self._failed_store = self._failed_store, None
        if failed is not None:
            await failed.close()

    def check(self) -> None:
        """Raises `Unavailable` while nothing can be begun, or ended, that the register is to know of."""
        self.check_not_stuck()
        if self.current is not None and self.current.recognition.put_back:
            raise store_errors.put_back()

    def check_not_stuck(self) -> None:
        if (stuck_s := self.stuck_s) >= STUCK_S:
            raise store_errors.stuck(stuck_s)

    def check_whole(self) -> None:
        """Raises `Unavailable` while what is not in the register may be what it has forgotten."""
        current = self.current
        if current is None or current.recognition.is_certain(self.moment().monotonic_ms):
            return
        raise (
            store_errors.put_back() if current.recognition.put_back else store_errors.not_certain()
        )

    def _in_use(self) -> Incarnation:
        if self.current is None:
            raise store_errors.unusable()
        return self.current
