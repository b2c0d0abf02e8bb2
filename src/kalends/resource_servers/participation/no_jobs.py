"""The answers of a site without machines to messages about placed jobs."""

from __future__ import annotations

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.kernel import Kernel
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.sockets import no_jobs_on


class NoJobs:
    """A broker that asks for a place gets a bid without offers. Its news of jobs is ignored."""

    def __init__(self, kernel: Kernel) -> None:
        base = kernel.ground.base
        self._here, self._outbox = base.here, base.outbox

    @property
    def plugs(self) -> tuple[Plug, ...]:
        late = (m.StartSays, m.ReadyAsk, m.EndNoted)
        return (
            Plug(
                Tier.WAITS,
                handles=[
                    on(m.Solicit, self._solicit, refuse=self._turn_down),
                    *(on(kind, lambda source, each, now: None) for kind in late),
                ],
            ),
        )

    def _solicit(self, source: str, solicit: m.Solicit, now: Moment) -> None:
        self._turn_down(source, solicit, tuple(map(no_jobs_on, solicit.machines)))

    def _turn_down(self, source: str, solicit: m.Solicit, refusals: tuple[Refusal, ...]) -> None:
        self._outbox.send(source, self._here.no_bid(solicit, refusals))
