"""A computation's view of its set of ranks, the same for all backends."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from kalends.core.errors import InvalidInput
from kalends.core.limits import STATE_BYTES_MAX
from kalends_malleable.distributions import Range

Values = npt.NDArray[Any]


class Piece(NamedTuple):
    """A range of the distributed axis that a rank has, and its values, which may be written."""

    start: int
    end: int
    values: Values


class Unwound(BaseException):
    """Raised when the set of ranks has changed: the computation is left, and then restarted.

    Not an `Exception`, so that a program which catches these does not catch it.
    """


class Team(Protocol):
    """A set of ranks, seen by one of them; implemented for shared memory and for MPI."""

    number: int
    size: int

    def pieces(self, name: str) -> list[Piece]: ...

    def edges(self, name: str, width: int) -> tuple[Values, Values]: ...

    def whole(self, name: str) -> Values: ...

    def barrier(self) -> None: ...

    def sop(self, state: bytes, want: int) -> None: ...


class Rank:
    """One of the processes that run a computation.

    All methods but `pieces`, `bounds` and `local` are collective: every rank calls the same ones in the
    same order. Otherwise the program ends with a message that shows which rank called what.
    """

    number: int
    """From 0 to `size` - 1."""
    size: int
    state: dict[str, Any]
    """Data apart from the arrays that the next computation needs, e.g. the step; the same in all ranks."""

    def __init__(self, team: Team, state: bytes) -> None:
        self._team = team
        self._want = 0
        self.number, self.size = team.number, team.size
        self.state = unpacked(state)

    def pieces(self, name: str) -> list[Piece]:
        """Return the parts of an array that this rank has, in order. Raises `KeyError`."""
        return self._team.pieces(name)

    def bounds(self, name: str) -> list[Range]:
        """Return the ranges of the distributed axis that this rank has, in order. Raises `KeyError`."""
        return [(piece.start, piece.end) for piece in self._team.pieces(name)]

    def local(self, name: str) -> Values:
        """Return the part of an array that this rank has; raises `InvalidInput` if it is not in one piece."""
        pieces = self._team.pieces(name)
        if len(pieces) != 1:
            raise InvalidInput(
                f"rank {self.number} has {len(pieces)} pieces of {name}",
                remedy="take them from pieces(), or distribute it by Blocks",
            )
        return pieces[0].values

    def edges(self, name: str, width: int = 1) -> tuple[Values, Values]:
        """Return copies of the `width` indices before and after this rank's own; fewer at the ends.

        Their values are those at the moment when all ranks had called this.

        Raises `InvalidInput` if the array is not in one piece.
        """
        self.local(name)
        return self._team.edges(name, width)

    def whole(self, name: str) -> Values:
        """Return a copy of the whole array, with the values when all ranks had called this."""
        return self._team.whole(name)

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        self._team.barrier()

    def want(self, ranks: int) -> None:
        """Make the next `sop` ask for this number of ranks; the wish may be denied."""
        self._want = int(ranks)

    def sop(self) -> None:
        """Allow the set of ranks to change here (a schedulable and observable point).

        If it changes, this call does not return: in all ranks, including new ones, the computation is
        restarted with the arrays and the `state` of this moment.
        """
        want, self._want = self._want, 0
        self._team.sop(packed(self.state), want)


def packed(state: dict[str, Any]) -> bytes:
    """Return `state` as bytes, the same for the same values; raises `InvalidInput`."""
    try:
        data = msgspec.msgpack.encode(state, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InvalidInput(
            f"state holds a value that cannot be sent to another rank: {error}",
            remedy="keep numbers, texts, lists and mappings there, and values by index in an array",
        ) from None
    if len(data) > STATE_BYTES_MAX:
        raise InvalidInput(
            f"state has {len(data):,} bytes, more than {STATE_BYTES_MAX:,}",
            remedy="keep values by index in an array",
        )
    return data


def unpacked(data: bytes) -> dict[str, Any]:
    """Return the state from the bytes that `packed` returned."""
    return msgspec.msgpack.decode(data, type=dict[str, Any])


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__}")
