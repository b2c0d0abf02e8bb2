"""What a program declares is checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kalends.core.errors import InvalidInput
from kalends_malleable import Array, Blocks, Cyclic, Program, Rank, Stage, Timetable
from kalends_malleable.program_file import program_in
from kalends_malleable.rank import packed, unpacked
from kalends_malleable.run import dealt_cores


def stage(sizes: Sequence[Any] = (1, 2, 4), **more: Any) -> Stage:
    return Stage(name="relax", sizes=sizes, computation=_nothing, **more)


def _nothing(rank: Rank) -> None: ...


@pytest.mark.parametrize("sizes", [[], [0], [-1], [True], [1.0], [1, 1], [10**9], range(1, 100)])
def test_sizes_that_are_none_are_refused(sizes: Sequence[Any]) -> None:
    with pytest.raises(InvalidInput, match="stage relax names"):
        stage(sizes)


@pytest.mark.parametrize("shape", [(), (0,), (-1, 2), (1.5,), (2, 10**15)])
def test_shapes_that_are_none_are_refused(shape: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInput, match="shape"):
        Array(shape)


@pytest.mark.parametrize("dtype", [object, "S0"])
def test_types_that_no_memory_can_be_shared_of_are_refused(dtype: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be shared"):
        Array((3,), dtype)


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (Array((3, 9)), "axis 0 with 3 indices can be split over 3 ranks at most"),
        (Array((9, 3), distribution=Blocks(axis=1)), "axis 1 with 3 indices"),
        (Array((9,), distribution=Cyclic(3)), "over 3 ranks at most, and stage relax may run on 4"),
        (Array((9,), distribution=Blocks(axis=1)), "no axis 1"),
        (Array((9,), distribution=Blocks(axis=-1)), "no axis -1"),
    ],
)
def test_an_array_that_cannot_be_split_is_refused(array: Array, match: str) -> None:
    with pytest.raises(InvalidInput, match=match) as caught:
        Program(arrays={"u": array}, stages=[stage()])
    assert caught.value.where == "arrays['u']"


def test_a_stage_that_distributes_no_array_is_refused() -> None:
    with pytest.raises(InvalidInput, match="distributes v, which is not an array"):
        Program(arrays={"u": Array((9,))}, stages=[stage(data={"v": Blocks()})])


def test_a_stage_that_could_not_go_on_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs 4 ranks, and the one before it can end with 2"):
        Program(arrays={}, stages=[stage([2, 4]), stage([4, 8])])


def test_a_program_has_a_stage() -> None:
    with pytest.raises(InvalidInput, match="one stage"):
        Program(arrays={}, stages=[])


def test_a_stage_goes_on_with_as_many_ranks_or_the_next_fewer() -> None:
    program = Program(arrays={}, stages=[stage([2, 4, 8]), stage([1, 2, 8])])
    assert [program.size_in(1, before) for before in (2, 4, 8)] == [2, 2, 8]


def test_a_size_that_is_not_eligible_is_refused_at_the_start() -> None:
    program = Program(arrays={}, stages=[stage()])
    assert (program.first_size(None), program.first_size(4)) == (1, 4)
    with pytest.raises(
        InvalidInput, match="3 ranks are not eligible: stage relax runs on 1, 2 or 4"
    ):
        program.first_size(3)


def test_state_comes_back_as_it_was() -> None:
    state = {"step": 3, "x": 0.1, "not": float("inf"), "list": [1, None, "a"], "map": {"b": True}}
    assert unpacked(packed(state)) == state
    assert unpacked(packed({"x": np.float64(0.1), "n": np.int32(3)})) == {"x": 0.1, "n": 3}


@pytest.mark.parametrize("value", [object(), np.zeros(2), 2**70, lambda: None])
def test_state_that_cannot_be_handed_on_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be sent to another rank"):
        packed({"x": value})


def test_state_that_is_data_is_refused() -> None:
    with pytest.raises(InvalidInput, match="more than 65,536"):
        packed({"x": "a" * 100_000})


@pytest.mark.parametrize(
    "text", ["", "2", "2@", "@2", "0@1", "2@0", "2@3;4@5", "-1@2", "9999999@1"]
)
def test_a_timetable_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a change of size"):
        Timetable.of(text)


def test_a_timetable_gives_what_the_program_wants_at_the_next_sop() -> None:
    timetable = Timetable.of("2@10, 4@20")
    assert timetable.heard(9) == []
    assert [each.to for each in timetable.heard(10)] == [2]
    timetable.want(3)
    assert [each.to for each in timetable.heard(11)] == [3]
    assert timetable.heard(12) == []


@pytest.mark.parametrize(
    ("cores", "ranks", "dealt"),
    [
        ((), 2, [(), ()]),
        ((4, 5), 2, [(4,), (5,)]),
        ((4, 5, 6, 7), 2, [(4, 5), (6, 7)]),
        ((4, 5), 3, [(4,), (5,), (4,)]),
    ],
)
def test_cores_are_dealt_to_ranks(
    cores: tuple[int, ...], ranks: int, dealt: list[tuple[int, ...]]
) -> None:
    assert [dealt_cores(cores, ranks, rank) for rank in range(ranks)] == dealt


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (None, "no such file"),
        ("", "no function program"),
        ("program = 3", "no function program"),
        ("def program(arguments): return 3", "returns a int"),
    ],
)
def test_a_file_without_a_program_is_refused(
    source: str | None, match: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(InvalidInput, match=match):
        program_in(path, [])
