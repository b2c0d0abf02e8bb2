"""Jobs that are submitted by PSI/J to a real site: what they are, and what is told of them."""

from __future__ import annotations

from datetime import timedelta
from os.path import exists

import pytest

from psij import Job, JobAttributes, JobSpec, JobState, JobStatus, ResourceSpecV1
from tests.processes.laboratory import MACHINE

from .psij_user import PsijUser, active, beside, over


async def test_a_job_runs_as_its_specification_says(
    ann: PsijUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPORTED", "yes")
    monkeypatch.setenv("KEPT", "no")
    (ann.marks / "in").write_text("asked\n")
    said = "cat; echo $GREETING $EXPORTED $KEPT $KALENDS_PROJECT; pwd; echo $0 >&2; exit 7"
    spec = JobSpec(
        "/bin/sh", ["-c", said, "an argument; 'quoted'"], directory=ann.marks, name="solver",
        environment={"GREETING": "hello"}, stdin_path=ann.marks / "in",
        stdout_path=ann.marks / "out", stderr_path=ann.marks / "err",
        resources=ResourceSpecV1(node_count=2),
        attributes=JobAttributes(duration=timedelta(seconds=59.2), account="dna"),
    )  # fmt: skip
    job = await ann.submitted(spec, ann.executor(export=["EXPORTED"]))
    assert job.native_id == f"{MACHINE}/1"
    status = await over(job)
    assert (status.state, status.exit_code, status.message) == (JobState.FAILED, 7, None)
    assert (ann.marks / "out").read_text() == f"asked\nhello yes dna\n{ann.marks}\n"
    assert (ann.marks / "err").read_text() == "an argument; 'quoted'\n"
    async with ann.laboratory.client() as client:
        view = await client.job(MACHINE, 1)
    assert (view.name, view.project, view.nodes, view.limit_s) == ("solver", "dna", 2, 60)
    assert status.time == view.over


async def test_every_state_is_told_once_and_in_order_to_job_and_executor(ann: PsijUser) -> None:
    executor = ann.executor()
    seen: list[tuple[str, JobState, str | None]] = []

    def note(who: str) -> object:
        return lambda job, status: seen.append((who, status.state, job.native_id))

    executor.set_job_status_callback(note("executor"))
    job = Job(ann.spec("true"))
    job.set_job_status_callback(note("job"))
    await beside(executor.submit, job)
    await over(job)
    while len(seen) < 6:
        await beside(job.wait)
    states = (JobState.QUEUED, JobState.ACTIVE, JobState.COMPLETED)
    told = [(who, state, f"{MACHINE}/1") for state in states for who in ("job", "executor")]
    assert seen == told


async def test_a_program_may_see_nothing_but_what_its_specification_gives_it(
    ann: PsijUser,
) -> None:
    spec = ann.spec("env > vars", inherit_environment=False, environment={"ONE": "1", "TWO": "2 3"})
    assert (await over(await ann.submitted(spec))).state == JobState.COMPLETED
    names = {line.partition("=")[0] for line in (ann.marks / "vars").read_text().splitlines()}
    assert names == {"ONE", "TWO", "PWD", "SHLVL", "_"}, "and what shells set for themselves"
    several = ann.spec(
        "wc -l < $PSIJ_NODEFILE > lines", inherit_environment=False,
        resources=ResourceSpecV1(process_count=3),
    )  # fmt: skip
    assert (await over(await ann.submitted(several))).state == JobState.COMPLETED
    assert (ann.marks / "lines").read_text() == "3\n"


async def test_what_is_cancelled_is_cancelled_whether_it_waits_or_runs(ann: PsijUser) -> None:
    executor = ann.executor()
    runs = await ann.submitted(ann.marking(60, resources=ResourceSpecV1(node_count=4)), executor)
    waits = await ann.submitted(ann.marking(), executor)
    await active(runs)
    assert waits.status.state == JobState.QUEUED
    await beside(waits.cancel)
    await beside(runs.cancel)
    assert (await over(runs)).state == (await over(waits)).state == JobState.CANCELED
    await beside(runs.cancel)
    assert dict(ann.laboratory.marked()) == {"begin 1": 1}


async def test_a_job_that_is_beyond_its_time_has_failed_and_says_so(ann: PsijUser) -> None:
    attributes = JobAttributes(duration=timedelta(seconds=1))
    status = await over(await ann.submitted(ann.spec("sleep 60", attributes=attributes)))
    assert status.state == JobState.FAILED
    assert (status.message or "").startswith("limit")


async def test_a_launcher_that_fails_is_told_from_a_program_that_fails(ann: PsijUser) -> None:
    missing = await over(await ann.submitted(ann.spec("exit 3", pre_launch="/no/such/script")))
    assert (missing.state, "/no/such/script" in (missing.message or "")) == (JobState.FAILED, True)
    failed = await over(await ann.submitted(ann.spec("exit 3")))
    assert (failed.exit_code, failed.message) == (3, None)


async def test_scripts_run_before_and_after_it(ann: PsijUser) -> None:
    before, after = ann.work.parent / "before.sh", ann.work.parent / "after.sh"
    before.write_text("export FOUND=before\n")
    after.write_text(f"echo after >> {ann.marks}/all\n")
    spec = ann.spec("echo $FOUND >> all", pre_launch=before, post_launch=after)
    assert (await over(await ann.submitted(spec))).state == JobState.COMPLETED
    assert (ann.marks / "all").read_text() == "before\nafter\n"


async def test_several_processes_have_a_file_of_nodes_that_is_gone_afterwards(
    ann: PsijUser,
) -> None:
    resources = ResourceSpecV1(node_count=2, processes_per_node=3)
    spec = ann.spec(
        "cat $PSIJ_NODEFILE > nodes; echo $PSIJ_NODEFILE > where; echo x", launcher="multiple",
        resources=resources, stdout_path=ann.marks / "out",
    )  # fmt: skip
    assert (await over(await ann.submitted(spec))).state == JobState.COMPLETED
    assert (ann.marks / "out").read_text() == "x\n" * 6
    assert (ann.marks / "nodes").read_text() == "localhost\n" * 6
    where = (ann.marks / "where").read_text().strip()
    assert not await beside(exists, where)


async def test_a_job_is_found_again_by_its_native_id(ann: PsijUser) -> None:
    first = await ann.submitted(ann.spec("sleep 1; exit 5"))
    second = await ann.submitted(ann.spec("exit 6"))
    other = ann.executor()
    listed = await beside(other.list)
    assert first.native_id in listed
    for native_id, code in ((first.native_id, 5), ("2", 6)):
        again = Job()
        await beside(other.attach, again, native_id)
        assert (await over(again)).exit_code == code
    assert (await over(first)).exit_code == 5
    assert (await over(second)).exit_code == 6
    late = Job()
    await beside(ann.executor().attach, late, f"{MACHINE}/1")
    assert (await over(late)).exit_code == 5, "also after its end"


async def test_attributes_of_ours_are_those_of_the_command_line(ann: PsijUser) -> None:
    custom: dict[str, object] = {
        "kalends.priority": "low", "kalends.warn": "USR1@30s", "kalends.after": ["1:ended"],
        "kalends.key": "the-same-key", "slurm.constraint": "for another user",
    }  # fmt: skip
    executor = ann.executor()
    held = JobAttributes(custom_attributes={"kalends.held": True})
    first = await ann.submitted(ann.spec("true", attributes=held), executor)
    spec = ann.spec("true", attributes=JobAttributes(custom_attributes=custom))
    one, two = await ann.submitted(spec, executor), await ann.submitted(spec, executor)
    assert one.native_id == two.native_id == f"{MACHINE}/2", "one key, one job"
    async with ann.laboratory.client() as client:
        view = await client.job(MACHINE, 2)
        assert (view.priority, view.phase) == ("low", "held")
        await client.release_job(MACHINE, 1)
    states = [(await over(each)).state for each in (first, one, two)]
    assert states == [JobState.COMPLETED] * 3


async def test_a_callback_may_submit_the_next_job(ann: PsijUser) -> None:
    executor = ann.executor()
    left = [Job(ann.spec("true")) for _ in range(6)]
    submitted = []

    def submit_next(job: Job, status: JobStatus) -> None:
        if status.final and left:
            submitted.append(left.pop())
            executor.submit(submitted[-1])

    executor.set_job_status_callback(submit_next)
    jobs = list(left)
    first = await ann.submitted(ann.spec("true"), executor)
    for job in (first, *reversed(jobs)):
        assert (await over(job)).state == JobState.COMPLETED
    assert [job.native_id for job in submitted] == [f"{MACHINE}/{each}" for each in range(2, 8)]
