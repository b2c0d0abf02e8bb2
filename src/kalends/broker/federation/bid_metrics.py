"""Metrics of bids: how sites answer the questions for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kalends.federation.bid_tally import BidTally
from kalends.serving.metrics import Metrics

OUTCOMES: Final = ("asked", "bid", "late", "silent", "chosen", "placed")
"""Counts of `SiteCounts`."""


def watch_bids(metrics: Metrics, sites: Iterable[str], tally: Callable[[], BidTally]) -> None:
    """Show what `tally` gives whenever the metrics are read."""
    bids = metrics.gauge(
        "kalends_bids", "Answers to questions for bids, since the start.", ("site", "outcome")
    )
    refused = metrics.gauge(
        "kalends_bids_refused", "Questions for bids that were refused.", ("site",)
    )
    for site in sites:
        for outcome in OUTCOMES:
            bids.labels(site, outcome).set_function(partial(_bids, tally, site, outcome))
        refused.labels(site).set_function(partial(_refused, tally, site))


def _bids(tally: Callable[[], BidTally], site: str, outcome: str) -> float:
    return float(getattr(tally().of(site), outcome))


def _refused(tally: Callable[[], BidTally], site: str) -> float:
    return float(tally().of(site).refused.total())
