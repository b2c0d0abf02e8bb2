"""``kalends run`` and ``kalends attach`` at a real pseudoterminal, against a real site."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys

from .cut_line import cut_line
from .laboratory import MACHINE, USER, Laboratory, laboratory
from .person import PATIENCE_S, Person
from .servers import until

__all__ = ["laboratory"]

ECHO = 'stty -echo; echo ready; while read line; do echo "<$line>"; done; exit 5'


def environment(laboratory: Laboratory, url: str = "") -> dict[str, str]:
    return {
        "KALENDS_BROKER": url or laboratory.site.url,
        "KALENDS_USER": USER,
        "KALENDS_ZONE": "UTC",
    }


def run(laboratory: Laboratory, text: str, *options: str, url: str = "") -> Person:
    words = ("run", MACHINE, "--directory", str(laboratory.marks), "--for", "10m", *options)
    return Person(*words, "--", "sh", "-c", text, environment=environment(laboratory, url))


def attach(laboratory: Laboratory, number: int, *options: str) -> Person:
    words = ("attach", f"{MACHINE}/{number}", *options)
    return Person(*words, environment=environment(laboratory))


async def piped(laboratory: Laboratory, given: bytes, *words: str) -> tuple[int, bytes, bytes]:
    """A command without a terminal: its exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment(laboratory)},
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        said, cried = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, said, cried


async def test_a_program_has_this_terminal_and_its_exit_code_is_ours(
    laboratory: Laboratory,
) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready\r\n")
        assert not ann.restored()
        ann.type(b"one\n")
        await ann.sees(b"<one>\r\n")
        assert await ann.leaves_by(b"\x04") == 5
        assert ann.restored()


async def test_a_program_is_told_which_terminal_it_has_unless_its_user_names_another(
    laboratory: Laboratory,
) -> None:
    for options, kind in ((), b"xterm"), (("--env", "TERM=vt100"), b"vt100"):
        async with run(laboratory, "echo it is a $TERM; read line; exit 3", *options) as ann:
            await ann.sees(b"it is a " + kind + b"\r\n")
            assert await ann.leaves_by(b"\n") == 3


async def test_a_program_has_the_callers_locale_unless_its_user_names_another(
    laboratory: Laboratory,
) -> None:
    place = {**environment(laboratory), "LANG": "fr_FR.UTF-8", "LC_TIME": "C"}
    words = ("run", MACHINE, "--directory", "/", "--for", "10m", "--env", "LC_TIME=en_GB.UTF-8")
    text = "echo $LANG, $LC_TIME; read line"
    async with Person(*words, "--", "sh", "-c", text, environment=place) as ann:
        await ann.sees(b"fr_FR.UTF-8, en_GB.UTF-8\r\n")
        assert await ann.leaves_by(b"\n") == 0


async def test_keys_that_send_signals_send_them_to_the_program(laboratory: Laboratory) -> None:
    async with run(laboratory, "trap 'echo caught; exit 6' INT; echo ready; sleep 60") as ann:
        await ann.sees(b"ready")
        ann.type(b"\x03")
        await ann.sees(b"caught")
        assert await ann.left() == 6


