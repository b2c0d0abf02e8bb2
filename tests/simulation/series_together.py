"""A judge of series that are booked all or none: what the register has of each, in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kalends.broker.coordination.record.decision_record import COMMITTED

if TYPE_CHECKING:
    from tests.simulation.world import World


class SeriesTogether:
    """Each series has all its requests, each once, and all of them were committed, or none was.

    What its user changed or cancelled afterwards is committed, too. What sites have of a committed request is
    judged by the auditor.
    """

    def __init__(self) -> None:
        self.committed = 0
        self.given_up = 0

    def attach(self, world: World) -> None:
        self._world = world
        world.judges.append(self)

    def finish(self) -> Iterable[str]:
        series: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        parts: dict[str, dict[str, Any]] = {}
        for rid, row in self._world.auditor.rows.items():
            part = row.body.get("spec", {}).get("series") if row.client else None
            if part is None or row.body.get("replaces"):
                continue
            parts[part["id"]] = part
            series[part["id"]][rid] = (part["name"], row.state)
        for id, rows in series.items():
            if len(rows) != parts[id]["count"]:
                yield f"series {id} has {len(rows)} of {parts[id]['count']} requests"
            names = Counter(name for name, _ in rows.values())
            if max(names.values()) > 1:
                yield f"series {id} has two requests of one occurrence: {names}"
            committed = {rid: state in COMMITTED for rid, (_, state) in rows.items()}
            if len(set(committed.values())) > 1:
                yield f"series {id} is half committed: {rows}"
            self.committed += all(committed.values())
            self.given_up += not any(committed.values())


def series_together(world: World) -> None:
    """Whatever goes wrong, nothing of a series stands without the rest."""
    SeriesTogether().attach(world)
