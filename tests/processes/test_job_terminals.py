"""Terminals of jobs: attached to, left and found again, by several at once; and the output of batch jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

import pytest

from kalends.batch.shepherds.facts import Begun, Main, Stopped
from kalends.batch.shepherds.frames import KEYS, frame
from kalends.batch.shepherds.kept_file import cut_line
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.shepherd_line import Attachment, History, Notice, Output
from kalends.batch.shepherds.visitors import ATTACHED_MAX
from kalends.core.errors import Conflict, NotAllowed, NotFound
from tests.processes.job_room import PATIENCE_S, JobRoom
from tests.processes.servers import until

ECHO = 'stty -echo; echo ready; while read line; do echo "<$line>"; done'

WINDOW = """
import os, signal, sys
def say_size(before):
    size = os.get_terminal_size()
    os.write(1, f"{before} {size.lines} {size.columns}\\n".encode())
signal.signal(signal.SIGWINCH, lambda *_: say_size("drawn"))
print("ready", flush=True)
for line in sys.stdin:
    say_size(line.strip())
"""

HAND_OVER = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
socket.send_fds(line, [b"t"], [1])
line.recv(1)
"""
"""Hands its terminal to whoever listens, and ends when that one has hung up."""


class Seat:
    """One who is attached, and all that they have seen."""

    def __init__(self, place: Attachment) -> None:
        self.place = place
        self.seen = b""
        self.notices: list[dict[str, object]] = []

    async def sees(self, text: bytes) -> None:
        """Wait until `text` has been on the screen."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.seen:
                await self._next()

    async def told(self, **what: object) -> None:
        """Wait for a notice with these fields."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(what.items() <= each.items() for each in self.notices):
                await self._next()

    async def _next(self) -> None:
        match await self.place.next():
            case History(_, data) | Output(data):
                self.seen += data
            case Notice(what):
                self.notices.append(what)
            case None:
                raise EOFError(self.seen[-200:])


def interactive(room: JobRoom, name: str, text: str, **more: object) -> JobOrder:
    return room.order(name, "/bin/bash", "-c", text, terminal=(24, 80))._replace(**more)


async def sit(room: JobRoom, name: str, rows: int = 24, columns: int = 80) -> Seat:
    """Attach, and take the keys."""
    seat = Seat(await room.launcher.attach(name))
    seat.place.ask_keys(rows, columns)
    await seat.told(keys=True)
    return seat


async def seated(room: JobRoom, order: JobOrder) -> Seat:
    """Launch a job, and take its keys."""
    await room.launch(order)
    await room.fact("1.1", Main)
    return await sit(room, "1.1")


async def test_what_is_typed_is_read_and_what_is_said_is_seen(room: JobRoom) -> None:
    ada = await seated(room, interactive(room, "1.1", ECHO))
    await ada.sees(b"ready\r\n")
    await ada.place.type(b"one\n")
    await ada.sees(b"<one>\r\n")
    await ada.place.type(b"\x04")
    await ada.told(ended="exit", status=0)
    assert (await room.ended("1.1")).status == 0


async def test_a_shell_that_stood_still_with_a_command_goes_on_with_it_and_reads_what_was_typed(
    room: JobRoom,
) -> None:
    shell = room.order("1.1", "/bin/bash", "--norc", "-i", terminal=(24, 80))
    ada = await seated(room, shell)
    await ada.place.type(b"stty -echo; sed -u 's/.*/<&>/'\n")
    await ada.place.type(b"before\n")
    await ada.sees(b"<before>\r\n")
    for number in range(1, 6):
        await room.launcher.stop("1.1", number)
        await room.fact("1.1", Stopped, number - 1)
        await ada.place.type(b"meanwhile %d\n" % number)
        await room.launcher.go_on("1.1", number, ())
        await ada.sees(b"<meanwhile %d>\r\n" % number)
    await ada.place.type(b"\x04exit 3\n")
    await ada.told(ended="exit", status=3)
    assert b"Stopped" not in ada.seen


async def test_whoever_attaches_again_sees_what_was_said_meanwhile(room: JobRoom) -> None:
    ada = await seated(room, interactive(room, "1.1", ECHO))
    await ada.sees(b"ready")
    await ada.place.type(b"one\n")
    await ada.place.close()
    await room.launcher.close()
    await room.open()
    await room.launcher.adopt(["1.1"])
    again = await sit(room, "1.1")
    await again.sees(b"<one>")
    await again.place.type(b"two\n")
    await again.sees(b"<two>")


