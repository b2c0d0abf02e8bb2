"""A judge of hand-overs: what changes hands was offered to its heir, and nobody else has any of it then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kalends.broker.register.writes import ForgetShare, KeepShare, ShareRow

if TYPE_CHECKING:
    from tests.simulation.nodes import Call
    from tests.simulation.world import World

SHARES_MAX = 8


class HandOvers:
    """Offers are stored at the moment at which they are made, and withdrawn at that at which they are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offers: set[tuple[str, str]] = set()
        self._handed: set[str] = set()
        self._wrong: list[str] = []
        self.count = 0

    def attach(self) -> None:
        world, changed = self._world, self._world.auditor.register_changed

        def register_changed(rids: Iterable[str]) -> None:
            rids = [*rids]
            changed(rids)
            for rid in rids:
                self._look(rid)

        world.auditor.register_changed = register_changed  # type: ignore[method-assign]
        world.judges.append(self)

    def offered(self, call: Call) -> str:
        """Make the offer of `call`, or withdraw it."""
        id, party = self._reservation(call.rid), f"heir:{call.heir}"
        if call.kind == "withdraw":
            (gone,) = self._world.register.write([ForgetShare(id, party)])
            if gone:
                self._offers.discard((id, call.heir))
            return "withdrawn"
        share = ShareRow(id, party, "take", call.user, 0)
        (kept,) = self._world.register.write([KeepShare(share, SHARES_MAX)])
        if kept != 1:
            return "not theirs"
        # One at a time: an earlier one has ended.
        self._offers = {each for each in self._offers if each[0] != id} | {(id, call.heir)}
        return "offered"

    def _reservation(self, rid: str) -> str:
        return str(self._world.auditor.rows[rid].body["reservation"])

    def _look(self, rid: str) -> None:
        row = self._world.auditor.rows.get(rid)
        if row is None or row.state != "commit" or rid in self._handed:
            return
        if not row.body["spec"].get("heir_of"):
            return
        self._handed.add(rid)
        offer = (row.body["reservation"], row.client)
        if offer not in self._offers:
            self._wrong.append(f"{rid} was handed over to {row.client}, to whom it was not offered")
        self._offers = {each for each in self._offers if each[0] != offer[0]}

    def finish(self) -> Iterable[str]:
        """In the end what changed hands has one holder: in the register, and at all sites."""
        auditor = self._world.auditor
        self.count = len(self._handed)
        yield from self._wrong
        rows: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for rid, row in auditor.rows.items():
            if row.body:
                rows[row.body["reservation"]][rid] = row.state
        for id in {self._reservation(rid) for rid in self._handed}:
            standing = [rid for rid, state in rows[id].items() if state == "commit"]
            ended = [rid for rid, state in rows[id].items() if state == "cancelled"]
            if len(standing) + len(ended) != 1:
                yield f"{id} was handed over, and has {len(standing)} commits, {len(ended)} cancels"
                continue
            for site, stakes in auditor.stored.items():
                locked = {
                    rid
                    for rid in rows[id]
                    if rid in stakes
                    and any(claim["state"] == "locked" for claim in stakes[rid]["claims"])
                }
                wanted = set(
                    standing if standing and auditor.rows[standing[0]].chosen(site) else ()
                )
                if locked != wanted:
                    yield f"{site} has {locked} of {id}, which {wanted or 'nobody'} should hold"


def handed_over(world: World) -> None:
    """Reservations change hands, whatever goes wrong."""
    world.hand_overs.attach()
