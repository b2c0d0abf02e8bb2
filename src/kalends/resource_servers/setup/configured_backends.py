"""From a site's configuration to the batch systems behind its resources."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.backends.adapter import Adapter
from kalends.backends.kinds import Reach, kind_named
from kalends.backends.records import Traits
from kalends.backends.slurm.hostlists import expanded
from kalends.core.errors import InvalidInput
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.serving.configuration import (
    BatchSystemConfiguration,
    ResourceConfiguration,
    SiteConfiguration,
)


def adapters_of(configuration: SiteConfiguration) -> dict[str, Adapter]:
    """Return an adapter for each batch system of the site, by name; raises `InvalidInput`."""
    in_parts = {
        system_named(each.batch_system, configuration, f"site.resources[{number}]").name
        for number, each in enumerate(configuration.resources)
        if each.cores_each or each.licences
    }
    found = {}
    for number, system in enumerate(configuration.batch_systems):
        kind = kind_named(system.kind, f"site.batch_systems[{number}].kind")
        if kind.adapter is not None:
            reach = reach_of(system, in_parts=system.name in in_parts)
            found[system.name] = kind.adapter(reach, system.settings)
    return found


def check_files(configuration: SiteConfiguration) -> None:
    """Raise `InvalidInput` for a batch system's own configuration that is not there.

    Its commands would take their time over it, and look as if the system itself was away.
    """
    for number, system in enumerate(configuration.batch_systems):
        if system.configuration is not None and not system.configuration.exists():
            raise InvalidInput(
                f"there is no {system.configuration}",
                where=f"site.batch_systems[{number}].configuration",
                remedy=f"give the path that the commands of {system.kind} use on this host",
            )


def backends_of(
    configuration: SiteConfiguration, adapters: Mapping[str, Adapter]
) -> dict[str, ResourceBackend]:
    """Return what stands behind resources, by their full names; raises `InvalidInput` with the path."""
    found = {}
    for number, resource in enumerate(configuration.resources):
        if not (resource.nodes or resource.licences):
            advisory = configuration.advisory_system(resource) is not None
            _check_without(resource, f"site.resources[{number}]", advisory=advisory)
            continue
        where = f"site.resources[{number}]"
        system = system_named(resource.batch_system, configuration, where)
        if system.name not in adapters:
            raise InvalidInput(
                f"{system.name} makes no reservations, and has no nodes for any",
                where=f"{where}.nodes",
                remedy="leave nodes out: the batch system chooses them for its jobs",
            )
        _check_parts(resource, system, adapters[system.name].traits, where)
        found[f"{configuration.name}/{resource.name}"] = ResourceBackend(
            system=system.name,
            nodes=places_of(resource, where),
            users=system.users,
            traits=adapters[system.name].traits,
            unit="licences" if resource.licences else "cores" if resource.cores_each else "nodes",
            units_each=resource.capacity if resource.licences else resource.cores_each or 1,
            answer_ms_max=int(system.answer_s_max * 1000),
            look_ms=int(system.look_every_s) * 1000,
            warn_ms=int(system.warn_s) * 1000,
            kill_ms=int(system.kill_s) * 1000,
            repair_s=int(system.repair_s),
            give_up_ms=int(system.give_up_after_s) * 1000,
            usage_ms=int(system.usage_every_s) * 1000,
        )
    _check_disjoint(configuration, found)
    return found


def reach_of(system: BatchSystemConfiguration, *, in_parts: bool = False) -> Reach:
    """Return how the site reaches a batch system, whose commands have less time than its answers."""
    return Reach(str(system.configuration or ""), system.answer_s_max * 0.75, in_parts)


def _check_disjoint(
    configuration: SiteConfiguration, backends: Mapping[str, ResourceBackend]
) -> None:
    """Raise `InvalidInput` for nodes or licences of two resources."""
    taken: dict[tuple[str, str, bool], str] = {}
    for number, each in enumerate(configuration.resources):
        resource = f"{configuration.name}/{each.name}"
        if resource not in backends:
            continue
        backend = backends[resource]
        for name in backend.nodes:
            key = backend.system, name, backend.unit == "licences"
            owner = taken.setdefault(key, resource)
            if owner != resource:
                raise InvalidInput(
                    f"{name} also belongs to {owner}",
                    where=f"site.resources[{number}]",
                    remedy="give each node, and each licence, to one resource",
                )


def _check_without(resource: ResourceConfiguration, where: str, *, advisory: bool) -> None:
    """Raise `InvalidInput` where a resource without nodes or licences says what needs some."""
    if resource.batch_system and not advisory:
        raise InvalidInput(
            f"no nodes or licences of {resource.batch_system} are named",
            where=f"{where}.batch_system",
            remedy='write nodes = "n[1-64]", or licences = "matlab"; or, of a Slurm, let users submit jobs '
            f'into its own queue: [[site.machines]] with resource = "{resource.name}"',
        )
    if resource.cores_each:
        raise InvalidInput(
            "cores_each needs nodes of a batch system",
            where=f"{where}.cores_each",
            remedy="name the nodes of a batch system under nodes, or leave cores_each out",
        )


def _check_parts(
    resource: ResourceConfiguration, system: BatchSystemConfiguration, traits: Traits, where: str
) -> None:
    """Raise `InvalidInput` where the units of a resource are none that its batch system reserves."""
    if resource.licences and (resource.nodes or resource.cores_each):
        raise InvalidInput(
            "a resource has nodes or licences, not both",
            where=f"{where}.licences",
            remedy="describe two resources: both can be booked together",
        )
    if resource.cores_each and not traits.parts:
        raise InvalidInput(
            f"{system.name} ({system.kind}) reserves whole nodes only",
            where=f"{where}.cores_each",
            remedy="leave cores_each out, and make a unit of the resource a node",
        )
    if resource.licences and not traits.licences:
        raise InvalidInput(
            f"{system.name} ({system.kind}) does not reserve licences",
            where=f"{where}.licences",
            remedy="let the site count them itself: leave licences out",
        )


def system_named(
    name: str, configuration: SiteConfiguration, where: str
) -> BatchSystemConfiguration:
    """Return the batch system of this name, or with "" the first; raises `InvalidInput`."""
    systems = {each.name: each for each in configuration.batch_systems}
    system = systems.get(name or next(iter(systems), ""))
    if system is None:
        raise InvalidInput(
            f"no batch system {name or 'is configured'}",
            where=f"{where}.batch_system",
            remedy="describe it under [[site.batch_systems]]",
        )
    return system


def places_of(resource: ResourceConfiguration, where: str) -> tuple[str, ...]:
    """Return the nodes that a resource is made of, or its licences; raises `InvalidInput`."""
    if resource.licences:
        return (resource.licences,)
    return nodes_of(resource.nodes, resource.capacity, where, cores_each=resource.cores_each)


def nodes_of(text: str, capacity: int, where: str, *, cores_each: int = 0) -> tuple[str, ...]:
    """Return the names of nodes, for each unit one, or a core of one; raises `InvalidInput` for others."""
    try:
        nodes = expanded(text)
    except ValueError as error:
        raise InvalidInput(str(error), where=f"{where}.nodes", remedy="write n[1-64]") from error
    if cores_each and len(nodes) * cores_each != capacity:
        raise InvalidInput(
            f"{len(nodes)} nodes of {cores_each} cores, but a capacity of {capacity}",
            where=f"{where}.capacity",
            remedy=f"make a unit of the resource a core: capacity = {len(nodes) * cores_each}",
        )
    if not cores_each and len(nodes) != capacity:
        raise InvalidInput(
            f"{len(nodes)} nodes, but a capacity of {capacity}",
            where=f"{where}.nodes",
            remedy="make a unit of the resource a node, or set cores_each (cores of a node)",
        )
    return nodes