async def test_only_the_end_of_a_long_history_is_kept(room: JobRoom) -> None:
    first = await seated(room, interactive(room, "1.1", "seq 20000; echo ready; read line"))
    await first.sees(b"ready")
    late = Seat(await room.launcher.attach("1.1"))
    late.place.look_on()
    await late.sees(b"20000\r\nready\r\n")
    assert len(late.seen) == 64 * 1024


async def test_the_newest_who_asks_has_the_keys_and_the_others_look_on(room: JobRoom) -> None:
    ada = await seated(room, interactive(room, "1.1", ECHO))
    grace = await sit(room, "1.1")
    await ada.told(keys=False, attached=2)
    onlooker = Seat(await room.launcher.attach("1.1"))
    onlooker.place.look_on()
    await onlooker.told(keys=False, attached=3)
    await ada.place.type(b"not heard\n")
    await onlooker.place.type(b"nor this\n")
    await grace.place.type(b"heard\n")
    for each in (ada, grace, onlooker):
        await each.sees(b"<heard>")
        assert b"not heard" not in each.seen
        assert b"nor this" not in each.seen


async def test_a_window_has_the_size_of_the_one_at_the_keys_and_is_drawn_anew(
    room: JobRoom,
) -> None:
    order = room.order(
        "1.1", "python3", "-c", WINDOW, terminal=(24, 80), environment={"PATH": os.environ["PATH"]}
    )
    ada = await seated(room, order)
    await ada.sees(b"ready")
    ada.place.resize(40, 100)
    await ada.place.type(b"first\n")
    await ada.sees(b"first 40 100")
    grace = await sit(room, "1.1", 30, 90)
    await grace.sees(b"drawn 30 90")
    ada.notices.clear()
    ada.place.resize(50, 100)
    ada.place.look_on()
    await ada.told(keys=False)
    await grace.place.type(b"second\n")
    await grace.sees(b"second 30 90")


async def test_a_program_that_has_drawn_nothing_sees_no_window_but_the_one_at_the_keys(
    room: JobRoom,
) -> None:
    silent = WINDOW.replace('print("ready", flush=True)', 'open("up", "w").close()')
    order = room.order(
        "1.1", "python3", "-c", silent, terminal=(24, 80), environment={"PATH": os.environ["PATH"]}
    )
    await room.launch(order)
    await room.until((room.home / "up").exists)
    ada = await sit(room, "1.1", 30, 90)
    await ada.sees(b"drawn ")
    await ada.place.type(b"now\n")
    await ada.sees(b"now 30 90")
    assert b"29 90" not in ada.seen


async def test_who_comes_back_gets_the_keys_again_unless_another_has_had_them(
    room: JobRoom,
) -> None:
    await room.launch(interactive(room, "1.1", ECHO))
    await room.fact("1.1", Main)
    ada = Seat(await room.launcher.attach("1.1"))
    ada.place.ask_keys(24, 80, "ada")
    await ada.told(keys=True)
    back = Seat(await room.launcher.attach("1.1"))
    back.place.ask_keys(24, 80, "ada", again=True)
    await back.told(keys=True)
    await ada.told(keys=False, attached=2)
    await back.place.close()
    grace = Seat(await room.launcher.attach("1.1"))
    grace.place.ask_keys(24, 80, "grace")
    await grace.told(keys=True)
    await grace.place.close()
    late = Seat(await room.launcher.attach("1.1"))
    late.place.ask_keys(24, 80, "ada", again=True)
    await late.told(keys=False)


async def test_it_is_told_how_much_was_typed_and_how_much_of_it_waits(room: JobRoom) -> None:
    ada = await seated(
        room, interactive(room, "1.1", f"stty raw; until [ -e go ]; do sleep 0.02; done; {ECHO}")
    )
    assert ada.notices[-1]["typed"] == 0
    await ada.place.type(b"x" * 60_000)
    await ada.told(typed=60_000)
    assert ada.notices[-1]["pending"]
    ada.notices.clear()
    (room.home / "go").touch()
    await ada.told(typed=60_000, pending=0)


async def test_a_program_with_pipes_gets_and_gives_bytes_as_they_are(room: JobRoom) -> None:
    order = interactive(room, "1.1", "cat; test -t 0 || echo end >&2", piped=True)
    ada = await seated(room, order)
    every = bytes(range(256)) * 100
    await ada.place.type(every)
    await ada.place.end_input()
    await ada.told(ended="exit", status=0)
    assert ada.seen == every + b"end\n"
    await ada.told(typed=len(every) + 1, pending=0)


