"""Jobs that a real Slurm runs for a site: in slots that were booked, and on nodes that were handed over."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kalends.core.errors import InvalidInput, NotAllowed
from kalends.core.jobs import LimitWarning
from tests.backends.computing_centre import CLUSTER, ROOM, ComputingCentre, opened
from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.processes.job_deaths import JobDeaths
from tests.support.job_folders import folder_of_jobs

pytestmark = [
    pytest.mark.xdist_group("batch-jobs"),
    pytest.mark.needs_slurm,
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(slurm: SlurmAtHand) -> AsyncIterator[ComputingCentre]:
    with folder_of_jobs("kalends-centre-") as top:
        async with cleared(slurm), opened(Path(top), slurm) as found:
            yield found


@pytest_asyncio.fixture(loop_scope="module")
async def centre(servers: ComputingCentre) -> AsyncIterator[ComputingCentre]:
    """The servers are the same for all tests; what a test leaves is no other's."""
    servers.clear_marks()
    yield servers
    await servers.clear()


WHO = (
    'echo "$(id -un) $SLURMD_NODENAME $KALENDS_NODES"; srun printenv SLURMD_NODENAME | sort; exit 7'
)


async def test_a_job_runs_in_its_slot_as_its_user_on_its_nodes_and_tells_how_it_ended(
    centre: ComputingCentre,
) -> None:
    booked = await centre.booked()
    async with centre.client() as ann:
        job = centre.job(CLUSTER, WHO, nodes=2, reservation=booked)
        view = await centre.over(ann, (await ann.submit(job)).job)
        assert (view.end, view.status) == ("exit", 7)
        lines = (await centre.output(ann, view)).splitlines()
        assert lines[:3] == [f"{centre.slurm.user} n1 n1,n2", "n1", "n2"]
        assert view.node_seconds > 0
    assert await centre.ours() == []


async def test_a_job_has_its_nodes_to_the_end_of_its_slot_and_is_counted_as_any_other(
    centre: ComputingCentre,
) -> None:
    length_s = 330
    booked = await centre.booked(nodes=1, length_s=length_s)
    async with centre.client() as ann:
        job = (await ann.submit(centre.job(CLUSTER, WAITS, reservation=booked))).job
        await centre.marks_it("began")
        (ours,) = (await centre.slurm.adapter.state()).reservations

        async def to_the_end() -> bool:
            # It began with whole minutes, so that it could begin.
            return await ends(centre) >= ours.start + length_s

        await until(to_the_end, "Slurm would end it before")
        (centre.marks / "go").touch()
        view = await centre.over(ann, job)
        assert (view.end, view.status) == ("exit", 9)
        usage = await ann.job_usage(CLUSTER, start=view.over - 86_400, end=view.over + 1)
        assert sum(each.node_seconds for each in usage.rows) >= view.node_seconds > 0


async def test_nodes_are_free_that_neither_users_of_ours_nor_others_have(
    centre: ComputingCentre,
) -> None:
    async with centre.client() as ann:

        async def free(nodes: int, reserved: int) -> None:
            async def shown() -> bool:
                (load,) = (await ann.jobs(CLUSTER)).machines
                return (load.free, load.reserved) == (nodes, reserved)

            await until(shown, f"{nodes} nodes are not shown as free")

        await free(2, 0)
        await centre.slurm.run(["n1"], 600)
        await free(1, 0)
        booked = await centre.booked(nodes=1)
        await free(0, 1)
        job = (await ann.submit(centre.job(CLUSTER, WAITS, reservation=booked))).job
        await centre.marks_it("began")
        await free(0, 0)
        await centre.slurm.cancel_all()
        await centre.over(ann, job)
        await free(1, 1)
        usage = await ann.job_usage(CLUSTER, start=0, end=ann.time_s("now+1d"), everyone=True)
        assert {each.user for each in usage.reserved} <= {"ann", "bob"}


async def test_a_job_of_the_queue_runs_on_the_nodes_that_were_handed_over(
    centre: ComputingCentre,
) -> None:
    async with centre.client("bob") as bob:
        one = (await bob.submit(centre.in_room(WHO, nodes=1))).job
        two = (await bob.submit(centre.in_room(WHO, nodes=1))).job
        seen = set()
        for each in (one, two):
            view = await centre.over(bob, each)
            assert (view.end, view.status) == ("exit", 7)
            lines = (await centre.output(bob, view)).splitlines()
            user, first, named = lines[0].split()
            assert (user, first, lines[1]) == (centre.slurm.other_user, named, named)
            seen.add(named)
        assert seen == {"n3", "n4"}


