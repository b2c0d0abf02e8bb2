"""How runs end that do not end well, with real processes: each with its code, and nobody else harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from kalends.agents.runs import RunOutcome
from kalends.agents.sandbox import Sandbox
from kalends.core.scripts import RunCode

from .sandboxes import AMPLE, ANYTHING, HONEST, choosing, job

pytestmark = pytest.mark.xdist_group("one-sandbox")

WALL_S_MAX: Final = 4.0
"""Of a worker that waits; an honest run after it ends far earlier, on a busy machine, too."""


class Case(NamedTuple):
    source: str
    code: RunCode


CASES: Final = {
    "a loop": Case(choosing("while True: pass"), "limit-cpu"),
    "a loop in C": Case(choosing("big = list(range(100000))", "while True: -1 in big"), "limit-cpu"),
    "a loop that catches everything": Case(
        choosing("while True:", "    try:", "        while True: pass", "    except BaseException: pass"),
        "limit-cpu",
    ),
    "one large text": Case(choosing("return 'a' * 10 ** 10"), "limit-memory"),
    "memory bit by bit": Case(choosing("kept = []", "while True: kept.append(bytes(1 << 20))"),
        "limit-memory"),
    "a forbidden call": Case(choosing("os.getppid()"), "policy-violation"),
    "a signal of its own": Case(choosing("signal.raise_signal(9)"), "policy-violation"),
    "a crash": Case(
        choosing("nested = ()", "for _ in range(10 ** 6): nested = (nested,)", "hash(nested)"), "crash"
    ),
    "an exception that is not caught": Case(choosing("raise SystemExit(0)"), "crash"),
    "an exit": Case(choosing("os._exit(0)"), "crash"),
    "a flood": Case(choosing("while True: os.write(3, b'\\xff' * 65536)"), "limit-output"),
    "a promise of a long frame": Case(
        choosing("os.write(3, b'\\x7f\\xff\\xff\\xff')", "os._exit(0)"), "limit-output"
    ),
    "half a frame": Case(choosing("os.write(3, b'\\0\\0\\1\\0half')", "os._exit(0)"), "crash"),
    "rubbish": Case(choosing("os.write(3, b'\\0\\0\\0\\4rubb')", "os._exit(0)"), "bad-result"),
    "a forged end": Case(
        choosing(
            "body = msgpack.packb({'code': 'policy-violation'})",
            "os.write(3, len(body).to_bytes(4, 'big') + body)", "os._exit(0)",
        ), "bad-result",
    ),
    "an answer that is not plain": Case(choosing("return object()"), "bad-result"),
    "an answer that is too large": Case(choosing("return 2 ** 80"), "bad-result"),
    "an answer without end": Case(choosing("x = []", "x.append(x)", "return x"), "bad-result"),
    "no number": Case(choosing("return float('nan')"), "bad-result"),
    "a large answer": Case(choosing("return ['x' * 8000] * 100"), "limit-output"),
}  # fmt: skip


@pytest.fixture(name="box", scope="module")
def _box() -> Iterator[tuple[asyncio.Runner, Sandbox]]:
    """One sandbox for all cases but one, with a loop of its own that lives as long.

    Its wall limit is far: a run ends by its own fault, however busy the machine is.
    """
    yield from _sandbox(60.0)


def _sandbox(wall_s_max: float) -> Iterator[tuple[asyncio.Runner, Sandbox]]:
    limits = AMPLE._replace(wall_s_max=wall_s_max, cpu_s_max=0.3, suspended_s=0.0)
    with asyncio.Runner() as runner:
        box = runner.run(Sandbox.start(limits, language=ANYTHING))
        yield runner, box
        runner.run(box.close())


@pytest.fixture(name="hasty_box")
def _hasty_box() -> Iterator[tuple[asyncio.Runner, Sandbox]]:
    yield from _sandbox(WALL_S_MAX)


@pytest.mark.parametrize("name", CASES)
def test_each_end_has_its_code_and_an_honest_run_right_after_is_unharmed(
    name: str, box: tuple[asyncio.Runner, Sandbox]
) -> None:
    runner, engine = box

    async def both() -> tuple[RunOutcome, RunOutcome]:
        return await engine.run(job(CASES[name].source, user=name)), await engine.run(job(HONEST))

    outcome, honest = runner.run(both())
    assert outcome.code == CASES[name].code, outcome
    assert outcome.detail
    assert (outcome.answer, outcome.sent) == (None, ())
    assert (honest.code, honest.answer) == ("ok", [1, 2, 3])


def test_a_worker_that_is_stuck_is_killed_at_its_wall_limit(
    hasty_box: tuple[asyncio.Runner, Sandbox], record_property: Callable[[str, object], None]
) -> None:
    runner, engine = hasty_box
    outcome = runner.run(engine.run(job(choosing("os.read(3, 1)"), user="stuck")))
    honest = runner.run(engine.run(job(HONEST)))
    assert (outcome.code, outcome.answer, outcome.sent) == ("limit-wall", None, ())
    assert outcome.detail
    assert (honest.code, honest.answer) == ("ok", [1, 2, 3])
    assert outcome.cost.wall_us >= WALL_S_MAX * 1e6
    record_property("ms beyond the wall limit", outcome.cost.wall_us / 1e3 - WALL_S_MAX * 1e3)
