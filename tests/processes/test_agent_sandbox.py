"""The sandbox with real processes: limits, fairness, zygotes that die, and nothing left at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from kalends.agents.sandbox import (
    NoEngine,
    Sandbox,
    SandboxUnavailable,
    engine_for,
)
from kalends.agents.sandbox.sandbox import Language

from .sandboxes import (
    AMPLE,
    ANYTHING,
    HONEST,
    choosing,
    descriptors,
    job,
    processes,
    sandbox,
    zygote,
)
from .servers import until

ROOT: Final = Path(__file__).parents[2]


async def test_an_honest_script_of_the_language_is_checked_and_run() -> None:
    async with sandbox(language=None) as box:
        checked = await box.check(HONEST, "ada")
        assert (checked.code, checked.functions) == ("ok", ("choose",))
        outcome = await box.run(job(HONEST))
        assert (outcome.code, outcome.answer, outcome.engine) == ("ok", [1, 2, 3], box.engine)
        assert outcome.cost.cpu_us > 0
        rejected = await box.check("import os\n", "ada")
        assert rejected.code == "rejected"
        assert rejected.violations


async def test_a_script_that_was_never_checked_is_checked_before_it_runs() -> None:
    async with sandbox(language=None) as box:
        outcome = await box.run(job("import os\n" + HONEST))
        assert outcome.code == "rejected"
        assert outcome.violations
        assert outcome.answer is None


async def test_fifty_runs_at_once_all_have_their_own_answer() -> None:
    source = choosing("return view")
    async with sandbox() as box:
        outcomes = await asyncio.gather(
            *(box.run(job(source, number, {}, user=f"user {number % 7}")) for number in range(50))
        )
    assert [outcome.code for outcome in outcomes] == ["ok"] * 50
    assert [outcome.answer for outcome in outcomes] == list(range(50))


async def test_a_worker_is_never_used_twice() -> None:
    source = "import sys\n" + choosing(
        "seen = getattr(sys, 'been_here', 0)", "sys.been_here = 1", "return seen"
    )
    async with sandbox() as box:
        assert [(await box.run(job(source))).answer for _ in range(20)] == [0] * 20


async def test_a_worker_has_nothing_of_the_servers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KALENDS_SECRET", "hush")
    async with sandbox() as box:
        seen = await box.run(job(choosing("return sorted(os.environ)")))
    assert seen.code == "ok"
    assert set(seen.answer) <= {"PYTHONHASHSEED", "PYTHONUTF8", "LC_CTYPE", "LD_LIBRARY_PATH"}


def test_a_worker_has_one_descriptor_whatever_was_open_before() -> None:
    kept = subprocess.run([sys.executable, "-c", KEEP_ONLY], capture_output=True, check=True)
    assert kept.stdout == b"['3']"


KEEP_ONLY: Final = """
import os
from kalends.agents.sandbox.lockdown import keep_only

listing = os.open("/proc/self/fd", os.O_RDONLY)
for _ in range(50):
    os.dup(2)
channel = os.dup(1)
os.dup2(channel, 300)
keep_only(channel)
# To list what is open takes one more, which is not listed by its own name again.
found = sorted(set(os.listdir("/proc/self/fd")) - {"0"})
os.write(3, str(found).encode())
"""


async def test_neither_zygote_nor_workers_are_ever_root() -> None:
    async with sandbox() as box:
        await box.run(job(HONEST))
        users = {pid: users_of(pid) for pid in processes()}
        assert users[await zygote()]
    assert all("0" not in of_one for of_one in users.values())


def users_of(pid: int) -> list[str]:
    """Real, effective, saved and file system user of a process; none when it has just ended."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    return []


async def test_an_attack_is_told_and_its_user_suspended_and_no_one_else() -> None:
    told: list[tuple[str, str]] = []
    async with sandbox(alerted=lambda user, detail: told.append((user, detail))) as box:
        attack = await box.run(job(choosing("os.fork()"), user="eve"))
        assert attack.code == "policy-violation"
        assert [user for user, _ in told] == ["eve"]
        again = await box.run(job(HONEST, user="eve"))
        assert again.code == "policy-violation"
        assert "not run" in again.detail
        assert (await box.check(HONEST, "eve")).code == "policy-violation"
        assert (await box.run(job(HONEST, user="ada"))).code == "ok"
        assert len(told) == 1


