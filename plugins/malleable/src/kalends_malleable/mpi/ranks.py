"""One set of ranks under MPI, which takes over from the previous set, computes, and is replaced."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from mpi4py import MPI

from kalends.core.errors import InvalidInput, KalendsError
from kalends_malleable.change_desk import ChangeDesk
from kalends_malleable.checkpoints import Position
from kalends_malleable.control import change_at
from kalends_malleable.control_lines import SizeDemand, SizeReply
from kalends_malleable.mpi.exchange import (
    LocalArray,
    exchange,
    finish,
    gathered,
    gathered_at_root,
    moved_within,
    receive_from,
    scatter_from_root,
    send_to,
)
from kalends_malleable.mpi.last_words import say_last
from kalends_malleable.mpi.layouts import Layout, edges_received, edges_sent
from kalends_malleable.program import Program
from kalends_malleable.rank import Piece, Rank, Unwound, Values, packed
from kalends_malleable.run import OWN_CHANGE, RunOptions, SizeChange, dealt_cores

NAP_S: Final = 0.001
FIRST_NEW: Final = 1
"""Rank 0 of a new set, in the bridge between it and rank 0 of the old one, which has spawned it."""

STAY: Final = 0
CHANGE: Final = 1
SAVE: Final = 2


class Handover(msgspec.Struct, frozen=True, array_like=True):
    """The data that a set of ranks hands to the set that replaces it."""

    position: Position
    stage_before: int
    """The stage by which the arrays are distributed."""
    size: int
    demand: SizeDemand
    last: tuple[int, int, float, float, str] | None
    began_s: float
    saving_s: float
    ranks: tuple[int, ...]
    """The processes of the set that is replaced."""


def run_mpi(program: Program, options: RunOptions, command: Sequence[str]) -> None:
    """Run `program` on the ranks of ``mpiexec``; `command` starts one more of them.

    A failing rank shows its error once and ends all ranks of the set (``MPI_Abort``).
    """
    world = MPI.COMM_WORLD
    try:
        ranks = _Set(program, options, command)
        ranks.begin()
        ranks.run()
    except BaseException as error:
        if isinstance(error, KalendsError):
            say_last(f"error: {error}\n")
        else:
            failed = f"error: rank {world.rank} of {world.size} has failed: {error!r}\n"
            say_last(traceback.format_exc() + failed)
        world.Abort(error.exit_code if isinstance(error, KalendsError) else 1)


class _Set:
    """The ranks of one ``MPI_COMM_WORLD``, seen by one of them; a `Team`."""

    def __init__(self, program: Program, options: RunOptions, command: Sequence[str]) -> None:
        self._world = MPI.COMM_WORLD
        self.number, self.size = self._world.rank, self._world.size
        self._program, self._options, self._command = program, options, list(command)
        self._position = Position(state=packed(dict(program.state)))
        self._arrays: dict[str, LocalArray] = {}
        self._desk = ChangeDesk()
        self._cores = options.cores
        self._unwound: Unwound | None = None
        self._bridges: list[MPI.Comm] = []
        """Rank 0's communicator to the set that it spawned, until all ranks of this set have joined it."""

    def begin(self) -> None:
        """Take over from the previous set, continue from a checkpoint, or start."""
        spawner = MPI.Comm.Get_parent()
        if spawner != MPI.COMM_NULL:
            self._take_over(spawner)
            return
        restart = self._options.restart
        if restart is not None:
            self._position = restart.position
        self._refuse_size()
        self._arrays = self._allocated(self._position.stage)
        self._pin(self._options.cores)
        if restart is not None:
            for name, mine in self._arrays.items():
                whole = restart.read(name) if self.number == 0 else None
                scatter_from_root(self._world, whole, mine)

    def run(self) -> None:
        """Run the remaining stages, until this set is replaced."""
        try:
            for stage in range(self._position.stage, len(self._program.stages)):
                self._begin_stage(stage)
                rank = Rank(self, self._position.state)
                self._program.stages[stage].computation(rank)
                self._leave_if_told()
                self._agree(packed(rank.state))
        except Unwound:
            return
        finally:
            self._options.control.close()

    def pieces(self, name: str) -> list[Piece]:
        return self._arrays[name].pieces()

    def edges(self, name: str, width: int) -> tuple[Values, Values]:
        self._leave_if_told()
        mine = self._arrays[name]
        (first, start), (end, last) = mine.layout.wanted_edges(self.number, width)
        room = mine.empty(start - first + last - end)
        outgoing = edges_sent(mine.layout, self.number, width)
        incoming = edges_received(mine.layout, self.number, width)
        exchange(self._world, mine.values, outgoing, room, incoming)
        return mine.shown(room[: start - first]), mine.shown(room[start - first :])

    def whole(self, name: str) -> Values:
        self._leave_if_told()
        return gathered(self._world, self._arrays[name])

    def barrier(self) -> None:
        self._leave_if_told()
        self._world.Barrier()

    def sop(self, state: bytes, want: int) -> None:
        self._leave_if_told()
        self._agree(state)
        self._position = msgspec.structs.replace(self._position, sop=self._position.sop + 1)
        verb, number, to = self._decided(want)
        if verb == CHANGE:
            cores = self._world.bcast(self._cores if self.number == 0 else None)
            self._change(SizeDemand(number, to, tuple(cores)), self._position.stage)
        elif verb == SAVE:
            self._note(self._save())

    def _take_over(self, spawner: MPI.Intercomm) -> None:
        """Receive all data of the previous set, and report the cost of the change to the control."""
        bridge = spawner.Merge(high=True)
        parent = self._world.Create_intercomm(0, bridge, 0)
        told = msgspec.msgpack.decode(parent.bcast(None, root=0), type=Handover)
        self._position = told.position
        self._cores = told.demand.cores
        self._pin(self._cores)
        self._arrays = self._allocated(told.stage_before)
        self._world.Barrier()
        moving_s = MPI.Wtime()
        for name, mine in self._arrays.items():
            receive_from(parent, mine, self._layout(name, told.stage_before, told.size))
        self._world.Barrier()
        moving_s = MPI.Wtime() - moving_s
        _disconnect([parent, bridge, spawner])
        self._world.Barrier()
        self._desk = ChangeDesk(None if told.last is None else SizeReply(*told.last))
        if self.number == 0:
            took_s = max(time.time() - told.began_s, moving_s)
            change = SizeChange(
                told.demand.number,
                self._position.sop,
                told.size,
                self.size,
                took_s,
                moving_s,
                told.saving_s,
                told.ranks,
            )
            self._options.control.reply(self._desk.done(change.reply()))
            self._note(str(change))

    def _refuse_size(self) -> None:
        """Raise `InvalidInput` in rank 0, which ends all ranks, if the size is not eligible."""
        if self.number == 0:
            self._program.first_size(self.size, self._position.stage)
        self._world.Barrier()

    def _begin_stage(self, stage: int) -> None:
        before = self._position.stage
        self._position = msgspec.structs.replace(self._position, stage=stage)
        size = self._program.size_in(stage, self.size)
        if size != self.size:
            self._change(SizeDemand(OWN_CHANGE, size), before)
        if self.number == 0:
            self._options.control.offer(self._program.stages[stage].sizes)
        self._redistribute(stage)

    def _redistribute(self, stage: int) -> None:
        for name, mine in self._arrays.items():
            if mine.layout != self._layout(name, stage, self.size):
                new = self._allocated_one(name, stage)
                moved_within(self._world, mine, new)
                self._arrays[name] = new

    def _decided(self, want: int) -> tuple[int, int, int]:
        """Return rank 0's decision at this SOP: a verb, and a change's number and size."""
        word = np.zeros(3, dtype="i8")
        if self.number == 0:
            word[:] = self._decide(want)
        self._world.Bcast(word, root=0)
        return int(word[0]), int(word[1]), int(word[2])

    def _decide(self, want: int) -> tuple[int, int, int]:
        control, stage = self._options.control, self._program.stages[self._position.stage]
        if want:
            control.want(want)
        wanted = change_at(self._position.sop, stage.sizes, control, self._desk, self._note)
        if isinstance(wanted, SizeDemand) and wanted.to == self.size:
            wanted = self._desk.done(SizeReply(wanted.number, self.size))
        if isinstance(wanted, SizeReply):
            self._told(wanted)
        if isinstance(wanted, SizeDemand):
            self._cores = wanted.cores or self._cores
            return CHANGE, wanted.number, wanted.to
        checkpoints = self._options.checkpoints
        return (SAVE if checkpoints is not None and checkpoints.due() else STAY), 0, 0

    def _change(self, demand: SizeDemand, distributed_as: int) -> None:
        """Replace this set; returns only if that is refused, and leaves the computation otherwise."""
        began_s = time.time()
        why = self._save()
        if demand.number == OWN_CHANGE:
            self._note(why)
            why = ""
        saving_s = time.time() - began_s
        successors = None
        if not why:
            successors, why = self._spawned(demand.to)
        if successors is None:
            if self.number == 0:
                self._told(self._desk.done(SizeReply(demand.number, self.size, why=why)))
            return
        self._hand_over(successors, demand, distributed_as, began_s, saving_s)
        self._unwound = Unwound()
        raise self._unwound

    def _hand_over(
        self,
        successors: MPI.Intercomm,
        demand: SizeDemand,
        distributed_as: int,
        began_s: float,
        saving_s: float,
    ) -> None:
        self._options.control.close()
        last = self._desk.last
        ranks = self._world.gather(os.getpid())
        told = Handover(
            self._position,
            distributed_as,
            self.size,
            demand,
            None
            if last is None
            else (last.number, last.ranks, last.took_s, last.moving_s, last.why),
            began_s,
            saving_s,
            tuple(ranks or ()),
        )
        root = MPI.ROOT if self.number == 0 else MPI.PROC_NULL
        successors.bcast(msgspec.msgpack.encode(told), root=root)
        requests = []
        for name, mine in self._arrays.items():
            requests += send_to(successors, mine, self._layout(name, distributed_as, demand.to))
        finish(requests)
        _disconnect([successors, *self._bridges])

    def _spawned(self, ranks: int) -> tuple[MPI.Intercomm | None, str]:
        sys.stdout.flush()
        sys.stderr.flush()
        began, why, word = None, "", np.zeros(1, dtype="i8")
        if self.number == 0:
            try:
                began = MPI.COMM_SELF.Spawn(self._command[0], self._command[1:], maxprocs=ranks)
                word[0] = CHANGE
            except MPI.Exception as error:
                why = f"{ranks} ranks cannot be started: {error.Get_error_string()}"
        _wait_asleep(self._world.Ibcast(word, root=0))
        if word[0] != CHANGE:
            return None, why
        bridge = MPI.COMM_SELF
        if began is not None:
            bridge = began.Merge(high=False)
            self._bridges = [bridge, began]
        return self._world.Create_intercomm(0, bridge, FIRST_NEW), ""

    def _save(self) -> str:
        """Write the checkpoint, if one is configured; return why it failed, the same in all ranks."""
        checkpoints = self._options.checkpoints
        if checkpoints is None:
            return ""
        arrays = self._gathered()
        why = checkpoints.save(self._position, arrays) if self.number == 0 else ""
        for _ in arrays:  # In rank 0, the arrays that were no longer written.
            pass
        found: str = self._world.bcast(why)
        return found

    def _gathered(self) -> Iterator[tuple[str, Values]]:
        for name, mine in self._arrays.items():
            whole = gathered_at_root(self._world, mine)
            yield name, mine.values if whole is None else whole

    def _agree(self, state: bytes) -> None:
        """Take the present state; raises `InvalidInput` in rank 0, which ends all ranks, if ranks differ."""
        own = np.array([zlib.crc32(state), -zlib.crc32(state)], dtype="i8")
        most = np.empty_like(own)
        self._world.Allreduce(own, most, MPI.MAX)
        if most[0] != -most[1]:
            if self.number != 0:
                self._world.Barrier()
            raise InvalidInput(
                "ranks have different state at an SOP or at the end of a stage",
                remedy="have all ranks make the same changes to rank.state",
            )
        self._position = msgspec.structs.replace(self._position, state=state)

    def _allocated(self, stage: int) -> dict[str, LocalArray]:
        return {name: self._allocated_one(name, stage) for name in self._program.arrays}

    def _allocated_one(self, name: str, stage: int) -> LocalArray:
        distribution = self._program.distribution(stage, name)
        return LocalArray(self._program.arrays[name], distribution, self.size, self.number)

    def _layout(self, name: str, stage: int, ranks: int) -> Layout:
        distribution = self._program.distribution(stage, name)
        return Layout(self._program.arrays[name].shape[distribution.axis], distribution, ranks)

    def _leave_if_told(self) -> None:
        if self._unwound is not None:
            raise self._unwound

    def _pin(self, cores: tuple[int, ...]) -> None:
        if cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, dealt_cores(cores, self.size, self.number))

    def _told(self, reply: SizeReply) -> None:
        self._options.control.reply(reply)
        self._note(f"change {reply.number} is refused: {reply.why}" if reply.why else "")

    def _note(self, text: str) -> None:
        if text and self.number == 0:
            self._options.onlooker.note(text)


def _wait_asleep(request: MPI.Request) -> None:
    """Wait without spinning, as MPI itself would: the new ranks start on the same cores."""
    while not request.Test():
        time.sleep(NAP_S)


def _disconnect(links: list[MPI.Comm]) -> None:
    """Disconnect from the other set, so that either can end without the other."""
    for link in links:
        link.Disconnect()
