"""A site whose store is older than its jobs: restored from a copy, or begun anew. And who may read it."""

from __future__ import annotations

from pathlib import Path

import kalends
from kalends.resource_servers.journal.sqlite.site_store import KIND
from kalends.stores.sqlite.maintenance import backup, reconcile

from .laboratory import MACHINE, Laboratory, laboratory
from .servers import until

__all__ = ["laboratory"]


def store_of(laboratory: Laboratory) -> Path:
    return laboratory.marks.with_name("lab.sqlite")


def remove_store(laboratory: Laboratory, *, and_its_epoch: bool) -> None:
    store = store_of(laboratory)
    for end in ("", "-wal", "-shm", *((".epoch",) if and_its_epoch else ())):
        store.with_name(store.name + end).unlink(missing_ok=True)


async def leave_one_running_and_one_over(
    laboratory: Laboratory, client: kalends.Client
) -> tuple[int, int]:
    """Return their numbers; the first has written, and the second notes its process."""
    over = (await client.submit(laboratory.job("echo of the forgotten"))).job.job
    await laboratory.over(client, over)
    running = (await client.submit(laboratory.job("echo $$ > pid; exec sleep 600"))).job.job
    path = laboratory.marks / "pid"

    async def noted() -> bool:
        return path.exists() and path.read_text() != ""

    await until(noted, "it runs")
    return over, running


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


async def all_is_as_if_they_had_never_been(laboratory: Laboratory, forgotten: int) -> None:
    """What ran has ended; a new job has a number of its own, runs, and shows its own output."""
    process = int((laboratory.marks / "pid").read_text())

    async def gone() -> bool:
        return not alive(process)

    await until(gone, "the forgotten job has ended")
    async with laboratory.client() as client:
        number = (await client.submit(laboratory.job("echo of the new one"))).job.job
        assert number > forgotten
        assert (await laboratory.over(client, number)).end == "exit"
        assert (await client.job_output(MACHINE, number)).data == b"of the new one\n"


async def test_jobs_that_a_restored_store_does_not_know_are_ended_and_mistaken_for_no_others(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    store, copy = store_of(laboratory), tmp_path / "copy"
    async with laboratory.client() as client:
        known = (await client.submit(laboratory.marking(0))).job.job
        await laboratory.over(client, known)
        backup(store, copy, [KIND])
        _, last = await leave_one_running_and_one_over(laboratory, client)
    await laboratory.site.stop()
    remove_store(laboratory, and_its_epoch=False)
    copy.rename(store)
    reconcile(store, [KIND])
    await laboratory.site.start()
    await all_is_as_if_they_had_never_been(laboratory, last)
    async with laboratory.client() as client:
        assert (await client.job(MACHINE, known)).end == "exit"
        alarms = "\n".join((await client.audit()).problems)
    assert f"that are missing in the store, because it is older than they are: {last}" in alarms


async def test_jobs_that_began_after_the_store_was_copied_begin_again_only_if_that_does_no_harm(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    store, copy = store_of(laboratory), tmp_path / "copy"
    waits = "echo $KALENDS_JOB.$KALENDS_ATTEMPT >> begun; until test -e go; do sleep 0.1; done"

    def begun() -> list[str]:
        path = laboratory.marks / "begun"
        return path.read_text().split() if path.exists() else []

    async with laboratory.client() as client:
        first = (await client.submit(laboratory.job("sleep 600", nodes=4))).job.job
        once = (await client.submit(laboratory.job(waits, nodes=2))).job.job
        again = (await client.submit(laboratory.job(waits, nodes=2, rerun=True))).job.job
        backup(store, copy, [KIND])
        await client.kill_job(MACHINE, first)

        async def both() -> bool:
            return sorted(begun()) == [f"{once}.1", f"{again}.1"]

        await until(both, "both have begun")
    await laboratory.site.stop()
    remove_store(laboratory, and_its_epoch=False)
    copy.rename(store)
    reconcile(store, [KIND])
    await laboratory.site.start()
    async with laboratory.client() as client:
        over = await laboratory.over(client, once)
        assert (over.end, over.phase) == ("withdrawn", "withdrawn")
        assert "after the backup was made" in over.detail

        async def a_second_time() -> bool:
            return f"{again}.2" in begun()

        await until(a_second_time, "the other one begins again")
        (laboratory.marks / "go").touch()
        assert (await laboratory.over(client, again)).end == "exit"
    assert sorted(begun()) == [f"{once}.1", f"{again}.1", f"{again}.2"]


async def test_a_store_that_is_begun_anew_beside_old_jobs_mistakes_them_for_no_new_ones(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        _, last = await leave_one_running_and_one_over(laboratory, client)
    await laboratory.site.stop()
    remove_store(laboratory, and_its_epoch=True)
    await laboratory.site.start()
    await all_is_as_if_they_had_never_been(laboratory, last)


async def test_nobody_else_on_the_host_can_read_what_users_ask_for(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        request = laboratory.marking(0, environment={"PASSWORD": "hunter2"})
        await laboratory.over(client, (await client.submit(request)).job.job)
    top = laboratory.marks.parent
    stores = [
        path for path in top.iterdir() if path.suffix in (".sqlite", ".runs") or "-" in path.name
    ]
    assert len(stores) == 6
    for path in (*stores, top / "jobs" / "shepherds.log"):
        assert not path.stat().st_mode & 0o077, path


async def test_a_job_whose_record_was_removed_is_told_as_lost_and_leaves_nothing(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        _, _ = await leave_one_running_and_one_over(laboratory, client)
        (running,) = [each.job for each in (await client.jobs(MACHINE)).jobs]
    await laboratory.site.stop()
    (laboratory.marks.with_name("jobs") / "jobs" / f"{running}.1").unlink()
    await laboratory.site.start()
    async with laboratory.client() as client:
        over = await laboratory.over(client, running)
        assert (over.end, over.detail) == ("lost", "the record of its end was removed")
    assert not alive(int((laboratory.marks / "pid").read_text()))