async def test_a_job_is_not_stopped_for_a_more_urgent_one_which_waits_for_its_end(
    centre: ComputingCentre,
) -> None:
    async with centre.client() as ann:
        await ann.set_policy(ROOM, "preemptive")
        try:
            low = (await ann.submit(centre.in_room(WAITS, nodes=2, priority="low"))).job
            await centre.marks_it("began")
            urgent = (await ann.submit(centre.in_room("exit 0", nodes=2, priority="high"))).job

            async def goes_on() -> bool:
                log = centre.site.log()
                return "job_not_stopped" in log and "cannot be paused" in log

            await until(goes_on, "the operator is not told")
            assert (await ann.job(ROOM, low.job)).phase == "running"
            (centre.marks / "go").touch()
            over = await centre.over(ann, low)
            assert (over.end, over.status, over.stood_s) == ("exit", 9, 0)
            assert (await centre.over(ann, urgent)).started >= over.over
        finally:
            await ann.set_policy(ROOM, "easy")


async def test_a_script_is_carried_to_the_node_with_its_arguments_and_its_environment(
    centre: ComputingCentre,
) -> None:
    script = '#!/bin/bash -e\necho "$BASH $GREETING $1 $# $0"\nfalse\necho not reached\n'
    async with centre.client() as ann:
        job = centre.in_room("", script=script, environment={"GREETING": "it's, me"}, directory="/")
        view = await centre.over(ann, (await ann.submit(job)).job)
        assert (view.end, view.status) == ("exit", 1)
        lines = (await centre.output(ann, view)).splitlines()
        # What srun says of the status may come before it, or after.
        assert "/bin/bash it's, me  0 /dev/fd/9" in lines
        assert "not reached" not in lines
        view = await centre.over(ann, (await ann.submit(centre.in_room("no-such-thing"))).job)
        assert (view.end, view.status) == ("exit", 127)


async def test_whoever_the_table_does_not_name_and_what_cannot_be_run_is_refused_at_once(
    centre: ComputingCentre,
) -> None:
    async with centre.client("eve") as eve:
        with pytest.raises(NotAllowed, match="eve has no account") as caught:
            await eve.submit(centre.in_room("true"))
        assert [each.code for each in caught.value.refusals] == ["no-account"]
    async with centre.client() as ann:
        with pytest.raises(InvalidInput, match="in reservations only"):
            await ann.submit(centre.job(CLUSTER, "true", limit_s=60))
        with pytest.raises(InvalidInput, match="is a variable that the batch system sets"):
            await ann.submit(centre.in_room("true", environment={"SLURM_CONF": "/tmp/mine"}))
        with pytest.raises(InvalidInput, match="cannot change their size"):
            await ann.submit(centre.in_room("true", sizes=(1, 2), malleable=True))


async def test_nodes_where_the_user_has_jobs_of_their_own_in_the_slot_are_taken_last(
    centre: ComputingCentre,
) -> None:
    booked = await centre.booked()
    (reservation,) = (await centre.slurm.adapter.state()).reservations
    await centre.slurm.run(["n1"], 60, reservation=reservation.name)
    async with centre.client() as ann:
        job = centre.job(CLUSTER, "echo $SLURMD_NODENAME", reservation=booked)
        view = await centre.over(ann, (await ann.submit(job)).job)
        assert await centre.output(ann, view) == "n2\n"


# Ended from outside


async def test_a_job_that_is_killed_is_asked_to_end_and_leaves_nothing(
    centre: ComputingCentre,
) -> None:
    async with centre.client() as ann:
        polite = "trap 'echo asked >> marks; exit 0' TERM; echo began >> marks; while :; do sleep 0.1; done"
        job = (await ann.submit(centre.in_room(polite))).job
        await centre.marks_it("began")
        await ann.kill_job(ROOM, job.job)
        assert (await centre.over(ann, job)).end == "killed"
        assert centre.marked() == ["began", "asked"]
        deaf = "trap '' TERM; echo deaf >> marks; while :; do sleep 0.1; done"
        job = (await ann.submit(centre.in_room(deaf))).job
        await centre.marks_it("deaf")
        await ann.kill_job(ROOM, job.job)
        assert (await centre.over(ann, job)).end == "killed"
        assert await centre.ours() == []


async def test_a_job_is_warned_and_ends_at_its_limit(centre: ComputingCentre) -> None:
    text = "trap 'echo warned >> marks' USR1; while :; do sleep 0.1; done"
    warning = LimitWarning(before_s=3, signal="USR1")
    async with centre.client() as ann:
        job = centre.in_room(text, limit_s=8, warning=warning)
        view = await centre.over(ann, (await ann.submit(job)).job)
        assert view.end == "limit"
        assert centre.marked() == ["warned"]
        assert view.over - view.started < 20


