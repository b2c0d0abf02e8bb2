"""Kinds of batch systems: those of kalends, and those that other distributions add by an entry point.

The name of an entry point is the `kind` that owners write in ``[[site.batch_systems]]``. Its object is a
`SystemKind`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final, NamedTuple

import msgspec

from kalends.backends.adapter import Adapter
from kalends.backends.desks.handed_over import JobLaunch, QueueAccess
from kalends.core.errors import InvalidInput
from kalends.core.near_names import near

GROUP: Final = "kalends.batch_systems"

OWN: Final = {
    "slurm": "kalends.backends.slurm.kind:KIND",
    "oar": "kalends.backends.oar.adapter:KIND",
}
PLUG_INS: Final = ("gridengine", "psij")
"""Kinds in the folder of plug-ins that the repository of kalends has."""


class Reach(NamedTuple):
    """The way from a site to a batch system."""

    configuration: str
    """The owner's file for its commands; "" if they find their own."""
    timeout_s: float
    """Time limit of each command."""
    in_parts: bool
    """Whether the site reserves cores or licences."""


class OwnQueue(NamedTuple):
    """The queue of a batch system, which takes jobs without a reservation."""

    launch: Callable[[QueueAccess], JobLaunch]
    """Called in a process of each user; raises an `Exception` with the reason if the queue cannot be used."""
    facts: Callable[[QueueAccess, str], list[str]]
    """Facts for owners, given the version of the system; "" if the version is not known."""
    reached_by: str
    """What the site submits with."""
    foresees: bool
    """Whether it predicts starts, so that the site can bid for jobs."""
    takes_options: bool
    """Whether owners may set `allocation_options` for its jobs."""


class SystemKind(NamedTuple):
    """A kind of batch system: an adapter, a queue for jobs, or both."""

    settings: type[msgspec.Struct]
    """Its own fields of ``[[site.batch_systems]]``, next to those of all kinds."""
    adapter: Callable[[Reach, Any], Adapter] | None = None
    """Makes the adapter, given the `settings`; None if slots cannot be reserved."""
    queue: OwnQueue | None = None


def kind_named(name: str, where: str = "kind") -> SystemKind:
    """Return the kind of this name; raises `InvalidInput` if it is not installed, or cannot be loaded."""
    place = OWN.get(name) or _plug_ins().get(name)
    if place is None:
        raise _missing(name, where)
    try:
        kind = resolve_name(place)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"the plug-in {place} cannot be loaded: {error}", where=where) from error
    if not isinstance(kind, SystemKind):
        raise InvalidInput(f"the plug-in {place} is not a kind of batch system", where=where)
    return kind


@cache
def _plug_ins() -> dict[str, str]:
    # Imported here, as below: desks start faster without it, and most need no plug-in.
    from importlib.metadata import entry_points

    return {each.name: each.value for each in entry_points(group=GROUP)}


def _missing(name: str, where: str) -> InvalidInput:
    from kalends.extras import plug_in_command

    if name in PLUG_INS:
        remedy = f"install it: {plug_in_command(name)}"
    else:
        here = sorted({*OWN, *_plug_ins()})
        remedy = near(name, (*here, *PLUG_INS)) or f"write one of {', '.join(here)}"
    return InvalidInput(
        f"no batch system of kind {name} is installed here", where=where, remedy=remedy
    )
