"""The end of an incarnation: what the log has of it, and what callers hear meanwhile."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from kalends.broker.replica.replica import Incarnation, Replica
from kalends.resource_servers.store_failures import StoreFailures
from kalends.serving.clocks import moment
from kalends.serving.logs import get_logger
from kalends.stores.group_commit import (
    STUCK_DATABASE,
    STUCK_FILE,
    StoreFailed,
    store_failed,
    store_lost,
)

LOST = store_lost("the server closed the connection", OSError(), remedy="")
BROKEN = store_failed("a fault of ours", ValueError())


class Writer:
    stuck_s = 7.0

    def __init__(self, because: str) -> None:
        self.stuck_because = because


class Register:
    def __init__(self, because: str = "") -> None:
        self.writer = Writer(because)


def replica_with(register: Register) -> Replica:
    replica = Replica(get_logger(role="broker", name="npaci"), lambda: None, moment)
    replica.begin(
        cast(Any, Incarnation("life", cast(Any, register), cast(Any, None), cast(Any, 0)))
    )
    return replica


@pytest.mark.parametrize(("failure", "level"), [(LOST, "warning"), (BROKEN, "error")])
def test_a_database_that_is_away_is_no_fault_in_the_log(failure: StoreFailed, level: str) -> None:
    with capture_logs() as logged:
        replica_with(Register()).fail(failure)
        StoreFailures(get_logger(role="site", name="sdsc")).tell(failure, 0)
    assert [each["log_level"] for each in logged] == [level] * 2
    assert all(("exc_info" in each) == (level == "error") for each in logged)


@pytest.mark.parametrize("because", [STUCK_FILE, STUCK_DATABASE])
def test_callers_hear_why_a_store_of_this_kind_takes_no_write(because: str) -> None:
    stuck = replica_with(Register(because)).stuck()
    assert stuck is not None
    assert stuck.detail == f"the broker's store has not taken a write for 7.0 s: {because}"
