"""The language by itself, without the wall: what it ends, it ends in the same way everywhere."""

from __future__ import annotations

from typing import Final

import pytest

from kalends.agents import records
from kalends.agents.sandbox.language_only import LanguageOnly

from . import world
from .corpus import ATTACKS, KINDS
from .judging import Canary, problems_of_check, problems_of_control, problems_of_run
from .siege import sendable

AGAIN_STEPS_MAX: Final = 100_000
"""What takes more steps is not run again: that would take long, and show nothing new."""


@pytest.mark.parametrize("kind", KINDS)
async def test_every_attack_has_its_end_in_the_language_alone(kind: str, canary: Canary) -> None:
    engine = LanguageOnly()
    problems: list[str] = []
    for attack in KINDS[kind]:
        checked = await engine.check(attack.source, "mallory")
        problems += problems_of_check(attack, checked, canary)
        if attack.needs_wall:
            continue
        job = world.job("mallory", attack.source, attack.function)
        outcome = await engine.run(job)
        problems += problems_of_run(attack, job, outcome, canary)
        if outcome.cost.steps < AGAIN_STEPS_MAX:
            again = await engine.run(job)
            if (
                again._replace(cost=outcome.cost) != outcome
                or again.cost.steps != outcome.cost.steps
            ):
                problems.append(f"{attack.name!a} ends in another way when it is run again")
        honest = world.job(world.HONEST_USER, world.HONEST_SOURCE, note=canary.secret)
        problems += problems_of_control(attack, await engine.run(honest))
    assert not problems, "\n".join(problems)


def test_the_language_alone_ends_all_attacks_but_those_on_memory() -> None:
    needing = {attack.name for attack in ATTACKS if attack.needs_wall}
    assert {name for name in needing if not name.startswith("memory: ")} == set()


async def test_every_end_of_an_attack_can_be_written_down_and_read_again() -> None:
    engine = LanguageOnly(steps_max=50_000)
    for attack in (each for each in ATTACKS if sendable(each)):
        if attack.needs_wall:
            continue
        job = world.job("mallory", attack.source, attack.function)
        record = records.record_of(
            job, await engine.run(job), number=1, at_ms=0, rid="r", site="sdsc"
        )
        assert records.decode(records.encode(record)) == record, attack.name
