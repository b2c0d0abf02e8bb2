"""From a site's configuration to the batch systems that jobs are handed over to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from kalends.backends.desks.handed_over import QueueAccess
from kalends.backends.kinds import OwnQueue, kind_named
from kalends.core.errors import InvalidInput
from kalends.serving.configuration import (
    BatchSystemConfiguration,
    MachineConfiguration,
    SiteConfiguration,
)

KEPT_S_MIN: Final = 86_400
"""What became of an attempt is kept at least for so long: a site may be away when it ends."""

NOT_THERE: Final = (
    "policy", "shape", "may_delay", "no_show_s", "batch_system", "nodes", "cores_each",
    "control_group", "users", "memory_mb_max", "processes_max", "directory", "output_mb_max",
    "file_mb_max", "core_mb_max",
)  # fmt: skip
"""What an owner may say of other machines only: here the batch system decides, and runs the jobs."""


class Handed(NamedTuple):
    """A machine whose jobs are handed over to `system`."""

    resource: str
    machine: MachineConfiguration
    system: BatchSystemConfiguration
    access: QueueAccess

    @property
    def environment(self) -> Mapping[str, str]:
        """Requirements of its commands."""
        said = self.system.environment
        configuration = self.system.configuration
        return {"SLURM_CONF": str(configuration), **said} if configuration else said


def handed_over_of(configuration: SiteConfiguration) -> list[Handed]:
    """Return the machines of a site that decide nothing; raises `InvalidInput` with what is wrong."""
    machines = {each.resource: each for each in configuration.machines}
    found = []
    for number, resource in enumerate(configuration.resources):
        system = configuration.advisory_system(resource)
        if system is None:
            continue
        where = f"site.resources[{number}]"
        machine = machines.get(resource.name)
        if machine is None:
            raise InvalidInput(
                f"{system.name} makes no reservations, so the resource could not be used",
                where=f"{where}.batch_system",
                remedy=f'let users submit jobs: [[site.machines]] with resource = "{resource.name}"',
            )
        queue = kind_named(system.kind).queue
        assert queue is not None
        _check(configuration, machine, takes_options=queue.takes_options)
        found.append(_handed(configuration, machine, system, queue))
    for number, system in enumerate(configuration.batch_systems):
        handed = any(each.system is system for each in found)
        _check_system(system, f"site.batch_systems[{number}]", handed=handed)
    return found


def _handed(
    configuration: SiteConfiguration,
    machine: MachineConfiguration,
    system: BatchSystemConfiguration,
    queue: OwnQueue,
) -> Handed:
    access = QueueAccess(
        kind=system.kind,
        reached_by=queue.reached_by,
        system=system.name,
        site=configuration.name,
        machine=machine.resource,
        look_s=max(int(system.look_every_s), 1),
        foresees=queue.foresees,
        settings=msgspec.to_builtins(system.settings) or {},
        options=machine.allocation_options,
        answer_s_max=system.answer_s_max * 0.75,
        keep_s=max(int(machine.keep_output_s), KEPT_S_MIN),
    )
    return Handed(f"{configuration.name}/{machine.resource}", machine, system, access)


def _check(
    configuration: SiteConfiguration, machine: MachineConfiguration, *, takes_options: bool
) -> None:
    defaults = {each.name: each.default for each in msgspec.structs.fields(type(machine))}
    for field in NOT_THERE if takes_options else (*NOT_THERE, "allocation_options"):
        default = defaults[field]
        if getattr(machine, field) != ({} if default is msgspec.NODEFAULT else default):
            number = configuration.machines.index(machine)
            named = field.removesuffix("_s")
            raise InvalidInput(
                "the batch system alone decides about the jobs of this machine, and runs them",
                where=f"site.machines[{number}].{named}",
                remedy=f"leave {named} out",
            )


def _check_system(system: BatchSystemConfiguration, where: str, *, handed: bool) -> None:
    if handed:
        _check_nobody_is_root(system, where)
        return
    if system.environment:
        raise InvalidInput(
            "no jobs are handed over to this batch system",
            where=f"{where}.environment",
            remedy="leave environment out",
        )
    if kind_named(system.kind).adapter is None:
        raise InvalidInput(
            "no resource names this batch system, so its jobs would run on the host of the site",
            where=f"{where}.name",
            remedy=f'write batch_system = "{system.name}" at a resource',
        )


def _check_nobody_is_root(system: BatchSystemConfiguration, where: str) -> None:
    root = os.geteuid() == 0
    for user, there in system.users.items():
        if root and there == "root":
            raise InvalidInput(
                f"{user} is root there, but jobs never run as root", where=f"{where}.users"
            )
