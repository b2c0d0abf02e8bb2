"""A site's own metrics, in addition to those of every server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from kalends.agents.runs import Function, RunOutcome
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.service import SiteEngine
from kalends.serving.clock_watch import watch_clock
from kalends.serving.metrics import Metrics
from kalends.stores.group_commit import Committed

BATCH_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000)

State = Literal["held", "prepared", "locked"]
STATES: Final[tuple[State, ...]] = ("held", "prepared", "locked")


class SiteMeasures:
    """`sessions`, `engine` and `in_doubt` (of the clock) are asked whenever the metrics are read."""

    def __init__(
        self,
        metrics: Metrics,
        sessions: Callable[[], int],
        engine: Callable[[], SiteEngine | None],
        in_doubt: Callable[[], bool],
    ) -> None:
        self._facts = metrics.counter("kalends_facts", "Facts stored.")
        self._messages = metrics.counter("kalends_messages", "Messages received from brokers.")
        self._alarms = metrics.counter(
            "kalends_alarms", "Violations of the protocol that were noticed."
        )
        self._batch_sizes = metrics.histogram(
            "kalends_commit_facts", "Facts in one transaction.", buckets=BATCH_BUCKETS
        )
        self._seconds = metrics.histogram(
            "kalends_commit_seconds", "Seconds that one transaction took."
        )
        metrics.gauge("kalends_broker_sessions", "Open sessions of brokers.", value=sessions)
        watch_clock(metrics, in_doubt)
        bookings = metrics.gauge("kalends_claims", "Bookings on the calendars.", ("state",))
        for state in STATES:
            bookings.labels(state).set_function(partial(_claims, engine, state))

        approvals = metrics.gauge(
            "kalends_approvals_waiting", "Requests that wait for the owner's approval."
        )
        approvals.set_function(partial(_approvals, engine))

        kept = metrics.gauge(
            "kalends_grants", "Promises that batch systems keep, and do not keep yet.", ("kept",)
        )
        for number, each in enumerate(("true", "false")):
            kept.labels(each).set_function(partial(_grants, engine, number))

    def committed(self, committed: Committed) -> None:
        self._facts.inc(committed.operations)
        self._batch_sizes.observe(committed.operations)
        self._seconds.observe(committed.seconds)

    def messages(self, count: int) -> None:
        self._messages.inc(count)

    def alarm(self) -> None:
        self._alarms.inc()


def _claims(engine: Callable[[], SiteEngine | None], state: State) -> int:
    running = engine()
    return running.participant.book.totals()[state] if running is not None else 0


def _approvals(engine: Callable[[], SiteEngine | None]) -> int:
    running = engine()
    pending = running.participant.wing(OwnerApproval).pending() if running is not None else ()
    return sum(1 for _ in pending)


def _grants(engine: Callable[[], SiteEngine | None], number: int) -> int:
    running = engine()
    return running.kept()[number] if running is not None else 0


class RunMeasures:
    """Runs of agents, by function and by how they ended: never by user or script."""

    def __init__(self, metrics: Metrics) -> None:
        self._runs = metrics.counter(
            "kalends_agent_runs", "Runs of agents, by outcome.", ("function", "code")
        )
        self._seconds = metrics.histogram(
            "kalends_agent_run_seconds", "Seconds of a run, with its wait for a turn."
        )
        self._cpu_seconds = metrics.counter(
            "kalends_agent_cpu_seconds", "Processor time of agents' runs."
        )

    def ended(self, function: Function, outcome: RunOutcome) -> None:
        self._runs.labels(function, outcome.code).inc()
        self._seconds.observe(outcome.cost.wall_us / 1_000_000)
        self._cpu_seconds.inc(outcome.cost.cpu_us / 1_000_000)
