"""From the specification of a PSI/J job to what a machine's queue is asked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from kalends.client.inputs.job_texts import job_from
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends_psij.configuration import ALL
from psij import JobAttributes, JobSpec, ResourceSpecV1

PREFIX: Final = "kalends."
NAME_MAX: Final = 128
TEXTS: Final = ("priority", "shape", "notify", "notify_to", "warn")
FLAGS: Final = ("held", "rerun")
TIMES: Final = ("begin", "at")
KNOWN: Final = (*TEXTS, *FLAGS, *TIMES, "after", "key")

NODE_FILE: Final = """\
PSIJ_NODEFILE=$(mktemp) || exit
export PSIJ_NODEFILE
trap 'rm -f "$PSIJ_NODEFILE"' EXIT
for ((each = 0; each < $1; each++)); do echo localhost; done >"$PSIJ_NODEFILE"
shift
[ "$3" = PSIJ_NODEFILE= ] && set -- "$1" "$2" "PSIJ_NODEFILE=$PSIJ_NODEFILE" "${@:4}"
"$@"
"""
"""Runs a command with a line for each process in a file: all nodes of a machine are on its one host.

The third line from the end is for a command ``env -i PSIJ_NODEFILE= ...``, which else would not know it.
"""


def request_from(
    spec: JobSpec,
    machine: str,
    launch: Sequence[str],
    *,
    export: Collection[str],
    time_s: Callable[[Any], int],
    start_s: Callable[[Any], int],
) -> JobRequest:
    """Return what is asked of `machine`: to run the command `launch` of a launcher as `spec` says.

    `export` names variables of this process that it inherits, `time_s` reads times, and
    `start_s` fixed starts. Raises `InvalidInput`.
    """
    attributes = spec.attributes or JobAttributes()
    custom = _custom(attributes)
    resources = _resources(spec)
    options: dict[str, Any] = {
        "nodes": resources.computed_node_count,
        "name": (spec.name or "")[:NAME_MAX],
        "project": attributes.account or "",
        "directory": str(spec.directory or ""),
        "reservation": attributes.reservation_id or "",
        "sizes": "",
        "malleable": False,
        "change": "",
        "environment": _environment(spec, export),
        "after": _listed(custom.get("after", ())),
        **{name: _text(custom, name) for name in TEXTS},
        **{name: _flag(custom, name) for name in FLAGS},
    }
    return job_from(
        machine,
        _command(spec, launch, resources.computed_process_count),
        script="",
        limit=_limit(attributes),
        options=options,
        not_before=time_s(custom["begin"]) if "begin" in custom else 0,
        at=start_s(custom["at"]) if "at" in custom else 0,
    )


def key_of(spec: JobSpec, job_id: str) -> str:
    """Return the key of a submission: that of ``kalends.key``, else the id of the PSI/J job."""
    return _text(_custom(spec.attributes or JobAttributes()), "key") or job_id


def _custom(attributes: JobAttributes) -> dict[str, Any]:
    """Return our custom attributes without their prefix; those of other executors are left alone."""
    found = {
        name.removeprefix(PREFIX): value
        for name, value in (attributes.custom_attributes or {}).items()
        if name.startswith(PREFIX)
    }
    for name in found:
        if name not in KNOWN:
            raise InvalidInput(
                "there is no such attribute",
                where=PREFIX + name,
                remedy=f"give {', '.join(PREFIX + each for each in sorted(KNOWN))}",
            )
    return found


def _resources(spec: JobSpec) -> ResourceSpecV1:
    resources = spec.resources or ResourceSpecV1()
    if not isinstance(resources, ResourceSpecV1):
        raise InvalidInput(
            f"a resource specification of version {resources.version}",
            where="resources",
            remedy="use ResourceSpecV1",
        )
    if resources.gpu_cores_per_process:
        raise InvalidInput(
            "GPUs cannot be asked for beside nodes",
            where="resources.gpu_cores_per_process",
            remedy="leave it out, and name a queue whose nodes have them",
        )
    if (resources.cpu_cores_per_process or 1) > 1 and resources.node_count is None:
        raise InvalidInput(
            "how many nodes so many cores are is for the owner of the machine to say",
            where="resources.cpu_cores_per_process",
            remedy="give node_count, too; kalends machine shows what a node is",
        )
    return resources


def _limit(attributes: JobAttributes) -> str | None:
    """Return its longest time as text; None for as long as its reservation lasts."""
    if attributes.duration is None:
        return None
    return f"{math.ceil(attributes.duration.total_seconds())}s"


def _command(spec: JobSpec, launch: Sequence[str], processes: int) -> tuple[str, ...]:
    """Return what runs `launch`, in nothing but the environment of `spec` where that is asked for."""
    several = processes > 1
    command = tuple(launch)
    if not spec.inherit_environment:
        given = [f"{name}={value}" for name, value in (spec.environment or {}).items()]
        command = ("/usr/bin/env", "-i", *["PSIJ_NODEFILE="] * several, *given, *command)
    if several:
        command = ("/bin/bash", "-c", NODE_FILE, "kalends-psij", str(processes), *command)
    return command


def _environment(spec: JobSpec, export: Collection[str]) -> tuple[str, ...]:
    """Return what is to stand beside the variables that the machine sets, as ``NAME=VALUE``."""
    if not spec.inherit_environment:
        return ()
    inherited = os.environ if ALL in export else {each: os.environ.get(each) for each in export}
    found = {name: value for name, value in inherited.items() if value is not None}
    return tuple(f"{name}={value}" for name, value in {**found, **(spec.environment or {})}.items())


def _listed(value: Any) -> tuple[str, ...]:
    return (str(value),) if isinstance(value, str | int) else tuple(map(str, value))


def _text(custom: dict[str, Any], name: str) -> str:
    value = custom.get(name, "")
    if not isinstance(value, str):
        raise InvalidInput(f"{value!r} is not text", where=PREFIX + name, remedy="give text")
    return value


def _flag(custom: dict[str, Any], name: str) -> bool:
    value = custom.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(
            f"{value!r} is not True or False", where=PREFIX + name, remedy="give True or False"
        )
    return value
