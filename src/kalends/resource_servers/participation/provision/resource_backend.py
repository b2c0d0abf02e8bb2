"""What the owner says of a resource that a batch system stands behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kalends.backends.records import Traits


@dataclass(frozen=True)
class ResourceBackend:
    """`nodes` of the batch system `system` are the units of a resource.

    `users` says what each of our users is called there; who is not in it cannot book.
    """

    system: str
    nodes: tuple[str, ...]
    users: Mapping[str, str]
    traits: Traits = field(default_factory=Traits)
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
    skew_s_max: int = 30
    """With a clock that differs by more nothing is promised."""
