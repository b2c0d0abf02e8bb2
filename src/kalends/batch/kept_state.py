"""The states of queues that are kept, so that the next start of their site is short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kalends.batch.follower import FACTS_A_STATE
from kalends.batch.forecast import Forecaster
from kalends.batch.journal.contract import JobJournal, StoredState
from kalends.batch.queue.facts import Terms
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import replayed
from kalends.batch.queue_states import usable_state
from kalends.batch.stopwatch import Stopwatch
from kalends.batch.watchdog import Watchdog, hard_limit_s, mark_path
from kalends.core.errors import KalendsError
from kalends.serving.logs import Logger

LOOK_EVERY_S: Final = 60.0


@dataclass(eq=False)
class KeptStates:
    """Has the follower keep the state of each queue that has gone on by `FACTS_A_STATE` facts.

    `numbers` says up to which fact each queue is; it is empty while the store does not work. `keep` stores
    a state soon: if it is lost, the next start takes longer.
    """

    store: Path
    forecaster: Forecaster
    numbers: Callable[[], Mapping[str, int]]
    keep: Callable[[StoredState], None]
    logger: Logger
    _kept: dict[str, int] = field(init=False, default_factory=dict)
    """Up to which fact there is a state."""
    _task: asyncio.Task[None] | None = field(init=False, default=None)

    def restored(
        self,
        machine: str,
        terms: Terms,
        journal: JobJournal,
        now: int,
        policy_ms_max: int,
    ) -> BatchQueue:
        """Make a queue again from its state, and the facts behind it. Raises `StoreDamaged`.

        A policy of the owner's own may take `policy_ms_max` for a decision.
        """
        most_s = policy_ms_max / 1000
        watchdog = Watchdog(mark_path(self.store, machine), terms.policy, hard_limit_s(most_s))
        watch = Stopwatch(most_s, watchdog)
        known = usable_state(journal, machine)
        self._kept[machine] = known.number if known is not None else 0
        queue = replayed(
            machine, terms, now, lambda number: journal.entries_after(machine, number),
            watch=watch, known=known,
        )  # fmt: skip
        if queue.fault or queue.flow.terms.policy != terms.policy:
            watchdog.forget()
        self.logger.info(
            "queue_restored", machine=machine, facts=queue.number, kept=self._kept[machine],
            policy=queue.flow.terms.policy, configured_policy=queue.flow.configured.policy,
        )  # fmt: skip
        return queue

    def start(self) -> None:
        """Look every minute."""
        self._task = asyncio.create_task(self._look_regularly())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        for machine, number in self.numbers().items():
            while number - self._kept.get(machine, 0) >= FACTS_A_STATE:
                state = await self.forecaster.state(machine)
                if state is None or state.number <= self._kept.get(machine, 0):
                    break
                self.keep(state)
                self._kept[machine] = state.number

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except KalendsError as error:
                # Between two lives of the site nothing is stored: the next look does it.
                self.logger.warning("state_not_kept", reason=str(error))
