"""A shepherd: starts the program of one attempt, keeps its limit, ends all of it, and records how it went.

It outlives the server, and needs nothing of it. Each step is recorded before what follows from it: `Begun`
is on disk before the program is forked, `Ended` is written when no process is left. It believes nobody but
the server, and holds no right of the user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds import facts, family, frames, linux, program
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.countdown import Countdown
from kalends.batch.shepherds.facts import Begun, Ended, Fact, Main
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import SIGNALS, JobOrder
from kalends.batch.shepherds.poll_loop import PollLoop
from kalends.batch.shepherds.record import AttemptRecord, take
from kalends.batch.shepherds.size_changes import SizeChanges
from kalends.batch.shepherds.streams import open_streams
from kalends.batch.shepherds.terminal import Terminal
from kalends.batch.shepherds.transcript import Transcript
from kalends.batch.shepherds.visitors import Reception, Visitor

LOCK_TRIES: Final = 500
LOCK_PAUSE_S: Final = 0.02
"""A server that looks at the record has its lock for some microseconds."""

AGAIN_S: Final = 1.0
"""When to try again to write to a full disk."""

REPORT_BYTES_MAX: Final = 16 * 1024
DETAIL_CHARACTERS_MAX: Final = 1_000


def tend(order: JobOrder, folders: Folders, groups: str) -> None:
    """Run the attempt of `order` from begin to end, in a process of its own; `groups` is its cgroup's parent.

    Returns without a trace when the attempt has begun or is void, and when `Begun` could not be stored.
    """
    record = _only_one(folders.record(order.name))
    if record is None:
        return
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.PR_SET_NAME, f"job {order.name}".encode()[:15])
    shepherd = Shepherd(order, folders, ControlGroup(groups, order.name), record)
    me = os.getpid()
    record.append(Begun(time.time(), me, linux.start_ticks(me) or 0, linux.boot_id()))
    try:
        shepherd.run()
    except Exception:
        traceback.print_exc()
        shepherd.give_up()


def _only_one(path: str) -> AttemptRecord | None:
    """Return the empty record with its lock; None if another has decided, or will."""
    for _ in range(LOCK_TRIES):
        record = take(path)
        if record is not None:
            return None if record.content.size else record
        time.sleep(LOCK_PAUSE_S)
    return None


class Shepherd:
    """One attempt, from the moment when nobody else can begin it."""

    def __init__(
        self, order: JobOrder, folders: Folders, group: ControlGroup, record: AttemptRecord
    ) -> None:
        """Get ready to begin; raises `OSError`, and then nothing has begun."""
        self._order = order
        self._folders = folders
        self._group = group
        self._record = record
        self._loop = PollLoop()
        self._began_s = linux.since_boot_s()
        self._countdown = Countdown(
            order.limit_s, order.warn_s, getattr(signal, f"SIG{order.warning}"), order.grace_s,
            order.attach_s,
        )  # fmt: skip
        self._main = 0
        self._cannot = ""
        self._started = False
        self._reports = b""
        self._unwritten: list[Fact] = []
        self._hints = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._hints.setblocking(False)
        folders.make_own(order.name)
        self._reception = Reception(
            self._loop, folders.socket(order.name), self._hear, self._has_gone
        )
        self._terminal: Terminal | None = None
        if order.terminal != (0, 0):
            self._terminal = Terminal(
                self._loop, open_streams(piped=order.piped), order.terminal,
                Transcript(folders.kept(order.name), order.transcript_bytes_max),
                said=self._said, came=self._countdown.came,
            )  # fmt: skip
        self._sizes: SizeChanges | None = None
        if order.malleable:
            self._sizes = SizeChanges(
                self._loop, folders.control(order.name),
                store=self._store, note=self._note, hint=self._hint,
            )  # fmt: skip

    def run(self) -> None:
        """Start the program and stay until all of it has gone."""
        self._hint({"fact": "begun"})
        if self._order.cores:
            # What is done for this job is done on its own processors.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._order.cores)
        pidfd = self._start()
        if pidfd is None:
            self._finish(program.STATUS_NOT_STARTED)
            return
        # Not before: the fork would inherit it, and not hear a request to end.
        self._expect_shutdown()
        ended: list[int] = []
        self._loop.watch(pidfd, ended.append)
        while not ended:
            for number in self._countdown.due(self._ran_s):
                self._signal(number)
            self._loop.run_once(self._countdown.wait_s(self._ran_s))
        # As long as nobody has waited for it, its number is no other's.
        self._signal(signal.SIGKILL)
        self._finish(os.waitstatus_to_exitcode(os.waitpid(self._main, 0)[1]))

    def give_up(self) -> None:
        """End everything after a fault of our own."""
        self._countdown.ask(self._ran_s, facts.LOST, "its shepherd failed; the site's log says how")
        self._finish(-signal.SIGKILL)

    def _expect_shutdown(self) -> None:
        """End the program properly when the host ends all processes, and says so by SIGTERM."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        signal.set_wakeup_fd(writer)

        def shut_down(ready: int) -> None:
            os.read(reader, 64)
            self._countdown.ask(self._ran_s, facts.KILLED, "the machine was shut down")

        self._loop.watch(reader, shut_down)

    @property
    def _ran_s(self) -> float:
        return linux.since_boot_s() - self._began_s

    def _start(self) -> int | None:
        """Fork the program; return a descriptor of its first process, None if there is none."""
        report, theirs = os.pipe()
        waiting, self._leave = os.pipe()
        me = os.getpid()
        try:
            self._group.make(self._order.processes_max, self._order.memory_bytes_max)
            self._main = os.fork()
        except OSError as error:
            self._cannot = f"this machine has no room for it: {error.strerror}"
            return None
        if self._main == 0:
            streams = self._terminal.streams[2:] if self._terminal is not None else (-1, -1)
            wires = program.Wires(theirs, waiting, *streams)
            program.become(self._order, self._folders, self._group, me, wires)
        os.close(theirs)
        os.close(waiting)
        if self._terminal is not None:
            self._terminal.streams.close_theirs()
        self._loop.watch(report, lambda ready: self._hear_report(report))
        return os.pidfd_open(self._main)

    def _hear_report(self, report: int) -> None:
        """Hear of the program's way to its start: who it is, then nothing more or what prevents it."""
        data = os.read(report, REPORT_BYTES_MAX)
        self._reports += data
        *lines, self._reports = self._reports.split(b"\n")
        for line in lines:
            told: dict[str, Any] = json.loads(line)
            if "cannot" in told:
                self._cannot = told["cannot"]
            else:
                self._note_main(told)
        if not data:
            self._loop.forget(report)
            os.close(report)

    def _note_main(self, told: dict[str, Any]) -> None:
        files = tuple((int(device), int(inode)) for device, inode in told["files"])
        if self._terminal is not None:
            self._terminal.transcript.belong_to(told["uid"])
            files = (self._terminal.transcript.file,) if self._terminal.transcript.file else ()
        ticks = linux.start_ticks(self._main)
        self._started = True
        self._note(Main(self._main, ticks or 0, told["uid"], files), sync=False)
        # It may have been killed while it waited.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._leave, b"g")
        os.close(self._leave)
        self._hint({"fact": "main"})

    def _signal(self, number: int) -> None:
        """Send a signal to the program's process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self._main, number)
            except ProcessLookupError:
                # It has not made a group of its own yet.
                os.kill(self._main, number)

    def _finish(self, status: int) -> None:
        """End what is left, and write how it ended when nothing is."""
        self._group.end()
        strays = family.end_descendants(os.getpid())
        if self._terminal is not None:
            self._terminal.drain()
        self._hear_last_report()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        kind, detail = self._how(status)
        self._clear()
        ended = Ended(
            kind, status, detail[:DETAIL_CHARACTERS_MAX], time.time(), self._ran_s,
            used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, strays,
        )  # fmt: skip
        self._unwritten.append(ended)
        while not self._write_down():
            time.sleep(AGAIN_S)
        self._reception.say_all(
            frames.json_frame(frames.NOTICE, {"ended": kind, "status": status, "detail": detail})
        )
        with contextlib.suppress(OSError):
            os.unlink(self._folders.socket(self._order.name))
        self._hint({"fact": "ended"})

    def _hear_last_report(self) -> None:
        """Take reports that came together with the end."""
        with contextlib.suppress(OSError):
            self._loop.run_once(0.0)

    def _how(self, status: int) -> tuple[str, str]:
        if self._countdown.under_way:
            return self._countdown.kind, self._countdown.detail
        if self._cannot or not self._started:
            return facts.NOT_STARTED, self._cannot or "it ended before its program was started"
        if -status == signal.SIGXFSZ and "FSIZE" in self._order.resources:
            most = self._order.resources["FSIZE"]
            return facts.EXIT, f"ended by SIGXFSZ: one of its files grew beyond {most} bytes"
        return facts.EXIT, f"ended by {_name_of(-status)}" if status < 0 else ""

    def _clear(self) -> None:
        """Remove what only a running program needs."""
        name = self._order.name
        for path in (self._folders.script(name), self._folders.control(name)):
            with contextlib.suppress(OSError):
                os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(self._folders.own(name))

    # What is recorded

    def _store(self, fact: Fact) -> None:
        """Record `fact` now; raises `ValueError` or `OSError` if that cannot be."""
        if self._unwritten or self._record.full:
            raise ValueError("its record takes no more changes now")
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

    def _hint(self, what: dict[str, Any]) -> None:
        """Tell the server, if it is there and has room, that there is something to look at."""
        message = json.dumps({"name": self._order.name, **what}).encode()
        with contextlib.suppress(OSError):
            self._hints.sendto(message, self._folders.hints)

    # What others say

    def _hear(self, visitor: Visitor, kind: bytes, body: bytes) -> None:
        """Take one frame; raises `ValueError` for what is none of ours, and then its sender is let go."""
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
            "kill": self._kill, "warn": self._warn, "prolong": self._prolong,
        }  # fmt: skip
        if self._sizes is not None:
            commands |= {
                "change": self._sizes.ask, "withdraw": self._sizes.withdraw, "deny": self._sizes.deny,
            }  # fmt: skip
        do = commands.get(command.get("do"))
        if do is None and self._sizes is None and command.get("do") == "change":
            return {"error": "this program cannot change its size"}
        if do is None:
            return {"error": "a shepherd of this version does not know that"}
        try:
            return do(command)
        except (KeyError, TypeError, ValueError, OSError) as error:
            return {"error": f"it could not be done: {error}"}

    def _kill(self, command: dict[str, Any]) -> dict[str, Any]:
        grace_s = command.get("grace_s")
        grace_s = None if grace_s is None else float(grace_s)
        self._countdown.ask(self._ran_s, facts.KILLED, str(command["reason"]), grace_s)
        return {}

    def _warn(self, command: dict[str, Any]) -> dict[str, Any]:
        name = command["signal"]
        if name not in SIGNALS:
            raise ValueError(f"no signal {name} to warn with")
        self._signal(getattr(signal, f"SIG{name}"))
        return {}

    def _prolong(self, command: dict[str, Any]) -> dict[str, Any]:
        self._countdown.prolong(float(command["limit_s"]))
        return {}

    def _said(self, output_bytes: int) -> None:
        most = self._order.terminal_bytes_max
        if output_bytes > most:
            too_much = f"it wrote more than {most} bytes to its terminal"
            self._countdown.ask(self._ran_s, facts.KILLED, too_much, 0.0)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
