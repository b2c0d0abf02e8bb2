"""Declarations of a program: its arrays, its stages, and the state that all ranks share.

The sections of a stage are those of DRMS (Moreira and Naik): its *resources* are the sizes that it can
run on, its *data* the arrays and their distributions, its *control* section the values that a rank derives
from its bounds, its *computation* a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kalends.core.errors import InvalidInput
from kalends.core.limits import RANKS_MAX, SIZES_MAX
from kalends_malleable.distributions import Blocks, Distribution

if TYPE_CHECKING:
    from kalends_malleable.rank import Rank

BYTES_MAX: Final = 2**47
"""The most bytes of one array, which a process can address."""


@dataclass(frozen=True)
class Array:
    """A NumPy array of which every rank has a part; it begins with zeros.

    `distribution` applies in all stages that do not set another.
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike = np.float64
    distribution: Distribution = field(default_factory=Blocks)

    def __post_init__(self) -> None:
        if not self.shape or any(type(each) is not int or each < 1 for each in self.shape):
            raise InvalidInput(f"the shape {self.shape} of an array must be whole numbers above 0")
        if self.type.hasobject or self.type.itemsize == 0:
            raise InvalidInput(
                f"an array of {self.type} cannot be shared between processes",
                remedy="use a type of fixed size, such as float64",
            )
        if self.bytes > BYTES_MAX:
            raise InvalidInput(f"an array of shape {self.shape} is too large for memory")

    @property
    def type(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def bytes(self) -> int:
        size = self.type.itemsize
        for each in self.shape:
            size *= each
        return size


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One part of a program, which runs on any of `sizes`.

    `computation` is called in every rank: when the stage begins, and again after each change of size,
    with `Rank.state` as it was at the SOP. `data` has the arrays with another distribution than the
    declared one.
    """

    name: str
    sizes: Sequence[int]
    computation: Callable[[Rank], None]
    data: Mapping[str, Distribution] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sizes = list(self.sizes)
        if not sizes or any(type(each) is not int or each < 1 for each in sizes):
            raise InvalidInput(f"stage {self.name} names no sizes above 0")
        if len(set(sizes)) < len(sizes) or len(sizes) > SIZES_MAX or max(sizes) > RANKS_MAX:
            raise InvalidInput(
                f"stage {self.name} names a size twice, more than {SIZES_MAX} of them, "
                f"or more than {RANKS_MAX:,} ranks"
            )
        if not callable(self.computation):
            raise InvalidInput(f"stage {self.name} has no function as its computation")


@dataclass(frozen=True, kw_only=True)
class Program:
    """Stages that run one after the other over the same arrays and `state`.

    Raises `InvalidInput` for an array that cannot be split over a stage's sizes, a name that is not
    declared, or a stage that could not continue from the smallest size of the previous one.
    """

    arrays: Mapping[str, Array]
    stages: Sequence[Stage]
    state: Mapping[str, Any] = field(default_factory=dict)
    """The first state, the same in all ranks: numbers, texts, lists and mappings of them."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvalidInput("a program has at least one stage")
        for number, stage in enumerate(self.stages):
            for name in stage.data.keys() - self.arrays.keys():
                raise InvalidInput(f"stage {stage.name} distributes {name}, which is not an array")
            for name, array in self.arrays.items():
                _check_split(name, array, self.distribution(number, name), stage)
            if number and min(stage.sizes) > min(self.stages[number - 1].sizes):
                raise InvalidInput(
                    f"stage {stage.name} needs {min(stage.sizes)} ranks, and the one before it can end with "
                    f"{min(self.stages[number - 1].sizes)}",
                    remedy="let it run on as few ranks as the stage before",
                )

    def distribution(self, stage: int, name: str) -> Distribution:
        """Return how the array `name` is distributed in the stage of that number."""
        return self.stages[stage].data.get(name, self.arrays[name].distribution)

    def first_size(self, given: int | None, number: int = 0) -> int:
        """Return the first size of a stage: the one `given`, else the first that the stage lists.

        Raises `InvalidInput` if the size is not eligible.
        """
        stage, sizes = self.stages[number], self.stages[number].sizes
        if given is not None and given not in sizes:
            raise InvalidInput(
                f"{given} ranks are not eligible: stage {stage.name} runs on {listed(sizes)}"
            )
        return sizes[0] if given is None else given

    def size_in(self, stage: int, before: int) -> int:
        """Return the size at which a stage continues after `before` ranks: the same, or the next below."""
        sizes = self.stages[stage].sizes
        return before if before in sizes else max(each for each in sizes if each < before)


def listed(sizes: Sequence[int]) -> str:
    """Return ``1, 2 or 4 ranks``."""
    *most, last = map(str, sizes)
    return f"{', '.join(most)} or {last} ranks" if most else f"{last} ranks"


def _check_split(name: str, array: Array, distribution: Distribution, stage: Stage) -> None:
    axis, where = distribution.axis, f"arrays[{name!r}]"
    if not 0 <= axis < len(array.shape):
        raise InvalidInput(f"there is no axis {axis} in the shape {array.shape}", where=where)
    most = distribution.ranks_max(array.shape[axis])
    if max(stage.sizes) > most:
        raise InvalidInput(
            f"axis {axis} with {array.shape[axis]} indices can be split over {most} ranks at most, "
            f"and stage {stage.name} may run on {max(stage.sizes)}",
            where=where,
            remedy="leave that size out, or distribute another axis",
        )
