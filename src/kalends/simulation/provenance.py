"""Provenance of results: all that is needed to make a result again, and to compare two results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.simulation.workloads.log_file import must_be_regular
from kalends.version import VERSION

if TYPE_CHECKING:
    from kalends.scheduling.reservations import Reservation
    from kalends.simulation.workloads import Workload

_BLOCK_BYTES: Final = 1 << 20

Option = str | int | float | bool | list[str]


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The program, the workload and all options that shaped a result."""

    kalends: str
    """The version of kalends."""
    workload: str
    """The name of the log's file, or the rule of generated jobs."""
    sha256: str = ""
    """Hash of the log's bytes; empty for jobs that are not from a file."""
    policy: str
    options: dict[str, Option]
    """The options of `kalends.simulate` that differ from their defaults, and always the estimates."""
    command: str = ""
    """The command line that makes the result again; empty if a Python program made it."""

    def as_json(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    def in_a_line(self) -> str:
        """Return it for people: at the foot of a picture."""
        log = f" (sha256 {self.sha256[:12]})" if self.sha256 else ""
        shown = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"kalends {self.kalends}, {self.workload}{log}, policy {self.policy}, {shown}"


def provenance_of(
    workload: Workload,
    policy: str,
    *,
    speedups: object = None,
    reservations: Sequence[Reservation] = (),
    estimates: str = "user",
    by: Sequence[str] = (),
    command: str = "",
    seed: int = 0,
    shake_s: int = 0,
    **options: str | float | None,
) -> Provenance:
    """Return the provenance of a replay of `workload` with these options of `kalends.simulate`.

    Raises `InvalidInput` for a log that cannot be read.
    """
    shaped: dict[str, Option] = {"estimates": estimates}
    shaped |= {
        name: value
        for name, value in options.items()
        if value not in (None, "", 0, "refuse") and (name, value) != ("load", 1)
    }
    if shake_s:
        shaped |= {"shake_s": shake_s, "seed": seed}
    if speedups is not None:
        shaped["speedups"] = _digest(speedups)
    if reservations:
        shaped["reservations"] = f"{len(reservations)}, {_digest(list(reservations))}"
    if by:
        shaped["by"] = list(by)
    return Provenance(
        kalends=VERSION,
        workload=_named(workload),
        sha256=_sha256(Path(workload)) if isinstance(workload, str | Path) else "",
        policy=policy,
        options=shaped,
        command=command,
    )


def _named(workload: Workload) -> str:
    if isinstance(workload, str | Path):
        return Path(workload).name
    if isinstance(workload, partial):
        arguments = [*map(str, workload.args), *(f"{k}={v}" for k, v in workload.keywords.items())]
        return f"{workload.func.__name__}({', '.join(arguments)})"
    return "jobs of a program"


def _digest(value: object) -> str:
    """Return the hash of a named file, or of the text of another value."""
    if isinstance(value, str | Path):
        return f"{Path(value).name}, sha256 {_sha256(Path(value))}"
    return f"sha256 {hashlib.sha256(repr(value).encode()).hexdigest()}"


def _sha256(path: Path) -> str:
    found = hashlib.sha256()
    try:
        must_be_regular(path)
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                found.update(block)
    except OSError as error:
        raise InvalidInput(
            error.strerror or str(error), where=str(path), remedy="give a file that can be read"
        ) from error
    return found.hexdigest()
