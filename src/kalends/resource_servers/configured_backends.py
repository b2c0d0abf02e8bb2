"""From a site's configuration to the batch systems behind its resources."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.backends.adapter import Adapter
from kalends.backends.slurm.adapter import Slurm
from kalends.backends.slurm.hostlists import expanded
from kalends.core.errors import InvalidInput
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.serving.configuration import BatchSystemConfiguration, SiteConfiguration


def adapters_of(configuration: SiteConfiguration) -> dict[str, Adapter]:
    """Return an adapter for each batch system of the site, by name."""
    return {each.name: _adapter_of(each) for each in configuration.batch_systems}


def backends_of(
    configuration: SiteConfiguration, adapters: Mapping[str, Adapter]
) -> dict[str, ResourceBackend]:
    """Return what stands behind resources, by their full names; raises `InvalidInput` with the path."""
    systems = {each.name: each for each in configuration.batch_systems}
    found = {}
    for number, resource in enumerate(configuration.resources):
        if not resource.nodes:
            continue
        where = f"site.resources[{number}]"
        system = systems.get(resource.batch_system or next(iter(systems), ""))
        if system is None:
            raise InvalidInput(
                f"no batch system {resource.batch_system or 'is configured'}",
                where=f"{where}.batch_system",
                remedy="describe it under [[site.batch_systems]]",
            )
        found[f"{configuration.name}/{resource.name}"] = ResourceBackend(
            system=system.name,
            nodes=_nodes_of(resource.nodes, resource.capacity, where),
            users=system.users,
            traits=adapters[system.name].traits,
            answer_ms_max=int(system.answer_s_max * 1000),
            look_ms=int(system.look_every_s) * 1000,
            warn_ms=int(system.warn_s) * 1000,
            kill_ms=int(system.kill_s) * 1000,
            repair_s=int(system.repair_s),
        )
    return found


def _adapter_of(system: BatchSystemConfiguration) -> Adapter:
    return Slurm(str(system.configuration or ""), system.answer_s_max * 0.75)


def _nodes_of(text: str, capacity: int, where: str) -> tuple[str, ...]:
    try:
        nodes = expanded(text)
    except ValueError as error:
        raise InvalidInput(str(error), where=f"{where}.nodes", remedy="write n[1-64]") from error
    if len(nodes) != capacity:
        raise InvalidInput(
            f"{len(nodes)} nodes, and a capacity of {capacity}",
            where=f"{where}.nodes",
            remedy="let a unit of the resource be a node",
        )
    return nodes
