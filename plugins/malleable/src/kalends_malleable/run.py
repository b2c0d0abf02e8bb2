"""Options, observers and results of a program's run, for every backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from kalends.core.errors import KalendsError
from kalends_malleable.checkpoints import CheckpointFile, Checkpoints
from kalends_malleable.control import NoControl, SizeControl
from kalends_malleable.control_lines import SizeReply
from kalends_malleable.rank import Values

OWN_CHANGE: Final = 0
"""The number of a change without a demand."""


class RankFailed(KalendsError):
    """A rank raised an error, died, or made other calls than the others; all ranks have been ended.

    The traceback of the rank, if there is one, is a note of this error.
    """

    code: ClassVar[str] = "rank-failed"
    exit_code: ClassVar[int] = 1
    title: ClassVar[str] = "A rank has failed"


@dataclass(frozen=True)
class SizeChange:
    """A change of size that was carried out, and its cost."""

    number: int
    """The number of the demand; 0 if there was none."""
    sop: int
    before: int
    after: int
    took_s: float
    """From the SOP until all ranks of the new set had entered the computation."""
    moving_s: float
    """Moving data between ranks, a part of it."""
    saving_s: float = 0.0
    """Writing the checkpoint, a part of it."""
    left: tuple[int, ...] = ()
    """The processes of ranks that were given up."""

    def reply(self) -> SizeReply:
        return SizeReply(self.number, self.after, self.took_s, self.moving_s, left=self.left)

    def __str__(self) -> str:
        moving = f", {1e3 * self.moving_s:.1f} of them moving" if self.moving_s else ""
        return f"SOP {self.sop}: {self.before} -> {self.after} ranks in {1e3 * self.took_s:.1f} ms{moving}"


@dataclass
class ProgramResult:
    """The result of a run on one host."""

    state: dict[str, Any]
    arrays: Mapping[str, Values]
    sops: int
    changes: list[SizeChange]


class Onlooker(Protocol):
    """An observer of a run; called in the process that leads it."""

    def step(self, name: str) -> None:
        """Called after each step of a change: asked, saved, grown, left, entered or told."""

    def note(self, text: str) -> None:
        """Called with a message for the user."""


class Nobody:
    """An observer that ignores everything."""

    def step(self, name: str) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass
class RunOptions:
    """Options of a program's run."""

    size: int | None = None
    """Ranks at the beginning; None: the first size that the first stage names."""
    cores: tuple[int, ...] = ()
    """Cores to which the ranks are pinned; (): to none."""
    control: SizeControl = field(default_factory=NoControl)
    checkpoints: Checkpoints | None = None
    restart: CheckpointFile | None = None
    onlooker: Onlooker = field(default_factory=Nobody)


def dealt_cores(cores: tuple[int, ...], ranks: int, rank: int) -> tuple[int, ...]:
    """Return the cores of one rank: its share in order, or one in turn if there are fewer than ranks."""
    if len(cores) < ranks:
        return (cores[rank % len(cores)],) if cores else ()
    return cores[len(cores) * rank // ranks : len(cores) * (rank + 1) // ranks]
