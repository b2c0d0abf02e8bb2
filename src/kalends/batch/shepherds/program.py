"""The steps from a fork of the shepherd to the user's program, in their order.

Files are opened after this process has become the user, so that it can open nothing that its user could
not. Whatever prevents the program from starting is told to the shepherd in words for that user.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import pwd
import resource
import signal
import stat
import sys
import termios
from typing import Final, NamedTuple, NoReturn

from kalends.backends.passage import Passage
from kalends.batch.shepherds import linux
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import JobOrder
from kalends.batch.shepherds.remote_program import NotGiven, run_remotely

PATH: Final = "/usr/local/bin:/usr/bin:/bin"
SHELL: Final = "/bin/sh"
"""For accounts without a login shell: programs that call $SHELL have to work for them, too."""
NO_LOGIN: Final = ("nologin", "false", "")
TEMPORARY: Final = "/tmp"  # The usual place, and not one where we make files.
DESCRIPTORS: Final = 1_024
"""The usual soft limit (getrlimit(2)): programs that use select(2) fail above it, others raise it."""
STATUS_NOT_STARTED: Final = 127
CANNOT, HERE = "cannot", "here"
PEOPLE_FROM_UID: Final = 1000
"""Accounts below are those of services and devices (login.defs(5), UID_MIN)."""
_NO_LINK: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WHY: Final = {
    errno.ELOOP: "it is a symbolic link, which is not followed here",
    errno.ENXIO: "no program reads from that pipe",
    errno.EAGAIN: "its user has the maximum number of processes on this machine",
    errno.ENOEXEC: "it is neither a program nor a script that begins with #!",
    errno.E2BIG: "its arguments and environment are too long",
}
"""In the user's words, where the system's are none."""


class Unable(Exception):
    """The reason why the program cannot be started, for its user."""


class UnableHere(Unable):
    """This host can run no program of the user at present, whatever the job asks for."""


class Ready(NamedTuple):
    """It is about to run the program as user `uid`; device and inode of each file that it writes to.

    `memory_bytes` is what it has itself, which counts as the program's from its start.
    """

    uid: int
    memory_bytes: int
    files: tuple[tuple[int, int], ...]


class StartFault(NamedTuple):
    """The reason why the program cannot start, and whether any other program of its user could not either."""

    detail: str
    of_host: bool = False


class Wires(NamedTuple):
    """Descriptors: where to report, where to wait for leave to go on, and the standard streams of an
    interactive program (-1: it has files), which are the same where they are a terminal."""

    report: int
    leave: int
    input: int
    output: int

    @property
    def are_a_terminal(self) -> bool:
        return self.input == self.output >= 0


class _User(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str
    shell: str


def become(
    order: JobOrder, folders: Folders, group: ControlGroup, shepherd: int, wires: Wires
) -> NoReturn:
    """Become the program of `order`, or report what stands in the way and exit."""
    try:
        _run(order, folders, group, shepherd, wires)
    except Unable as error:
        _report(wires, StartFault(str(error), isinstance(error, UnableHere)))
    except (OSError, ValueError, MemoryError) as error:
        _report(wires, StartFault(f"it could not be started: {error or 'no memory'}", of_host=True))
    except Exception:
        # Ours, not the user's: it goes to the site's log.
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(STATUS_NOT_STARTED)


def _run(
    order: JobOrder, folders: Folders, group: ControlGroup, shepherd: int, wires: Wires
) -> NoReturn:
    linux.close_all_but(wires)
    _stay_with(shepherd)
    os.setsid()
    # The zygote handles all others as a fresh process does.
    linux.default_signal(signal.SIGPIPE)
    if wires.are_a_terminal:
        fcntl.ioctl(wires.input, termios.TIOCSCTTY, 0)
    if order.cores:
        _pin(order.cores)
    user = _find_user(order)
    kept = _hand_over(order, folders, user, wires)
    group.enter()
    _limit(order.resources)
    if os.geteuid() == 0:
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
    _stay_with(shepherd)
    os.umask(order.umask)
    _enter(order.directory, user)
    files = _connect(order, kept, wires)
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    _report(wires, Ready(user.uid, memory_bytes, files))
    if os.read(wires.leave, 1):
        _execute(order, folders, user)
    os._exit(STATUS_NOT_STARTED)


def _stay_with(shepherd: int) -> None:
    """End with the shepherd, even if it has ended before the kernel knew that we want that."""
    linux.die_with_parent()
    if os.getppid() != shepherd:
        os._exit(STATUS_NOT_STARTED)


def _find_user(order: JobOrder) -> _User:
    own, name = os.geteuid(), order.user
    try:
        entry = pwd.getpwnam(name) if name else pwd.getpwuid(own)
    except KeyError:
        raise UnableHere(f"there is no user {name or own} on this machine") from None
    if entry.pw_uid == 0:
        raise UnableHere("jobs are never run as root")
    if name and entry.pw_uid < PEOPLE_FROM_UID and not order.listed:
        raise UnableHere(
            f"{name} is a system account of this machine: the owner has to list it under `users`"
        )
    if own not in (0, entry.pw_uid):
        raise UnableHere(f"this site runs jobs as its own Unix user, not as {entry.pw_name}")
    shell = SHELL if os.path.basename(entry.pw_shell) in NO_LOGIN else entry.pw_shell
    return _User(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, shell)


def _hand_over(order: JobOrder, folders: Folders, user: _User, wires: Wires) -> int:
    """Give the user what the service has made for them; return the output that is kept, or -1.

    All of it is in a folder of the service's own, so no link can be in the way.
    """
    if order.script and not order.passage:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        script = os.open(folders.script(order.name), flags, 0o500)
        with os.fdopen(script, "wb") as file:
            file.write(order.script.encode(errors="surrogateescape"))
            os.fchown(script, user.uid, user.gid)
    if order.malleable:
        os.chown(folders.control(order.name), user.uid, user.gid)
    if wires.input >= 0:
        for stream in {wires.input, wires.output}:
            os.fchown(stream, user.uid, -1)
            os.fchmod(stream, 0o600)
        return -1
    if order.output:
        return -1
    kept = os.open(
        folders.kept(order.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK, 0o600
    )
    os.fchown(kept, user.uid, user.gid)
    return kept


def _pin(cores: tuple[int, ...]) -> None:
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        named = ", ".join(map(str, cores))
        raise UnableHere(
            f"this machine does not let the site use processors {named}: {error}"
        ) from None


def _limit(limits: dict[str, int]) -> None:
    """Set the owner's limits, and the usual soft ones in place of those that the service has itself."""
    for number, usual in ((resource.RLIMIT_NOFILE, DESCRIPTORS), (resource.RLIMIT_CORE, 0)):
        soft, hard = resource.getrlimit(number)
        if soft == resource.RLIM_INFINITY or soft > usual:
            resource.setrlimit(number, (usual, hard))
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        except (OSError, ValueError) as error:
            raise UnableHere(f"the limit {name} = {value} cannot be set: {error}") from None


