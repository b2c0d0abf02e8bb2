"""Checkpoints: what was written comes back, damage is told, and the old file stays until the new is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kalends.core.errors import InvalidInput, StoreDamaged
from kalends_malleable import Array, CheckpointFile, Checkpoints, Program, Rank, Stage
from kalends_malleable.checkpoints import Position, write_checkpoint
from kalends_malleable.rank import Values, packed

POSITION = Position(stage=0, sop=7, state=packed({"step": 7}))
ARRAYS: dict[str, Values] = {"u": np.arange(12.0).reshape(3, 4), "n": np.arange(5, dtype="i4")}


def a_program(**arrays: Array) -> Program:
    def nothing(rank: Rank) -> None: ...

    return Program(arrays=arrays, stages=[Stage(name="one", sizes=[1], computation=nothing)])


PROGRAM = a_program(u=Array((3, 4)), n=Array((5,), "i4"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "heat.npz", POSITION, ARRAYS.items())
    return tmp_path / "heat.npz"


def test_what_was_written_comes_back(path: Path) -> None:
    found = CheckpointFile(path, PROGRAM)
    arrays: dict[str, Values] = {"u": np.zeros((3, 4)), "n": np.zeros(5, "i4")}
    found.read_into(arrays)
    assert found.position == POSITION
    assert all((arrays[name] == ARRAYS[name]).all() for name in ARRAYS)


def test_numpy_reads_the_arrays(path: Path) -> None:
    with np.load(path) as archive:
        assert (archive["u"] == ARRAYS["u"]).all()


@pytest.mark.parametrize(
    "program",
    [
        a_program(u=Array((3, 4))),
        a_program(u=Array((3, 4)), n=Array((5,), "i4"), more=Array((1,))),
        a_program(u=Array((4, 3)), n=Array((5,), "i4")),
        a_program(u=Array((3, 4)), n=Array((5,), "i8")),
    ],
)
def test_the_checkpoint_of_another_program_is_refused(path: Path, program: Program) -> None:
    arrays = {name: np.zeros(array.shape, array.type) for name, array in program.arrays.items()}
    with pytest.raises(InvalidInput, match="belongs to another program"):
        CheckpointFile(path, program).read_into(arrays)


def test_damage_anywhere_is_told_or_changes_nothing(path: Path) -> None:
    whole = path.read_bytes()
    told = 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        arrays: dict[str, Values] = {"u": np.zeros((3, 4)), "n": np.zeros(5, "i4")}
        try:
            found = CheckpointFile(path, PROGRAM)
            found.read_into(arrays)
        except (StoreDamaged, InvalidInput):
            told += 1
        else:
            assert found.position == POSITION
            assert all((arrays[name] == ARRAYS[name]).all() for name in ARRAYS)
    assert told > len(whole) / 6


@pytest.mark.parametrize("part", [0, 1, 100, -1])
def test_half_a_file_is_damaged(path: Path, part: int) -> None:
    path.write_bytes(path.read_bytes()[:part])
    with pytest.raises(StoreDamaged, match="damaged"):
        CheckpointFile(path, PROGRAM)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        CheckpointFile(tmp_path / "none.npz", PROGRAM)


def test_the_old_checkpoint_stays_when_the_new_one_cannot_be_written(path: Path) -> None:
    def breaking() -> Iterator[tuple[str, Values]]:
        yield "u", ARRAYS["u"]
        raise OSError(28, os.strerror(28))

    before = path.read_bytes()
    checkpoints = Checkpoints(path, None, lambda: 0.0)
    assert "No space left on device" in checkpoints.save(Position(sop=8), breaking())
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_checkpoint_is_due_when_its_time_has_passed(tmp_path: Path) -> None:
    now = [0.0]
    checkpoints = Checkpoints(tmp_path / "c.npz", 60.0, lambda: now[0])
    now[0] = 59.0
    assert not checkpoints.due()
    now[0] = 60.0
    assert checkpoints.due()
    assert checkpoints.save(POSITION, ARRAYS.items()) == ""
    assert not checkpoints.due()
    assert not Checkpoints(tmp_path / "c.npz", None, lambda: now[0]).due()
