"""Each store of a register does as the twin does: the same answers, and the same rows afterwards."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.register_twin import TwinRegister, TwinRows
from tests.support.register_writes import batches, foreseen
from tests.support.registers import ON_POSTGRES, STORES, Opener, Replica, stores
from tests.support.twin_reads import TwinReads, questions

from kalends.broker.register.writes import Write

T = TypeVar("T")
REPLICAS = 3
replicas = st.integers(0, REPLICAS - 1)


class Conformance(RuleBasedStateMachine):
    """Replicas that share a register, in turn and at the same time."""

    opener: ClassVar[Opener]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.stack = AsyncExitStack()
        opened = type(self).opener(Path(self.directory.name), REPLICAS)
        self.replicas: Sequence[Replica] = self.wait(self.stack.enter_async_context(opened))
        self.rows = TwinRows()

    def wait(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def teardown(self) -> None:
        self.wait(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()

    @rule(replica=replicas, batch=batches)
    def write(self, replica: int, batch: list[Write]) -> None:
        batch = foreseen(batch, self.rows.posted)
        results = self.wait(self.replicas[replica].run(batch))
        assert list(results) == TwinRegister(self.rows).carry_out(batch)

    @rule(replica=replicas, random=st.randoms(use_true_random=False))
    def ask(self, replica: int, random: Random) -> None:
        for question in questions(random):
            expected = self.wait(question.to(TwinReads(self.rows)))
            assert self.wait(question.to(self.replicas[replica].reads)) == expected, question

    @invariant()
    def every_replica_sees_the_rows_of_the_twin(self) -> None:
        expected = self.rows.tables()
        for replica in self.replicas:
            assert self.wait(replica.tables()) == expected


class OnSqlite(Conformance):
    opener = STORES["sqlite"]


TestSqlite = OnSqlite.TestCase
TestSqlite.settings = settings(max_examples=30, stateful_step_count=15)


class OnPostgres(Conformance):
    opener = STORES["postgres"]

    @rule(replica=replicas, random=st.randoms(use_true_random=False))
    def put_aside(self, replica: int, random: Random) -> None:
        """Requests that are put aside are there as before, for whoever writes and for whoever asks."""
        settled = self.rows.settled()
        chosen = random.sample(settled, random.randrange(len(settled) + 1))
        young = [each for each in chosen if not self.rows.is_aside(each)]
        count = sum(len(self.rows.reservation(each)) for each in young)
        register: Any = self.replicas[replica]
        assert self.wait(register.put_aside(chosen)) == count
        for each in young:
            self.rows.put_aside(each)


TestPostgres = OnPostgres.TestCase
TestPostgres.settings = settings(max_examples=30, stateful_step_count=15)
TestPostgres.pytestmark = list(ON_POSTGRES)


@pytest.mark.parametrize("store", stores("twin"))
@settings(max_examples=15)
@given(st.lists(st.tuples(replicas, batches, replicas, batches), min_size=1, max_size=6))
def test_of_transactions_at_the_same_time_one_is_before_the_other(
    store: str, rounds: list[tuple[int, list[Write], int, list[Write]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_contend(STORES[store], Path(directory), rounds))


async def _contend(
    opener: Opener, directory: Path, rounds: list[tuple[int, list[Write], int, list[Write]]]
) -> None:
    rows = TwinRows()
    async with opener(directory, REPLICAS) as opened:
        for one, writes, other, others in rounds:
            first, second = foreseen(writes, rows.posted), foreseen(others, rows.posted)
            results = await asyncio.gather(opened[one].run(first), opened[other].run(second))
            found = [*map(list, results), await opened[0].tables()]
            orders = [_in_order(rows, (first, second), order) for order in ((0, 1), (1, 0))]
            (rows,) = [
                after for *expected, after in orders if [*expected, after.tables()] == found
            ][:1]


def _in_order(rows: TwinRows, both: Sequence[list[Write]], order: Sequence[int]) -> list[Any]:
    """Return the answers to both, done in this order, and the rows afterwards."""
    rows = copy.deepcopy(rows)
    answers: list[Any] = [None, None, rows]
    for each in order:
        answers[each] = TwinRegister(rows).carry_out(both[each])
    return answers