async def test_a_user_who_has_used_up_their_budget_waits_and_no_one_else() -> None:
    limits = AMPLE._replace(cpu_s_per_minute=0.2, cpu_s_max=0.3)
    async with sandbox(limits) as box:
        assert (await box.run(job(choosing("while True: pass"), user="eve"))).code == "limit-cpu"
        refused = await box.run(job(HONEST, user="eve"))
        assert refused.code == "busy"
        assert "try again in" in refused.detail
        assert (await box.run(job(HONEST, user="ada"))).code == "ok"


async def test_the_queue_is_bounded_for_each_user() -> None:
    limits = AMPLE._replace(waiting_per_user_max=3, running_max=1, cpu_s_max=0.3)
    async with sandbox(limits) as box:
        for user in ("ada", "eve"):
            await box.check(HONEST, user)
        # The first runs to its limit, so that nobody's place is free before all have asked for one.
        outcomes = await asyncio.gather(
            box.run(job(choosing("while True: pass"), user="eve")),
            *(box.run(job(HONEST, user="eve")) for _ in range(9)),
            box.run(job(HONEST)),
        )
    codes = [outcome.code for outcome in outcomes]
    assert codes[0] == "limit-cpu"
    assert sorted(codes[1:-1]) == ["busy"] * 6 + ["ok"] * 3
    assert codes[-1] == "ok"


async def test_who_gives_up_waiting_leaves_the_place_to_others() -> None:
    limits = AMPLE._replace(running_max=1)
    async with sandbox(limits) as box:
        await box.check(HONEST, "ada")
        slow = asyncio.create_task(box.run(job(choosing("while True: pass"), user="slow")))
        await until(lambda: _ready(box), "the slow one runs")
        waiting = [asyncio.create_task(box.run(job(HONEST, user=f"u{n}"))) for n in range(5)]
        await asyncio.sleep(0)  # Lets each do its first step, in which it begins to wait.
        for task in waiting[:4]:
            task.cancel()
        assert (await slow).code == "limit-cpu"
        assert (await waiting[4]).code == "ok"
        assert (await box.run(job(HONEST))).code == "ok"


async def test_a_caller_that_goes_away_takes_its_worker_with_it() -> None:
    async with sandbox(AMPLE._replace(spares=1)) as box:
        asking = asyncio.create_task(box.run(job(choosing("os.read(3, 1)"))))
        await until(lambda: _ready(box), "the run has begun")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await box.run(job(HONEST))).code == "ok"
        assert box.running == 0


async def _ready(box: Sandbox) -> bool:
    return box.running > 0


async def test_a_zygote_that_is_killed_is_replaced_and_no_job_is_lost() -> None:
    async with sandbox() as box:
        await box.check(HONEST, "ada")
        for _ in range(3):
            running = [
                asyncio.create_task(box.run(job(HONEST, user=f"user {number % 5}")))
                for number in range(40)
            ]
            await running[3]
            with contextlib.suppress(ProcessLookupError):
                os.kill(await zygote(), signal.SIGKILL)
            assert {outcome.code for outcome in await asyncio.gather(*running)} == {"ok"}


async def test_a_zygote_is_replaced_before_it_is_old_and_no_job_notices() -> None:
    limits = AMPLE._replace(zygote_workers_max=20)
    async with sandbox(limits) as box:
        first = await zygote()
        outcomes = await asyncio.gather(
            *(box.run(job(HONEST, user=f"user {number % 5}")) for number in range(100))
        )

        async def replaced() -> bool:
            return [pid for pid, parent in processes().items() if parent == os.getpid()] != [first]

        await until(replaced, "another zygote serves")
    assert {outcome.code for outcome in outcomes} == {"ok"}


