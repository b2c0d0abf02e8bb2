"""A run on one host: the lead forks the ranks, which share one copy of the arrays in memory.

A change of size moves no data: ranks use other parts of the same arrays. The memory has no name, so
nothing of it is left behind, whichever process dies; the kernel ends the ranks with their lead.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import time
from typing import Any, NoReturn

import msgspec
import numpy as np

from kalends.core.errors import InvalidInput
from kalends_malleable.change_desk import ChangeDesk
from kalends_malleable.checkpoints import Position
from kalends_malleable.control import change_at
from kalends_malleable.control_lines import SizeDemand, SizeReply
from kalends_malleable.program import Array, Program
from kalends_malleable.rank import Values, packed, unpacked
from kalends_malleable.rank_process import (
    DONE,
    ENTER,
    GO,
    LEAVE,
    SOP,
    Halt,
    StageEntry,
    be_rank,
)
from kalends_malleable.rank_set import RankSet
from kalends_malleable.run import OWN_CHANGE, ProgramResult, RunOptions, SizeChange, dealt_cores


def run_shared(program: Program, options: RunOptions) -> ProgramResult:
    """Run `program` on this host, and return its result.

    Raises `InvalidInput` if the size is not eligible, a checkpoint does not fit, or there is no memory;
    and `RankFailed`. No process and no memory is left behind, whatever it raises.
    """
    return _Lead(program, options).run()


class _Lead:
    def __init__(self, program: Program, options: RunOptions) -> None:
        self._program, self._options = program, options
        self._pid = os.getpid()
        self._position = Position(state=packed(dict(program.state)))
        self._arrays = {name: _shared(name, array) for name, array in program.arrays.items()}
        self._cores = options.cores
        if options.restart is not None:
            self._position = options.restart.position
            options.restart.read_into(self._arrays)
        self._size = program.first_size(options.size, self._position.stage)
        self._desk = ChangeDesk()
        self._changes: list[SizeChange] = []
        self._ranks = RankSet(self._forked)

    def run(self) -> ProgramResult:
        try:
            if why := _cores_refused(self._cores):
                raise InvalidInput(why)
            self._ranks.grow(self._size)
            self._pin()
            for stage in range(self._position.stage, len(self._program.stages)):
                self._run_stage(stage)
            self._ranks.shrink(0, LEAVE)
        finally:
            self._ranks.kill()
            self._options.control.close()
        return ProgramResult(
            unpacked(self._position.state), self._arrays, self._position.sop, self._changes
        )

    def _forked(self, rank: int, link: socket.socket) -> NoReturn:
        self._options.control.close()
        be_rank(self._program, self._arrays, rank, link, self._pid)

    def _run_stage(self, number: int) -> None:
        stage = self._program.stages[number]
        self._position = msgspec.structs.replace(self._position, stage=number)
        self._ranks.now_in(f" in stage {stage.name}")
        self._options.control.offer(stage.sizes)
        size = self._program.size_in(number, self._size)
        if size == self._size:
            self._enter()
        else:
            self._change(SizeDemand(OWN_CHANGE, size))
        while (word := self._ranks.agreed())[:1] != DONE:
            if word[:1] == SOP:
                self._sop(msgspec.msgpack.decode(word[1:], type=Halt))
            else:
                self._ranks.tell(GO)
        self._position = msgspec.structs.replace(self._position, state=word[1:])

    def _sop(self, halt: Halt) -> None:
        """A moment at which all ranks stand still, and the arrays are as the program left them."""
        sop = self._position.sop + 1
        self._position = msgspec.structs.replace(self._position, sop=sop, state=halt.state)
        control = self._options.control
        if halt.want:
            control.want(halt.want)
        sizes = self._program.stages[self._position.stage].sizes
        wanted = change_at(sop, sizes, control, self._desk, self._note)
        if isinstance(wanted, SizeDemand) and wanted.to == self._size:
            wanted = self._desk.done(self._moved_to_cores(wanted))
        if isinstance(wanted, SizeDemand) and self._change(wanted):
            return
        if isinstance(wanted, SizeReply):
            self._told(wanted)
        checkpoints = self._options.checkpoints
        if checkpoints is not None and checkpoints.due():
            self._note(checkpoints.save(self._position, self._arrays.items()))
        self._ranks.tell(GO)

    def _change(self, demand: SizeDemand) -> bool:
        """Carry out a change while all ranks stand still, or refuse it; return whether it was done."""
        began_s, before = time.perf_counter(), self._size
        self._step("asked")
        why = self._save()
        if demand.number == OWN_CHANGE:
            self._note(why)
            why = ""
        saved_s = time.perf_counter()
        self._step("saved")
        why = why or _cores_refused(demand.cores) or self._grow(demand.to)
        if why:
            self._told(self._desk.done(SizeReply(demand.number, before, why=why)))
            return False
        self._step("grown")
        left = tuple(map(self._ranks.pid, range(demand.to, len(self._ranks))))
        self._ranks.shrink(demand.to, LEAVE)
        self._step("left")
        self._size, self._cores = demand.to, demand.cores or self._cores
        self._pin()
        self._enter()
        self._step("entered")
        took_s = time.perf_counter() - began_s
        change = SizeChange(
            demand.number,
            self._position.sop,
            before,
            demand.to,
            took_s,
            0.0,
            saved_s - began_s,
            left,
        )
        self._changes.append(change)
        self._note(str(change))
        self._told(self._desk.done(change.reply()))
        self._step("told")
        return True

    def _moved_to_cores(self, demand: SizeDemand) -> SizeReply:
        """Carry out a demand for the present number of ranks, which can only change their cores."""
        why = _cores_refused(demand.cores)
        if not why:
            self._cores = demand.cores or self._cores
            self._pin()
        return SizeReply(demand.number, self._size, why=why)

    def _enter(self) -> None:
        """Make all ranks enter the computation, and wait until they have."""
        entry = StageEntry(self._position.stage, self._size, self._position.state)
        self._ranks.tell(ENTER + msgspec.msgpack.encode(entry))
        self._ranks.agreed()

    def _save(self) -> str:
        checkpoints = self._options.checkpoints
        return "" if checkpoints is None else checkpoints.save(self._position, self._arrays.items())

    def _grow(self, size: int) -> str:
        try:
            self._ranks.grow(size)
        except OSError as error:
            return f"{size} ranks cannot be started here: {error.strerror or error}"
        return ""

    def _pin(self) -> None:
        for rank in range(self._size if self._cores else 0):
            os.sched_setaffinity(self._ranks.pid(rank), dealt_cores(self._cores, self._size, rank))

    def _told(self, reply: SizeReply) -> None:
        self._options.control.reply(reply)
        self._note(f"change {reply.number} is refused: {reply.why}" if reply.why else "")

    def _note(self, text: str) -> None:
        if text:
            self._options.onlooker.note(text)

    def _step(self, name: str) -> None:
        self._options.onlooker.step(name)


def _shared(name: str, array: Array) -> Values:
    try:
        memory = mmap.mmap(-1, array.bytes)
    except (OSError, OverflowError, ValueError) as error:
        raise InvalidInput(
            f"there is no memory for {array.bytes:,} bytes: {error}", where=f"arrays[{name!r}]"
        ) from None
    values: np.ndarray[Any, np.dtype[Any]] = np.frombuffer(memory, dtype=array.type)
    return values.reshape(array.shape)


def _cores_refused(cores: tuple[int, ...]) -> str:
    """Let this process, and those forked from it, run on `cores` only; return why not, or ""."""
    if not cores:
        return ""
    before = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cores)
        if os.sched_getaffinity(0) == set(cores):
            return ""
        os.sched_setaffinity(0, before)
    return f"the cores {', '.join(map(str, cores))} are not all usable"
