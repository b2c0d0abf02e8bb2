"""Real programs under real shepherds: begun once, kept to their limits, and ended with all that they left."""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from kalends.batch.job_output import ShepherdOutputs, Writer
from kalends.batch.kept_output import KeptOutput
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import Begun, Main
from kalends.batch.shepherds.kept_file import cut_line
from kalends.batch.shepherds.order import JobOrder
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.jobs import JobRequest
from tests.processes.job_room import (
    USER,
    JobRoom,
    control_group,
    control_group_mounts,
    job_room,
)
from tests.support.patience import PATIENCE_S

AS_ROOT = os.geteuid() == 0


async def test_a_program_runs_where_and_as_it_was_told_and_its_end_is_told(room: JobRoom) -> None:
    order = room.shell("7.2", "id -un; pwd; umask; echo $A; exit 3", environment={"A": "one"})
    ended = await room.run(order)
    assert (ended.kind, ended.status, ended.strays) == ("exit", 3, 0)
    user = USER or pwd.getpwuid(os.getuid()).pw_name
    assert room.said("7.2").split() == [user, str(room.home), "0022", "one"]
    assert room.kinds("7.2") == ["Begun", "Main", "Ended"]


async def test_a_shepherd_sees_to_one_attempt_after_the_other_and_counts_each_alone(
    room: JobRoom,
) -> None:
    busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    first = await room.run(room.shell("1.1", busy, cores=(0,)))
    shepherd = (await room.fact("1.1", Begun)).shepherd
    for number in itertools.count(2):
        name = f"{number}.1"
        order = room.shell(name, "nproc; ls /proc/self/fd", grace_s=0)
        ended = await room.run(order)
        if (await room.fact(name, Begun)).shepherd == shepherd:
            break
    assert (ended.kind, ended.status, ended.strays) == ("exit", 0, 0)
    assert ended.cpu_s < first.cpu_s / 2
    processors, *descriptors = room.said(name).split()
    assert int(processors) == len(os.sched_getaffinity(0)), "those of the first were its own"
    assert descriptors == ["0", "1", "2", "3"], "ls has opened the last one"


async def test_its_environment_is_what_its_job_states_and_what_it_is_told_of_itself(
    room: JobRoom,
) -> None:
    order = room.order(
        "7.2", "/usr/bin/env", output="out-7.2", environment={"A": "=b", "HOME": "/h"}, cores=(0,)
    )
    await room.run(order)
    said = dict(line.split("=", 1) for line in room.said("7.2").splitlines())
    assert said["USER"] == said.pop("LOGNAME")
    user = pwd.getpwnam(said.pop("USER"))
    shell = user.pw_shell if os.path.basename(user.pw_shell) != "nologin" else "/bin/sh"
    assert said == {
        "A": "=b", "HOME": "/h", "PATH": "/usr/local/bin:/usr/bin:/bin", "SHELL": shell,
        "TMPDIR": "/tmp", "KALENDS_JOB": "7",
        "KALENDS_ATTEMPT": "2", "KALENDS_LIMIT_S": "3600", "KALENDS_CORES": "0",
        "KALENDS_JOB_DIRECTORY": f"{room.top}/spool/7.2",
    }  # fmt: skip


async def test_a_script_is_run_from_a_file_of_its_users_which_is_gone_afterwards(
    room: JobRoom,
) -> None:
    script = '#!/bin/sh\nstat -c "%a %U" "$0"; echo "$1"\n'
    await room.run(room.order("1.1", "argument", script=script))
    mode, user, argument = room.kept("1.1").split()
    assert (mode, argument) == ("500", "argument")
    assert user == USER or not AS_ROOT
    assert os.listdir(room.launcher.folders.own("1.1")) == ["output"]
    assert stat.S_IMODE(os.stat(room.launcher.folders.kept("1.1")).st_mode) == 0o600


async def test_output_is_appended_to_what_there_is(room: JobRoom) -> None:
    for name in ("1.1", "2.1"):
        await room.run(room.order(name, "echo", name, output="log"))
    assert (room.home / "log").read_text() == "1.1\n2.1\n"


