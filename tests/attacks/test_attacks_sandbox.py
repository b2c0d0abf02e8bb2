"""The language inside of the sandbox: every attack, eight at a time, and an honest run after each."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from kalends.agents.sandbox.sandbox import Language, Sandbox, SandboxLimits
from tests.process_tree import descendants
from tests.support.patience import PATIENCE_S

from . import world
from .corpus import ATTACKS, KINDS
from .corpus.kinds import Attack
from .judging import Canary, problems_of_check, problems_of_control, problems_of_run

LANES: Final = 8
LIMITS: Final = SandboxLimits(
    # So that steps come to their end long before processor time does, on a slow host, too.
    cpu_s_max=1.0,
    wall_s_max=60.0,
    wait_s_max=60.0,
    cpu_s_per_minute=600.0,
)


UNRULY: Final = Language("benchmarks.visits.unruly:perform", "benchmarks.visits.unruly:ENGINE")
"""In place of the language: what a script could do that has got out of it."""

ENDLESS: Final = "def choose(view, request):\n    while True:\n        pass\n"


@asynccontextmanager
async def sandbox(
    alerts: list[str], limits: SandboxLimits = LIMITS, language: Language | None = None
) -> AsyncIterator[Sandbox]:
    """A sandbox that tells `alerts` of attacks on the host."""
    engine = await Sandbox.start(
        limits, alerted=lambda user, detail: alerts.append(user), language=language
    )
    try:
        yield engine
    finally:
        await engine.close()


@pytest.mark.parametrize("half", [0, 1])
async def test_every_attack_has_its_end_in_the_sandbox_and_harms_nobody(
    half: int, canary: Canary
) -> None:
    shuffled = random.Random(4).sample(ATTACKS, len(ATTACKS))[half::2]
    problems: list[str] = []
    alerts: list[str] = []
    async with sandbox(alerts) as engine:
        lanes = (shuffled[lane::LANES] for lane in range(LANES))
        await asyncio.gather(*(attack_all(engine, lane, canary, problems) for lane in lanes))
    assert not problems, "\n".join(problems)
    assert alerts == []


async def attack_all(
    engine: Sandbox, attacks: list[Attack], canary: Canary, problems: list[str]
) -> None:
    """Each of `attacks`, and the honest control right after it."""
    for attack in attacks:
        user = f"mallory-{attack.name!a}"
        problems += problems_of_check(attack, await engine.check(attack.source, user), canary)
        job = world.job(user, attack.source, attack.function)
        problems += problems_of_run(attack, job, await engine.run(job), canary)
        honest = world.job(world.HONEST_USER, world.HONEST_SOURCE, note=canary.secret)
        problems += problems_of_control(attack, await engine.run(honest))


async def test_nothing_is_remembered_from_one_run_to_the_next(canary: Canary) -> None:
    problems: list[str] = []
    async with sandbox([]) as engine:
        for attack in KINDS["state"]:
            for _ in range(3):
                job = world.job("mallory", attack.source, attack.function)
                problems += problems_of_run(attack, job, await engine.run(job), canary)
    assert not problems, "\n".join(problems)


async def test_who_floods_the_sandbox_waits_for_themself_alone(canary: Canary) -> None:
    endless = world.job("mallory", ENDLESS)
    honest = world.job(world.HONEST_USER, world.HONEST_SOURCE, note=canary.secret)
    async with sandbox([], LIMITS._replace(steps_max=200_000)) as engine:
        flood = [asyncio.create_task(engine.run(endless)) for _ in range(100)]
        controls = [await engine.run(honest) for _ in range(5)]
        ended = [(await each).code for each in flood]
    assert [problems_of_control(ATTACKS[0], control) for control in controls] == [[]] * 5
    assert set(ended) == {"limit-steps", "busy"}
    assert ended.count("busy") >= 100 - LIMITS.waiting_per_user_max - LIMITS.running_max


async def test_who_has_used_up_a_minute_is_busy_and_nobody_else_is(canary: Canary) -> None:
    endless = world.job("mallory", ENDLESS)
    honest = world.job(world.HONEST_USER, world.HONEST_SOURCE, note=canary.secret)
    async with sandbox([], LIMITS._replace(cpu_s_per_minute=0.05)) as engine:
        # What a worker has used is known when it is buried, which may be after its answer.
        codes = [(await engine.run(endless)).code for _ in range(6)]
        control = await engine.run(honest)
    assert (codes[0], codes[-1]) == ("limit-steps", "busy")
    assert problems_of_control(ATTACKS[0], control) == []


async def test_an_honest_run_comes_next_after_those_of_ten_greedy_accounts(canary: Canary) -> None:
    honest = world.job(world.HONEST_USER, world.HONEST_SOURCE, note=canary.secret)
    limits = LIMITS._replace(steps_max=500_000, waiting_max=40, running_max=1)
    async with sandbox([], limits) as engine:
        await engine.run(honest)  # It is compiled, and has been paid for, before.
        flood = [
            asyncio.create_task(engine.run(world.job(f"greedy {number % 10}", ENDLESS)))
            for number in range(200)
        ]
        await asyncio.sleep(0)  # All have taken their places.
        control = await engine.run(honest)
        under_way = sum(not each.done() for each in flood)
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    assert problems_of_control(ATTACKS[0], control) == []
    assert under_way >= limits.waiting_max - 2


async def test_who_crashes_interpreters_again_and_again_is_suspended_and_told_of() -> None:
    alerts: list[str] = []
    async with sandbox(alerts, language=UNRULY) as engine:
        codes = [(await engine.run(world.job("mallory", "crash"))).code for _ in range(4)]
        other = await engine.run(world.job("ada", "nothing"))
    assert codes == ["crash", "crash", "crash", "policy-violation"]
    assert alerts == ["mallory"]
    assert other.code == "ok"


async def test_after_a_crash_workers_come_from_another_zygote() -> None:
    others = descendants(os.getpid()).keys()
    async with sandbox([], LIMITS._replace(zygote_s_min=0.0), UNRULY) as engine:
        before = descendants(os.getpid()).keys() - others
        await engine.run(world.job("mallory", "crash"))
        async with asyncio.timeout(PATIENCE_S):
            while before & descendants(os.getpid()).keys():
                await engine.run(world.job("ada", "nothing"))
        assert (await engine.run(world.job("ada", "nothing"))).code == "ok"


async def test_nobody_returns_from_a_signal_in_a_worker() -> None:
    alerts: list[str] = []
    async with sandbox(alerts, language=UNRULY) as engine:
        ended = await engine.run(world.job("mallory", "return from a signal"))
    assert ended.code == "policy-violation"
    assert alerts == ["mallory"]


async def test_a_closed_sandbox_leaves_no_process_behind() -> None:
    before = descendants(os.getpid())
    async with sandbox([]) as engine:
        await engine.run(world.job("mallory", world.HONEST_SOURCE))
        assert descendants(os.getpid()).keys() > before.keys()
    assert descendants(os.getpid()) == before
