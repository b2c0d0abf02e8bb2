"""Machines from their texts on the command line and in files, e.g. ``mesh2d:32x32:4x4:io=inner``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.machines.architectures import Hypercube, InputOutput, Mesh2d, Pool, Torus3d
from kalends.machines.machine import Machine
from kalends.machines.topology import Topology

MOST_DIGITS: Final = 6
LONGEST_SHOWN: Final = 60


class Architecture(msgspec.Struct, frozen=True):
    """One architecture: the form of its text, and the maker of a machine from the text's parts."""

    form: str
    summary: str
    numbers: Sequence[int]
    """Numbers in each part between colons; parts from `needed` on are optional."""
    needed: int
    options: Sequence[str]
    make: Callable[[list[tuple[int, ...]], dict[str, str]], Topology]


def machine_from(text: str) -> Machine:
    """Return the machine that `text` names, empty and with all nodes in service.

    Raises `InvalidInput` as `topology_from` does.
    """
    return Machine(topology_from(text))


def topology_from(text: str) -> Topology:
    """Return the structure that `text` names; raises `InvalidInput` with the right form for anything else."""
    name, *parts = text.split(":")
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise InvalidInput(
            f"unknown architecture {name[:LONGEST_SHOWN]!r}",
            where="machine",
            remedy=f"write {' or '.join(each.form for each in ARCHITECTURES.values())}",
        )
    options = dict(_option(part, architecture, text) for part in parts if "=" in part)
    sizes = [part for part in parts if "=" not in part]
    if parts[: len(sizes)] != sizes or len(options) != len(parts) - len(sizes):
        raise _misspelt(text, architecture)
    if not architecture.needed <= len(sizes) <= len(architecture.numbers):
        raise _misspelt(text, architecture)
    numbers = [_numbers(part, architecture, text) for part in sizes]
    if [len(each) for each in numbers] != list(architecture.numbers)[: len(numbers)]:
        raise _misspelt(text, architecture)
    return architecture.make(numbers, options)


def _option(part: str, architecture: Architecture, text: str) -> tuple[str, str]:
    if part not in architecture.options:
        raise _misspelt(text, architecture)
    key, _, value = part.partition("=")
    return key, value


def _numbers(part: str, architecture: Architecture, text: str) -> tuple[int, ...]:
    words = part.split("x")
    if not all(word.isascii() and word.isdigit() and len(word) <= MOST_DIGITS for word in words):
        raise _misspelt(text, architecture)
    return tuple(map(int, words))


def _misspelt(text: str, architecture: Architecture) -> InvalidInput:
    return InvalidInput(
        f"{text[:LONGEST_SHOWN]!r} is not a machine of this kind",
        where="machine",
        remedy=f"write {architecture.form}",
    )


def _first_fit(options: dict[str, str]) -> bool:
    return options.get("fit") == "first"


def _mesh2d(numbers: list[tuple[int, ...]], options: dict[str, str]) -> Topology:
    width, height = numbers[0]
    unit_width, unit_height = numbers[1] if len(numbers) > 1 else (1, 1)
    io = InputOutput(options.get("io", InputOutput.ALL))
    return Mesh2d(
        width, height, (unit_width, unit_height), io=io, first_fit=_first_fit(options)
    )  # fmt: skip


def _torus3d(numbers: list[tuple[int, ...]], options: dict[str, str]) -> Topology:
    x, y, z = numbers[0]
    return Torus3d(x, y, z, first_fit=_first_fit(options))


_FIT: Final = ("fit=best", "fit=first")

ARCHITECTURES: Final[dict[str, Architecture]] = {
    "pool": Architecture(
        "pool:NODES", "any nodes", (1,), 1, (), lambda numbers, _: Pool(numbers[0][0])
    ),
    "mesh2d": Architecture(
        "mesh2d:WxH[:UxV][:io=all|border|inner][:fit=best|first]",
        "rectangles of atomic units (Parsytec GCel, GCPP)",
        (2, 2),
        1,
        (*(f"io={io}" for io in InputOutput), *_FIT),
        _mesh2d,
    ),
    "hypercube": Architecture(
        "hypercube:DIMENSIONS[:fit=best|first]",
        "subcubes (Intel iPSC)",
        (1,),
        1,
        _FIT,
        lambda numbers, options: Hypercube(numbers[0][0], first_fit=_first_fit(options)),
    ),
    "torus3d": Architecture(
        "torus3d:XxYxZ[:fit=best|first]",
        "boxes that may wrap around (Cray T3D)",
        (3,),
        1,
        _FIT,
        _torus3d,
    ),
}