async def test_signals_that_the_server_ignores_are_not_ignored_in_a_program(room: JobRoom) -> None:
    await room.run(room.shell("1.1", "grep -E 'Sig(Ign|Blk)' /proc/self/status"))
    blocked, ignored = (int(mask, 16) for mask in room.said("1.1").split()[1::2])
    # posix_spawn of the C library leaves ignored what it keeps for itself, and lets nobody change that.
    kept = sum(1 << number - 1 for number in {32, 33} - signal.valid_signals())
    assert (blocked, ignored & ~kept) == (0, 0)


async def test_a_program_has_no_descriptors_but_its_standard_streams(room: JobRoom) -> None:
    await room.run(room.shell("1.1", "ls /proc/$$/fd"))
    assert room.said("1.1").split() == ["0", "1", "2"]


async def test_a_program_is_kept_to_its_processors(room: JobRoom) -> None:
    core = max(os.sched_getaffinity(0))
    await room.run(room.shell("1.1", "grep Cpus_allowed_list /proc/self/status", cores=(core,)))
    assert room.said("1.1").split() == ["Cpus_allowed_list:", str(core)]


# What prevents a start is told in the user's words


@pytest.mark.parametrize(
    ("argv", "changes", "detail"),
    [
        (["nowhere"], {}, "there is no command nowhere in /usr/local/bin:/usr/bin:/bin"),
        (["/no/such"], {}, "there is no command /no/such"),
        (["/etc/passwd"], {}, "cannot run /etc/passwd: Permission denied"),
        (["true"], {"directory": "/no/such"}, "cannot enter the directory /no/such: No such file"),
        # It lies in the home of nobody, not in that of the site.
        (["true"], {"directory": "tmp"}, "cannot enter the directory tmp: No such file"),
        (["true"], {"directory": "{top}/jobs"}, "cannot enter the directory {top}/jobs: Permission"),
        (["true"], {"output": "/proc/version"}, "cannot open /proc/version for output: Permission denied"),
        (["true"], {"output": "link"}, "cannot open link for output: it is a symbolic link, "),
        (["true"], {"output": "pipe"}, "cannot open pipe for output: no program reads from that pipe"),
        (["true"], {"error": "."}, "cannot open . for error output: Is a directory"),
        (["true"], {"input": "none"}, "cannot open none for input: No such file or directory"),
        (["true"], {"cores": [4000]}, "this machine does not let the site use processors 4000: "),
        (["true"], {"user": "nosuchuser"}, "there is no user nosuchuser on this machine"),
        (["true"], {"user": "root"}, "jobs are never run as root"),
        (["true"], {"user": "daemon"}, "daemon is a system account of this machine: the owner has"),
        (
            ["true"], {"script": "#!/no/such\n"},
            "the interpreter in the first line of the script is not on this machine: /no/such",
        ),
    ],
)  # fmt: skip
async def test_a_program_that_cannot_be_started_says_why(
    room: JobRoom, argv: list[str], changes: dict[str, str], detail: str
) -> None:
    if "{top}" in detail and not AS_ROOT:
        room.top = Path("/root")
    (room.home / "link").symlink_to("elsewhere")
    os.mkfifo(room.home / "pipe")
    (room.home / "pipe").chmod(0o666)
    top = str(room.top)
    said = {
        name: value.replace("{top}", top) if isinstance(value, str) else tuple(value)
        for name, value in changes.items()
    }
    ended = await room.run(room.order("1.1", *argv)._replace(**said))
    assert ended.kind == "not-started"
    assert ended.detail.startswith(detail.replace("{top}", top))
    assert sorted(os.listdir(room.home)) == ["link", "pipe"]


@pytest.mark.parametrize(
    ("named", "detail"),
    [
        ("bare", "there is no command bare in /usr/local/bin:/usr/bin:/bin"),
        ("./bare", "cannot run ./bare: it is neither a program nor a script that begins with #!"),
    ],
)
async def test_a_file_of_the_users_is_a_command_only_by_its_path_and_its_first_line(
    room: JobRoom, named: str, detail: str
) -> None:
    (room.home / "bare").write_text("echo\n")
    (room.home / "bare").chmod(0o755)
    ended = await room.run(room.order("1.1", named))
    assert (ended.kind, ended.detail) == ("not-started", detail)


