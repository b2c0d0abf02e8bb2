"""Which calls change something: the table of calls says so, and a lost answer is reported accordingly."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.client.calls import CallSender
from kalends.client.transports.retry import Backoff, ConnectionFailed
from kalends.contract import calls
from kalends.contract.calls import OPERATION, OPERATIONS, Operation
from kalends.contract.job_calls import Replan, ShowPlan
from kalends.contract.owner_calls import DecideApproval, ListApprovals
from kalends.core.errors import KalendsError, OutcomeUnknown, Unavailable

ID = "01234567-89ab-7def-8123-456789abcdef"
LOOKS = {
    "agent_list", "agent_run", "agent_runs", "agent_show", "approvals", "audit", "bidders", "by_key",
    "calendar", "credit_entries", "credits", "feed_list",
    "find", "health", "ids", "job", "job_history", "job_output", "job_usage", "job_watch", "jobs",
    "jobs_watch", "list", "machine_delays", "machine_gaps", "machine_plan", "notify_list", "reclaims",
    "resources", "series_find", "series_show", "show", "site_pass", "sites_list", "slots", "today", "watch",
    "whoami", "why",
}  # fmt: skip
"""Written down once more: whether a new call changes something is to be thought about twice."""


class Lost:
    """A way to a server that carries every call out, and whose answers never come."""

    async def call(self, operation: Operation, body: Any, timeout_s: float) -> Any:
        raise ConnectionFailed("the connection broke", sent=True)


async def lost(body: Any, name: str) -> KalendsError:
    async def at_once(seconds: float) -> None: ...

    sender = CallSender(
        Lost(),  # type: ignore[arg-type]  # only its calls are used
        url="http://site", timeout_s=1.0, backoff=Backoff(), clock=lambda: 0.0, sleep=at_once,
        fraction=lambda: 0.5,
    )  # fmt: skip
    with pytest.raises(KalendsError) as raised:
        await sender.call(body, name, OPERATION[name].answer)
    return raised.value


def test_each_call_says_whether_it_changes_something() -> None:
    assert {each.name for each in OPERATIONS if each.changes == "nothing"} == LOOKS


def test_a_call_whose_outcome_is_found_by_its_key_has_one() -> None:
    keyed = [each for each in OPERATIONS if each.changes == "request"]
    assert keyed
    assert all("key" in each.body.__struct_fields__ for each in keyed)


def test_a_call_that_changes_something_can_be_repeated_by_a_key_or_says_what_it_is_about() -> None:
    for each in OPERATIONS:
        if each.changes != "nothing":
            assert {"key", "id", "name", "to", "machine", "on", "wait_ms", "card"} & set(
                each.body.__struct_fields__
            ), each.name


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (DecideApproval(id=ID, approve=True), "approval_decide"),
        (Replan(machine="sdsc/sp2"), "machine_replan"),
        (calls.Drain(on=True), "drain"),
    ],
)
async def test_a_lost_answer_to_a_change_leaves_its_outcome_open(body: Any, name: str) -> None:
    assert isinstance(await lost(body, name), OutcomeUnknown)


@pytest.mark.parametrize(
    ("body", "name"),
    [(ListApprovals(), "approvals"), (ShowPlan(machine="sdsc/sp2"), "machine_plan")],
)
async def test_a_lost_answer_to_a_look_means_that_nothing_was_done(body: Any, name: str) -> None:
    assert isinstance(await lost(body, name), Unavailable)
