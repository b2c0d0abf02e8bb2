"""A judge of series that are booked, and changed, all or none: what the register has of each, in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
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
        self.changed = 0
        self.unchanged = 0
        self.changed_alone = 0

    def attach(self, world: World) -> None:
        self._world = world
        world.judges.append(self)

    def finish(self) -> Iterable[str]:
        yield from self._booked()
        yield from self._changes()
        yield from self._replaced()

    def _booked(self) -> Iterator[str]:
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

    def _changes(self) -> Iterator[str]:
        """All requests of a change were committed, or none; and no call has changed an occurrence twice."""
        together: defaultdict[str, dict[str, str]] = defaultdict(dict)
        counts: dict[str, int] = {}
        carried_out: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        by_call: Counter[tuple[str, str, str]] = Counter()
        for rid, row in self._world.auditor.rows.items():
            change = row.body.get("spec", {}).get("change") if row.client else None
            if change is None:
                continue
            done = row.state in COMMITTED
            call = (row.client, change["key"])
            by_call[(*call, row.body["reservation"])] += done
            if count := change.get("count", 0):
                together[change["id"]][rid] = row.state
                counts[change["id"]] = count
                carried_out[call] |= {change["id"]} if done else set()
            else:
                self.changed_alone += done
        for id, rows in together.items():
            committed = [state in COMMITTED for state in rows.values()]
            if any(committed) and (len(rows) != counts[id] or not all(committed)):
                yield f"change {id} of {counts[id]} occurrences is half committed: {rows}"
            self.changed += all(committed)
            self.unchanged += not any(committed)
        for call, ids in carried_out.items():
            if len(ids) > 1:
                yield f"the change {call} of a series was carried out more than once: {ids}"
        for (user, key, reservation), times in by_call.items():
            if times > 1:
                yield f"the call {key} of {user} has changed {reservation} {times} times"

    def _replaced(self) -> Iterator[str]:
        """Each reservation stands once at most, and only a change that was committed has replaced it."""
        rows = {rid: row for rid, row in self._world.auditor.rows.items() if row.client}
        heirs = Counter(
            row.body.get("replaces", "") for row in rows.values() if row.state in COMMITTED
        )
        standing = Counter(
            row.body["reservation"] for row in rows.values() if row.state == "commit"
        )
        for rid, row in rows.items():
            if row.state == "replaced" and heirs[rid] != 1:
                yield f"{rid} was replaced by {heirs[rid]} requests"
        for reservation, times in standing.items():
            if times > 1:
                yield f"the reservation {reservation} stands {times} times"


def series_together(world: World) -> None:
    """Whatever goes wrong, nothing of a series stands without the rest."""
    SeriesTogether().attach(world)