async def test_a_user_with_too_many_processes_is_told_so(room: JobRoom) -> None:
    """The kernel counts the others where the user changes, so where the service is root."""
    await room.launch(room.order("2.1", "sleep", "1000"))
    await room.fact("2.1", Main)
    ended = await room.run(room.order("1.1", "true", resources={"NPROC": 0}))
    told = "cannot run true: its user has the maximum number of processes on this machine"
    assert (ended.kind, ended.detail) == (("not-started", told) if AS_ROOT else ("exit", ""))


async def test_root_runs_nothing_for_nobody_in_particular(room: JobRoom) -> None:
    ended = await room.run(JobOrder("1.1", ("true",), directory="/"))
    assert ended.kind == ("not-started" if AS_ROOT else "exit")


# Ends


async def test_its_limit_ends_it_after_a_warning(room: JobRoom) -> None:
    text = "trap 'echo warned' USR1; while :; do sleep 0.02; done"
    order = room.shell("1.1", text, limit_s=0.8, warn_s=0.5, warning="USR1")
    ended = await room.run(order)
    assert (ended.kind, ended.status) == ("limit", -15)
    assert "warned" in room.said("1.1").split()
    assert ended.ran_s >= 0.8


async def test_a_program_that_ignores_the_request_to_end_is_killed(room: JobRoom) -> None:
    text = "trap '' TERM; echo deaf; while :; do sleep 0.02; done"
    # It has to be deaf before its limit comes, however slowly it starts.
    for number, limit_s in enumerate((0.3, 3.0, 30.0), 1):
        ended = await room.run(room.shell(f"{number}.1", text, limit_s=limit_s, grace_s=0.2))
        if "deaf" in room.said(f"{number}.1"):
            break
    assert (ended.kind, ended.status) == ("limit", -9)
    assert ended.ran_s >= limit_s + 0.2


async def test_a_stopped_program_hears_that_it_is_to_end(room: JobRoom) -> None:
    ended = await room.run(room.shell("1.1", "kill -STOP $$", limit_s=0.3))
    assert (ended.kind, ended.status) == ("limit", -15)


async def test_whoever_kills_it_is_named(room: JobRoom) -> None:
    await room.launch(room.order("1.1", "sleep", "1000"))
    await room.fact("1.1", Main)
    await room.launcher.kill("1.1", "ada asked for it")
    await room.launcher.kill("1.1", "so did grace")
    ended = await room.ended("1.1")
    assert (ended.kind, ended.status, ended.detail) == ("killed", -15, "ada asked for it")


async def test_a_host_that_goes_down_lets_programs_end_properly(room: JobRoom) -> None:
    await room.launch(
        room.shell("1.1", "trap 'echo saved; exit 6' TERM; while :; do sleep 0.02; done")
    )
    begun = await room.fact("1.1", Begun)
    await room.fact("1.1", Main)
    await room.until((room.home / "out-1.1").exists)
    os.kill(begun.shepherd, signal.SIGTERM)
    ended = await room.ended("1.1")
    assert (ended.kind, ended.detail) == ("killed", "the machine was shut down")


async def test_a_kill_before_its_shepherd_is_asked_for_makes_it_void(room: JobRoom) -> None:
    await room.launcher.prepare(["1.1"])
    await room.launcher.kill("1.1", "ada")
    room.launcher.launch([room.order("1.1", "true")])
    await room.until(lambda: room.kinds("1.1") == ["Void"])


