"""What an owner is told of a batch system before a site relies on it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from kalends.backends.check_up import check_up
from tests.backends.conformance.system_at_hand import SystemAtHand, cleared

pytestmark = pytest.mark.xdist_group("batch-systems")


@pytest.fixture
async def clean(system: SystemAtHand) -> AsyncIterator[SystemAtHand]:
    async with cleared(system):
        yield system


async def test_a_system_that_can_be_relied_on_has_no_problems_and_is_as_before(
    clean: SystemAtHand,
) -> None:
    users = {"ann": clean.user, "bob": clean.other_user}
    found = await check_up(clean.adapter, "centre", clean.nodes, users, int(time.time()))
    assert found.problems == []
    assert "4 nodes" in found.facts[0]
    assert (await clean.adapter.state()).reservations == ()


async def test_each_thing_that_is_wrong_is_told(clean: SystemAtHand) -> None:
    await clean.drain(clean.nodes[1])
    found = await check_up(
        clean.adapter, "centre", [*clean.nodes, "n9"], {"ann": "nobody-here"}, int(time.time()) - 90
    )
    told = "\n".join(found.problems)
    assert "it does not know n9" in told
    assert f"{clean.nodes[1]} is drained" in told
    assert "no reservation can be made for ann as nobody-here" in told
    assert "its clock differs by +9" in told


async def test_a_system_that_is_away_is_told_alone(clean: SystemAtHand) -> None:
    await clean.stop()
    found = await check_up(clean.adapter, "centre", clean.nodes, {}, int(time.time()))
    assert len(found.problems) == 1
    assert found.problems[0].startswith("it does not answer")
