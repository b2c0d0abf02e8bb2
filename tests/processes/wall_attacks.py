"""Attacks on the wall, for any Python: ``wall_attacks.py root|nobody DIRECTORY`` tries them all.

There is no language here: what attacks is what a script could do that has got out of it entirely. Each
attack is tried twice, in a process of its own: as it is, and locked down. One line of JSON for each:
its name, whether it must work where nothing stops it, what it said then, and what it said, or which
signal it died of, when locked down. Standard library only.
"""

from __future__ import annotations

import _thread
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from kalends.agents.sandbox import lockdown

NOBODY: Final = 65_534
PATIENCE_S: Final = 10.0
BAD_POINTER: Final = 1
AT_FDCWD: Final = -100

X86_64: Final = os.uname().machine == "x86_64"

# Numbers that both have, then where they differ: the kernel's tables, x86-64 first.
NUMBERS: Final = {
    "pidfd_send_signal": (424, 424), "io_uring_setup": (425, 425), "open_tree": (428, 428),
    "clone3": (435, 435), "openat2": (437, 437), "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440), "landlock_create_ruleset": (444, 444),
    "mprotect": (10, 226), "dup": (32, 23), "getpid": (39, 172), "clone": (56, 220),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "ptrace": (101, 117),
    "syslog": (103, 116), "personality": (135, 92), "prctl": (157, 167), "pivot_root": (155, 41),
    "acct": (163, 89), "settimeofday": (164, 170), "mount": (165, 40), "umount2": (166, 39),
    "swapon": (167, 224), "reboot": (169, 142), "sethostname": (170, 161), "gettid": (186, 178),
    "init_module": (175, 105), "readv": (19, 65), "futex": (202, 98), "timer_create": (222, 107),
    "clock_gettime": (228, 113), "tgkill": (234, 131), "mq_open": (240, 180),
    "kexec_load": (246, 104), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "unshare": (272, 97), "perf_event_open": (298, 241),
    "recvmmsg": (299, 243), "fanotify_init": (300, 262), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "setns": (308, 268), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "kcmp": (312, 272), "finit_module": (313, 273),
    "seccomp": (317, 277), "getrandom": (318, 278), "bpf": (321, 280), "userfaultfd": (323, 282),
    "pkey_mprotect": (329, 288), "madvise": (28, 233), "mlock": (149, 228), "exit": (60, 93),
    "capget": (125, 90), "capset": (126, 91), "rt_sigqueueinfo": (129, 138),
    "timerfd_create": (283, 85), "signalfd4": (289, 74), "eventfd2": (290, 19),
    "inotify_init1": (294, 26), "splice": (275, 76), "sched_setaffinity": (203, 122),
    "rt_sigprocmask": (14, 135), "nanosleep": (35, 101), "set_robust_list": (273, 99),
    "execveat": (322, 281), "shmctl": (31, 195), "semctl": (66, 191), "msgctl": (71, 187),
    "remap_file_pages": (216, 234),
}  # fmt: skip


class Scene(NamedTuple):
    """What is prepared before the wall goes up: another process's pid and memory, files, code."""

    victim: int
    group: int
    secret: ctypes.Array[ctypes.c_char]
    directory: str
    file: int
    pidfd: int
    pages: mmap.mmap
    code: dict[str, Callable[[], int]]


class Attack(NamedTuple):
    """`must_work` where nothing stops it; others may need root, or a kernel that has the call.

    `opens` a file: the wall says that there is none, instead of ending the process.
    """

    name: str
    call: Callable[[Scene], object]
    must_work: bool
    opens: bool = False


libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def kernel(name: str, *arguments: int) -> int:
    """Call the kernel by number; raises `OSError`."""
    number = NUMBERS[name][0 if X86_64 else 1]
    return checked(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def checked(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def address(thing: object) -> int:
    return ctypes.addressof(thing)


class Piece(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def vm_copy(name: str, scene: Scene) -> int:
    """Read or write the victim's memory, where it has the same layout as ours."""
    ours = ctypes.create_string_buffer(b"OWNED!", 6)
    local, remote = Piece(address(ours), 6), Piece(address(scene.secret), 6)
    return kernel(name, scene.victim, address(local), 1, address(remote), 1, 0)


def child_ends(made: int) -> None:
    """End the child that an attack has made; its parent waits for it."""
    if made == 0:
        os._exit(0)
    os.waitpid(made, 0)


def spawn(scene: Scene) -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def thread(scene: Scene) -> None:
    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.release, ())
    lock.acquire()


def executable_memory(scene: Scene) -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def pass_descriptor(scene: Scene) -> None:
    channel = socket.socket(fileno=3)
    socket.send_fds(channel, [b"x"], [3])
    channel.detach()


def shared(get: str, control: str, *arguments: int) -> Callable[[Scene], object]:
    """Make something of System V, and remove it, which it would not be by itself."""

    def call(scene: Scene) -> None:
        made = kernel(get, 0, *arguments)
        kernel(control, made, *([0] if control == "semctl" else []), 0, 0)

    return call


def new_namespace(scene: Scene) -> None:
    kernel("unshare", 0x1000_0000)


def pages_at(scene: Scene) -> int:
    return address(ctypes.c_char.from_buffer(scene.pages))


def cancel_timer(scene: Scene) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)


def machine_code() -> dict[str, Callable[[], int]]:
    """Functions of machine code, made while that is still allowed: calls without the C library."""
    codes = {
        "int 0x80": b"\xb8\x14\x00\x00\x00\xcd\x80\xc3",
        "syscall getppid": b"\xb8\x6e\x00\x00\x00\x0f\x05\xc3",
        "x32 getpid": b"\xb8\x27\x00\x00\x40\x0f\x05\xc3",
        "int 0x80 fork": b"\xb8\x02\x00\x00\x00\xcd\x80\xc3",
    }
    made: dict[str, Callable[[], int]] = {}
    for name, code in codes.items() if X86_64 else ():
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        made[name] = ctypes.CFUNCTYPE(ctypes.c_int)(address(ctypes.c_char.from_buffer(page)))
        _kept.append(page)
    return made


_kept: list[object] = []


def run_code(name: str) -> Callable[[Scene], object]:
    def call(scene: Scene) -> None:
        answer = scene.code[name]()
        if answer == 0 and name.endswith("fork"):
            os._exit(0)
        if answer < 0:
            raise OSError(-answer, "")

    return call


def by_number(name: str, *arguments: int) -> Callable[[Scene], object]:
    return lambda scene: kernel(name, *arguments)


def attacks() -> list[Attack]:
    opens = [
        Attack("read a file", lambda s: open("/etc/passwd").close(), True, True),
        Attack("make a file", lambda s: open(f"{s.directory}/made", "w").close(), True, True),
        Attack("list a directory", lambda s: os.listdir(s.directory), True, True),
        Attack("open the parent's memory",
               lambda s: os.close(os.open(f"/proc/{s.victim}/mem", os.O_RDWR)), True, True),
        Attack("open the parent's descriptors", lambda s: os.listdir(f"/proc/{s.victim}/fd"),
               True, True),
        Attack("open a nameless file",
               lambda s: os.close(os.open(s.directory, os.O_TMPFILE | os.O_RDWR)), False, True),
        Attack("open a device", lambda s: os.close(os.open("/dev/null", os.O_RDWR)), True, True),
    ]  # fmt: skip
    files = [
        Attack("stat", lambda s: os.stat("/"), True),
        Attack("access", lambda s: os.access("/", os.R_OK), True),
        Attack("readlink", lambda s: os.readlink("/proc/self/exe"), True),
        Attack("mkdir", lambda s: os.mkdir(f"{s.directory}/d{os.getpid()}"), True),
        Attack("symlink", lambda s: os.symlink("/", f"{s.directory}/l{os.getpid()}"), True),
        Attack("link", lambda s: os.link(f"{s.directory}/file", f"{s.directory}/h{os.getpid()}"),
               True),
        Attack("rename", lambda s: os.rename(f"{s.directory}/file", f"{s.directory}/file"), True),
        Attack("unlink", lambda s: os.unlink(f"{s.directory}/missing"), False),
        Attack("chmod", lambda s: os.chmod(f"{s.directory}/file", 0o666), True),
        Attack("truncate", lambda s: os.truncate(f"{s.directory}/file", 4096), True),
        Attack("chdir", lambda s: os.chdir("/"), True),
        Attack("getcwd", lambda s: os.getcwd(), True),
        Attack("chroot", lambda s: os.chroot("/"), False),
        Attack("openat2", lambda s: kernel("openat2", AT_FDCWD, BAD_POINTER, BAD_POINTER, 24), False),
        Attack("open_tree", by_number("open_tree", AT_FDCWD, BAD_POINTER, 0), False),
        Attack("name_to_handle_at",
               by_number("name_to_handle_at", AT_FDCWD, BAD_POINTER, BAD_POINTER, BAD_POINTER, 0),
               False),
        Attack("open_by_handle_at", by_number("open_by_handle_at", AT_FDCWD, BAD_POINTER, 0), False),
        Attack("memfd", lambda s: os.memfd_create("m"), True),
        Attack("read another descriptor", lambda s: os.read(s.file, 1), True),
        Attack("write to another descriptor", lambda s: os.write(s.file, b"x"), True),
        Attack("write to standard output", lambda s: os.write(1, b""), True),
        Attack("readv on the channel",
               lambda s: kernel("readv", 3, address(Piece(0, 0)), 0), True),
        Attack("dup", by_number("dup", 3), True),
        Attack("fcntl", lambda s: fcntl.fcntl(3, fcntl.F_GETFD), True),
        Attack("ioctl", lambda s: fcntl.ioctl(3, 0x541B, b"\0" * 4), True),
        Attack("splice", by_number("splice", 3, 0, 3, 0, 0, 0), False),
        Attack("close the channel", lambda s: os.close(3), True),
        Attack("inotify", by_number("inotify_init1", 0), True),
        Attack("fanotify", by_number("fanotify_init", 0, 0), False),
    ]  # fmt: skip
    network = [
        Attack("internet socket", lambda s: socket.socket().close(), True),
        Attack("unix socket", lambda s: socket.socket(socket.AF_UNIX).close(), True),
        Attack("netlink socket",
               lambda s: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(), True),
        Attack("socketpair", lambda s: socket.socketpair(), True),
        Attack("send on the channel", lambda s: socket.socket(fileno=3).send(b"x"), True),
        Attack("receive on the channel",
               lambda s: socket.socket(fileno=3).recv(1, socket.MSG_DONTWAIT), False),
        Attack("pass a descriptor", pass_descriptor, True),
        Attack("recvmmsg", by_number("recvmmsg", 3, 0, 0, 0x40, 0), True),
        Attack("getsockname", lambda s: socket.socket(fileno=3).getsockname(), True),
        Attack("pipe", lambda s: os.pipe(), True),
        Attack("poll", lambda s: select.select([3], [], [], 0), True),
        Attack("epoll", lambda s: select.epoll().close(), True),
        Attack("eventfd", by_number("eventfd2", 0, 0), True),
        Attack("timerfd", by_number("timerfd_create", 0, 0), True),
        Attack("signalfd", by_number("signalfd4", -1, BAD_POINTER, 8, 0), False),
    ]  # fmt: skip
    processes = [
        Attack("fork", lambda s: child_ends(os.fork()), True),
        Attack("clone", lambda s: child_ends(kernel("clone", signal.SIGCHLD, 0, 0, 0, 0)), True),
        Attack("clone3", by_number("clone3", BAD_POINTER, 64), False),
        Attack("vfork and exec", spawn, True),
        Attack("thread", thread, True),
        Attack("exec", lambda s: os.execv("/bin/true", ["true"]), True),
        Attack("execveat", by_number("execveat", AT_FDCWD, BAD_POINTER, 0, 0, 0), False),
        Attack("ptrace itself", by_number("ptrace", 0, 0, 0, 0), True),
        Attack("ptrace the parent", lambda s: kernel("ptrace", 0x4206, s.victim, 0, 0), True),
        Attack("signal the parent", lambda s: os.kill(s.victim, 0), True),
        Attack("signal everybody in the group", lambda s: os.killpg(s.group, 0), True),
        Attack("tgkill", lambda s: kernel("tgkill", s.victim, s.victim, 0), True),
        Attack("rt_sigqueueinfo",
               lambda s: kernel("rt_sigqueueinfo", s.victim, 0, BAD_POINTER), False),
        Attack("pidfd_open", lambda s: os.pidfd_open(s.victim), True),
        Attack("pidfd_send_signal", lambda s: kernel("pidfd_send_signal", s.pidfd, 0, 0, 0), True),
        Attack("pidfd_getfd", lambda s: kernel("pidfd_getfd", s.pidfd, 0, 0), True),
        Attack("read the parent's memory", lambda s: vm_copy("process_vm_readv", s), True),
        Attack("write the parent's memory", lambda s: vm_copy("process_vm_writev", s), True),
        Attack("process_madvise", lambda s: kernel("process_madvise", s.pidfd, 0, 0, 20, 0), False),
        Attack("kcmp", lambda s: kernel("kcmp", os.getpid(), s.victim, 0, 0, 0), False),
        Attack("limits of the parent",
               lambda s: resource.prlimit(s.victim, resource.RLIMIT_CPU), True),
        Attack("change a limit", lambda s: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), True),
        Attack("priority of the parent",
               lambda s: os.getpriority(os.PRIO_PROCESS, s.victim), True),
        Attack("change its priority", lambda s: os.setpriority(os.PRIO_PROCESS, 0, 19), True),
        Attack("processor of the parent",
               lambda s: os.sched_getaffinity(s.victim), True),
        Attack("new session", lambda s: os.setsid(), True),
        Attack("change the user", lambda s: os.setresuid(-1, -1, -1), True),
        Attack("capget", by_number("capget", BAD_POINTER, 0), False),
        Attack("capset", by_number("capset", BAD_POINTER, 0), False),
        Attack("wait for children", lambda s: os.waitpid(-1, os.WNOHANG), False),
        Attack("who am I", lambda s: os.getuid(), True),
        Attack("who is the parent", lambda s: os.getppid(), True),
        Attack("host's name", lambda s: os.uname(), True),
    ]  # fmt: skip
    memory = [
        Attack("writable code", executable_memory, True),
        Attack("make memory executable", lambda s: kernel("mprotect", pages_at(s), 4096, 7), True),
        Attack("make memory executable by key",
               lambda s: kernel("pkey_mprotect", pages_at(s), 4096, 7, -1), True),
        Attack("map a file",
               lambda s: mmap.mmap(s.file, 4096, mmap.MAP_SHARED, mmap.PROT_READ).close(), True),
        Attack("madvise", lambda s: kernel("madvise", pages_at(s), 4096, 4), True),
        Attack("lock memory", lambda s: kernel("mlock", pages_at(s), 4096), True),
        Attack("remap file pages", by_number("remap_file_pages", 0, 0, 0, 0, 0), False),
        Attack("userfaultfd", by_number("userfaultfd", 1), False),
        Attack("System V shared memory", shared("shmget", "shmctl", 4096, 0o600), True),
        Attack("System V semaphores", shared("semget", "semctl", 1, 0o600), True),
        Attack("System V messages", shared("msgget", "msgctl", 0o600), True),
        Attack("POSIX messages", by_number("mq_open", BAD_POINTER, 0, 0, 0), False),
    ]  # fmt: skip
    kernels = [
        Attack("io_uring", by_number("io_uring_setup", 1, BAD_POINTER), False),
        Attack("perf", by_number("perf_event_open", BAD_POINTER, 0, -1, -1, 0), False),
        Attack("bpf", by_number("bpf", 0xFFFF, 0, 0), False),
        Attack("keys", by_number("keyctl", 0, -3, 0, 0, 0), False),
        Attack("add a key", by_number("add_key", BAD_POINTER, 0, 0, 0, -3), False),
        Attack("request a key", by_number("request_key", BAD_POINTER, 0, 0, 0), False),
        Attack("new user namespace", new_namespace, False),
        Attack("setns", lambda s: kernel("setns", s.pidfd, 0x4000_0000), False),
        Attack("mount", by_number("mount", BAD_POINTER, BAD_POINTER, BAD_POINTER, 0, 0), False),
        Attack("umount", by_number("umount2", BAD_POINTER, 0), False),
        Attack("pivot_root", by_number("pivot_root", BAD_POINTER, BAD_POINTER), False),
        Attack("swapon", by_number("swapon", BAD_POINTER, 0), False),
        Attack("accounting", by_number("acct", BAD_POINTER), False),
        Attack("reboot", by_number("reboot", 0, 0, 0, 0), False),
        Attack("host name", by_number("sethostname", BAD_POINTER, -1), False),
        Attack("set the time", by_number("settimeofday", BAD_POINTER, 0), False),
        Attack("load a module", by_number("init_module", BAD_POINTER, 0, BAD_POINTER), False),
        Attack("load a module from a file", by_number("finit_module", -1, BAD_POINTER, 0), False),
        Attack("kexec", by_number("kexec_load", 0, 0, 0, 0xDEAD), False),
        Attack("kernel log", by_number("syslog", 10, 0, 0), False),
        Attack("landlock", by_number("landlock_create_ruleset", 0, 0, 1), False),
        Attack("another filter", by_number("seccomp", 2, 0, BAD_POINTER), False),
        Attack("prctl", by_number("prctl", 16, address(ctypes.create_string_buffer(32)), 0, 0, 0), True),
        Attack("personality", by_number("personality", 0xFFFF_FFFF), True),
        Attack("random bytes", lambda s: os.getrandom(1), True),
        Attack("futex", by_number("futex", address(_word), 1, 1, 0, 0, 0), True),
        Attack("set_robust_list", by_number("set_robust_list", 0, 24), True),
    ]  # fmt: skip
    time_out = [
        Attack("cancel the timer", cancel_timer, True),
        Attack("alarm", lambda s: signal.alarm(1), True),
        Attack("ignore the signal", lambda s: signal.signal(signal.SIGPROF, signal.SIG_IGN), True),
        Attack("block the signal",
               lambda s: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF]), True),
        Attack("a timer", by_number("timer_create", 0, 0, address(_word)), True),
        Attack("sleep", lambda s: time.sleep(0.001), True),
        Attack("the time by the kernel",
               by_number("clock_gettime", 0, address(ctypes.create_string_buffer(16))), True),
        Attack("end only this thread", by_number("exit", 0), True),
    ]  # fmt: skip
    code = [Attack(name, run_code(name), name.startswith("syscall")) for name in machine_code()]
    return opens + files + network + processes + memory + kernels + time_out + code


