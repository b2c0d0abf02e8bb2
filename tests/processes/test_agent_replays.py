"""What a script answered at a site, it answers again: elsewhere, later, and after restarts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import kalends
from kalends.agents import ready, records
from kalends.agents.sandbox import Sandbox, SandboxLimits
from kalends.contract import messages as m
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, Starts

from .site_process import SECRET, Broker, SiteProcess, connected, new_rid, slot, write_configuration

LIVES = 5
RUNS_PER_LIFE = 20

FAILING = {
    "raises": "def choose(view, request):\n    raise ValueError(str(len(view['slots'])))\n",
    "answers nonsense": "def choose(view, request):\n    return [True, 1.5, 'x']\n",
    "never ends": "def choose(view, request):\n    while True:\n        pass\n",
    "talks": "def choose(view, request):\n    send(request)\n    return [view['slots'][-1]['id']]\n",
}
SCRIPTS = [*map(ready.source, ready.names()), *FAILING.values()]


def dispatch(number: int) -> m.Dispatch:
    """Visit `number`, each with another window, of one of the scripts."""
    source = SCRIPTS[number % len(SCRIPTS)]
    first, end = slot(number)
    return m.Dispatch(
        rid=new_rid(), att=1, stamp=1_000 + number, principal=Principal(f"user{number % 7}"),
        script=hashlib.sha256(source.encode()).hexdigest(), source=source,
        arguments={"attribute": "price", "at": "09:30"}, text="sdsc/sp2:3",
        starts=Starts(first, first + 7_200, 60), asks=(Ask(0, "sdsc/sp2", end - first, 3),),
        parts=(m.Part("sdsc", "http://127.0.0.1:1"),), need=1, secret=SECRET, hold_ms=600_000,
    )  # fmt: skip


async def visits(broker: Broker, numbers: range) -> list[str]:
    """The numbers of the runs' records; what was held is kept, so that calendars differ."""
    runs = []
    for number in numbers:
        (report,) = await broker.ask(dispatch(number))
        assert isinstance(report, m.Report)
        runs.append(report.sites[0].run)
    return runs


async def test_a_hundred_runs_over_five_lives_of_a_site_replay_to_the_same_answers(
    tmp_path: Path,
) -> None:
    configuration = write_configuration(tmp_path, "[site.agents]\ncpu_s_per_minute = 600.0")
    runs: list[str] = []
    for life in range(LIVES):
        with SiteProcess(configuration) as site:
            async with connected(site.url) as (broker, _):
                first = life * RUNS_PER_LIFE
                runs += await visits(broker, range(first, first + RUNS_PER_LIFE))
            assert site.stop() == 0
    with SiteProcess(configuration) as site:
        kept = []
        for number, run in enumerate(runs):
            async with kalends.connect(site.url, user=f"user{number % 7}") as owner:
                kept.append(records.decode((await owner.agent_run(run)).record))
        assert site.stop() == 0
    assert len({record.number for record in kept}) == LIVES * RUNS_PER_LIFE
    assert {record.code for record in kept} == {"ok", "agent-error", "bad-result", "limit-steps"}
    for _ in range(2):
        sandbox = await Sandbox.start(SandboxLimits(cpu_s_per_minute=600.0, wall_s_max=60.0))
        try:
            replayed = [await records.replay(record, sandbox) for record in kept]
        finally:
            await sandbox.close()
        assert [each.detail for each in replayed if not each.same] == []
