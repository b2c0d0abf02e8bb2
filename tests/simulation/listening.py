"""Listening at the edge of sites: every message that reaches one, every message that leaves one.

A listener hears a message before the site's state machine takes it, and an answer when it leaves,
after all that must be durable for it. What a site does by itself lies between the last moment at which
all that it had to say was said (`silent_since`) and the message that tells of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kalends.contract import messages as m

if TYPE_CHECKING:
    from tests.simulation.nodes import Node
    from tests.simulation.world import World

TICK_BITS: Final = 24
"""A moment is milliseconds << TICK_BITS | the number of the event in them."""


def milliseconds(moment: int) -> int:
    return moment >> TICK_BITS


class Listener:
    """`now_ms` is the harness's clock. What is heard goes to the `on_` methods, with its moment."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._latest_ms = 0
        self._number = 0
        self._silent_since: dict[str, int] = defaultdict(int)
        self._last_delivery_ms: dict[str, int] = {}

    def attach(self, world: World) -> None:
        """Listen to all sites of `world`, which has not started yet."""
        self._now_ms = lambda: world.kernel.now_ms
        sites = {site.name: site for site in world.sites}
        make_participant, sent = world.make_participant, world.auditor.sent

        def make(name: str, *arguments: Any, **named: Any) -> Any:
            participant = make_participant(name, *arguments, **named)
            receive = participant.receive

            def received(source: str, message: m.Message, now: Any) -> None:
                self.delivered(name, source, message, idle=sites[name].idle)
                receive(source, message, now)

            participant.receive = received
            return participant

        def leaving(node: Node, to: str, message: m.Message) -> None:
            sent(node, to, message)
            if node.name in sites:
                self.left(node.name, to, message)

        world.make_participant = make
        world.auditor.sent = leaving
        for site in world.sites:
            self._watch_crashes(site)

    def _watch_crashes(self, site: Any) -> None:
        crash = site.crash

        def crashed() -> None:
            if site.up:
                self.crashed(site.name)
            crash()

        site.crash = crashed

    def delivered(self, site: str, source: str, message: m.Message, *, idle: bool = True) -> None:
        """`message` reaches `site`; `idle`: all that it had to say before has left."""
        moment = self._moment()
        now_ms = milliseconds(moment)
        # A frame brings several messages, whose answers are collected first.
        if idle and self._last_delivery_ms.get(site) != now_ms:
            self._silent_since[site] = moment
        self._last_delivery_ms[site] = now_ms
        self.on_delivered(site, source, message, moment)

    def left(self, site: str, to: str, message: m.Message) -> None:
        """`message` leaves `site`."""
        self.on_left(site, to, message, self._moment())

    def crashed(self, site: str) -> None:
        """`site` loses its memory, and what it has not said yet."""
        moment = self._moment()
        self._silent_since[site] = moment
        self.on_crashed(site, moment)

    def on_delivered(self, site: str, source: str, message: m.Message, moment: int) -> None:
        raise NotImplementedError

    def on_left(self, site: str, to: str, message: m.Message, moment: int) -> None:
        raise NotImplementedError

    def on_crashed(self, site: str, moment: int) -> None:
        raise NotImplementedError

    def _moment(self) -> int:
        now_ms = self._now_ms()
        self._number = self._number + 1 if now_ms == self._latest_ms else 0
        self._latest_ms = now_ms
        return now_ms << TICK_BITS | self._number
