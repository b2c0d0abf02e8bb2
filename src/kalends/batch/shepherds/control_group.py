"""A control group (version 2) for each attempt, where the host lets us have one; see cgroups(7).

It is the only thing that finds all processes of an attempt even after its shepherd has died.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final

GONE_S_MAX: Final = 5.0


class ControlGroup:
    """The group of one attempt below `top`; without `top` it is none, and does nothing."""

    def __init__(self, top: str, name: str) -> None:
        self._path = f"{top}/{name}" if top else ""

    def make(self, processes_max: int, memory_bytes_max: int) -> None:
        """Make the group; raises `OSError`. A limit that the host cannot keep is left out."""
        if not self._path:
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._path)
        for file, number in (("pids.max", processes_max), ("memory.max", memory_bytes_max)):
            if number and os.path.exists(f"{self._path}/{file}"):
                self._write(file, str(number))

    def enter(self) -> None:
        """Put this process into it; raises `OSError`."""
        if self._path:
            self._write("cgroup.procs", "0")

    def __bool__(self) -> bool:
        return bool(self._path)

    def freeze(self) -> None:
        """Stop all that are in it, and whoever is forked there; raises `OSError`. It takes a moment."""
        self._write("cgroup.freeze", "1")

    @property
    def frozen(self) -> bool:
        """Whether all that are in it stand still; raises `OSError`."""
        with open(f"{self._path}/cgroup.events") as events:
            return "frozen 1" in events.read().splitlines()

    def thaw(self) -> None:
        """Let all that are in it go on; raises `OSError`."""
        self._write("cgroup.freeze", "0")

    def end(self) -> None:
        """Kill all that are in it, and remove it when they are gone."""
        if not self._path:
            return
        until_s = time.monotonic() + GONE_S_MAX
        while time.monotonic() < until_s:
            with contextlib.suppress(OSError):
                self._write("cgroup.kill", "1")
            try:
                os.rmdir(self._path)
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.005)
            else:
                return

    def _write(self, file: str, text: str) -> None:
        with open(f"{self._path}/{file}", "w") as opened:
            opened.write(text)


def usable(top: str) -> bool:
    """Return whether groups can be made below `top`, and killed."""
    probe = f"{top}/probe.{os.getpid()}"
    try:
        os.mkdir(probe)
    except OSError:
        return False
    try:
        return os.access(f"{probe}/cgroup.kill", os.W_OK)
    finally:
        os.rmdir(probe)