async def test_spares_that_die_are_replaced() -> None:
    async with sandbox() as box:
        for pid, parent in processes().items():
            if parent != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*(box.run(job(HONEST)) for _ in range(8)))
    assert {outcome.code for outcome in outcomes} == {"ok"}


async def test_closing_leaves_no_process_and_no_descriptor_and_ends_runs_as_killed() -> None:
    before = descriptors()
    box = await Sandbox.start(AMPLE._replace(running_max=2), language=ANYTHING)
    runs = [asyncio.create_task(box.run(job(choosing("os.read(3, 1)")))) for _ in range(6)]
    await until(lambda: _ready(box), "runs have begun")
    await box.close()
    outcomes = await asyncio.gather(*runs)
    assert [outcome.code for outcome in outcomes] == ["killed"] * 6
    assert processes() == {}
    assert descriptors() == before
    assert (await box.run(job(HONEST))).code == "killed"
    await box.close()


async def test_closing_while_a_zygote_gets_ready_leaves_no_process_and_no_descriptor() -> None:
    before = descriptors()
    async with sandbox() as box:
        first = await zygote()
        os.kill(first, signal.SIGKILL)

        async def succeeded() -> bool:
            return set(processes().values()) == {os.getpid()} and first not in processes()

        await until(succeeded, "another zygote has been started")
        assert box.running == 0
    assert not processes()
    assert descriptors() == before


async def test_a_host_without_descriptors_runs_scripts_again_once_it_has_some() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with sandbox(AMPLE._replace(wait_s_max=1.0)) as box:
        first = await zygote()
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            os.kill(first, signal.SIGKILL)
            assert (await box.run(job(HONEST))).code == "busy"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        async def runs() -> bool:
            return (await box.run(job(HONEST))).code == "ok"

        await until(runs, "scripts are run again")
    assert not processes()


async def test_all_processes_end_with_a_host_that_is_killed() -> None:
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert host.stdout is not None
        line = await host.stdout.readline()
        pids = [int(word) for word in line.split()]
        assert len(pids) > 1
    finally:
        host.kill()
        await host.wait()

    async def gone() -> bool:
        return not any(_alive(pid) for pid in pids)

    await until(gone, "zygote and workers are gone")


HOST: Final = """
import asyncio, os
from kalends.agents.sandbox import Sandbox
from tests.processes.sandboxes import processes
from tests.processes.servers import until

async def all_of_them():
    return len(found := processes()) > 1 and found

async def main():
    await Sandbox.start()
    print(*await until(all_of_them, "spares are made"), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_language_that_does_not_load_is_said_in_words_and_leaves_nothing() -> None:
    before = descriptors()
    with pytest.raises(SandboxUnavailable, match="no_such_module"):
        await Sandbox.start(AMPLE, language=Language("no_such_module:perform", "no:ENGINE"))
    assert processes() == {}
    assert descriptors() == before


async def test_a_wall_without_a_filter_is_noticed_before_anything_runs() -> None:
    with pytest.raises(SandboxUnavailable, match="not in force"):
        await Sandbox.start(AMPLE, language=Language(
            "tests.processes.without_filter:perform", "tests.processes.without_filter:ENGINE"
        ))  # fmt: skip
    assert processes() == {}


class Settings(NamedTuple):
    enabled: bool = True
    language_only: bool = False
    steps_max: int = 100_000
    cpu_s_max: float = 0.5
    wall_s_max: float = 5.0
    memory_mb_max: int = 96
    cpu_s_per_minute: float = 10.0


async def test_the_engine_is_the_one_that_the_configuration_names() -> None:
    engine = await engine_for(Settings())
    assert isinstance(engine, Sandbox)
    await engine.close()
    off = await engine_for(Settings(enabled=False))
    assert isinstance(off, NoEngine)
    assert (await off.run(job(HONEST))).code == "sandbox-unavailable"
    assert (await off.check(HONEST, "ada")).detail == off.detail
    alone = await engine_for(Settings(language_only=True))
    assert (await alone.run(job(HONEST))).answer == [1, 2, 3]
    await alone.close()