def _enter(directory: str, user: _User) -> None:
    try:
        os.chdir(os.path.join(user.home, directory))
    except (OSError, ValueError) as error:
        if directory:
            raise Unable(f"cannot enter the directory {directory}: {_why(error)}") from None
        home = f"{user.home}, the home of {user.name} here ({_why(error)})"
        raise UnableHere(f"cannot enter {home}: name another directory by --directory") from None


def _connect(order: JobOrder, kept: int, wires: Wires) -> tuple[tuple[int, int], ...]:
    """Connect the standard streams; return device and inode of each file that is written to."""
    if wires.input >= 0:
        streams = [wires.input, wires.output, wires.output]
    else:
        mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        source = _open(order.input or "/dev/null", os.O_RDONLY, "input")
        output = kept if kept >= 0 else _open(order.output, mode, "output")
        error = output
        if order.error and order.error != order.output:
            error = _open(order.error, mode, "error output")
        streams = [source, output, error]
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    if wires.input >= 0:
        return ()
    found = {(each.st_dev, each.st_ino): None for each in (os.fstat(1), os.fstat(2))}
    return tuple(found)


def _open(path: str, flags: int, purpose: str) -> int:
    try:
        # A pipe that nobody reads must not keep us.
        descriptor = os.open(path, flags | _NO_LINK, 0o666)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except (OSError, ValueError) as error:
        raise Unable(f"cannot open {path} for {purpose}: {_why(error)}") from None
    os.set_blocking(descriptor, True)
    return descriptor


