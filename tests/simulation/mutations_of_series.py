"""Ways to break series that are booked all or none, put into the shipped code at run time."""

from __future__ import annotations

from typing import Final

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.series.joint_commits import JointCommits
from kalends.core.intervals import Moment
from tests.simulation.climates import SERIES, SERIES_AND_PAUSES, SERIES_CHANGED, Climate
from tests.simulation.mutations import Mutation
from tests.simulation.nodes import BrokerNode, Call
from tests.simulation.world import World


class CommitsAlone(JointCommits):
    """A request that has its votes is committed, whatever becomes of the others."""

    def commits(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        return False


class OneByOne(BrokerNode):
    """The requests of a series are committed by one write each."""

    def _pump(self) -> None:
        for op in self._operations:
            if isinstance(op, r.CommitSeries):
                self._operations.remove(op)
                self._operations.append(op.commits[0])
                self.later(10_000, self._store_later, list(op.commits[1:]))
        super()._pump()

    def _store_later(self, commits: list[r.Operation]) -> None:
        self._operations += commits
        self._pump()


class AdoptsOne(JointCommits):
    """A replica that takes over a request of a series tries again with that one alone."""

    def _begins(self, case: Transaction, now: Moment) -> bool:
        return case.record.att == 1 and super()._begins(case, now)

    def commits(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        return case.record.att == 1 and super().commits(case, op, now)


class BeginsInTwoWrites(BrokerNode):
    """The first request of a series is stored, and then the others."""

    def begin_series(self, call: Call, ticket: int, now: Moment) -> None:
        super().begin_series(call, ticket, now)
        begins = [
            op for op in self.coordinator.outbox.effects.operations if isinstance(op, r.Begin)
        ]
        later = [op for op in begins if op.record.rid != begins[0].record.rid]
        effects = self.coordinator.outbox.effects
        effects.operations = [op for op in effects.operations if op not in later]
        self.later(10_000, self._store_later, later)

    def _store_later(self, begins: list[r.Begin]) -> None:
        self._operations += begins
        self._pump()


class KeysByIndex(BrokerNode):
    """The changes of a series have keys by their number among those that can be changed just now."""

    def change_key(self, call: Call, anchor: str, name: str, number: int) -> str:
        return f"{call.key}/{number}" if number else call.key


class ChangesAlone(JointCommits):
    """A change of an occurrence that has its votes is committed, whatever becomes of the others."""

    def commits(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        return not case.record.replaces and super().commits(case, op, now)


class AsksSeriesOnly(JointCommits):
    """A change commits alone if its request does not say of which series it is, as one that came back."""

    def commits(self, case: Transaction, op: r.Commit, now: Moment) -> bool:
        return case.record.spec.series is not None and super().commits(case, op, now)


def _joint(name: str, broken: type[JointCommits], climate: Climate = SERIES) -> Mutation:
    class Broken(World):
        joint_commits = broken

    return Mutation(name, Broken, climate)


def _broker(name: str, broken: type[BrokerNode], climate: Climate = SERIES) -> Mutation:
    class Broken(World):
        broker_node = broken

    return Mutation(name, Broken, climate)


MUTATIONS_OF_SERIES: Final = (
    _joint("each of a series commits alone", CommitsAlone),
    _joint("one of a series is adopted", AdoptsOne, SERIES_AND_PAUSES),
    _broker("a series is committed one by one", OneByOne),
    _broker("a series begins in two writes", BeginsInTwoWrites),
    _joint("each change of a series commits alone", ChangesAlone, SERIES_CHANGED),
    _joint("only what says its series is committed together", AsksSeriesOnly, SERIES_CHANGED),
    _broker("keys by index", KeysByIndex, SERIES_CHANGED),
)
