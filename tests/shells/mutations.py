"""The product gone wrong, one line at a time: what the scenarios must notice."""

from __future__ import annotations

from collections.abc import Callable

MUTATIONS: dict[str, Callable[[], None]] = {}


def mutation(change: Callable[[], None]) -> Callable[[], None]:
    """`change` breaks the product in this process, for good."""
    MUTATIONS[change.__name__] = change
    return change


@mutation
def synchronous_normal() -> None:
    """Commits are not synced."""
    from kalends.serving import sqlite_file

    sqlite_file.open_store.__kwdefaults__["sync"] = "normal"


@mutation
def say_then_store() -> None:
    """A site sends its messages before their facts are durable."""
    from kalends.resource_servers.engine import SiteEngine

    carry_out = SiteEngine._carry_out

    def too_early(self):  # type: ignore[no-untyped-def]
        take = self.participant.take_effects

        def taken():  # type: ignore[no-untyped-def]
            effects = take()
            self._deliver(effects.sends)
            return effects

        self.participant.take_effects = taken
        try:
            return carry_out(self)
        finally:
            self.participant.take_effects = take

    SiteEngine._carry_out = too_early  # type: ignore[method-assign]
