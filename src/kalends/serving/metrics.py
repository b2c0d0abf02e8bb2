"""Prometheus metrics of one application, in a registry of its own.

Several applications can live in one process (a site and a broker, or a test's ten sites), each with
its own ``/metrics``. Names begin with ``kalends_``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)

SECONDS_BUCKETS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0,
)  # fmt: skip
"""Buckets from a query of a calendar to the maximum wait of a call."""

NO_OPERATION: Final = "none"
"""The label of requests that reach no operation: unknown paths, unknown names."""

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """Counters and latencies of calls, and other metrics that a server registers.

    `operation` labels are names of operations or `NO_OPERATION`, never text from outside, so that
    callers cannot make the registry grow.
    """

    def __init__(self, *, role: str, name: str, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        info = Info(
            "kalends_server", "Role, name and version of this server.", registry=self.registry
        )
        info.info({"role": role, "name": name, "version": version})
        self._calls = self.counter(
            "kalends_calls", "Calls by operation and HTTP status.", ("operation", "status")
        )
        self._seconds = self.histogram(
            "kalends_call_seconds", "Seconds from a call to its answer.", ("operation",)
        )
        # A lookup by label values costs more than the count itself; sessions count every call.
        self._calls_of: dict[tuple[str, int], Counter] = {}
        self._seconds_of: dict[str, Histogram] = {}

    def counter(self, name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
        """Return a new counter; raises `ValueError` for a name that is taken, as the two below do."""
        return Counter(name, documentation, labels, registry=self.registry)

    def gauge(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        value: Callable[[], float] | None = None,
    ) -> Gauge:
        """Return a new gauge; with `value` (and no labels) it is asked whenever the metrics are read."""
        gauge = Gauge(name, documentation, labels, registry=self.registry)
        if value is not None:
            gauge.set_function(value)
        return gauge

    def histogram(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = SECONDS_BUCKETS,
    ) -> Histogram:
        return Histogram(name, documentation, labels, registry=self.registry, buckets=buckets)

    def call_ended(self, operation: str, status: int, seconds: float) -> None:
        """Count a call that was answered with `status` after `seconds`."""
        counter = self._calls_of.get((operation, status))
        if counter is None:
            counter = self._calls.labels(operation, str(status))
            self._calls_of[operation, status] = counter
        histogram = self._seconds_of.get(operation)
        if histogram is None:
            histogram = self._seconds_of[operation] = self._seconds.labels(operation)
        counter.inc()
        histogram.observe(seconds)

    def render(self) -> bytes:
        """Return all metrics in the text format, of type `CONTENT_TYPE`."""
        return generate_latest(self.registry)