async def test_a_pipe_that_nobody_reads_takes_what_is_typed_and_forgets_it(room: JobRoom) -> None:
    ada = await seated(
        room, interactive(room, "1.1", "exec 0<&-; echo shut; sleep 1000", piped=True)
    )
    await ada.sees(b"shut")
    await ada.place.type(b"x" * 1000)
    await ada.told(typed=1000, pending=0)


def output_from(room: JobRoom, name: str, start: int = 0) -> bytes:
    """All that an attempt has written so far to the file that is kept for it, from `start` on."""
    read = b""
    while data := room.launcher.read_output(name, "", start + len(read), 1 << 20):
        read += data
    return read


async def test_all_that_a_terminal_has_shown_can_be_read_afterwards_up_to_a_bound(
    room: JobRoom,
) -> None:
    await room.run(interactive(room, "1.1", "seq 20000"))
    await room.run(interactive(room, "2.1", "seq 20000", kept_bytes_max=1000))
    whole = "".join(f"{number}\r\n" for number in range(1, 20001)).encode()
    for name, expected in (("1.1", whole), ("2.1", whole[:1000] + cut_line(1000))):
        assert output_from(room, name) == expected


async def test_whoever_attaches_is_told_where_in_all_output_the_history_begins(
    room: JobRoom,
) -> None:
    first = await seated(room, interactive(room, "1.1", "seq 20000; echo ready; read line"))
    await first.sees(b"ready\r\n")
    place = await room.launcher.attach("1.1")
    place.look_on()
    match await place.next():
        case History(start, data):
            assert output_from(room, "1.1", start) == data
        case other:
            raise AssertionError(other)


async def test_a_job_to_whose_keys_nobody_comes_in_time_ends(room: JobRoom) -> None:
    await room.launch(interactive(room, "1.1", "sleep 1000", attach_s=1.0))
    await room.fact("1.1", Main)
    onlooker = Seat(await room.launcher.attach("1.1"))
    onlooker.place.look_on()
    ended = await room.ended("1.1")
    assert (ended.kind, ended.detail) == ("killed", "no terminal was attached within 1 s")


async def test_a_job_to_whose_keys_somebody_came_goes_on(room: JobRoom) -> None:
    for number, attach_s in enumerate((1, 8, 60), 1):
        name = f"{number}.1"
        text = f"sleep {attach_s + 1}; echo still here"
        await room.launch(interactive(room, name, text, attach_s=attach_s))
        with contextlib.suppress(Conflict, EOFError):
            await room.fact(name, Main)
            ada = await sit(room, name)
            break
        # This machine was too slow to come in time.
    await ada.sees(b"still here")
    await ada.told(ended="exit")


async def test_its_terminal_is_the_users_own(room: JobRoom) -> None:
    ada = await seated(
        room,
        interactive(
            room, "1.1", "stat -c '%U %a' $(tty); ps -o tty= -p $$; echo x >$(tty); read x"
        ),
    )
    await ada.sees(b" 600\r\npts/")
    await ada.sees(b"x\r\n")


async def test_one_who_does_not_keep_up_is_let_go_and_the_job_never_waits(room: JobRoom) -> None:
    text = "until [ -e go ]; do sleep 0.02; done; yes | head -c 6000000; exit 3"
    await room.launch(interactive(room, "1.1", text))
    await room.fact("1.1", Main)
    slow = Seat(await room.launcher.attach("1.1"))
    slow.place.look_on()
    await slow.told(attached=1)
    (room.home / "go").touch()
    assert (await room.ended("1.1")).status == 3
    with pytest.raises(EOFError):
        await slow.told(ended="exit")


async def test_many_who_come_at_once_all_get_a_place(room: JobRoom) -> None:
    await room.launch(interactive(room, "1.1", ECHO))
    await room.fact("1.1", Main)
    shepherd = (await room.fact("1.1", Begun)).shepherd

    async def first_sight() -> object:
        place = await room.launcher.attach("1.1")
        place.look_on()
        seen = await place.next()
        await place.close()
        return seen

    os.kill(shepherd, signal.SIGSTOP)
    try:
        crowd = [asyncio.create_task(first_sight()) for _ in range(40)]
        # Those for whom there is no room in the queue of its socket have been told so by now.
        await asyncio.gather(*(asyncio.sleep(0) for _ in crowd))
    finally:
        os.kill(shepherd, signal.SIGCONT)
    assert all(isinstance(each, History) for each in await asyncio.gather(*crowd))