async def test_jobs_end_with_their_slot_and_those_of_the_next_one_begin(
    centre: ComputingCentre,
) -> None:
    deaf = "umask 022; trap '' TERM; while :; do echo lives >> deaf; sleep 0.1; done"
    heir = "lives=$(wc -l < deaf); sleep 1; test $lives = $(wc -l < deaf) && exit 7"
    async with centre.client(at=centre.broker) as ann, centre.client("bob", centre.broker) as bob:
        start = int(time.time()) + 8
        first = await ann.book(f"{CLUSTER}:2", at=start, duration=66)
        second = await bob.book(f"{CLUSTER}:2", at=start + 66, duration=70)
    async with centre.client() as ann, centre.client("bob") as bob:
        one = (await ann.submit(centre.job(CLUSTER, deaf, nodes=2, reservation=first.id))).job
        two = (await bob.submit(centre.job(CLUSTER, heir, nodes=2, reservation=second.id))).job
        view = await centre.over(ann, one)
        assert view.end == "limit", view
        view = await centre.over(bob, two)
        assert (view.end, view.status) == ("exit", 7), "the program before it was dead"


# Accidents

WAITS = "echo began >> marks; while [ ! -e go ]; do sleep 0.1; done; echo went >> marks; exit 9"


async def test_a_program_goes_on_while_the_controller_is_away_and_its_end_counts_when_it_is_back(
    centre: ComputingCentre,
) -> None:
    async with centre.client() as ann:
        job = (await ann.submit(centre.in_room(WAITS, nodes=2))).job
        await centre.marks_it("began")
        # What it has not written down within five seconds it forgets.
        since = centre.site.log().count(SILENCE)
        await centre.slurm.stop()
        (centre.marks / "go").touch()
        await centre.marks_it("went")
        next_one = (await ann.submit(centre.in_room("echo next >> marks"))).job
        await until(lambda: silence(centre, since), "nobody asks whether its nodes are free")
        assert (await ann.job(ROOM, job.job)).phase == "running", "its nodes may be in use"
        assert (await ann.job(ROOM, next_one.job)).phase == "queued"
        await centre.slurm.start()
        view = await centre.over(ann, job)
        assert (view.end, view.status) == ("exit", 9)
        assert (await centre.over(ann, next_one)).status == 0
        assert centre.marked() == ["began", "went", "next"]


async def test_a_job_that_finds_the_controller_away_starts_once_when_it_is_back(
    centre: ComputingCentre,
) -> None:
    since = centre.site.log().count(SILENCE)
    await centre.slurm.crash()
    async with centre.client() as ann:
        job = (await ann.submit(centre.in_room("echo began >> marks"))).job
        killed = (await ann.submit(centre.in_room("echo never >> marks"))).job
        await until(lambda: silence(centre, since), "the system is not asked")
        assert (await ann.job(ROOM, job.job)).phase == "starting"
        await ann.kill_job(ROOM, killed.job)
        await centre.slurm.start()
        view = await centre.over(ann, job)
        assert (view.end, view.status, view.attempt) == ("exit", 0, 1)
        assert (await centre.over(ann, killed)).phase == "withdrawn"
        assert centre.marked() == ["began"]
        assert await centre.ours() == []


async def test_a_controller_that_forgets_a_job_costs_that_job_and_gives_its_nodes_to_nobody_before_it_is_gone(
    centre: ComputingCentre,
) -> None:
    beats = "echo began >> marks; while :; do date +%s.%N > beat; sleep 0.05; done"
    async with centre.client() as ann:
        job = (await ann.submit(centre.in_room(beats, nodes=2))).job
        await centre.marks_it("began")
        await centre.slurm.crash()
        await centre.slurm.start()
        look = "read last < beat; sleep 0.5; read now < beat; echo $last/$now > looked"
        after = (await ann.submit(centre.in_room(look, nodes=2))).job
        await ann.kill_job(ROOM, job.job)
        assert (await centre.over(ann, job)).end in ("killed", "exit")
        view = await centre.over(ann, after)
        assert (view.end, view.status) == ("exit", 0), view
        last, now = centre.marked("looked")[0].split("/")
        assert last == now, "it ran when its nodes were given away"
        assert await centre.ours() == []


async def test_a_killed_site_finds_its_programs_again_and_tells_how_they_ended(
    centre: ComputingCentre,
) -> None:
    booked = await centre.booked()
    async with centre.client() as ann:
        job = (await ann.submit(centre.job(CLUSTER, WAITS, reservation=booked))).job
        there = (await ann.submit(centre.in_room("while [ ! -e go ]; do sleep 0.1; done"))).job
        await centre.marks_it("began")
        await centre.running(ann, there)
    await centre.site.kill()
    await centre.site.start()
    async with centre.client() as ann:
        assert (await ann.job(CLUSTER, job.job)).phase == "running"
        assert len(await centre.ours()) == 2
        (centre.marks / "go").touch()
        for view, status in ((job, 9), (there, 0)):
            view = await centre.over(ann, view)
            assert (view.end, view.status, view.attempt) == ("exit", status, 1)
    assert centre.marked() == ["began", "went"]
    assert await centre.ours() == []


