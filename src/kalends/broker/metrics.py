"""Prometheus metrics of a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, get_args

from kalends.broker.coordination.phases import Phase
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.planning.directory import Directory
from kalends.serving.metrics import Metrics
from kalends.stores.group_commit import Committed

BATCH_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 20_000)


class Measures:
    """Registered on `metrics`; `cases` gives what is being worked on when the metrics are read."""

    def __init__(
        self, metrics: Metrics, directory: Directory, cases: Callable[[], Mapping[str, Transaction]]
    ) -> None:
        self.happened = metrics.counter(
            "kalends_happened", "Events of requests, by kind.", ("kind",)
        )
        self.booking_seconds = metrics.histogram(
            "kalends_booking_seconds", "Seconds from a call to its reservation, hold or refusal."
        )
        self.agent_runs = metrics.counter(
            "kalends_agent_visits", "Visits of agents to sites, by outcome.", ("code",)
        )
        self.agent_checks = metrics.counter(
            "kalends_agent_checks", "Checked scripts, by result.", ("code",)
        )
        self.alarms = metrics.counter(
            "kalends_alarms", "Violations of the protocol that were noticed."
        )
        self._batch = metrics.histogram(
            "kalends_register_batch", "Operations in one transaction.", buckets=BATCH_BUCKETS
        )
        self._commit = metrics.histogram(
            "kalends_register_commit_seconds", "Seconds that one transaction took."
        )
        phases = metrics.gauge("kalends_cases", "Open requests, by phase.", ("phase",))
        for phase in get_args(Phase):
            phases.labels(phase).set_function(partial(_count, cases, phase))
        self._up = metrics.gauge(
            "kalends_site_up",
            "1 while the site is connected, or only this broker's own store is why it is not.",
            ("site",),
        )
        self._directory = directory

    def watch_site(self, site: str) -> None:
        """Show from now on whether `site` is connected."""
        self._up.labels(site).set_function(partial(_is_up, self._directory, site))

    def committed(self, committed: Committed) -> None:
        self._batch.observe(committed.operations)
        self._commit.observe(committed.seconds)


def _count(cases: Callable[[], Mapping[str, Transaction]], phase: Phase) -> float:
    return float(sum(case.phase == phase for case in cases().values()))


def _is_up(directory: Directory, site: str) -> float:
    entry = directory.sites.get(site)
    return float(entry is not None and (entry.up or entry.cut_off))
