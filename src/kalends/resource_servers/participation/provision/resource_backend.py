"""The owner's configuration of a resource that is backed by a batch system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from kalends.backends.records import Traits


@dataclass(frozen=True)
class ResourceBackend:
    """`nodes` of the batch system `system` are the units of a resource, or have so many units each.

    Of ``licences`` the one name in `nodes` is theirs. `users` says what each of our users is called there;
    who is not in it cannot book.
    """

    system: str
    nodes: tuple[str, ...]
    users: Mapping[str, str]
    traits: Traits = field(default_factory=Traits)
    unit: Literal["nodes", "cores", "licences"] = "nodes"
    units_each: int = 1
    answer_ms_max: int = 8_000
    """An errand without an answer for so long is taken to have none."""
    look_ms: int = 10_000
    """What it has is looked at so often."""
    warn_ms: int = 60_000
    """Jobs in a slot are asked to end so long before it ends; 0: they are not."""
    kill_ms: int = 10_000
    """Jobs in a slot are killed so long before it ends; 0: they are not."""
    repair_s: int = 86_400
    """A node that is down counts as taken for so long."""
    give_up_ms: int = 1_800_000
    """After so long its broker is asked to move a promise that the system cannot keep."""
    usage_ms: int = 600_000
    """What jobs used in slots is read from its accounting so often."""
    skew_s_max: int = 30
    """With a clock that differs by more nothing is promised."""

    @cached_property
    def room(self) -> Mapping[str, int]:
        """How many units each of `nodes` has."""
        return dict.fromkeys(self.nodes, self.units_each)