async def test_as_many_as_may_look_on_keep_nobody_from_ending_the_job(room: JobRoom) -> None:
    await room.launch(interactive(room, "1.1", ECHO))
    await room.fact("1.1", Main)
    crowd = [await room.launcher.attach("1.1") for _ in range(ATTACHED_MAX + 1)]
    for each in crowd:
        each.look_on()
    seen = [await each.next() for each in crowd]
    assert seen.count(None) == 1, "there is no place for one more"
    async with asyncio.timeout(PATIENCE_S):
        await room.launcher.kill("1.1", "an operator wants it to end", 0)
    assert (await room.ended("1.1")).kind == "killed"
    for each in crowd:
        await each.close()


async def test_one_outside_who_still_writes_to_its_terminal_does_not_keep_a_job(
    room: JobRoom,
) -> None:
    """A program may hand its terminal to a process that is none of its job's."""
    meeting = room.home / "meeting"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outside:
        outside.bind(str(meeting))
        meeting.chmod(0o666)
        outside.listen()
        await room.launch(
            room.order("1.1", "python3", "-c", HAND_OVER, str(meeting), terminal=(24, 80))
        )
        line, _ = await asyncio.to_thread(outside.accept)
        _, (terminal,), _, _ = await asyncio.to_thread(socket.recv_fds, line, 1, 1)
        writer = await asyncio.create_subprocess_exec("yes", stdout=terminal)
        os.close(terminal)
        try:
            line.close()
            assert (await room.ended("1.1")).kind == "exit"
        finally:
            writer.kill()
            await writer.wait()


async def test_nonsense_ends_its_speaker_and_nobody_else(room: JobRoom) -> None:
    await room.launch(interactive(room, "1.1", ECHO), room.order("2.1", "sleep", "1000"))
    await room.fact("1.1", Main)
    await room.fact("2.1", Main)
    ada = await sit(room, "1.1")
    for line in (b"c" + b"\xff" * 8, frame(b"c", b"[1]"), frame(b"t", b"{}}"), frame(b"s", b"[]")):
        reader, writer = await asyncio.open_unix_connection(room.launcher.folders.socket("1.1"))
        writer.write(line)
        with contextlib.suppress(OSError):
            async with asyncio.timeout(PATIENCE_S):
                while await reader.read(1000):
                    pass
        writer.close()
    reader, writer = await asyncio.open_unix_connection(room.launcher.folders.socket("2.1"))
    writer.write(frame(KEYS, b"x"))
    assert await reader.read(10) == b""
    writer.close()
    await ada.place.type(b"still here\n")
    await ada.sees(b"<still here>")
    await room.launcher.kill("2.1", "enough")
    assert (await room.ended("2.1")).status == -15


async def test_one_cannot_attach_to_what_does_not_run(room: JobRoom) -> None:
    await room.run(room.order("1.1", "true"))
    for name in ("1.1", "2.1"):
        await until(lambda name=name: _is_refused(room, name), f"nobody is met at {name}")


async def _is_refused(room: JobRoom, name: str) -> bool:
    """Whether it does not run; the shepherd of what has just ended may listen for a moment more."""
    try:
        place = await room.launcher.attach(name)
    except Conflict as refused:
        return refused.detail == "it does not run"
    await place.close()
    return False


# Output of batch jobs


async def test_only_the_very_file_that_a_job_was_given_is_read_for_it(room: JobRoom) -> None:
    await room.run(room.shell("1.1", "echo mine"))
    path = room.home / "out-1.1"
    assert room.launcher.read_output("1.1", str(path), 0, 100) == b"mine\n"
    path.rename(room.home / "moved")
    with pytest.raises(NotFound):
        room.launcher.read_output("1.1", str(path), 0, 100)
    path.symlink_to(room.home / "moved")
    with pytest.raises(NotAllowed):
        room.launcher.read_output("1.1", str(path), 0, 100)
    path.unlink()
    path.write_text("another's")
    with pytest.raises(NotAllowed):
        room.launcher.read_output("1.1", str(path), 0, 100)
    with pytest.raises(NotAllowed):
        room.launcher.read_output("1.1", "/etc/shadow", 0, 100)
    with pytest.raises(NotAllowed):
        room.launcher.read_output("1.1", os.ttyname(0) if os.isatty(0) else "/dev/null", 0, 100)
