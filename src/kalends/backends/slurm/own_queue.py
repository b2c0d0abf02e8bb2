"""A Slurm's own queue, as one user of it: ``sbatch``, ``squeue`` and ``scancel``, called by the user's desk.

Learned from Slurm 22.05: a held job has no place. It gets its priority when it is released, and comes behind
all jobs submitted until then. ``sbatch --test-only`` changes nothing, and counts running jobs, reservations,
and waiting jobs that have a start. A write without an answer may be carried out later: so a job is looked for
by its name before it is submitted again, and the second of two ends at once.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from kalends.backends.desks.handed_over import HandedOver, NoAnswer, NotTaken, QueueAccess
from kalends.backends.slurm.adapter import AWAY
from kalends.backends.slurm.allocations import minutes, whole_path

LOOKS: Final = 2
"""Number of successive looks without a job after which it counts as vanished."""

Done = subprocess.CompletedProcess[str]
RunCommand = Callable[[Sequence[str], float], Done]
"""Runs a command to its end within a number of seconds; raises as `subprocess.run` does."""

_FORESEEN: Final = re.compile(r"^sbatch: Job \d+ to start at (\S+) using ", re.MULTILINE)
_LISTED: Final = "%i|%j|."


def run_command(words: Sequence[str], wait_s: float) -> Done:
    return subprocess.run(
        words, capture_output=True, text=True, errors="replace", check=False, timeout=wait_s,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


class SlurmQueue:
    """The jobs of one user in this queue. Thread-safe."""

    numbers_processes = False

    def __init__(
        self,
        how: QueueAccess,
        run: RunCommand = run_command,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._how = how
        self._run_command = run
        self._now_s = now_s
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        """The name of each attempt that was requested here."""
        self._natives: dict[str, str] = {}
        self._missed: dict[str, int] = {}
        """The number of successive looks that have not found an attempt."""
        self._looked_s = now_s()

    @property
    def version(self) -> str:
        """The name and version of the system, for people; raises `NotTaken` if its commands do not work."""
        return self._said("sbatch", "--version").strip()

    def submit(self, attempt: str, name: str, program: str, job: HandedOver) -> str:
        """Submit a job; return its number. Raises `NotTaken`, and `NoAnswer`: then it may be there."""
        with self._lock:
            again = attempt in self._names
            self._names[attempt] = name
        native = self._number_of(name) if again else ""
        if not native:
            said = self._said(
                "sbatch", *self._asked(job.nodes, job.limit_s), "--parsable", f"--job-name={name}",
                "--no-requeue", "--output=/dev/null", f"--chdir={os.path.dirname(program)}", program,
            )  # fmt: skip
            native = said.strip().partition(";")[0]
        if not native.isdecimal():
            raise NoAnswer(f"sbatch says {native[:100]!r} for a number")
        self.attach(attempt, native)
        return native

    def foresee(self, nodes: int, limit_s: int) -> int:
        """Return when such a job would start (seconds UTC). Raises `NotTaken` if never, and `NoAnswer`."""
        done = self._run("sbatch", "--test-only", *self._asked(nodes, limit_s), "--wrap=true")
        found = _FORESEEN.search(done.stderr)
        if found is None:
            raise _fault(done.stderr)
        return int(datetime.fromisoformat(f"{found.group(1)}+00:00").timestamp())

    def attach(self, attempt: str, native: str) -> None:
        """Watch a job that is there under this number."""
        with self._lock:
            if self._natives.get(attempt) != native:
                self._natives[attempt] = native
                self._missed[attempt] = 0

    def gone(self, attempt: str) -> str | None:
        """Return "" for a job that has vanished; None if it exists, or its state is unknown."""
        self._look()
        with self._lock:
            return "" if self._missed.get(attempt, 0) >= LOOKS else None

    def cancel(self, attempt: str, name: str, native: str) -> None:
        """End all jobs with the name of an attempt, whatever their numbers. Raises `NotTaken`."""
        self._said("scancel", "--me", f"--name={name}")

    def forget(self, attempt: str) -> None:
        with self._lock:
            for each in (self._names, self._natives, self._missed):
                each.pop(attempt, None)

    def _asked(self, nodes: int, limit_s: int) -> list[str]:
        return [*self._how.options, f"--nodes={nodes}", f"--time={minutes(limit_s)}"]

    def _look(self) -> None:
        """Look which jobs exist, at most once in `look_s`; a missing answer changes nothing."""
        with self._lock:
            if not self._natives or self._now_s() - self._looked_s < self._how.look_s:
                return
            self._looked_s, asked = self._now_s(), dict(self._natives)
        try:
            there = {native for native, _ in self._listed()}
        except NotTaken:
            there = set(asked.values())
        with self._lock:
            for attempt, native in asked.items():
                if attempt in self._missed:
                    self._missed[attempt] = 0 if native in there else self._missed[attempt] + 1

    def _number_of(self, name: str) -> str:
        """Return the number of the first job of this name; "" if there is none."""
        return next((native for native, named in self._listed() if named == name), "")

    def _listed(self) -> list[tuple[str, str]]:
        """Return number and name of all jobs of the user; raises `NoAnswer` for a truncated listing."""
        said = self._said("squeue", "-h", "--me", "-a", "-o", _LISTED)
        if said and not said.endswith("|.\n"):
            raise NoAnswer("its listing of jobs has no end")
        lines = (line.split("|") for line in said.splitlines())
        # An unreadable line has a name that its user chose, so the job is not ours.
        return [(words[0], words[1]) for words in lines if len(words) == 3]

    def _said(self, command: str, *words: str) -> str:
        done = self._run(command, *words)
        if done.returncode:
            raise _fault(done.stderr)
        return done.stdout

    def _run(self, command: str, *words: str) -> Done:
        try:
            return self._run_command((whole_path(command), *words), self._how.answer_s_max)
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"{command} has not ended in {self._how.answer_s_max:g} s") from None
        except OSError as error:
            raise NotTaken(f"{command} cannot be run: {error.strerror}") from error


def _fault(errors: str) -> NotTaken:
    """Return the error of a command; as `NoAnswer` if the command did not reach Slurm."""
    said = _in_words(errors.splitlines())
    return NoAnswer(said) if AWAY.search(errors) else NotTaken(said)


def _in_words(lines: Sequence[str]) -> str:
    told = (re.sub(r"^s\w+: (error: )?", "", line).strip() for line in lines)
    return "; ".join(dict.fromkeys(filter(None, told)))[:500] or "it says nothing"
