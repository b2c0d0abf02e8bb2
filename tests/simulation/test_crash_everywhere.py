"""Power is lost at every single effect of a booking, a hold and lock, a change and a cancel.

Before and after every store, before every message and every answer, at every site and broker: the
node starts again, the client asks again, and everything comes to the end that its users were told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kalends.broker.coordination.record.decision_record import Spec
from kalends.contract.calls import RequestView
from kalends.contract.messages import Want
from tests.simulation.clocks import EPOCH_S
from tests.simulation.kernel import Violation
from tests.simulation.network import Weather
from tests.simulation.nodes import Call, Node
from tests.simulation.workload import HOUR_S, Client, Size, request_for
from tests.simulation.world import World

START = EPOCH_S + 2 * HOUR_S
SITES = ("argo", "bode", "cray")
QUIET_MS_MAX = 300_000


class Script(Client):
    """Does one thing after the other, each repeated until it is answered."""

    def __init__(self, world: World, steps: list[str]) -> None:
        super().__init__(world, 0, "ann", Size(clients=1))
        self._steps = list(steps)
        self.answers: list[Any] = []
        self._rid = ""

    def start(self) -> None:
        self._kernel.after(1_000, self._step)

    def _step(self) -> None:
        if not self._steps:
            self.finished = True
            return
        step = self._steps.pop(0)
        if step in ("book", "hold", "change"):
            moved_s = HOUR_S // 2 if step == "change" else 0
            wants = tuple(
                Want(f"{site}/{name}", START + moved_s, START + moved_s + HOUR_S, 1)
                for site in SITES
                for name in ("n", "x")
            )
            hold_s = 120 if step == "hold" else 0
            spec = Spec(request=request_for(wants), hold=bool(hold_s), hold_s=hold_s, wants=wants)
            replaces = self._rid if step == "change" else ""
            call = Call("submit", "ann", key=self._new_key(), spec=spec, replaces=replaces)
        else:
            call = Call(step, "ann", rid=self._rid)
        self._call(call, self._answered(call))

    def _answered(self, call: Call) -> Callable[[Any], None]:
        def go_on(answer: Any) -> None:
            self.answers.append(answer)
            if not isinstance(answer, RequestView) or answer.state in ("failed", "open"):
                self._steps.clear()
            if call.key:
                self._rid = self._world.rid_of("ann", call.key)
            self._kernel.after(3_000, self._step)

        return go_on


def play(steps: list[str], crash_at: int) -> tuple[World, str]:
    """The world after `steps` with a crash at that point, and which node it was."""
    world = World("crash everywhere", size=Size(sites=3, clients=0))
    world.network.weather = Weather(delay_ms_max=40)
    world.crash_at = crash_at
    for node in world.nodes:
        node.trouble.down_ms_max = 8_000
    client = Script(world, steps)
    world.clients.append(client)
    crashed = []
    for node in world.nodes:
        node.crash = _recorded(node, crashed)  # type: ignore[method-assign]  # to learn who it was
    try:
        world.start()
        if not world.kernel.run(QUIET_MS_MAX, world.quiet):
            raise Violation(f"no end: {world.unquiet()}")
        world.auditor.finish(world.sites)
    finally:
        world.close()
    return world, "".join(crashed)


def _recorded(node: Node, crashed: list[str]) -> Callable[[], None]:
    crash = node.crash

    def recorded() -> None:
        crashed.append(node.name)
        crash()

    return recorded


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        (["book"], {"commit"}),
        (["hold", "lock"], {"commit"}),
        (["hold", "release"], {"closed"}),
        (["book", "change"], {"replaced", "commit"}),
        (["book", "cancel"], {"cancelled"}),
        (["book", "change", "cancel"], {"replaced", "cancelled"}),
    ],
    ids=lambda each: "-".join(sorted(each)) if isinstance(each, set) else "-".join(each),
)
def test_a_crash_at_any_effect_loses_nothing(steps: list[str], ends: set[str]) -> None:
    world, _ = play(steps, 0)
    points = world.points
    assert {row.state for row in world.auditor.rows.values()} == ends
    nodes = set()
    for point in range(1, points + 1):
        try:
            _, node = play(steps, point)
        except Violation as violation:
            raise AssertionError(f"{steps}, crash at point {point}: {violation}") from None
        nodes.add(node)
    assert nodes >= set(SITES)
    assert nodes & {"red", "blue"}