@pytest.mark.parametrize("mount", ["", *control_group_mounts()])
async def test_strays_in_sessions_of_their_own_are_ended_with_it(mount: str) -> None:
    with control_group(mount) as groups:
        async with job_room(groups=groups) as room:
            mark = room.mark
            text = (
                "(setsid setsid sh -c"
                f" 'trap \"\" TERM HUP; echo > s1; while :; do sleep 0.1; done' {mark} &);"
                f"(setsid sh -c 'echo > s2; sleep 1000; :' {mark} &);"
                "until [ -e s1 -a -e s2 ]; do sleep 0.02; done; exit 4"
            )
            ended = await room.run(room.shell("1.1", text))
            assert (ended.kind, ended.status) == ("exit", 4)
            assert ended.strays >= 2
            assert room.pids_with(mark) == []


async def test_a_control_group_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot make and kill a control group") as refused:
        async with job_room(groups=str(tmp_path)):
            raise AssertionError
    assert refused.value.where == "control_group"


async def test_a_fork_bomb_ends_at_its_limit_and_nothing_of_it_is_left(room: JobRoom) -> None:
    mark = room.mark
    bomb = "echo x >> forked; b() { b | b & }; while :; do b; done"
    for number in itertools.count(1):
        order = room.order(
            f"{number}.1",
            "/bin/sh",
            "-c",
            bomb,
            mark,
            output="o",
            # With room for the sandboxes of all facilities under test: their processes are its user's, too.
            resources={"NPROC": 500},
            limit_s=1,
            grace_s=0.1,
        )
        ended = await room.run(order)
        # Not where other tests, which run as its user too, have as many processes just now.
        if ended.kind != "not-started":
            break
    assert ended.kind in ("limit", "exit")
    assert room.pids_with(mark) == []


async def test_output_without_end_stops_at_the_greatest_file_allowed(room: JobRoom) -> None:
    order = room.shell("1.1", "exec yes", resources={"FSIZE": 100_000})
    ended = await room.run(order)
    said = "ended by SIGXFSZ: one of its files grew beyond 100000 bytes, the owner's file_mb_max"
    assert (ended.kind, ended.status, ended.detail) == ("exit", -25, said)
    assert (room.home / "out-1.1").stat().st_size == 100_000
    of_shell = await room.run(room.shell("2.1", "yes > own; exit", resources={"FSIZE": 100_000}))
    assert (of_shell.kind, of_shell.status, of_shell.detail) == ("exit", 128 + 25, said)


async def test_only_the_beginning_of_kept_output_is_kept_and_its_reader_is_told_so(
    room: JobRoom,
) -> None:
    text = "seq 100000; read line"
    pipe = room.home / "line"
    os.mkfifo(pipe)
    if USER:
        shutil.chown(pipe, USER)
    # Opened for both, it waits for a line without a writer.
    orders = [
        room.order("1.1", "/bin/sh", "-c", f"exec <>{pipe}; {text}", kept_bytes_max=1000),
        room.order("2.1", "/bin/sh", "-c", "seq 100000; seq 100000 > own", kept_bytes_max=1000),
        room.order("3.1", "/bin/sh", "-c", "seq 100000"),
    ]
    await room.launch(*orders)
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    cut = whole[:1000] + cut_line(1000).decode()
    outputs = ShepherdOutputs("lab/box", room.launcher, 60, 1000)
    # While the program runs, what will be cut off is not shown.
    seen = b""
    writer = Writer(1, "ann", JobRequest(machine="lab/box", limit_s=60), None, 0, 1, over=False)
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < len(cut):
            seen += await outputs.piece(writer, "", len(seen))
    assert seen.decode() == cut
    pipe.write_text("go on\n")
    for name, kept in (("1.1", cut), ("2.1", cut), ("3.1", whole)):
        assert (await room.ended(name)).status == 0
        assert room.kept(name) == kept
    assert (room.home / "own").read_text() == whole, "a file of the user's is never cut"
    for over_s, why in ((59, "its file is gone"), (60, "it is for 1m")):
        with pytest.raises(NotFound, match=why):
            await outputs.piece(replace(writer, number=4, over=True, over_s=over_s), "", 0)


async def test_memory_is_the_programs_and_not_that_of_the_process_which_became_it(
    room: JobRoom,
) -> None:
    assert (await room.run(room.shell("1.1", "exec true"))).memory_bytes == 0, "it had less"
    much = "a=$(head -c 60000000 /dev/zero | tr '\\0' x)"
    assert (await room.run(room.shell("2.1", much))).memory_bytes > 60_000_000


