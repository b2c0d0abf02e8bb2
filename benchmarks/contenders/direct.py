"""What schemes have in common whose clients speak to the sites themselves: calendars, and giving back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from benchmarks.contenders.demand import Order, Scenario
from benchmarks.contenders.network import Network, Server
from benchmarks.contenders.scheme import Booked, Hours, Losses, given_back


class OwnersCalendar:
    """A resource at its site. `server` is the site's process."""

    def __init__(self, network: Network, server: Server, losses: Losses) -> None:
        self.server = server
        self._network = network
        self._losses = losses
        self._calendar = Hours()

    @property
    def taken(self) -> set[int]:
        return set(self._calendar.taken)

    def cancel(self, booked: Booked) -> None:
        """Freeing one hour of one calendar takes no agreement with anybody."""
        self._calendar.free(booked.hour, booked.name)
        answer = partial(self._network.to_client, "back", "answer", given_back)
        self.server.disk.write(answer)


Calendar = TypeVar("Calendar", bound=OwnersCalendar)


class Direct(Generic[Calendar]):
    """`_resources` by their numbers, each made by `make_calendar` and served by the process of its site."""

    def __init__(
        self,
        network: Network,
        scenario: Scenario,
        losses: Losses,
        make_calendar: Callable[[Network, Server, Losses], Calendar],
    ) -> None:
        self._network = network
        self._losses = losses
        self._hours = scenario.hours
        sites = [Server(network) for _ in range(-(-scenario.resource_count // scenario.per_site))]
        self._resources = [
            make_calendar(network, sites[number // scenario.per_site], losses)
            for number in range(scenario.resource_count)
        ]

    def give_back(self, order: Order, booked: Booked) -> None:
        for number in order.resources:
            resource = self._resources[number]
            self._network.to_server("back", "cancel", resource.server, resource.cancel, booked)

    def taken(self, resource: int) -> set[int]:
        return self._resources[resource].taken
