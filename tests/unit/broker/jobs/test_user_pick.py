"""Scripts that order bids, in the real sandbox: what they see, and what hostile ones bring about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kalends.agents.runs import RunOutcome
from kalends.broker.jobs.parts.user_pick import UserPick, followed, pick_run
from kalends.client.trials.engines import engine_here
from kalends.core.jobs import JobRequest
from kalends.federation.offered_places import OfferedPlace

T0 = 1_800_000_000
JOB = JobRequest(machine="", limit_s=600, command=("true",), implementation="wide")
RANKED = [
    OfferedPlace("a", "a/m", 2, T0, T0, T0, 600.0, True),
    OfferedPlace("b", "b/m", 4, 0, T0 + 50, T0 + 90, 150.0, False, 6.5, 30.0, 600.0, 80, True),
    OfferedPlace("c", "c/m", 8, T0 + 99, T0 + 99, T0 + 99, 600.0, True),
]
JOBS = {each.resource: JOB for each in RANKED}


def _through(site: str) -> tuple[str, ...]:
    return ("hall", "west") if site == "b" else ()


def run_all(sources: Sequence[str]) -> list[RunOutcome]:
    async def all_of() -> list[RunOutcome]:
        async with engine_here() as here:
            return [
                await here.engine.run(pick_run("ann", source, RANKED, JOBS, _through))
                for source in sources
            ]

    return asyncio.run(all_of())


def order(outcome: RunOutcome) -> list[str]:
    return [each.site for each in followed(UserPick(0, outcome), RANKED)[0]]


def test_a_script_sees_all_that_sites_have_offered() -> None:
    (outcome,) = run_all(["def pick(bids):\n    return bids\n"])
    assert outcome.answer[1] == {
        "machine": "b/m", "site": "b", "through": ["hall", "west"], "nodes": 4, "start_by": None,
        "late_start": T0 + 90, "runs": 600.0, "expected": 150.0, "implementation": "wide", "preference": 30.0,
        "price": 6.5, "transport": 0.0, "load": 80, "shared": True,
    }  # fmt: skip


def test_its_order_is_followed_and_who_is_not_named_comes_after() -> None:
    best, all_of_them = run_all(
        [
            "def pick(bids):\n    return max(bids, key=lambda bid: bid['nodes'])['machine']\n",
            "def pick(bids):\n    return [bid['machine'] for bid in reversed(bids)]\n",
        ]
    )
    assert order(best) == ["c", "a", "b"]
    assert order(all_of_them) == ["c", "b", "a"]


HOSTILE = [
    "def pick(bids):\n    while True:\n        pass\n",
    "def pick(bids):\n    return pick(bids)\n",
    "def pick(bids):\n    return 'x' * 100_000\n",
    "def pick(bids):\n    bids.clear()\n    return bids\n",
    "def pick(bids):\n    bids[0]['machine'] = 'z/m'\n    return bids[0]['machine']\n",
    "def pick(bids):\n    return bids[0].__class__\n",
    "def pick(bids):\n    return open('/etc/passwd')\n",
    "def pick(bids):\n    raise ValueError('no')\n",
    "def pick(bids):\n    return [[bid['machine']] for bid in bids]\n",
    "def pick(bids):\n    return ['c/m', 'c/m']\n",
    "def choose(view, request):\n    return ['c/m']\n",
    "import os\n",
]


def test_hostile_scripts_change_nothing() -> None:
    for source, outcome in zip(HOSTILE, run_all(HOSTILE), strict=True):
        places, said = followed(UserPick(0, outcome), RANKED)
        assert places == RANKED, source
        assert "was ignored" in said, source


@pytest.mark.parametrize("pick", [None, UserPick(0)])
def test_without_an_answer_the_order_is_the_usual_one(pick: UserPick | None) -> None:
    assert followed(pick, RANKED)[0] == RANKED