@pytest.mark.parametrize(
    ("changes", "here"),
    [({"user": "nosuchuser"}, 1), ({"argv": ("nowhere",)}, 0), ({"directory": "/no/such"}, 0)],
)
async def test_what_keeps_every_program_of_a_user_from_running_is_told_apart(
    room: JobRoom, changes: dict[str, Any], here: int
) -> None:
    ended = await room.run(room.order("1.1", "true")._replace(**changes))
    assert (ended.kind, ended.here) == ("not-started", here)


async def test_a_script_in_a_folder_that_its_user_cannot_enter_is_the_hosts_fault(
    room: JobRoom,
) -> None:
    room.top.parent.chmod(0o700)
    order = room.order("1.1", script="#!/bin/sh\n")._replace(directory="/")
    ended = await room.run(order)
    if AS_ROOT:  # Elsewhere jobs are the site's own user's.
        assert (ended.kind, ended.here) == ("not-started", 1)
        assert ended.detail == "cannot run the script: Permission denied"
    else:
        assert ended.kind == "exit"


async def test_the_soft_limits_of_a_program_are_those_of_a_login(room: JobRoom) -> None:
    await room.run(room.shell("1.1", "ulimit -S -n; ulimit -S -c; ulimit -f"))
    assert room.said("1.1").split() == ["1024", "0", "unlimited"]
    limits = {"CORE": 1_024_000, "FSIZE": 512_000}
    await room.run(room.shell("2.1", "ulimit -c; ulimit -f", resources=limits))
    # The units of a POSIX shell are blocks of 512 bytes.
    assert room.said("2.1").split() == ["2000", "1000"]


async def test_one_attempt_begins_once_however_often_it_is_asked_for(room: JobRoom) -> None:
    order = room.shell("1.1", "echo ran")
    await room.launcher.prepare(["1.1"])
    room.launcher.launch([order] * 5)
    await room.ended("1.1")
    room.launcher.launch([order])
    await room.run(room.shell("2.1", "true"))
    assert room.said("1.1") == "ran\n"


async def test_a_hundred_attempts_at_once_all_begin_and_end(room: JobRoom) -> None:
    orders = [room.shell(f"{number}.1", f"exit {number}") for number in range(1, 101)]
    await room.launch(*orders)
    for number, order in enumerate(orders, 1):
        assert (await room.ended(order.name)).status == number


async def test_a_forgotten_attempt_leaves_nothing_behind(room: JobRoom) -> None:
    await room.run(room.order("1.1", "echo", "kept"))
    await room.launcher.forget("1.1")
    assert list(room.top.glob("*/1.1")) == []


async def test_old_output_of_jobs_that_are_over_is_dropped_and_no_other(room: JobRoom) -> None:
    for name in ("1.1", "2.1", "3.1"):
        await room.run(room.order(name, "echo", "kept"))
    for name in ("1.1", "2.1"):
        os.utime(room.launcher.folders.record(name), (1_000, 1_000))
    now_s = [3_599]
    kept = KeptOutput(
        "lab/box",
        room.launcher,
        3_600,
        lambda: now_s[0],
        lambda job: job != 2,
        structlog.get_logger(),
    )
    assert await kept.look() == 0, "the time has not surely passed"
    now_s[0] = 100_000
    assert await kept.look() == 1
    assert list(room.top.glob("*/1.1")) == []
    assert room.launcher.look("2.1").state is State.ENDED, "its queue knows of no end"
    assert room.launcher.look("3.1").state is State.ENDED, "it is young"
    assert await kept.look() == 0


async def test_the_first_line_of_a_record_is_there_before_the_program(room: JobRoom) -> None:
    """The program itself can see its shepherd's record, so it had begun before."""
    await room.launch(room.shell("1.1", "sleep 1000"))
    begun = await room.fact("1.1", Begun)
    main = await room.fact("1.1", Main)
    assert begun.ticks <= main.ticks
