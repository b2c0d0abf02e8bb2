"""Paths of the files of a machine's jobs, and valid names of attempts."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final, NamedTuple

NAME_PATTERN: Final = r"[0-9]{1,16}\.[0-9]{1,6}"
"""An attempt: the number of its job, a point, its own number from 1 on."""

PRIVATE: Final = 0o700
PASSABLE: Final = 0o711
"""Users may reach what they know the name of."""

SOCKET_PATH_BYTES_MAX: Final = 107
"""The longest path of a Unix socket (unix(7))."""

_NAME: Final = re.compile(NAME_PATTERN)
_LONGEST_NAME: Final = "9" * 16 + ".999999"


def is_name(name: str) -> bool:
    """Return whether `name` is that of an attempt: only such a name becomes part of a path."""
    return len(name) < 32 and _NAME.fullmatch(name) is not None


def job_of(name: str) -> int:
    """Return the number of the job of an attempt."""
    return int(name.partition(".")[0])


def attempt_of(name: str) -> int:
    """Return the number of an attempt among those of its job."""
    return int(name.partition(".")[2])


class Folders(NamedTuple):
    """The folder of a machine's jobs; root's, or the service's own.

    Only `spool` is open to users, who may go through it but not list it. Each attempt has a folder there in
    which its user can create nothing: what the service opens in it is no link of theirs.
    """

    top: str

    @property
    def jobs(self) -> str:
        """The records."""
        return f"{self.top}/jobs"

    @property
    def sockets(self) -> str:
        return f"{self.top}/sockets"

    @property
    def spool(self) -> str:
        return f"{self.top}/spool"

    @property
    def hints(self) -> str:
        """The socket on which the server hears that it might look at a record."""
        return f"{self.sockets}/server"

    @property
    def log(self) -> str:
        """Log of the shepherds' own faults."""
        return f"{self.top}/shepherds.log"

    def record(self, name: str) -> str:
        return f"{self.jobs}/{name}"

    def socket(self, name: str) -> str:
        """Socket of the server's calls to the shepherd."""
        return f"{self.sockets}/{name}"

    def own(self, name: str) -> str:
        """The folder of an attempt."""
        return f"{self.spool}/{name}"

    def script(self, name: str) -> str:
        return f"{self.spool}/{name}/script"

    def kept(self, name: str) -> str:
        """Output that its user has named no file for."""
        return f"{self.spool}/{name}/output"

    def control(self, name: str) -> str:
        """Socket of a program that can change its size."""
        return f"{self.spool}/{name}/control"

    def make(self) -> None:
        """Make them, unless they are there; raises `OSError`."""
        for path in (self.jobs, self.sockets):
            os.makedirs(path, PRIVATE, exist_ok=True)
            os.chmod(path, PRIVATE)
        for path in (self.top, self.spool):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, PASSABLE)

    def make_own(self, name: str) -> None:
        """Make the folder of an attempt, unless it is there; raises `OSError`."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.own(name))
        os.chmod(self.own(name), PASSABLE)

    @property
    def too_long(self) -> bool:
        """Whether the sockets' paths would be longer than the kernel takes."""
        return len(os.fsencode(self.control(_LONGEST_NAME))) > SOCKET_PATH_BYTES_MAX
