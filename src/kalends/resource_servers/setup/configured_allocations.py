"""From a site's configuration to the machines whose jobs run through a batch system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.allocations import SlurmAllocations
from kalends.batch.elsewhere import Elsewhere, SlotNodes
from kalends.core.errors import InvalidInput
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.service import SiteEngine
from kalends.resource_servers.setup.configured_backends import (
    nodes_of,
    places_of,
    reach_of,
    system_named,
)
from kalends.serving.configuration import (
    BatchSystemConfiguration,
    MachineConfiguration,
    ResourceConfiguration,
    SiteConfiguration,
)

AHEAD_S = 2
"""Programs are asked to end by their shepherds before the batch system's own jobs are."""


class MachineThrough(NamedTuple):
    """A machine whose jobs run through `system`, on `nodes`; in reservations only, or on any of them."""

    resource: str
    machine: MachineConfiguration
    system: BatchSystemConfiguration
    nodes: tuple[str, ...]
    reserved_only: bool


def machines_through(configuration: SiteConfiguration) -> list[MachineThrough]:
    """Return those of a site; raises `InvalidInput` with the path of what is wrong."""
    resources = {each.name: each for each in configuration.resources}
    found = []
    for number, machine in enumerate(configuration.machines):
        where, resource = f"site.machines[{number}]", resources[machine.resource]
        if configuration.advisory_system(resource) is not None:
            continue
        if resource.cores_each or resource.licences:
            raise InvalidInput(
                "jobs run on whole nodes",
                where=f"{where}.resource",
                remedy="leave this machine out: users submit with the commands of their batch system",
            )
        if not (resource.nodes or machine.nodes or machine.batch_system):
            if machine.allocation_options:
                _refuse(where, "allocation_options", "jobs of this machine run on this host")
            continue
        _check(machine, resource, where)
        named = resource.batch_system if resource.nodes else machine.batch_system
        system = system_named(named, configuration, where)
        if system.kind != "slurm":
            raise InvalidInput(
                f"jobs cannot be run through {system.name}, which is not a Slurm",
                where=f"{where}.resource",
                remedy="leave this machine out: users submit with the commands of their batch system",
            )
        found.append(
            MachineThrough(
                f"{configuration.name}/{machine.resource}",
                machine,
                system,
                nodes_of(resource.nodes or machine.nodes, resource.capacity, where),
                reserved_only=bool(resource.nodes),
            )
        )
    _check_disjoint(configuration, found)
    return found


def elsewhere_of(
    configuration: SiteConfiguration, engine: Callable[[], SiteEngine]
) -> dict[str, Elsewhere]:
    """Return where jobs run, by machine, where that is not this host; raises `InvalidInput`."""

    def reserved(booking: int) -> SlotNodes | None:
        grant = engine().participant.wing(Provisions).grants.by_claim(booking)
        return SlotNodes(grant.name, grant.needs[booking].nodes) if grant else None

    return {
        each.resource: Elsewhere(
            machine=each.resource,
            allocator=_allocator(each),
            users=each.system.users,
            nodes=each.nodes,
            reserved=reserved if each.reserved_only else None,
            ahead_s=_ahead_s(each.system, int(each.machine.grace_s)) if each.reserved_only else 0,
            grace_s=int(each.machine.grace_s),
        )
        for each in machines_through(configuration)
    }


def _allocator(through: MachineThrough) -> SlurmAllocations:
    reach = reach_of(through.system)
    slurm = Slurm(reach.configuration, reach.timeout_s)
    return SlurmAllocations(slurm, through.machine.allocation_options)


def _ahead_s(system: BatchSystemConfiguration, grace_s: int) -> int:
    """Return how long before the end of a slot programs are asked to end: gone when others are killed."""
    warned_s = int(system.warn_s) + AHEAD_S if system.warn_s else 0
    return max(warned_s, int(system.kill_s) + grace_s)


def _check(machine: MachineConfiguration, resource: ResourceConfiguration, where: str) -> None:
    if resource.nodes:
        # The batch system has a queue of its own, and ours only what is reserved.
        for field in ("batch_system", "nodes", "no_show_s"):
            if getattr(machine, field):
                _refuse(where, field, "the nodes of this resource belong to a batch system")
    elif not machine.nodes:
        raise InvalidInput(
            "the machine's nodes of the batch system are not named",
            where=f"{where}.nodes",
            remedy="name the nodes that its owner has handed over, e.g. n[1-8]",
        )
    for field in ("cores_each", "control_group"):
        if getattr(machine, field):
            _refuse(where, field, "jobs of this machine do not run on this host")
    if machine.users:
        raise InvalidInput(
            "jobs of this machine do not run on this host",
            where=f"{where}.users",
            remedy="leave users out: those of [[site.batch_systems]] count",
        )


def _check_disjoint(configuration: SiteConfiguration, found: list[MachineThrough]) -> None:
    """Raise `InvalidInput` where a node that was handed over is somebody else's, too."""
    taken = dict(_nodes_behind(configuration))
    for each in found:
        if each.reserved_only:
            continue
        for node in each.nodes:
            owner = taken.setdefault((each.system.name, node), each.machine.resource)
            if owner != each.machine.resource:
                number = configuration.machines.index(each.machine)
                raise InvalidInput(
                    f"{node} is also a node of {owner}",
                    where=f"site.machines[{number}].nodes",
                    remedy="give each node to one resource",
                )


def _nodes_behind(configuration: SiteConfiguration) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the nodes, each with its batch system, that resources are made of."""
    for number, resource in enumerate(configuration.resources):
        if resource.nodes:
            where = f"site.resources[{number}]"
            system = system_named(resource.batch_system, configuration, where)
            for node in places_of(resource, where):
                yield (system.name, node), resource.name


def _refuse(where: str, field: str, why: str) -> None:
    named = field.removesuffix("_s")
    raise InvalidInput(why, where=f"{where}.{named}", remedy=f"leave {named} out")
