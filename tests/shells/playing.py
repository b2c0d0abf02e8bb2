"""One play: a scenario, a seed, and what came of it. Each plays in a process that is forked for it.

So nothing is left over from one play to the next, what a killed process leaves is never collected, and
all plays begin with the same memory.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.shells.facility import Facility, world_folder
from tests.shells.mutations import MUTATIONS
from tests.shells.reports import Report
from tests.shells.scenarios import SCENARIOS, Broken, too_little
from tests.shells.substitutes import cpu_s
from tests.shells.world import World

TAIL = 60
LOG_TAIL = 20
LINE_MAX = 400


def play(name: str, seed: int, *, mutation: str = "", trace: Path | None = None) -> Report:
    """Play `name` in a process of its own; `trace` takes every line of it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w", encoding="utf-8") as out:
            out.write(json.dumps(_play_here(name, seed, mutation, trace)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return Report(name, seed, mutation, broken="the process of the world has died")
    return Report(**json.loads(text))


def _play_here(name: str, seed: int, mutation: str, trace: Path | None) -> dict[str, Any]:
    gc.disable()  # Its moments are no function of the seed, and a play is short.
    unheard: list[str] = []
    sys.unraisablehook = lambda error: unheard.append(repr(error.exc_value))
    began_s = cpu_s()
    scenario = SCENARIOS[name]
    if mutation:
        MUTATIONS[mutation]()
    # Names of a fixed length: they are part of what is written.
    folder = Path(tempfile.mkdtemp(prefix="kalends-world-", dir=world_folder()))
    broken = ""
    world = World(seed, folder, keep=trace is not None)
    facility = Facility(world, scenario.plan)
    judge = world.node("judge", "127.0.2.1")

    async def story() -> None:
        await judge.run(scenario.story(facility, random.Random(f"{name} {seed}")))

    try:
        world.run(story())
    except Broken as error:
        broken = str(error)
    except BaseException:
        # Whatever it is: the story was not told to its end.
        broken = traceback.format_exc()
    if facility.witness is not None and not broken:
        broken = "\n".join(facility.witness.finish())
    broken = broken or too_little(facility, scenario.least)
    if unheard:
        broken = broken or f"raised where nobody hears it: {unheard[:3]}"
    shutil.rmtree(folder, ignore_errors=True)
    if trace is not None:
        trace.write_text("\n".join(world.trace) + "\n", encoding="utf-8")
    witness = facility.witness
    counts = (
        {
            "stored and said": witness.auditor.checks,
            "told": witness.answers,
            "operations of slots": witness.recorder.numbers.operations,
            "waits": witness.oracle.waits,
        }
        if witness is not None
        else {}
    )
    counts |= facility.counts
    report = Report(
        name=name,
        seed=seed,
        mutation=mutation,
        broken=broken,
        trace_hash=world.trace_hash,
        events=world.events,
        virtual_s=round(world.loop.now_s, 3),
        cpu_s=round(cpu_s() - began_s, 3),
        judged=counts,
        tail=list(world.trace)[-TAIL:] if broken else [],
        logs={
            each: [line[:LINE_MAX] for line in list(lines)[-LOG_TAIL:]]
            for each, lines in facility.log.lines.items()
            if broken
        },
    )
    return report._asdict()
