"""The settings of a changed configuration that apply to a running server, and those that need a restart.

Keys, certificates, access lists, hours, limits, blackouts, priorities, deputies and logging apply at once.
So do added and removed resources, and other capacities, if no machine or batch system backs the resource; and
the sites of a broker that it reaches straight. Settings that a store, a socket or another server already uses
need a restart. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kalends.core.errors import InvalidInput
from kalends.serving import configuration as c

S = TypeVar("S", bound=msgspec.Struct)

TAKEN: Final[Mapping[type, tuple[str, ...]]] = {
    c.Configuration: ("log",),
    c.TlsConfiguration: ("certificate", "key"),
    c.SiteConfiguration: ("keys", "revoked", "defaults"),
    c.SiteLimits: ("held_per_principal_max", "promised_per_principal_max", "hold_s_max", "approval_s"),
    c.ResourceConfiguration: (
        "grain_s", "horizon_s", "zone", "description", "attributes", "hours", "access", "limits",
        "blackouts", "priority",
    ),
    c.BrokerConfiguration: ("keys", "revoked", "priority", "deputies"),
    c.VirtualConfiguration: ("keys", "revoked"),
}  # fmt: skip
"""The settings that apply at once, by section."""


def in_force(running: S, wanted: S) -> S:
    """Return `running` with those settings of `wanted` that apply while a server runs."""
    taken = TAKEN.get(type(running), ())
    values = {
        name: getattr(wanted, name)
        if name in taken
        else _joined(getattr(running, name), getattr(wanted, name))
        for name in running.__struct_fields__
    }
    if isinstance(running, c.SiteConfiguration) and isinstance(wanted, c.SiteConfiguration):
        values["resources"] = _resources_in_force(running, wanted)
    if isinstance(running, c.BrokerConfiguration) and isinstance(wanted, c.BrokerConfiguration):
        values["sites"] = _sites_in_force(running, wanted)
    return msgspec.structs.replace(running, **values)


def _resources_in_force(
    running: c.SiteConfiguration, wanted: c.SiteConfiguration
) -> tuple[c.ResourceConfiguration, ...]:
    """Return the resources as in the new configuration, except those backed by a machine or batch system."""
    bound = {machine.resource for site in (running, wanted) for machine in site.machines}
    bound |= {
        each.name
        for site in (running, wanted)
        for each in site.resources
        if each.nodes or each.licences
    }
    before = {each.name: each for each in running.resources}
    after = {each.name: each for each in wanted.resources}
    found = [each for each in wanted.resources if each.name not in bound]
    found += [_joined(each, after.get(name)) for name, each in before.items() if name in bound]
    order = [*after, *before]
    return tuple(sorted(found, key=lambda each: order.index(each.name)))


def _sites_in_force(
    running: c.BrokerConfiguration, wanted: c.BrokerConfiguration
) -> tuple[c.PeerConfiguration, ...]:
    """Return the sites as in the new configuration, except virtual ones and their members."""
    virtual = {each.name: each for each in running.sites if each.members}
    taken = {name for each in virtual.values() for name in (each.name, *_ends(each))}
    straight = (each for each in wanted.sites if not each.members and each.name not in taken)
    return (*straight, *virtual.values())


def _ends(virtual: c.PeerConfiguration) -> list[str]:
    return [way.split("/")[-1] for way in virtual.members]


def _joined(running: Any, wanted: Any) -> Any:
    if isinstance(running, msgspec.Struct) and type(running) is type(wanted):
        return in_force(running, wanted)
    if not _are_named(running):
        return running
    by_name = {each.name: each for each in wanted}
    return tuple(_joined(each, by_name.get(each.name)) for each in running)


def left_alone(force: msgspec.Struct, wanted: msgspec.Struct, path: str = "") -> Iterator[str]:
    """Yield the settings that differ from those in `force`, e.g. ``site.resources.sp2.capacity``."""
    for field in msgspec.structs.fields(type(wanted)):
        here = f"{path}{'.' if path else ''}{field.encode_name}"
        yield from _differing(getattr(force, field.name), getattr(wanted, field.name), here)


def _differing(force: Any, wanted: Any, here: str) -> Iterator[str]:
    if force == wanted:
        return
    if isinstance(force, msgspec.Struct) and type(force) is type(wanted):
        yield from left_alone(force, wanted, here)
    elif _are_named(force) and _are_named(wanted):
        old, new = ({each.name: each for each in many} for many in (force, wanted))
        for name in sorted(old.keys() | new.keys()):
            yield from _differing(old.get(name), new.get(name), f"{here}.{name}")
    else:
        yield here


def _are_named(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(hasattr(each, "name") for each in value)
    )


def check_same_server(running: c.Configuration, wanted: c.Configuration) -> None:
    """Raises `InvalidInput` unless both configure the same servers, by role and name."""
    for role in ("site", "broker", "virtual"):
        old, new = getattr(running, role), getattr(wanted, role)
        if (old and old.name) != (new and new.name):
            raise InvalidInput(
                f"{old.name if old else 'nothing'} runs, and {new.name if new else 'nothing'} is configured",
                where=role,
                remedy="restart the server, or name what runs",
            )
