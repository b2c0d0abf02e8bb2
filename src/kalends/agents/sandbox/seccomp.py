"""The system call filter of a worker: seven calls are let through, every other one ends the process.

A program for the kernel's classic BPF machine, see seccomp(2) and bpf(4). Standard library only: the
filter can be shown to hold on any Python, and is loaded before anything of an agent is read.

| call | let through |
| --- | --- |
| ``read``, ``write`` | on descriptor 3, the channel to the host |
| ``mmap`` | anonymous memory that is not executable |
| ``munmap``, ``mremap``, ``brk`` | always: memory that is there already |
| ``exit_group`` | always |
| ``openat`` | never, but it only fails: no such file |

``rt_sigreturn`` is not among them: a worker handles no signal, and whoever has got out of the language could
block by it the signal that ends a run without processor time.

Python looks for a source file whenever its compiler reports an error, so an honest mistake calls
``openat``: it must not look like an attack. Everything else does.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

CHANNEL: Final = 3
"""The one descriptor that a worker has."""

ALLOW: Final = 0x7FFF_0000
KILL_PROCESS: Final = 0x8000_0000
NO_SUCH_FILE: Final = 0x0005_0000 | 2
"""Fail with ENOENT, without doing anything (``SECCOMP_RET_ERRNO``)."""

X32: Final = 0x4000_0000
"""Set in the numbers of the x32 ABI, which shares its architecture's mark with x86-64."""

PROT_EXEC: Final = 0x4
MAP_ANONYMOUS: Final = 0x20

# struct seccomp_data: int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6].
NUMBER_AT: Final = 0
ARCHITECTURE_AT: Final = 4
ARGUMENTS_AT: Final = 16

# Operations of the machine, bpf(4): load a word of the data, jump, return a constant.
LOAD: Final = 0x20
JUMP_EQUAL: Final = 0x15
JUMP_ANY_BIT: Final = 0x45
RETURN: Final = 0x06

PR_SET_SECCOMP: Final = 22
PR_SET_NO_NEW_PRIVS: Final = 38
SECCOMP_MODE_FILTER: Final = 2


class Unsupported(OSError):
    """This machine or kernel has no such filter; nothing important was changed."""


class CpuArchitecture(NamedTuple):
    """An architecture's mark (``AUDIT_ARCH_*``) and its numbers of the calls that the filter names."""

    audit: int
    read: int
    write: int
    mmap: int
    munmap: int
    mremap: int
    brk: int
    exit_group: int
    openat: int


# From the kernel's tables: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
MACHINES: Final = {
    "x86_64": CpuArchitecture(
        0xC000_003E, read=0, write=1, mmap=9, munmap=11, mremap=25, brk=12,
        exit_group=231, openat=257,
    ),
    "aarch64": CpuArchitecture(
        0xC000_00B7, read=63, write=64, mmap=222, munmap=215, mremap=216, brk=214,
        exit_group=94, openat=56,
    ),
}  # fmt: skip


class Instruction(NamedTuple):
    """One ``struct sock_filter``; jumps count the instructions to skip."""

    operation: int
    if_true: int
    if_false: int
    value: int


def program(machine: CpuArchitecture) -> tuple[Instruction, ...]:
    """Return the filter for `machine`, as the table above says."""
    always = (_end(ALLOW),)
    on_channel = (
        _load_argument(0),
        Instruction(JUMP_EQUAL, 0, 1, CHANNEL),
        _end(ALLOW),
        _end(KILL_PROCESS),
    )
    plain_memory = (
        _load_argument(2),
        Instruction(JUMP_ANY_BIT, 2, 0, PROT_EXEC),
        _load_argument(3),
        Instruction(JUMP_ANY_BIT, 1, 0, MAP_ANONYMOUS),
        _end(KILL_PROCESS),
        _end(ALLOW),
    )
    return (
        Instruction(LOAD, 0, 0, ARCHITECTURE_AT),
        Instruction(JUMP_EQUAL, 1, 0, machine.audit),
        _end(KILL_PROCESS),
        Instruction(LOAD, 0, 0, NUMBER_AT),
        Instruction(JUMP_ANY_BIT, 0, 1, X32),
        _end(KILL_PROCESS),
        *_when(machine.read, on_channel),
        *_when(machine.write, on_channel),
        *_when(machine.mmap, plain_memory),
        *_when(machine.munmap, always),
        *_when(machine.mremap, always),
        *_when(machine.brk, always),
        *_when(machine.exit_group, always),
        *_when(machine.openat, (_end(NO_SUCH_FILE),)),
        _end(KILL_PROCESS),
    )


def _when(number: int, then: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return `then`, which must end in returns, for the call `number`; other calls go on."""
    return (Instruction(JUMP_EQUAL, 0, len(then), number), *then)


def _load_argument(index: int) -> Instruction:
    """Return the lower word of an argument: the kernel reads descriptors, protections and flags as ints.

    Both architectures are little-endian. Upper bits of flags name nothing that would be a file.
    """
    return Instruction(LOAD, 0, 0, ARGUMENTS_AT + 8 * index)


def _end(verdict: int) -> Instruction:
    return Instruction(RETURN, 0, 0, verdict)


def program_here() -> tuple[Instruction, ...]:
    """Return the filter for this machine; raises `Unsupported` where its numbers are not known."""
    system = os.uname()
    machine = MACHINES.get(system.machine)
    if system.sysname != "Linux" or machine is None:
        raise Unsupported(
            f"there is no system call filter for {system.sysname} on {system.machine}:"
            f" agents need Linux on {' or '.join(MACHINES)}"
        )
    return program(machine)


class _Program(ctypes.Structure):
    """One ``struct sock_fprog``."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def prctl(option: int, argument: int = 0, pointer: int = 0) -> None:
    """Call prctl(2) on this process; raises `Unsupported` with the kernel's reason."""
    if _prctl(option, argument, pointer, 0, 0) != 0:
        number = ctypes.get_errno()
        raise Unsupported(number, f"prctl({option}): {os.strerror(number)}")


def install(instructions: Sequence[Instruction]) -> None:
    """Filter this process's calls from now on, for ever; raises `Unsupported` if it cannot."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    filter_program = _Program(len(instructions), code)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(filter_program))


_libc = ctypes.CDLL(None, use_errno=True)
_prctl = _libc.prctl
# All as wide as a register: prctl reads its arguments as unsigned longs.
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
