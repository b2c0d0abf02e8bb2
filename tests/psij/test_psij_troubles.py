"""What goes wrong between PSI/J and a site: nothing is lost, nothing runs twice, and it is said plainly."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import kalends
from kalends.contract.job_calls import JobView
from kalends_psij import KalendsExecutorConfig
from psij import (
    InvalidJobException,
    Job,
    JobAttributes,
    JobExecutor,
    JobSpec,
    JobState,
    ResourceSpecV1,
    SubmitException,
)
from tests.processes.cut_line import cut_line
from tests.processes.facility import broker_text, write
from tests.processes.laboratory import MACHINE
from tests.processes.servers import Server, until
from tests.support.ports import free_urls

from .psij_user import PsijUser, active, beside, over


async def test_a_job_counts_once_however_often_its_answer_is_lost(ann: PsijUser) -> None:
    async with cut_line(ann.laboratory.site.url) as line:
        executor = ann.executor(line.url)
        assert await beside(executor.list) == []
        # Each try of the client, after its first, takes two: its HTTP library tries again by itself.
        line.answers_to_lose = 13
        job = await ann.submitted(ann.marking(), executor)
        assert line.answers_to_lose == 0, "more than the client tries by itself"
        assert (await over(job)).state == JobState.COMPLETED
    assert ann.laboratory.marked() == {"begin 1": 1, "end 1": 1}


async def test_jobs_go_on_over_a_lost_line_and_the_death_of_their_site(ann: PsijUser) -> None:
    async with cut_line(ann.laboratory.site.url) as line:
        executor = ann.executor(line.url)
        jobs = [await ann.submitted(ann.marking(1), executor) for _ in range(3)]
        waits = ann.marking(resources=ResourceSpecV1(node_count=4))
        jobs.append(await ann.submitted(waits, executor))
        await active(jobs[0])
        line.cut()
        await ann.laboratory.site.kill()
        await asyncio.gather(ann.laboratory.site.start(), *map(over, jobs))
        assert [job.status.state for job in jobs] == [JobState.COMPLETED] * 4
    assert set(ann.laboratory.marked().values()) == {1}


async def test_a_submission_that_failed_can_be_made_again_with_the_same_job(ann: PsijUser) -> None:
    executor = ann.executor()
    await ann.laboratory.site.stop()
    job = Job(ann.marking())
    with pytest.raises(SubmitException, match="no answer") as failed:
        await beside(executor.submit, job)
    assert failed.value.transient
    assert (job.status.state, job.executor, job.native_id) == (JobState.NEW, None, None)
    await ann.laboratory.site.start()
    await beside(executor.submit, job)
    assert (await over(job)).state == JobState.COMPLETED
    assert set(ann.laboratory.marked().values()) == {1}


async def test_many_threads_share_one_executor(ann: PsijUser) -> None:
    executor = ann.executor()
    jobs = [Job(ann.spec("true")) for _ in range(24)]
    await asyncio.gather(*(beside(executor.submit, job) for job in jobs))
    assert len({job.native_id for job in jobs}) == 24
    statuses = await asyncio.gather(*map(over, jobs))
    assert {status.state for status in statuses} == {JobState.COMPLETED}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (JobSpec(), "executable: nothing to run"),
        (JobSpec("true", launcher="rocket"), 'No such launcher "rocket"'),
        (JobSpec("true", resources=ResourceSpecV1(gpu_cores_per_process=1)), "GPUs"),
        (JobSpec("true", resources=ResourceSpecV1(cpu_cores_per_process=2)), "give node_count"),
        (
            JobSpec("true", resources=ResourceSpecV1(node_count=5)),
            "^nodes: 5 nodes can never be free",
        ),
        (JobSpec("true", attributes=JobAttributes(queue_name="lab/mill")), "no machine lab/mill"),
        (JobSpec("true", attributes=JobAttributes(queue_name="mill")), "write site/name"),
        (
            JobSpec("true", attributes=JobAttributes(custom_attributes={"kalends.prio": "high"})),
            "^kalends.prio: there is no such attribute",
        ),
        (
            JobSpec("true", attributes=JobAttributes(custom_attributes={"kalends.held": "yes"})),
            "'yes' is not True or False",
        ),
        (JobSpec("true", attributes=JobAttributes(reservation_id="mine")), "not the full id"),
    ],
)
async def test_a_job_that_can_never_be_right_is_refused_in_words(
    ann: PsijUser, spec: JobSpec, said: str
) -> None:
    job = Job(spec)
    with pytest.raises(InvalidJobException, match=said):
        await beside(ann.executor().submit, job)
    assert job.status.state == JobState.NEW


async def test_nobody_can_have_the_job_of_somebody_else(ann: PsijUser) -> None:
    job = await ann.submitted(ann.marking(60))
    eve = ann.executor(user="eve")
    assert await beside(eve.list) == []
    with pytest.raises(SubmitException, match="not yours"):
        await beside(eve.attach, Job(), str(job.native_id))
    with pytest.raises(SubmitException, match="'17x' is not a job"):
        await beside(eve.attach, Job(), "17x")
    with pytest.raises(SubmitException, match="has no job 99"):
        await beside(eve.attach, Job(), f"{MACHINE}/99")
    with pytest.raises(SubmitException, match="has not been submitted"):
        ann.executor().cancel(Job(ann.marking()))
    await beside(job.cancel)
    assert (await over(job)).state == JobState.CANCELED


async def test_launchers_that_cannot_be_written_are_no_fault_of_the_job(ann: PsijUser) -> None:
    ann.work.write_text("a file in the place of the folder")
    with pytest.raises(SubmitException, match="work"):
        await ann.submitted(ann.marking())


def test_an_address_a_machine_or_a_token_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    for url, config in (
        ("lab.example", KalendsExecutorConfig()),
        ("http://lab.example:7101/box", KalendsExecutorConfig()),
        ("http://lab.example:7101", KalendsExecutorConfig(token_file=str(tmp_path / "none"))),
    ):
        with pytest.raises(ValueError, match=r"\(.+\)$"):
            JobExecutor.get_instance("kalends", url=url, config=config)


async def test_jobs_run_in_what_was_reserved_by_way_of_the_broker(
    ann: PsijUser, tmp_path: Path
) -> None:
    (url,) = free_urls(1)
    text = broker_text(url, {"lab": ann.laboratory.site.url})
    broker = Server("broker", write(tmp_path / "broker.toml", text), url)
    await broker.start()
    try:
        async with kalends.connect(url, user="ann", zone="UTC") as booker:

            async def offered() -> bool:
                return bool((await booker.resources()).resources)

            await until(offered, "the site is known")
            booked = await booker.book(f"{MACHINE}:4", duration="60s", window=("now", "now+1h"))
            attributes = JobAttributes(reservation_id=booked.id)
            attributes.duration = None  # type: ignore[assignment]  # PSI/J's way to say nothing of it
            spec = ann.marking(resources=ResourceSpecV1(node_count=2), attributes=attributes)
            job = await ann.submitted(spec, ann.executor(url))
            assert (await over(job)).state == JobState.COMPLETED
            view = await _view(ann)
            assert (view.reservation, view.nodes) == (booked.id, 2)
            assert view.started >= booked.claims[0].start > time.time() - 120
    finally:
        await broker.stop()


async def _view(ann: PsijUser) -> JobView:
    async with ann.laboratory.client() as client:
        return await client.job(MACHINE, 1)
