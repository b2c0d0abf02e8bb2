"""The state of a queue is made by its follower and stored by the site, and a restart goes on from it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from pathlib import Path

import msgspec
import pytest
from store_support import store_facts

import kalends
from kalends.batch.follower import FACTS_A_STATE, Foreseen
from kalends.batch.forecast import Forecaster
from kalends.batch.journal.contract import JobEntries, StoredState
from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal, job_journal_at
from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue_states import usable_state
from kalends.core.errors import Unavailable
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.serving.child_frames import framed, frames
from kalends.serving.configuration import StorePlace
from kalends.serving.logs import get_logger
from tests.support.job_folders import folder_of_jobs
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
    store_facts(store, [JobEntries(MACHINE, facts)], 1)
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
    answers = [msgspec.msgpack.decode(each, type=Foreseen) for each in frames(BytesIO(done.stdout))]
    return answers, done.stderr


def again(store: SiteStore) -> tuple[BatchQueue, int]:
    journal = SqliteJobJournal(store.file.connection)
    known = usable_state(journal, MACHINE)
    number = known.number if known is not None else 0
    entries = journal.entries_after(MACHINE, number)
    return BatchQueue(MACHINE, TERMS, 0, entries, known=known), number


def kept(store: SiteStore) -> StoredState:
    """Store the state that a follower makes, as the site does."""
    (said,), _ = asked(store, "state")
    assert said.state is not None
    store_facts(store, [said.state], 1)
    return said.state


def test_a_restart_goes_on_from_the_state_that_the_follower_has_made(store: SiteStore) -> None:
    whole, number = again(store)
    assert number == 0
    (said, later), stderr = asked(store, "state", "state")
    assert (said.known, later.known, stderr) == (FACTS_A_STATE, whole.number, b"")
    assert said.state is not None
    store_facts(store, [said.state], 1)
    short, number = again(store)
    assert number == FACTS_A_STATE
    assert short.number == whole.number
    assert [job.nodes for job in short.flow.table] == [job.nodes for job in whole.flow.table]
    assert short.flow.table.submissions == whole.flow.table.submissions


def test_a_state_of_another_journal_is_not_used(store: SiteStore) -> None:
    kept(store)
    store.file.connection.execute(
        "update job_entry set now = now + 1 where number > ?", (FACTS_A_STATE - 10,)
    )
    assert again(store)[1] == 0
    store.file.connection.execute("delete from job_entry where number > 100")
    assert again(store)[1] == 0


def test_a_damaged_state_and_one_of_another_program_are_not_used(store: SiteStore) -> None:
    whole = kept(store)
    body = whole.body
    for spoilt in (b"", body[: len(body) // 2], body[:-1] + bytes([body[-1] ^ 1])):
        store_facts(store, [msgspec.structs.replace(whole, body=spoilt)], 1)
        assert again(store)[1] == 0
    store_facts(store, [msgspec.structs.replace(whole, made_by="another")], 1)
    assert again(store)[1] == 0
    store_facts(store, [whole], 1)
    assert again(store)[1] == FACTS_A_STATE


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
    forecaster = Forecaster(
        StorePlace(store.file.path), [MACHINE], get_logger(role="site", name="lab")
    )
    await forecaster.foreseen("gaps", MACHINE, 1, PATIENCE_S)
    asking = asyncio.create_task(forecaster.state(MACHINE))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert len((await forecaster.delays(MACHINE, [(10**6, 10**6 + 1, 1)])).delays) == 1
    await forecaster.close()


async def test_a_site_that_is_killed_goes_on_from_the_state_with_its_keys_and_numbers() -> None:
    with folder_of_jobs("kalends-jobs-") as directory:
        laboratory = Laboratory(Path(directory))
        path = Path(directory, "lab.sqlite")

        async def kept() -> bool:
            with job_journal_at(path) as journal:
                return journal.state(MACHINE) is not None

        filled(path, set()).close()
        async for _ in opened(laboratory):
            assert restored(laboratory)["kept"] == 0
            async with laboratory.client() as client:
                await until(gaps_of(client), "the gaps are known")
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


def gaps_of(client: kalends.Client) -> Callable[[], Awaitable[bool]]:
    """A slow machine may need more than one call for them."""

    async def known() -> bool:
        try:
            await client.machine_gaps(MACHINE)
        except Unavailable:
            return False
        return True

    return known


def restored(laboratory: Laboratory) -> dict[str, int]:
    """Return what the site has said last of how it was made again."""
    lines = [line for line in laboratory.site.log().splitlines() if '"queue_restored"' in line]
    said: dict[str, int] = json.loads(lines[-1])
    return said