async def test_of_a_job_whose_shepherd_was_killed_nothing_is_left(centre: ComputingCentre) -> None:
    deaths = JobDeaths(centre.site, f"{centre.top}/room")
    text = "trap '' TERM; echo began $KALENDS_ATTEMPT >> marks; while :; do sleep 0.1; done"
    async with centre.client() as ann:
        job = (await ann.submit(centre.in_room(text))).job
        await centre.marks_it("began 1")
        assert deaths.kill_shepherd(random.Random(1))
        assert (await centre.over(ann, job)).end == "lost"
        assert await centre.ours() == []
        again = (await ann.submit(centre.in_room(text, rerun=True))).job
        await until(lambda: has(centre, "began 1", 2), "the second one does not begin")
        await centre.site.kill()
        assert deaths.kill_shepherd(random.Random(1))
        assert len(await centre.ours()) == 1
        await centre.site.start()
        await centre.marks_it("began 2")
        ((name, _, _),) = await centre.ours()
        assert name.endswith(f"-{again.job}.2")
        await ann.kill_job(ROOM, again.job)
        await centre.over(ann, again)


async def test_a_new_start_ends_what_no_attempt_has_and_never_touches_what_others_have(
    centre: ComputingCentre,
) -> None:
    async def left(name: str, user: str, node: str) -> None:
        await centre.slurm.said(
            "setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", "salloc", "--no-shell",
            f"--job-name={name}", "--time=5", f"--nodelist={node}",
        )  # fmt: skip

    async with centre.client() as ann:
        job = (await ann.submit(centre.in_room(WAITS))).job
        await centre.marks_it("began")
        await centre.site.kill()
        ((ours, _, _),) = await centre.ours()
        lost = ours.replace(f"-{job.job}.1", "-99.1")
        await left(lost, centre.slurm.user, "n4")
        namesakes, strangers = "kal.centre/room.abcdef01-99.1", lost.replace("-99.1", "-98.1")
        await left(namesakes, centre.slurm.user, "n1")
        await left(strangers, "games", "n2")
        await centre.site.start()
        others = {namesakes, strangers}

        async def swept() -> bool:
            return {name for name, _, _ in await centre.ours()} == {*others, ours}

        await until(swept, "what was left is still there")

        async def told() -> bool:
            return f"its store does not list them: {namesakes};" in await centre.problems()

        await until(told, "the operator is not told")
        (centre.marks / "go").touch()
        assert (await centre.over(ann, job)).status == 9
        assert {name for name, _, _ in await centre.ours()} == others


SILENCE = "batch_system_not_reached"


async def silence(centre: ComputingCentre, since: int) -> bool:
    """Whether the log tells of it once more."""
    return centre.site.log().count(SILENCE) > since


async def has(centre: ComputingCentre, word: str, times: int) -> bool:
    return centre.marked().count(word) == times


async def test_whatever_is_killed_an_attempt_begins_at_most_once_and_in_the_end_nothing_is_left(
    centre: ComputingCentre,
) -> None:
    chance = random.Random(7)
    deaths = JobDeaths(centre.site, f"{centre.top}/room")
    text = 'echo "$KALENDS_JOB.$KALENDS_ATTEMPT" >> marks; sleep 1'
    async with centre.client() as ann:
        jobs = [
            (await ann.submit(centre.in_room(text, rerun=number % 2 == 0))).job
            for number in range(8)
        ]
    for strike in ("site", "shepherd", "controller", "site", "shepherd", "both"):
        seen = len(centre.marked())
        await until(lambda: more_than(centre, seen), "nothing begins")  # noqa: B023
        if strike in ("shepherd", "both"):
            deaths.kill_shepherd(chance)
        if strike in ("site", "both"):
            await centre.site.kill()
            await centre.site.start()
        if strike in ("controller", "both"):
            await centre.slurm.crash()
            await centre.slurm.start()
        async with centre.client() as ann:
            if all([(await ann.job(ROOM, each.job)).end for each in jobs]):
                break
    async with centre.client() as ann:
        for each in jobs:
            view = await centre.over(ann, each)
            assert view.end in ("exit", "lost", "not-started"), view
    assert max(Counter(centre.marked()).values()) == 1

    async def nothing_left() -> bool:
        # What was given back comes back with a crash that follows, and is swept.
        return await centre.ours() == []

    await until(nothing_left, "something is left in Slurm")


async def ends(centre: ComputingCentre) -> int:
    """Return when Slurm would end the one job of ours."""
    (job,) = (await centre.slurm.adapter.state()).jobs
    assert job.end is not None
    return job.end


async def more_than(centre: ComputingCentre, seen: int) -> bool:
    return len(centre.marked()) > seen or len(set(centre.marked())) >= 8
