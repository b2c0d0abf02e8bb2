"""The wing of series in the service of a broker: it needs nothing of the outside."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.wings import Ground
from kalends.broker.effect_runner import Carriers
from kalends.broker.register.contract import Register
from kalends.broker.replica.replica import Incarnation
from kalends.broker.series.joint_commits import JointCommits
from kalends.core.intervals import Moment


class SeriesShell:
    carriers: Carriers = MappingProxyType({})

    def machine(self, ground: Ground) -> JointCommits:
        return JointCommits(ground)

    async def begun(self, coordinator: Coordinator, store: Register) -> None:
        """Nothing of a series is known before its requests are looked at."""

    async def beat(self, current: Incarnation, now: Moment) -> Callable[[Moment], object]:
        return lambda now: None
