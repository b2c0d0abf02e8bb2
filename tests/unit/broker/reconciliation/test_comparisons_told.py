"""A comparison that is slower than its caller waits is told as what it is."""

from __future__ import annotations

from typing import Any

import structlog

from kalends.broker.planning.directory import Directory
from kalends.broker.replica.replica import Replica
from kalends.broker.sites.comparisons import Comparisons
from kalends.contract import messages as m
from kalends.serving.alarms import Alarms
from kalends.serving.clocks import moment


async def written(writes: object) -> tuple[()]:
    return ()


async def test_a_comparison_under_way_is_not_told_as_a_site_that_was_not_reached() -> None:
    directory = Directory({"near": "http://near", "gone": "http://gone"})
    directory.greet(m.Hello(site="near", epoch=1, resources=()))
    logger: Any = structlog.get_logger()
    comparisons = Comparisons(
        directory, (), Replica(logger, lambda: None, moment), logger,
        alarms=Alarms(logger, lambda: None), step=lambda call: call() and None,
        stir=lambda: None, written=written, certain=lambda: None, wake=lambda: None,
    )  # fmt: skip
    told = await comparisons.reconcile(0, go_on=False)
    assert (told.sites, told.comparing, told.unreached) == ((), {"near": 0}, ("gone",))