def _execute(order: JobOrder, folders: Folders, user: _User) -> NoReturn:
    environment = _environment(order, folders, user)
    if order.passage:
        _cross(order, environment)
    argv = [folders.script(order.name), *order.argv] if order.script else list(order.argv)
    named = "the script" if order.script else argv[0]
    try:
        os.execvpe(argv[0], argv, environment)
    except FileNotFoundError:
        if order.script or ("/" in named and os.path.exists(named)):
            reason = f"the interpreter in the first line of {named} is not on this machine"
            if order.script:
                reason += f": {order.script.partition(chr(10))[0][2:].strip()}"
        else:
            reason = f"there is no command {named} in {environment['PATH']}"
            if "/" in named:
                reason = f"there is no command {named}"
        raise Unable(reason) from None
    except PermissionError as error:
        # A script is its user's: what is closed is the way to it, or the file system runs no programs.
        kind = UnableHere if order.script else Unable
        raise kind(f"cannot run {named}: {_why(error)}") from None
    except (OSError, ValueError) as error:
        raise Unable(f"cannot run {named}: {_why(error)}") from None


def _cross(order: JobOrder, environment: dict[str, str]) -> NoReturn:
    try:
        words = [order.script, *order.argv]
        run_remotely(Passage._make(order.passage), words, environment, quiet=order.piped)
    except NotGiven as error:
        raise UnableHere(f"the batch system gives the job no nodes: {error}") from None


def _environment(order: JobOrder, folders: Folders, user: _User) -> dict[str, str]:
    """Return what the job states, what every program needs, and what it may want to know of itself."""
    job, _, attempt = order.name.partition(".")
    ours = {
        "KALENDS_JOB": job,
        "KALENDS_ATTEMPT": attempt,
        "KALENDS_LIMIT_S": f"{order.limit_s:g}",
        "KALENDS_JOB_DIRECTORY": folders.own(order.name),
    }
    if order.cores:
        ours["KALENDS_CORES"] = ",".join(map(str, order.cores))
    if order.malleable:
        ours["KALENDS_CONTROL"] = folders.control(order.name)
    basic = {
        "PATH": PATH, "HOME": user.home, "USER": user.name, "LOGNAME": user.name,
        "SHELL": user.shell, "TMPDIR": TEMPORARY,
    }  # fmt: skip
    return {**basic, **order.environment, **ours}


def _why(error: OSError | ValueError) -> str:
    return (
        _WHY.get(getattr(error, "errno", None) or 0)
        or getattr(error, "strerror", None)
        or str(error)
    )


def _report(wires: Wires, what: Ready | StartFault) -> None:
    """Tell the shepherd, in one line, that it is ready, or what prevents it."""
    if isinstance(what, Ready):
        numbers = [what.uid, what.memory_bytes, *itertools.chain(*what.files)]
        text = " ".join(map(str, ["ready", *numbers]))
    else:
        text = f"{HERE if what.of_host else CANNOT} " + what.detail.replace("\n", " ")
    os.write(wires.report, text.encode(errors="backslashreplace") + b"\n")


def decode_report(line: bytes) -> Ready | StartFault:
    """Return what a line of a report says; raises `ValueError` for none."""
    kind, _, text = line.decode().partition(" ")
    if kind in (CANNOT, HERE):
        return StartFault(text, kind == HERE)
    uid, memory_bytes, *numbers = map(int, text.split())
    return Ready(uid, memory_bytes, tuple(zip(numbers[::2], numbers[1::2], strict=True)))
