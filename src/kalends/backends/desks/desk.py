"""A process of one user, through which a site hands jobs over to a batch system and follows them.

It becomes the user before it reads any request, so all that it submits, reads and cancels is the user's. All
its knowledge is in the folders of the attempts: when it dies, the next one continues. The state of a
job in the system is only a hint, because some systems report a job that they do not find as done; the job's
own script records its end.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, Final

from kalends.backends.desks import wire
from kalends.backends.desks.attempts import NATIVE, OUTPUT, AttemptFolder, why_not_writable
from kalends.backends.desks.handed_over import (
    CANNOT_ENTER,
    FOLDER,
    RUN,
    SCRIPT,
    HandedOver,
    JobLaunch,
    NoAnswer,
    NotTaken,
    QueueAccess,
    run_text,
)
from kalends.backends.kinds import kind_named

CANNOT: Final = "jobs cannot be handed over from the home of their user"
LOOK_S: Final = 0.5
AT_ONCE: Final = 4
PRUNE_S: Final = 3_600.0
KILL_AGAIN_S: Final = 10.0
ASK_AGAIN_S: Final = 2.0


class Attempt:
    """An attempt that is followed. `lock` allows one thread at a time to decide about it."""

    def __init__(self, name: str, folder: AttemptFolder) -> None:
        self.name = name
        self.folder = folder
        self.lock = threading.RLock()
        self.native = ""
        self.told: set[str] = set()
        self.killed = False
        self.asked = False
        """Whether this desk may have submitted it to the system."""
        self.unknown = False
        """Whether the last look failed, so that another one is due."""
        self.kill_due_s = 0.0
        self.unanswered: HandedOver | None = None
        """Its program, as long as it is unknown whether the system has it."""
        self.ask_due_s = 0.0
        self.over = False


class Desk:
    """All attempts of one user on one machine; `say` writes one line to the site."""

    def __init__(self, access: QueueAccess, launch: JobLaunch, home: str, out: BinaryIO) -> None:
        self._access = access
        self._home = home
        machine = f"{access.site}.{access.machine}"
        self._folders = os.path.join(home, FOLDER, machine)
        self._head = f"kal.{machine}"
        self._out = out
        self._writing = threading.Lock()
        self._attempts: dict[str, Attempt] = {}
        self._work = ThreadPoolExecutor(AT_ONCE)
        self._launch = launch

    def say(self, word: wire.Told) -> None:
        with self._writing:
            self._out.write(wire.encode(word) + b"\n")
            self._out.flush()

    def hear(self, wish: wire.Wish) -> None:
        if isinstance(wish, wire.ReadPiece):
            self._work.submit(self._read, wish)
        elif isinstance(wish, wire.ForeseeStart):
            self._work.submit(self._foresee, wish)
        elif not isinstance(wish, wire.OpenDesk):
            attempt = self._attempts.get(wish.attempt)
            if attempt is None or attempt.over:
                folder = AttemptFolder(os.path.join(self._folders, wish.attempt))
                attempt = self._attempts[wish.attempt] = Attempt(wish.attempt, folder)
            if isinstance(wish, wire.FollowAttempt):
                attempt.told.clear()
            if isinstance(wish, wire.SubmitAttempt):
                doing = partial(self._submit, attempt, wish.job)
            else:
                attempt.killed = attempt.killed or isinstance(wish, wire.KillAttempt)
                doing = partial(self._adopt, attempt)
            self._work.submit(self._try, attempt, doing)

    def finish(self) -> None:
        """Return once all requests have been carried out."""
        self._work.shutdown()

    def watch(self) -> None:
        """Look at all attempts repeatedly; drop those that ended long ago."""
        # First the site lists the attempts whose ends it does not know.
        prune_s = time.monotonic() + PRUNE_S
        while True:
            if time.monotonic() >= prune_s:
                self._prune()
                prune_s = time.monotonic() + PRUNE_S
            for attempt in list(self._attempts.values()):
                if attempt.lock.acquire(blocking=False):
                    try:
                        self._try(attempt, partial(self._look, attempt))
                    finally:
                        attempt.lock.release()
                if attempt.unanswered is not None and time.monotonic() >= attempt.ask_due_s:
                    attempt.ask_due_s = time.monotonic() + ASK_AGAIN_S
                    self._work.submit(self._try, attempt, partial(self._ask_again, attempt))
                if attempt.over:
                    self._attempts.pop(attempt.name, None)
            time.sleep(LOOK_S)

    def _try(self, attempt: Attempt, doing: partial[None]) -> None:
        try:
            with attempt.lock:
                doing()
        except (OSError, NotTaken) as error:
            self._trouble(attempt, str(error))

    def _trouble(self, attempt: Attempt, detail: str) -> None:
        if detail not in attempt.told:
            attempt.told.add(detail)
            self.say(wire.DeskTrouble(attempt.name, detail))

    def _submit(self, attempt: Attempt, job: HandedOver) -> None:
        """Submit it unless it has a number or a decision: then no other desk has tried."""
        folder = attempt.folder
        if folder.there:
            self._adopt(attempt)
            return
        try:
            folder.make()
            with folder.locked():
                if folder.turn() is None and not folder.native():
                    self._write_script(attempt, job)
                    self._launch_it(attempt, job)
        except OSError as error:
            if not attempt.asked:
                self._give_up(attempt, f"{CANNOT}: {error}")
                return
            self._trouble(attempt, str(error))
            attempt.unknown = not attempt.native
        self._know(attempt)
        self._look(attempt)

    def _write_script(self, attempt: Attempt, job: HandedOver) -> None:
        folder = attempt.folder
        if job.script:
            folder.write(SCRIPT, job.script, 0o700)
        local = self._launch.numbers_processes
        folder.write(RUN, run_text(job, folder.path, self._home, local=local), 0o700)

    def _launch_it(self, attempt: Attempt, job: HandedOver) -> None:
        folder, name = attempt.folder, f"{self._head}.{attempt.name}"
        attempt.asked = True
        try:
            attempt.native = self._launch.submit(attempt.name, name, f"{folder.path}/{RUN}", job)
        except NoAnswer as error:
            attempt.unanswered, attempt.ask_due_s = job, time.monotonic() + ASK_AGAIN_S
            self._trouble(attempt, str(error))
            return
        except NotTaken as error:
            # A lost answer is not a refusal; but from here on the attempt never begins.
            if folder.take_turn():
                folder.close("not-started", f"{self._access.system} refused it: {error}")
        else:
            folder.write(NATIVE, attempt.native)
        attempt.unanswered = None

    def _ask_again(self, attempt: Attempt) -> None:
        """Submit it again to a system that gave no answer; if it has two then, one of them ends at once."""
        folder = attempt.folder
        if attempt.unanswered is None or attempt.over:
            return
        with folder.locked():
            if folder.turn() is None and not folder.native():
                self._launch_it(attempt, attempt.unanswered)
            else:
                attempt.unanswered = None
        self._know(attempt)
        self._look(attempt)

    def _give_up(self, attempt: Attempt, detail: str) -> None:
        """Report an attempt that was not submitted, and of which nothing can run."""
        self.say(wire.AttemptEnded(attempt.name, "not-started", 0, detail, of_site=True))
        attempt.over = True

    def _adopt(self, attempt: Attempt) -> None:
        """Find out what an earlier desk did. An attempt without a number that has not begun never will."""
        folder = attempt.folder
        attempt.unknown = True
        folder.make()
        with folder.locked():
            if attempt.killed or not folder.native():
                folder.take_turn()
        attempt.unknown = False
        self._know(attempt)
        self._look(attempt)

    def _know(self, attempt: Attempt) -> None:
        """Record the number in the system, and watch it."""
        turn = attempt.folder.turn()
        native = attempt.native or attempt.folder.native() or (turn.native if turn else "")
        if native:
            attempt.native = native
            self._launch.attach(attempt.name, native)
            self._once(attempt, "queued", wire.AttemptQueued(attempt.name, native))

    def _look(self, attempt: Attempt) -> None:
        """Report changes to the site."""
        folder, name = attempt.folder, attempt.name
        if attempt.over:
            return
        if attempt.unknown:
            self._adopt(attempt)
            return
        if not folder.there:
            return
        turn, end = folder.turn(), folder.end()
        self._know(attempt)
        if turn is not None and turn.begun:
            self._once(attempt, "begun", wire.AttemptBegun(name, turn.at_s, attempt.native))
        if end is not None:
            killed = attempt.killed and (end.kind == "lost" or end.status)
            kind = "killed" if killed else end.kind
            detail = "" if attempt.killed and end.kind == "lost" else end.detail
            of_site = kind == "not-started" and not detail.startswith(CANNOT_ENTER)
            self.say(wire.AttemptEnded(name, kind, end.status, detail, of_site))
        elif turn is not None and not turn.begun:
            self.say(wire.AttemptVoided(name))
        else:
            gone = self._launch.gone(name)
            if gone is not None:
                self._missed(attempt, gone)
            elif attempt.killed:
                self._cancel(attempt)
            return
        if turn is not None and not turn.begun:
            self._cancel(attempt)
        attempt.over = True
        self._launch.forget(name)

    def _missed(self, attempt: Attempt, said: str) -> None:
        """Report an attempt that has vanished from the system without a record of its end."""
        folder, system = attempt.folder, self._access.system
        words = f"{system} no longer has it" + (f": {said}" if said else "")
        if folder.take_turn():
            folder.close("not-started", words)
        elif folder.end() is None:
            folder.close("lost", f"{words}; it has not recorded how it ended")

    def _cancel(self, attempt: Attempt) -> None:
        """Ask the system to end it, repeatedly."""
        if time.monotonic() < attempt.kill_due_s:
            return
        attempt.kill_due_s = time.monotonic() + KILL_AGAIN_S
        try:
            self._launch.cancel(attempt.name, f"{self._head}.{attempt.name}", attempt.native)
        except NotTaken as error:
            if not attempt.native:
                self._trouble(attempt, str(error))

    def _once(self, attempt: Attempt, what: str, word: wire.Told) -> None:
        if what not in attempt.told:
            attempt.told.add(what)
            self.say(word)

    def cannot_hand_over(self) -> str:
        """Return why no job can be handed over for this user at present; "" if jobs can."""
        why = why_not_writable(self._folders)
        return f"{CANNOT}: {why}" if why else ""

    def _foresee(self, wish: wire.ForeseeStart) -> None:
        """A job that could not be handed over would never start."""
        if cannot := self.cannot_hand_over():
            self.say(wire.StartForeseen(wish.number, fault=cannot))
            return
        try:
            at_s = self._launch.foresee(wish.nodes, wish.limit_s)
        except NotTaken as error:
            self.say(wire.StartForeseen(wish.number, fault=str(error)))
        else:
            self.say(wire.StartForeseen(wish.number, at_s))

    def _read(self, wish: wire.ReadPiece) -> None:
        folder = os.path.join(self._folders, wish.attempt)
        path = os.path.join(self._home, wish.path) if wish.path else f"{folder}/{OUTPUT}"
        there = os.path.isdir(folder)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise OSError("it is not a file")
                data = os.pread(descriptor, wire.READ_BYTES_MAX, wish.offset)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            self.say(wire.OutputPiece(wish.number, b"", there=there))
        except OSError as error:
            self.say(wire.OutputPiece(wish.number, b"", error.strerror or str(error), there))
        else:
            self.say(wire.OutputPiece(wish.number, data, there=there))

    def _prune(self) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folders):
                folder = AttemptFolder(os.path.join(self._folders, name))
                if name not in self._attempts and folder.old(self._access.keep_s):
                    folder.remove()


def _become(user: str) -> None:
    """Become the user for good, who must be able to read all modules that are loaded later."""
    entry = pwd.getpwnam(user)
    if os.geteuid() == 0:
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    if os.geteuid() == 0 or os.geteuid() != entry.pw_uid:
        raise PermissionError(f"jobs of {user} are handed over as {user} only, never as root")


def _launch_of(access: QueueAccess) -> JobLaunch:
    queue = kind_named(access.kind).queue
    assert queue is not None
    return queue.launch(access)


def main() -> None:
    """Serve the site at the other end of standard input, until that ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The output of plug-ins is not for the site.
    lines = sys.stdin.buffer
    first = wire.decode_wish(lines.readline(wire.LINE_BYTES_MAX))
    assert isinstance(first, wire.OpenDesk)
    try:
        launch = _launch_of(first.access)
        _become(first.user)
        desk = Desk(first.access, launch, os.environ["HOME"], out)
        version = launch.version
    except Exception as error:
        said = f"{first.access.reached_by} cannot be used: {error}"
        out.write(wire.encode(wire.DeskReady("", said)) + b"\n")
        out.flush()
        return
    desk.say(wire.DeskReady(version, cannot=desk.cannot_hand_over()))
    threading.Thread(target=desk.watch, daemon=True).start()
    while line := lines.readline(wire.LINE_BYTES_MAX):
        desk.hear(wire.decode_wish(line))
    # Current submissions are finished first, so that their numbers are known; later requests wait.
    desk.finish()
    os._exit(0)  # Do not wait for threads of plug-ins.


if __name__ == "__main__":
    main()
