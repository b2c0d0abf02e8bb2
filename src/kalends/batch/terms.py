"""From the owner's configuration of a machine to the terms of its queue."""

from __future__ import annotations

from kalends.batch.queue.facts import FairShares, JobLimits, Terms
from kalends.core.errors import InvalidInput
from kalends.machines.spec import machine_from
from kalends.scheduling.registry import policy_maker
from kalends.serving.configuration import (
    JobLimitsConfiguration,
    MachineConfiguration,
    SiteConfiguration,
)

NOT_LIVE = ("preemptive",)
"""Policies that stop jobs, and let them go on later: programs cannot."""


def terms_of_all(configuration: SiteConfiguration) -> dict[str, Terms]:
    """Return the terms of each machine by its full name; raises `InvalidInput` with the path."""
    capacities = {resource.name: resource.capacity for resource in configuration.resources}
    found = {}
    for number, machine in enumerate(configuration.machines):
        try:
            terms = terms_of(machine, capacities[machine.resource])
        except InvalidInput as error:
            where = f"site.machines[{number}].{error.where}"
            raise InvalidInput(error.detail, where=where, remedy=error.remedy) from error
        found[f"{configuration.name}/{machine.resource}"] = terms
    return found


def terms_of(machine: MachineConfiguration, capacity: int) -> Terms:
    """Return the terms of a queue; raises `InvalidInput` for a machine or a policy that cannot be."""
    shape = machine.shape or f"pool:{capacity}"
    nodes = machine_from(shape).nodes
    if nodes != capacity:
        raise InvalidInput(
            f"{shape} has {nodes} nodes, and the resource {capacity} units",
            where="shape",
            remedy="let a unit of the resource be a node",
        )
    check_policy(machine.policy)
    unknown = sorted(machine.tariff.keys() - machine.classes.keys())
    if unknown:
        raise InvalidInput(
            f"no priority class {unknown[0]}",
            where="tariff",
            remedy=f"this machine has {', '.join(machine.classes)}",
        )
    return Terms(
        machine=shape,
        policy=machine.policy,
        classes=machine.classes,
        default_class=machine.default_class,
        user=_limits(machine.user),
        project=_limits(machine.project),
        members=machine.members,
        period_s=int(machine.period_s),
        tariff=machine.tariff,
        reserved_credits=machine.reserved_credits,
        fair_share=FairShares(by=machine.fair_share.by, shares=machine.fair_share.shares),
        change_s=int(machine.change_s_max),
        may_delay=machine.may_delay,
        no_show_s=int(machine.no_show_s),
    )


def check_policy(policy: str) -> None:
    """Raise `InvalidInput` for a policy that there is not, or that cannot decide about real programs."""
    policy_maker(policy)
    if policy.partition(":")[0] in NOT_LIVE:
        raise InvalidInput(
            f"{policy} stops programs and lets them go on later, which they cannot",
            where="policy",
            remedy="name another one; kalends policies lists them",
        )


def _limits(limits: JobLimitsConfiguration) -> JobLimits:
    return JobLimits(
        jobs=limits.jobs,
        running=limits.running,
        nodes=limits.nodes,
        longest_s=int(limits.longest_s),
        node_seconds=int(limits.node_hours * 3600),
    )