async def test_the_expected_start_is_counted_down_until_it_begins(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        await client.submit(laboratory.job("sleep 600", nodes=4, limit_s=600))
        async with run(laboratory, ECHO) as ann:
            await ann.sees(f"{MACHINE}/2 queued: starts ~".encode())
            await ann.sees(b"nine times of ten; in ")
            await client.kill_job(MACHINE, 1)
            await ann.sees(b"ready\r\n")
            assert await ann.leaves_by(b"\x04") == 5


async def test_a_job_that_waits_is_withdrawn_by_an_interrupt_and_left_waiting_by_the_other_key(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        await client.submit(laboratory.job("sleep 600", nodes=4, limit_s=600))
        async with run(laboratory, ECHO) as ann:
            await ann.sees(b"queued")
            assert await ann.leaves_by(b"\x03") == 130
        assert (await client.job(MACHINE, 2)).end == "withdrawn"
        async with run(laboratory, ECHO) as ann:
            await ann.sees(b"queued")
            assert await ann.leaves_by(b"\x1c") == 0
            assert f"kalends attach {MACHINE}/3".encode() in ann.seen
        assert (await client.job(MACHINE, 3)).phase == "queued"


async def test_whoever_leaves_comes_back_from_elsewhere_to_where_it_was(
    laboratory: Laboratory,
) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready")
        ann.type(b"one\n")
        await ann.sees(b"<one>")
        assert await ann.leaves_by(b"\x1c") == 0
        assert ann.restored()
        assert f"kalends: {MACHINE}/1 continues without you".encode() in ann.seen
        assert f"kalends attach {MACHINE}/1".encode() in ann.seen
    async with attach(laboratory, 1) as elsewhere:
        await elsewhere.sees(b"ready\r\n<one>\r\n")
        elsewhere.type(b"two\n")
        await elsewhere.sees(b"<two>")
        assert await elsewhere.leaves_by(b"\x04") == 5


async def test_a_killed_command_does_not_end_its_job(laboratory: Laboratory) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready")
        ann.kill()
        await ann.process.wait()
    words = ("attach", "1", "--machine", MACHINE)
    async with Person(*words, environment=environment(laboratory)) as again:
        await again.sees(b"ready")
        again.type(b"one\n")
        await again.sees(b"<one>")


async def test_a_lost_line_is_joined_again_by_itself(laboratory: Laboratory) -> None:
    async with (
        cut_line(laboratory.site.url) as line,
        run(laboratory, ECHO, url=line.url) as ann,
    ):
        await ann.sees(b"ready\r\n")
        for count in range(5):
            line.cut()
            ann.type(b"%d\n" % count)
            await ann.sees(b"<%d>\r\n" % count)
        assert await ann.leaves_by(b"\x04") == 5
        assert ann.seen == b""


async def test_the_site_is_killed_and_the_terminal_goes_on(laboratory: Laboratory) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready")
        await laboratory.site.kill()
        ann.type(b"one\n")
        await laboratory.site.start()
        await ann.sees(b"<one>")
        await laboratory.site.kill()
        await laboratory.site.start()
        async with attach(laboratory, 1) as elsewhere:
            await elsewhere.sees(b"ready\r\n<one>\r\n")


async def test_the_program_has_a_window_of_this_size(laboratory: Laboratory) -> None:
    text = "stty -echo; echo ready; while read line; do stty size; done"
    async with run(laboratory, text) as ann:
        await ann.sees(b"ready\r\n")
        for rows, columns in ((33, 77), (50, 132)):
            ann.resize(rows, columns)

            async def shows_it(size: bytes = b"%d %d\r\n" % (rows, columns)) -> bool:
                ann.type(b"\n")
                return await ann.line() == size

            await until(shows_it, "the size has arrived")


async def test_the_newest_has_the_keys_and_onlookers_only_look(laboratory: Laboratory) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready")
        async with attach(laboratory, 1, "--watch") as onlooker, attach(laboratory, 1) as grace:
            await onlooker.sees(b"ready")
            await grace.sees(b"ready")
            onlooker.type(b"not heard\n")
            grace.type(b"one\n")
            for each in (ann, onlooker, grace):
                await each.sees(b"<one>")
            await ann.sees(b"[another terminal has the keyboard]")
            ann.type(b"nor this\n")
            grace.type(b"two\n")
            for each in (ann, onlooker, grace):
                await each.sees(b"\r\n<two>")
            assert await onlooker.leaves_by(b"\x03") == 0
            assert await ann.leaves_by(b"\x1c") == 0
            assert await grace.leaves_by(b"\x04") == 5


async def test_bytes_go_through_pipes_as_they_are(laboratory: Laboratory) -> None:
    given = bytes(range(256)) * 2000
    words = ("run", MACHINE, "--directory", "/tmp", "--for", "10m", "--", "sh", "-c", "cat; exit 3")
    code, said, cried = await piped(laboratory, given, *words)
    assert (code, said) == (3, given)
    assert b"kalends" not in cried


async def test_a_program_that_is_over_at_once_is_heard_to_its_end(laboratory: Laboratory) -> None:
    for _ in range(3):
        words = ("run", MACHINE, "--directory", "/tmp", "--for", "1m", "--", "seq", "5000")
        code, said, _ = await piped(laboratory, b"", *words)
        assert code == 0
        assert said == b"".join(b"%d\n" % count for count in range(1, 5001))


async def test_what_cannot_be_run_says_why(laboratory: Laboratory) -> None:
    words = ("run", "--for", "1m", "--", "no-such-program")
    code, _, cried = await piped(laboratory, b"", *words)
    assert code == 2
    assert b"the machine is missing" in cried
    words = ("run", MACHINE, "--directory", "/tmp", "--for", "1m", "--", "no-such-program")
    code, said, cried = await piped(laboratory, b"", *words)
    assert (code, said) == (127, b"")
    assert b"there is no command no-such-program" in cried
    code, _, cried = await piped(laboratory, b"", "attach", f"{MACHINE}/1")
    assert code == 1
    assert b"job 1 is ended, not running" in cried


async def test_a_log_says_why_it_is_empty_and_has_its_bytes_in_json_too(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        jobs = [
            laboratory.job("printf 'a\\377b'"),
            laboratory.job("", command=("no-such-program",)),
            laboratory.job("true", held=True),
        ]
        for number, job in enumerate(jobs, 1):
            assert (await client.submit(job)).job.job == number
        for number in (1, 2):
            await laboratory.over(client, number)
    assert await piped(laboratory, b"", "log", f"{MACHINE}/1") == (0, b"a\xffb", b"")
    _, said, _ = await piped(laboratory, b"", "--json", "log", f"{MACHINE}/1")
    pieces = [json.loads(line)["data"] for line in said.splitlines()]
    assert b"".join(base64.b64decode(piece["data"]) for piece in pieces) == b"a\xffb"
    assert [piece["ended"] for piece in pieces] == [False, True]
    _, said, cried = await piped(laboratory, b"", "log", f"{MACHINE}/2")
    assert (said, b"not started: there is no command no-such-program" in cried) == (b"", True)
    _, said, cried = await piped(laboratory, b"", "log", f"{MACHINE}/3")
    assert (said, cried) == (b"", b"kalends: the job is held, and has no output yet\n")
    (laboratory.marks.parent / "jobs" / "jobs" / "1.1").unlink()
    code, _, cried = await piped(laboratory, b"", "log", f"{MACHINE}/1")
    assert (code, b"is no longer kept: its file is gone" in cried) == (1, True)


async def test_a_pipe_that_nobody_reads_ends_the_job(laboratory: Laboratory) -> None:
    words = f"run {MACHINE} --directory /tmp --for 10m -- yes"
    process = await asyncio.create_subprocess_shell(
        f"'{sys.executable}' -m kalends {words} </dev/null | head -1",
        stdout=asyncio.subprocess.PIPE, env={**os.environ, **environment(laboratory)},
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await process.communicate()
    assert said == b"y\n"
    async with laboratory.client() as client:
        assert (await laboratory.over(client, 1)).end == "killed"


async def test_what_a_terminal_shows_can_be_followed_in_the_log(laboratory: Laboratory) -> None:
    async with run(laboratory, ECHO) as ann:
        await ann.sees(b"ready")
        words = ("log", "-f", f"{MACHINE}/1")
        log = asyncio.create_task(piped(laboratory, b"", *words))
        assert await ann.leaves_by(b"one\n\x04") == 5
        code, said, _ = await log
        assert (code, said) == (0, b"ready\r\n<one>\r\n")
