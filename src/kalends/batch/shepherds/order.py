"""Order to a shepherd: the program of one attempt, its user, place and limits."""

from __future__ import annotations

import marshal
from typing import Final, NamedTuple

SIGNALS: Final = ("HUP", "INT", "TERM", "USR1", "USR2", "CONT")
"""The signals that can warn a program; none that it cannot catch."""

RESOURCES: Final = (
    "AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK",
)  # fmt: skip
"""What an owner may limit by setrlimit(2)."""

ORDER_BYTES_MAX: Final = 2 * 1024 * 1024
"""An order: a script, an environment and arguments at their greatest stay below it."""


class JobOrder(NamedTuple):
    """Everything that is to be known to run one attempt. Times are in seconds."""

    name: str
    """The attempt, ``JOB.ATTEMPT``; see `names`."""
    argv: tuple[str, ...] = ()
    """The program and its arguments; with `script`, the arguments alone."""
    passage: tuple[tuple[str, ...], ...] = ()
    """A `Passage` to where the program runs; (): on this host."""
    script: str = ""
    """Text that begins with ``#!``: it is put into a file that only its user can read, and run."""
    environment: dict[str, str] = {}
    user: str = ""
    """The Unix user who runs it; "" is the service's own, and never root."""
    listed: bool = False
    """Whether the owner has named that account for its user: it may be one of the system's then."""
    directory: str = ""
    """A relative one lies in the user's home, which is ""."""
    input: str = ""
    """"" is /dev/null. These three are opened as the user; no link is followed at their end."""
    output: str = ""
    """It is appended to this file; "" keeps it with the machine (see `Folders.kept`)."""
    error: str = ""
    """"" goes where `output` goes."""
    cores: tuple[int, ...] = ()
    """The processors it may use; () is all."""
    resources: dict[str, int] = {}
    """Limits by setrlimit(2): a name of `RESOURCES`, and its number."""
    umask: int = 0o022
    """Rights that files of the program do not get (umask(2))."""
    limit_s: float = 3600.0
    warn_s: float = 0.0
    """So long before its limit it gets the signal `warning`; 0: it does not."""
    warning: str = "TERM"
    grace_s: float = 10.0
    """Between the first signal that asks it to end and the one that ends it."""
    terminal: tuple[int, int] = (0, 0)
    """Rows and columns of its terminal; (0, 0): it has none."""
    piped: bool = False
    """Pipes stand in the place of its terminal: bytes go through as they are."""
    attach_s: float = 0.0
    """It ends if nobody has come to its keys this long after it began; 0: it goes on."""
    kept_bytes_max: int = 0
    """How much of its output the machine keeps, from the beginning on; 0: all."""
    malleable: bool = False
    """It gets a socket by which it is asked to change its size."""
    processes_max: int = 0
    """Processes and threads at a time, and bytes of memory, where there are control groups; 0: any."""
    memory_bytes_max: int = 0


def encode_order(order: JobOrder) -> bytes:
    return marshal.dumps(tuple(order))


def decode_order(data: bytes) -> JobOrder:
    """Return what the server has said, which runs the same Python; never for what anybody else says.

    Reading JSON would cost each shepherd more memory than all the rest of its order.
    """
    return JobOrder._make(marshal.loads(data))
