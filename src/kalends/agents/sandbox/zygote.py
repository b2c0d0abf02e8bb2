"""The zygote: loads and warms up the language once, and forks workers from that, ahead of need.

A program of its own, started by `zygote_process` with a clean environment, so that a worker's memory holds
nothing of the server: no key, no user's data. It reads only orders of one byte from the host, never
anything of an agent, and ends when the host does.

To the host it says, each in one packet: that it is ready (or why not), every worker it has made (with
its pidfd and socket), and how each ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import msgpack

from kalends.agents.sandbox import landlock, namespaces, seccomp, worker
from kalends.agents.sandbox.lockdown import Allowance, Origin, die_with, open_proc

FORK: Final = b"f"
WITNESS: Final = b"w"
"""Orders of the host: a worker for a job, and one that is to show that the wall stands."""

READY: Final = b"R"
FAILED: Final = b"F"
MADE: Final = b"M"
ENDED: Final = b"E"

MADE_FORM: Final = struct.Struct("=ci?")
"""Process id, and whether it is a witness."""
ENDED_FORM: Final = struct.Struct("=ciiq")
"""Process id, wait status, microseconds of processor time."""

PACKET_BYTES_MAX: Final = 4_096

NOBODY: Final = 65_534
"""User and group that root becomes: nobody on every Linux."""

DESCRIPTORS_MAX: Final = 1_024
PR_SET_DUMPABLE: Final = 4
OOM_SCORE_MAX: Final = 1_000

WARM_UP_STEPS: Final = 100_000
WARM_UP_SLOTS: Final = 100
WARM_UP_SOURCE: Final = '''
def choose(view, request):
    """Warm up."""
    return [slot["id"] for slot in sorted(view["slots"], key=by("start")) if slot["free"] > 0]
'''


class Order(NamedTuple):
    """The order to start: `perform` is ``module:function``, `engine` ``module:NAME`` of its version."""

    perform: str
    engine: str
    memory_bytes: int
    cpu_s: float
    host: int


def main(descriptor: int, order_text: str) -> NoReturn:
    """Serve the host at `descriptor` until it closes it; `order_text` is an `Order` in JSON."""
    host = socket.socket(fileno=descriptor)
    order = Order(*json.loads(order_text))
    try:
        perform = _named(order.perform)
        engine = str(_named(order.engine))
        rehearsal = _warm_up(perform)
        origin = Origin(os.getpid(), open_proc())
        first = _die_first_of_all()
        alone = namespaces.enter()
        _become_nobody()
        _guard(order.host)
        if alone:
            namespaces.keep()
    except (ImportError, AttributeError, OSError) as error:
        host.send((FAILED + repr(error).encode())[:PACKET_BYTES_MAX])
        os._exit(worker.EXIT_UNABLE)
    gc.collect()
    gc.freeze()
    # A worker does not live long enough for what it might find, and a script that makes cycles on
    # purpose meets the limit on memory.
    gc.disable()
    host.send(READY + json.dumps([engine, _walls(alone, first)]).encode())
    allowance = Allowance(order.memory_bytes, order.cpu_s)
    _Nursery(host, perform, rehearsal, allowance, origin).serve()


class _Nursery:
    """The workers that are alive, by pidfd."""

    def __init__(
        self,
        host: socket.socket,
        perform: worker.Perform,
        rehearsal: bytes,
        allowance: Allowance,
        origin: Origin,
    ) -> None:
        self._host = host
        self._perform = perform
        self._rehearsal = rehearsal
        self._allowance = allowance
        self._poll = select.poll()
        self._poll.register(host, select.POLLIN)
        self._pids: dict[int, int] = {}
        self._origin = origin

    def serve(self) -> NoReturn:
        try:
            while True:
                for descriptor, _ in self._poll.poll():
                    if descriptor in self._pids:
                        self._bury(descriptor)
                    else:
                        self._obey(self._host.recv(1))
        except ConnectionError:
            self._end()

    def _obey(self, order: bytes) -> None:
        if order == b"":
            self._end()
        elif order in (FORK, WITNESS):
            self._fork(order == WITNESS)

    def _fork(self, witness: bool) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                if witness:
                    worker.bear_witness(theirs.fileno(), self._allowance, self._origin)
                worker.work(
                    theirs.fileno(), self._perform, self._rehearsal, self._allowance, self._origin
                )
            pidfd = os.pidfd_open(pid)
            self._pids[pidfd] = pid
            self._poll.register(pidfd, select.POLLIN)
            made = MADE_FORM.pack(MADE, pid, witness)
            socket.send_fds(self._host, [made], [pidfd, ours.fileno()])

    def _bury(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        pid = self._pids.pop(pidfd)
        _, status, used = os.wait4(pid, 0)
        os.close(pidfd)
        cpu_us = int((used.ru_utime + used.ru_stime) * 1e6)
        self._host.send(ENDED_FORM.pack(ENDED, pid, status, cpu_us))

    def _end(self) -> NoReturn:
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)
        os._exit(worker.EXIT_DONE)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _warm_up(perform: worker.Perform) -> bytes:
    """Load all that a job could ever load, and return the job that workers rehearse.

    A worker can open no file; and what is loaded here, all workers share.
    """
    warnings.simplefilter("ignore")
    importlib.import_module("unicodedata")
    mistake = {"op": "check", "source": 'return "\\N{BULLET}', "steps_max": WARM_UP_STEPS}
    check = {"op": "check", "source": WARM_UP_SOURCE, "steps_max": WARM_UP_STEPS}
    worker.rehearse(perform, msgpack.packb(mistake))
    checked = worker.rehearse(perform, msgpack.packb(check))
    slot = {
        "id": 0, "term": 0, "resource": "site/name", "start": 0, "end": 1, "units": 1, "free": 1,
        "common": 0,
    }  # fmt: skip
    run = {
        "op": "run",
        "source": WARM_UP_SOURCE,
        "code": checked.get("bytecode", b""),
        "function": "choose",
        "arguments": [{"slots": [slot] * WARM_UP_SLOTS}, {}],
        "inbox": [],
        "zones": {"UTC": [[0, 0]]},
        "steps_max": WARM_UP_STEPS,
    }
    rehearsal: bytes = msgpack.packb(run)
    worker.rehearse(perform, rehearsal)
    return rehearsal


def _die_first_of_all() -> bool:
    """Let the kernel end agents first if memory runs out; return False if that cannot be set."""
    try:
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_MAX))
    except OSError:
        return False
    return True


def _walls(alone: bool, first: bool) -> list[str]:
    """Name what stands between a script that has left the language and this host, for its operator."""
    known = landlock.version()
    return [
        "seccomp",
        *([f"landlock {known}"] if known else []),
        *(["namespaces"] if alone else []),
        *(["first to end without memory"] if first else []),
    ]


def _become_nobody() -> None:
    """Give up root once everything is loaded, because the user ``nobody`` may not read it."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def _guard(host: int) -> None:
    """Die with the host, forbid inspection of this process, and pass no odd signals on to workers."""
    die_with(host)
    seccomp.prctl(PR_SET_DUMPABLE, 0)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Real-time signals that the C library keeps for itself are not in that set.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_MAX, DESCRIPTORS_MAX))
