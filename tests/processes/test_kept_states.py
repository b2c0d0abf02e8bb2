"""The state of a queue is kept by its follower, in a file that a restart goes on from."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from kalends.batch.follower import FACTS_A_STATE, Foreseen
from kalends.batch.forecast import Forecaster
from kalends.batch.journal.job_journal import JobEntries, entries_after
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.state_files import load_state, state_path
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.journal.site_store import SiteStore
from kalends.serving.child_frames import framed, frames
from kalends.serving.logs import get_logger
from tests.support.patience import PATIENCE_S

from .laboratory import Laboratory, opened
from .servers import until

MACHINE = "lab/box"
TERMS = f.Terms(machine="pool:4")


def worked(queue: BatchQueue, until: int, left: set[int]) -> tuple[f.JournalEntry, ...]:
    """Run jobs until fact `until`, all to their end but those `left`; return all facts."""
    while queue.number < until:
        now = queue.last_s + 3
        request = JobRequest(machine=MACHINE, command=("x",), limit_s=20)
        queue.submit(Principal("ann"), request, f"key-{queue.number:06}", now)
        effects = queue.flow.effects
        for each in [each for each in effects.actions if isinstance(each, Start)]:
            effects.actions.remove(each)
            queue.begun(each.job.number, 1, now)
            if each.job.number not in left:
                queue.ended(each.job.number, 1, f.JobEnding(kind="exit"), now + 1)
    return tuple(queue.take_effects().entries)


def filled(path: Path, left: set[int]) -> SiteStore:
    store = SiteStore.open(path, "lab", sync="off")
    facts = worked(BatchQueue(MACHINE, TERMS, 1_000), FACTS_A_STATE + 500, left)
    store.file.connection.execute("begin")
    store.carry_out(store.file.connection, [JobEntries(MACHINE, facts)], 1)
    store.file.connection.execute("commit")
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SiteStore]:
    store = filled(tmp_path / "lab.sqlite", {1_000, 2_000, 6_600})
    yield store
    store.close()


def asked(store: SiteStore, *questions: str) -> tuple[list[Foreseen], bytes]:
    """Return the answers of a follower of its own, and what it has complained of."""
    asking = b"".join(framed(f"{question} {MACHINE}".encode()) for question in questions)
    command = [sys.executable, "-m", "kalends.batch.follower", str(store.file.path)]
    done = subprocess.run(
        command, input=asking, capture_output=True, timeout=PATIENCE_S, check=True
    )
    answers = [msgspec.json.decode(each, type=Foreseen) for each in frames(BytesIO(done.stdout))]
    return answers, done.stderr


def again(store: SiteStore) -> tuple[BatchQueue, int]:
    connection = store.file.connection
    known = load_state(store.file.path, connection, MACHINE)
    number = known.number if known is not None else 0
    entries = entries_after(connection, MACHINE, number)
    return BatchQueue(MACHINE, TERMS, 0, entries, known=known), number


def test_a_restart_goes_on_from_the_state_that_the_follower_has_kept(store: SiteStore) -> None:
    whole, number = again(store)
    assert number == 0
    (said, _), stderr = asked(store, "state", "starts")
    assert (said.known, stderr) == (FACTS_A_STATE, b"")
    short, number = again(store)
    assert number == FACTS_A_STATE
    assert short.number == whole.number
    assert [job.nodes for job in short.flow.table] == [job.nodes for job in whole.flow.table]
    assert short.flow.table.submissions == whole.flow.table.submissions
    assert state_path(store.file.path, MACHINE).stat().st_mode & 0o077 == 0


def test_a_state_of_another_journal_is_not_used(store: SiteStore) -> None:
    asked(store, "state")
    store.file.connection.execute(
        "update job_entry set now = now + 1 where number > ?", (FACTS_A_STATE - 10,)
    )
    assert again(store)[1] == 0
    store.file.connection.execute("delete from job_entry where number > 100")
    assert again(store)[1] == 0


def test_a_torn_or_damaged_file_is_not_used(store: SiteStore) -> None:
    asked(store, "state")
    path = state_path(store.file.path, MACHINE)
    whole = path.read_bytes()
    for body in (b"", whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(body)
        assert again(store)[1] == 0


def test_a_follower_that_cannot_write_says_so_and_answers_all_the_same(store: SiteStore) -> None:
    path = state_path(store.file.path, MACHINE)
    path.with_name(f".{path.name}.new").mkdir()
    (kept, gaps), stderr = asked(store, "state", "gaps")
    assert "cannot be kept" in kept.error
    assert (gaps.error, stderr) == ("", b"")
    assert gaps.known == again(store)[0].number
    assert not path.exists()


def test_a_follower_whose_server_was_killed_ends_without_a_word(store: SiteStore) -> None:
    command = [sys.executable, "-m", "kalends.batch.follower", str(store.file.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as follower:
        assert follower.stdin is not None
        assert follower.stdout is not None
        assert follower.stderr is not None
        follower.stdout.close()
        follower.stdin.write(2 * framed(f"gaps {MACHINE}".encode()) + b"cut")
        follower.stdin.close()
        assert follower.stderr.read() == b""
        assert follower.wait(PATIENCE_S) == 0


async def test_an_answer_that_came_too_late_for_its_question_answers_no_other(
    store: SiteStore,
) -> None:
    forecaster = Forecaster(store.file.path, [MACHINE], get_logger(role="site", name="lab"))
    await forecaster.foreseen("gaps", MACHINE, 1, PATIENCE_S)
    asking = asyncio.create_task(forecaster.keep_state(MACHINE))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert len((await forecaster.delays(MACHINE, [(10**6, 10**6 + 1, 1)])).delays) == 1
    await forecaster.close()


async def test_a_site_that_is_killed_goes_on_from_the_state_with_its_keys_and_numbers() -> None:
    with tempfile.TemporaryDirectory(prefix="kalends-jobs-") as directory:
        laboratory = Laboratory(Path(directory))
        path = state_path(Path(directory, "lab.sqlite"), MACHINE)

        async def kept() -> bool:
            return path.exists()

        filled(Path(directory, "lab.sqlite"), set()).close()
        async for _ in opened(laboratory):
            assert restored(laboratory)["kept"] == 0
            async with laboratory.client() as client:
                await client.machine_gaps(MACHINE)
                request = laboratory.marking(0.1)
                first = (await client.submit(request, key="before-the-kill")).job.job
                await laboratory.over(client, first)
                await until(kept, "the state is kept")
                await laboratory.site.kill()
                await laboratory.site.start()
                assert restored(laboratory)["kept"] >= FACTS_A_STATE
                again = await client.submit(request, key="before-the-kill")
                assert again.job.job == first
                second = (await client.submit(request, key="after-the-kill")).job.job
                assert second == first + 1
                await laboratory.over(client, second)
            assert set(laboratory.marked().values()) == {1}


def restored(laboratory: Laboratory) -> dict[str, int]:
    """Return what the site has said last of how it was made again."""
    lines = [line for line in laboratory.site.log().splitlines() if '"queue_restored"' in line]
    said: dict[str, int] = json.loads(lines[-1])
    return said