_word = ctypes.c_int(0)


def attempt(attack: Attack, scene: Scene) -> bytes:
    try:
        attack.call(scene)
    except OSError as error:
        return f"errno {errno.errorcode.get(error.errno or 0, error.errno)}".encode()
    return b"worked"


def try_out(attack: Attack, scene: Scene, *, locked: bool) -> str:
    """What `attack` says in a process of its own, or the signal that it dies of."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    told, telling = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        sys.stderr = None  # tracebacks have nowhere to go
        try:
            ours.close()
            if locked:
                allowance = lockdown.Allowance(64 << 20, 5.0)
                origin = lockdown.Origin(parent, lockdown.open_proc())
                lockdown.lock_down(theirs.fileno(), allowance, origin)
                os.write(3, attempt(attack, scene))
            else:
                os.dup2(theirs.fileno(), 3)
                os.set_inheritable(telling, False)
                said = attempt(attack, scene)
                os.write(telling, said)
        finally:
            os._exit(0)
    theirs.close()
    os.close(telling)
    try:
        pidfd = os.pidfd_open(pid)
        if not select.select([pidfd], [], [], PATIENCE_S)[0]:
            os.kill(pid, signal.SIGKILL)
        os.close(pidfd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code < 0:
            return signal.Signals(-code).name
        # An exec, or the end of the thread, says no more: that is how it worked.
        said = ours.recv(100) if locked else os.read(told, 100)
        return said.decode() or "worked"
    finally:
        ours.close()
        os.close(told)


def main() -> None:
    user, directory = sys.argv[1:]
    every = attacks()
    if user == "nobody" and os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    os.umask(0)
    file = os.open(f"{directory}/file", os.O_RDWR | os.O_CREAT, 0o666)
    os.ftruncate(file, 4096)
    # Out of the way of descriptor 3, which is the channel.
    file = fcntl.fcntl(file, fcntl.F_DUPFD, 100)
    # Let others of this user look into this process: dumpable, and any tracer for Yama.
    kernel("prctl", 4, 1, 0, 0, 0)
    libc.prctl(0x5961_6D61, ctypes.c_ulong(-1), 0, 0, 0)
    pidfd = fcntl.fcntl(os.pidfd_open(os.getpid()), fcntl.F_DUPFD, 100)
    scene = Scene(
        os.getpid(), os.getpgrp(), ctypes.create_string_buffer(b"SECRET"), directory, file, pidfd,
        mmap.mmap(-1, 4096), _codes,
    )  # fmt: skip
    for attack in every:
        free = try_out(attack, scene, locked=False)
        walled = try_out(attack, scene, locked=True)
        print(json.dumps([attack.name, attack.must_work, attack.opens, free, walled]), flush=True)


_codes = machine_code()

if __name__ == "__main__":
    main()
