"""The system call filter, run by a small machine of our own: every number, on both architectures."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.agents.sandbox import seccomp
from kalends.agents.sandbox.seccomp import (
    ALLOW,
    KILL_PROCESS,
    MACHINES,
    NO_SUCH_FILE,
    Instruction,
    program,
)

NUMBERS: Final = range(1024)
"""Beyond every number that the kernel knows today."""

WORD: Final = 0xFFFF_FFFF

PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 1, 2, 0x10, 0x20

words = st.integers(0, WORD)
registers = st.integers(0, (1 << 64) - 1)


def verdict(instructions: tuple[Instruction, ...], audit: int, number: int, *arguments: int) -> int:
    """What bpf(4) says of a call; fails on anything that the kernel would not load."""
    words_of = {0: number & WORD, 4: audit}
    for index, argument in enumerate((*arguments, *[0] * (6 - len(arguments)))):
        words_of[16 + 8 * index] = argument & WORD
        words_of[20 + 8 * index] = argument >> 32 & WORD
    accumulator = at = 0
    while True:
        operation, if_true, if_false, value = instructions[at]
        at += 1
        match operation:
            case 0x20:
                accumulator = words_of[value]
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"operation {operation:#x}")


def expected(name: str, number: int, arguments: tuple[int, ...]) -> int:
    """The table at the top of `seccomp`, written down once more."""
    machine = MACHINES[name]
    low = [argument & WORD for argument in arguments]
    if number in (machine.read, machine.write):
        return ALLOW if low[0] == 3 else KILL_PROCESS
    if number == machine.mmap:
        return ALLOW if low[3] & MAP_ANONYMOUS and not low[2] & PROT_EXEC else KILL_PROCESS
    if number in (
        machine.munmap, machine.mremap, machine.brk, machine.exit_group,
    ):  # fmt: skip
        return ALLOW
    return NO_SUCH_FILE if number == machine.openat else KILL_PROCESS


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    "arguments",
    [
        (3, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, 0),
        (3, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, WORD, 0),
        (4, 0, PROT_EXEC, MAP_ANONYMOUS, WORD, 0),
        (WORD, 0, PROT_READ, MAP_SHARED, 3, 0),
    ],
)
def test_every_number_gets_the_verdict_of_the_table(name: str, arguments: tuple[int, ...]) -> None:
    machine = MACHINES[name]
    code = program(machine)
    for number in NUMBERS:
        found = verdict(code, machine.audit, number, *arguments)
        assert found == expected(name, number, arguments), number


@given(
    st.sampled_from(sorted(MACHINES)),
    words,
    st.tuples(registers, registers, registers, registers, registers, registers),
)
def test_any_call_with_any_arguments_gets_the_verdict_of_the_table(
    name: str, number: int, arguments: tuple[int, ...]
) -> None:
    machine = MACHINES[name]
    assert verdict(program(machine), machine.audit, number, *arguments) == expected(
        name, number, arguments
    )


@given(
    st.sampled_from(sorted(MACHINES)),
    st.data(),
    st.tuples(registers, registers, registers, registers, registers, registers),
)
def test_the_calls_that_the_filter_names_get_the_verdict_of_the_table(
    name: str, data: st.DataObject, arguments: tuple[int, ...]
) -> None:
    machine = MACHINES[name]
    number = data.draw(st.sampled_from(machine[1:]))
    flags = data.draw(st.sampled_from([arguments[3], MAP_ANONYMOUS, MAP_ANONYMOUS | MAP_FIXED]))
    protection = data.draw(st.sampled_from([arguments[2], PROT_READ, PROT_EXEC | PROT_READ]))
    descriptor = data.draw(st.sampled_from([arguments[0], 3, 2, 4]))
    changed = (descriptor, arguments[1], protection, flags, *arguments[4:])
    assert verdict(program(machine), machine.audit, number, *changed) == expected(
        name, number, changed
    )


@pytest.mark.parametrize("name", MACHINES)
def test_exactly_seven_calls_can_ever_be_let_through(name: str) -> None:
    machine = MACHINES[name]
    friendly = (3, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, WORD, 0)
    passed = {n for n in NUMBERS if verdict(program(machine), machine.audit, n, *friendly) == ALLOW}
    assert len(passed) == 7
    assert machine.openat not in passed


@pytest.mark.parametrize("name", MACHINES)
def test_calls_of_another_architecture_end_the_process(name: str) -> None:
    machine = MACHINES[name]
    i386, arm, riscv = 0x4000_0003, 0x4000_0028, 0xC000_00F3
    other = {found.audit for found in MACHINES.values()} - {machine.audit}
    for audit in (0, i386, arm, riscv, *other):
        for number in NUMBERS:
            assert verdict(program(machine), audit, number, 3) == KILL_PROCESS


def test_x32_calls_end_the_process() -> None:
    machine = MACHINES["x86_64"]
    for number in NUMBERS:
        x32 = number | seccomp.X32
        assert verdict(program(machine), machine.audit, x32, 3) == KILL_PROCESS


@pytest.mark.parametrize("name", MACHINES)
def test_the_kernel_can_load_the_program(name: str) -> None:
    code = program(MACHINES[name])
    assert len(code) <= 4096
    for at, (operation, if_true, if_false, value) in enumerate(code):
        assert 0 <= value <= WORD
        if operation in (seccomp.JUMP_EQUAL, seccomp.JUMP_ANY_BIT):
            assert at + 1 + max(if_true, if_false) < len(code)
    assert code[-1].operation == seccomp.RETURN


def test_the_numbers_are_those_of_the_kernels_tables() -> None:
    x86_64, aarch64 = MACHINES["x86_64"], MACHINES["aarch64"]
    assert x86_64 == (0xC000003E, 0, 1, 9, 11, 25, 12, 231, 257)
    assert aarch64 == (0xC00000B7, 63, 64, 222, 215, 216, 214, 94, 56)
