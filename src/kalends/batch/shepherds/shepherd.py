"""A shepherd: starts the program of one attempt, keeps its limit, ends all of it, and records how it went.

It outlives the server, and needs nothing of it. Each step is recorded before what follows from it: `Begun`
is on disk before the program may begin, `Ended` is written when no process is left. It believes nobody but
the server, and holds no right of the user's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds import facts, frames, linux, process_tree, program
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.countdown import Countdown
from kalends.batch.shepherds.exits import end_fact, exit_words
from kalends.batch.shepherds.facts import Begun, Fact, Main
from kalends.batch.shepherds.first_process import FirstProcess, fork_program
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.hints import Hint, encode_hint
from kalends.batch.shepherds.kept_file import KeptFile, Transcript
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.poll_loop import PollLoop
from kalends.batch.shepherds.program import Ready, StartFault, decode_report
from kalends.batch.shepherds.record import AttemptRecord, take
from kalends.batch.shepherds.remote_program import KILL_THERE
from kalends.batch.shepherds.size_changes import SizeChanges
from kalends.batch.shepherds.stillness import stillness_of
from kalends.batch.shepherds.stops import Stops
from kalends.batch.shepherds.streams import Streams, open_streams
from kalends.batch.shepherds.terminal import Terminal
from kalends.batch.shepherds.visitors import Reception, Visitor, listening

LOCK_TRIES: Final = 500
LOCK_PAUSE_S: Final = 0.02
"""A server that looks at the record has its lock for some microseconds."""

KILLS_THERE: Final = 5
"""So often a program that runs elsewhere is killed there, before what runs it from here is."""

AGAIN_S: Final = 1.0
"""When to try again to write to a full disk."""

REPORT_BYTES_MAX: Final = 16 * 1024
NO_FAULT: Final = StartFault("")
NEVER_STARTED: Final = "it ended before its program was started"


def tend(order: JobOrder, folders: Folders, groups: str) -> bool:
    """Run the attempt of `order` from begin to end; `groups` is its cgroup's parent.

    Ends without a trace when the attempt has begun or is void, or `Begun` could not be stored. Returns
    whether this process is as it was before, and the server needs no end of it to look at the record.
    """
    record = _only_one(folders.record(order.name))
    if record is None:
        return False
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.PR_SET_NAME, f"job {order.name}".encode()[:15])
    group = ControlGroup(groups, order.name)
    try:
        shepherd = Shepherd(order, folders, group, record)
        me = os.getpid()
        record.append(Begun(time.time(), me, linux.start_ticks(me) or 0, linux.boot_id()))
    except OSError:
        group.end()
        raise
    try:
        shepherd.run()
    except Exception:
        # Ours, not the user's: it goes to the site's log.
        sys.excepthook(*sys.exc_info())
        shepherd.give_up()
        return False
    return shepherd.close()


def _only_one(path: str) -> AttemptRecord | None:
    """Return the empty record with its lock; None if another has decided, or will."""
    for _ in range(LOCK_TRIES):
        record = take(path)
        if record is not None:
            return None if record.content.size else record
        time.sleep(LOCK_PAUSE_S)
    return None


class Shepherd:
    """One attempt, from the moment when no other shepherd can begin it."""

    def __init__(
        self, order: JobOrder, folders: Folders, group: ControlGroup, record: AttemptRecord
    ) -> None:
        """Get ready to begin; raises `OSError`, and then nothing has begun.

        The fork of the program gets ready at the same time, and waits until `run` lets it go on.
        """
        self._order = order
        self._folders = folders
        self._group = group
        self._record = record
        self._began_s = linux.since_boot_s()
        self._cannot = NO_FAULT
        self._own_bytes = 0
        self._kills_there = KILLS_THERE if order.passage else 0
        self._started = False
        self._all_reported = False
        self._reports = b""
        self._unwritten: list[Fact] = []
        self._kept: KeptFile | None = None
        folders.make_own(order.name)
        streams = None if order.terminal == (0, 0) else open_streams(piped=order.piped)
        control = listening(folders.control(order.name)) if order.malleable else None
        self._main = self._fork(streams)
        self._loop = PollLoop()
        self._stops = Stops(
            self._loop, stillness_of(group), ready=lambda: self._started, note=self._note,
            hint=self._hint,
        )  # fmt: skip
        self._countdown = Countdown(
            order.limit_s, order.warn_s, getattr(signal, f"SIG{order.warning}"), order.grace_s,
            order.attach_s,
        )  # fmt: skip
        self._hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hints.setblocking(False)
        self._reception = Reception(
            self._loop, folders.socket(order.name), self._hear, self._has_gone
        )
        self._terminal: Terminal | None = None
        if streams is not None:
            self._terminal = Terminal(
                self._loop, streams, order.terminal,
                Transcript(folders.kept(order.name), order.kept_bytes_max),
                came=self._countdown.came,
            )  # fmt: skip
        self._sizes: SizeChanges | None = None
        if control is not None:
            self._sizes = SizeChanges(
                self._loop, control, store=self._store, note=self._note, hint=self._hint
            )

    def _fork(self, streams: Streams | None) -> FirstProcess | None:
        try:
            return fork_program(self._order, self._folders, self._group, streams)
        except OSError as error:
            why = f"this machine has no room for the job: {error.strerror}"
            self._cannot = StartFault(why, of_host=True)
            return None

    def run(self) -> None:
        """Let the program begin, and stay until all of it has gone."""
        if self._order.cores:
            # What is done for this job is done on its own processors.
            self._processors = os.sched_getaffinity(0)
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._order.cores)
        main = self._main
        if main is None:
            self._finish(program.STATUS_NOT_STARTED, process_tree.NONE)
            return
        self._expect_shutdown()
        ended: list[int] = []
        self._loop.watch(main.report, lambda ready: self._hear_report(main))
        self._loop.watch(main.ended, ended.append)
        while not ended:
            for number in self._countdown.due(self._ran_s):
                if self._countdown.under_way:
                    self._stops.give_up()
                self._signal(self._there(number))
            self._loop.run_once(self._countdown.wait_s(self._ran_s))
        # As long as nobody has waited for it, its number is no other's.
        self._signal(signal.SIGKILL)
        _, status, used = os.wait4(main.pid, 0)
        self._finish(os.waitstatus_to_exitcode(status), process_tree.NONE.and_of(used))

    def give_up(self) -> None:
        """End everything after a fault of our own."""
        self._countdown.ask(self._ran_s, facts.LOST, "its supervisor failed: see the site's log")
        self._finish(-signal.SIGKILL, process_tree.NONE)

    def close(self) -> bool:
        """Close what the attempt has opened; return whether that is all, and the server knows of its end."""
        plain = self._terminal is None and self._sizes is None
        if self._main is None or not (
            plain and self._started and self._all_reported and self._told
        ):
            return False
        linux.default_signal(signal.SIGTERM)
        signal.set_wakeup_fd(-1)
        for descriptor in (*self._wakeup, self._main.ended):
            os.close(descriptor)
        self._reception.close()
        self._hints.close()
        if self._order.cores:
            os.sched_setaffinity(0, self._processors)
        self._record.close()
        return True

    def _expect_shutdown(self) -> None:
        """End the program properly when the host ends all processes, and says so by SIGTERM."""
        self._wakeup = reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        signal.set_wakeup_fd(writer)

        def shut_down(ready: int) -> None:
            os.read(reader, 64)
            self._end("the machine was shut down")

        self._loop.watch(reader, shut_down)

    @property
    def _ran_s(self) -> float:
        """Return the run time that counts against the limit."""
        now_s = linux.since_boot_s()
        return now_s - self._began_s - self._stops.stood_s(now_s)

    def _end(self, why: str, grace_s: float | None = None) -> None:
        """Have the program end. One that stands still has no nodes on which it could tidy up."""
        if self._stops.give_up():
            grace_s = 0.0
        self._countdown.ask(self._ran_s, facts.KILLED, why, grace_s)

    def _hear_report(self, main: FirstProcess) -> None:
        """Hear of the program's way to its start: that it is ready, then nothing more or what prevents it."""
        data = os.read(main.report, REPORT_BYTES_MAX)
        self._reports += data
        *lines, self._reports = self._reports.split(b"\n")
        for line in lines:
            told = decode_report(line)
            if isinstance(told, Ready):
                self._note_main(main, told)
            else:
                self._cannot = told
        if not data:
            self._loop.forget(main.report)
            os.close(main.report)
            self._all_reported = True

    def _note_main(self, main: FirstProcess, ready: Ready) -> None:
        self._own_bytes, files = ready.memory_bytes, ready.files
        if self._terminal is None and not self._order.output and self._order.kept_bytes_max:
            path = self._folders.kept(self._order.name)
            self._kept = KeptFile(self._loop, path, files[0], self._order.kept_bytes_max)
        if self._terminal is not None:
            self._terminal.transcript.belong_to(ready.uid)
            files = (self._terminal.transcript.file,) if self._terminal.transcript.file else ()
        ticks = linux.start_ticks(main.pid)
        self._started = True
        self._note(Main(main.pid, ticks or 0, ready.uid, files), sync=False)
        main.let_go_on()
        self._hint()

    def _there(self, number: int) -> int:
        """Return the signal to send: at first a program is killed on the host where it runs."""
        if number == signal.SIGKILL and self._kills_there:
            self._kills_there -= 1
            return KILL_THERE
        return number

    def _signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        assert self._main is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self._main.pid, number)
            except ProcessLookupError:
                # It has not made a group of its own yet.
                os.kill(self._main.pid, number)

    def _finish(self, status: int, used: process_tree.ResourceUsage) -> None:
        """End what is left, and write how it ended when nothing is; the first process has `used` so much."""
        self._group.end()
        strays = process_tree.end_descendants(os.getpid())
        if self._kept is not None:
            self._kept.cut()
        if self._terminal is not None:
            self._terminal.drain()
        self._hear_last_report()
        kind, detail = self._how(status)
        self._clear()
        here = kind == facts.NOT_STARTED and self._cannot.of_host
        spent = (used, strays, self._own_bytes)
        ended = end_fact(kind, status, detail, self._ran_s, *spent, here=here)
        self._unwritten.append(ended)
        while not self._write_down():
            time.sleep(AGAIN_S)
        self._reception.say_all(frames.NOTICE, {"ended": kind, "status": status, "detail": detail})
        with contextlib.suppress(OSError):
            os.unlink(self._folders.socket(self._order.name))
        self._told = self._hint()

    def _hear_last_report(self) -> None:
        """Take reports that came together with the end."""
        with contextlib.suppress(OSError):
            self._loop.run_once(0.0)

    def _how(self, status: int) -> tuple[str, str]:
        if self._countdown.under_way:
            return self._countdown.kind, self._countdown.detail
        if self._cannot.detail or not self._started:
            return facts.NOT_STARTED, self._cannot.detail or NEVER_STARTED
        return facts.EXIT, exit_words(status, self._order.resources)

    def _clear(self) -> None:
        """Remove what only a running program needs."""
        name = self._order.name
        made = [self._folders.script(name)] if self._order.script else []
        made += [self._folders.control(name)] if self._order.malleable else []
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(self._folders.own(name))

    # What is recorded

    def _store(self, fact: Fact) -> None:
        """Record `fact` now; raises `ValueError` or `OSError` if that cannot be."""
        if self._unwritten or self._record.full:
            raise ValueError("the record of the job takes no changes at present")
        self._record.append(fact)

    def _note(self, fact: Fact, *, sync: bool = True) -> None:
        """Record `fact`, later if the disk is full now."""
        self._unwritten.append(fact)
        if not self._write_down(sync=sync):
            self._loop.later(AGAIN_S, self._write_later)

    def _write_later(self) -> None:
        if not self._write_down():
            self._loop.later(AGAIN_S, self._write_later)

    def _write_down(self, *, sync: bool = True) -> bool:
        """Write what is to be recorded; return whether all of it stands."""
        try:
            while self._unwritten:
                self._record.append(self._unwritten[0], sync=sync)
                self._unwritten.pop(0)
        except OSError:
            return False
        return True

    def _hint(self, want: int = 0) -> bool:
        """Tell the server that there is something to look at; return whether it is there, and has room."""
        try:
            self._hints.sendto(encode_hint(Hint(self._order.name, want)), self._folders.hints)
        except OSError:
            return False
        return True

    # What others say

    def _hear(self, visitor: Visitor, kind: bytes, body: bytes) -> None:
        """Take one frame. Raises `ValueError` for an unknown one, after which its sender is disconnected."""
        if kind == frames.COMMAND:
            visitor.say(frames.json_frame(frames.ANSWER, self._obey(frames.object_in(body))))
        elif self._terminal is None:
            raise ValueError("this job has no terminal")
        else:
            self._terminal.hear(visitor, kind, body)

    def _has_gone(self, visitor: Visitor) -> None:
        if self._terminal is not None:
            self._terminal.leave(visitor)

    def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        commands: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "kill": self._kill, "prolong": self._prolong, "stop": self._stops.stop,
            "go on": self._stops.go_on,
        }  # fmt: skip
        if self._sizes is not None:
            commands |= {
                "change": self._sizes.ask, "withdraw": self._sizes.withdraw, "deny": self._sizes.deny,
            }  # fmt: skip
        do = commands.get(command.get("do"))
        if do is None and self._sizes is None and command.get("do") == "change":
            return {"error": "this program cannot change its size"}
        if do is None:
            return {"error": "this version of the supervisor does not know that call"}
        try:
            return do(command)
        except (KeyError, TypeError, ValueError, OSError) as error:
            return {"error": f"the call failed: {error}"}

    def _kill(self, command: dict[str, Any]) -> dict[str, Any]:
        grace_s = command.get("grace_s")
        grace_s = None if grace_s is None else float(grace_s)
        self._end(str(command["reason"]), grace_s)
        return {}

    def _prolong(self, command: dict[str, Any]) -> dict[str, Any]:
        self._countdown.prolong(float(command["limit_s"]))
        return {}
