"""The incarnations of a replica: each lasts from an opening of its store to the store's failure, or the stop.

When the store fails, nobody knows which of the last operations were stored, and so the coordinator's
memory is worth nothing: it is dropped with everything that waited, and a new incarnation begins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.reconciliation.recognition import Recognition
from kalends.broker.register.contract import Register
from kalends.broker.replica import store_errors
from kalends.core.errors import Unavailable
from kalends.core.intervals import Moment
from kalends.serving.logs import Logger
from kalends.stores.group_commit import StoreLost

T = TypeVar("T")


class Incarnation(NamedTuple):
    """`name` is drawn at random; marks call it a life (`kalends.contract.messages.Mark`)."""

    name: str
    store: Register
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
        self._failed_store: Register | None = None

    @property
    def coordinator(self) -> Coordinator:
        """Raises `Unavailable` while the store cannot be used."""
        return self.in_use().coordinator

    @property
    def store(self) -> Register:
        """Raises `Unavailable` while the store cannot be used."""
        return self.in_use().store

    @property
    def cases(self) -> Mapping[str, Transaction]:
        return self.current.coordinator.cases if self.current is not None else {}

    @property
    def stuck_s(self) -> float:
        """Seconds that a write has taken, if they are too many; else 0."""
        return self.current.store.writer.stuck_s if self.current is not None else 0.0

    def stuck(self) -> Unavailable | None:
        """Return the error for callers while a write takes too long."""
        if self.current is None or not (stuck_s := self.stuck_s):
            return None
        return store_errors.stuck(stuck_s, self.current.store.writer.stuck_because)

    async def read(self, ask: Callable[[Register], Awaitable[T]]) -> T:
        """The register's answer to `ask`, in the incarnation that has asked; raises `Unavailable`.

        An answer that comes after the end of its incarnation is let go: whatever follows from it would be
        given to a coordinator that was not asked.
        """
        current = self.in_use()
        answer = await ask(current.store)
        self.check_still(current)
        return answer

    def check_still(self, incarnation: Incarnation) -> None:
        """Raises `Unavailable` where `incarnation` has ended."""
        if self.current is not incarnation:
            raise store_errors.unusable()

    def begin(self, current: Incarnation) -> None:
        self.current = current
        self.failure = ""

    def fail(self, error: Exception) -> None:
        """Forget all state in memory, because it may differ from the store."""
        current, self.current = self.current, None
        if current is None:
            return
        self.failure = str(error)
        if isinstance(error, StoreLost) or type(error) is Unavailable:
            self._logger.warning("broker_begins_anew", reason=str(error))
        else:
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
        if stuck := self.stuck():
            raise stuck

    def doubt(self) -> Unavailable | None:
        """Return the reason why the register may have forgotten a request that it does not find now."""
        recognition, now_ms = self.in_use().recognition, self.moment().monotonic_ms
        if recognition.is_certain(now_ms):
            return None
        if recognition.put_back:
            return store_errors.put_back()
        if recognition.has_listened(now_ms):
            return store_errors.promoted(recognition.unheard())
        return store_errors.not_certain()

    def in_use(self) -> Incarnation:
        """The present incarnation; raises `Unavailable` while there is none."""
        if self.current is None:
            raise store_errors.unusable()
        return self.current
