"""Judges owners' words: what one owner has declined never is, what all have approved is reserved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kalends.core.errors import RefusalCode
from kalends.resource_servers.participation.claims.claim_sets import StakeStored
from kalends.resource_servers.participation.effects import SiteFact
from tests.support.register_rows import COMMITTED, Row

if TYPE_CHECKING:
    from tests.simulation.auditor import Auditor
    from tests.simulation.nodes import BrokerNode, Call
    from tests.simulation.world import World

FINAL: Final = frozenset({"approved", "declined", "lapsed"})


class OwnersWords:
    """Reads the petitions that sites store, and the rows of the register, and asks nobody.

    With `nothing_fails`, no site and no broker is ever silent: then whoever has all approvals, and does not
    give up, gets the slots, unless somebody else has had some of them.
    """

    def __init__(self, *, nothing_fails: bool = False) -> None:
        self.reserved = self.refused = 0
        """How many requests had all approvals and were reserved; how many were declined, and were not."""
        self._nothing_fails = nothing_fails
        self._words: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        """The last petition that each site has stored, by request."""
        self._declined: set[tuple[str, str, int]] = set()
        self._given_up: set[str] = set()
        self._complaints: list[str] = []

    def attach(self, world: World) -> None:
        """Look over the shoulder of the auditor of `world`."""
        auditor = world.auditor
        self._auditor: Auditor = auditor
        stored, told = auditor.site_stored, auditor.told

        def storing(site: str, facts: Sequence[SiteFact]) -> None:
            stored(site, facts)
            self._stored(site, facts)

        def telling(node: BrokerNode, call: Call, answer: Any) -> None:
            told(node, call, answer)
            if call.kind in ("release", "cancel"):
                self._given_up.add(call.rid)

        auditor.site_stored = storing  # type: ignore[method-assign]
        auditor.told = telling  # type: ignore[method-assign]
        world.judges.append(self)

    def _stored(self, site: str, facts: Iterable[SiteFact]) -> None:
        for fact in facts:
            petition = (
                msgspec.msgpack.decode(fact.body).get("petition")
                if isinstance(fact, StakeStored)
                else None
            )
            if petition is None:
                continue
            assert isinstance(fact, StakeStored)
            before = self._words[fact.rid].get(site)
            if before is not None and _is_taken_back(before, petition):
                self._complaints.append(f"{site} takes back its word to {fact.rid}: {petition}")
            self._words[fact.rid][site] = petition
            if _state(petition) == "declined":
                self._declined.add((site, fact.rid, petition.get("revision", 1)))

    def finish(self) -> Iterable[str]:
        """Return all that was wrong, once all is quiet."""
        yield from self._complaints
        for site, rid, _ in sorted(self._declined):
            row = self._auditor.rows.get(rid)
            if row is None or row.state not in COMMITTED:
                continue
            # A broker that died may not have heard the word: the next may choose other owners' slots.
            if site in row.body.get("chosen", {}):
                yield f"the owner of {site} has declined {rid}, and it is {row.state}"
            self.refused += 1
        for rid, words in sorted(self._words.items()):
            row = self._auditor.rows.get(rid)
            if row is not None and self._nothing_fails and _is_given_up_too_soon(row, words):
                yield f"{rid} was given up before its owners' time was over: {row.body['trail']}"
            if (
                row is None
                or not words
                or {_state(each) for each in words.values()} != {"approved"}
            ):
                continue
            if row.state in COMMITTED:
                self.reserved += 1
            elif self._nothing_fails and not self._is_excused(rid, row, words):
                yield f"{rid} has the approval of all owners, and is {row.state}: {row.body['trail']}"

    def _is_excused(self, rid: str, row: Row, words: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether its user gave it up or may not have it, or somebody else had some of its slots.

        What a change was to replace may be gone; an agent chooses other slots in each round.
        """
        if (
            rid in self._given_up
            or row.body.get("problem") is None
            or row.body["spec"].get("agent")
        ):
            return True
        replaced = self._auditor.rows.get(row.body.get("replaces", ""))
        if replaced is not None and replaced.state != "commit":
            return True
        wants = [want for petition in words.values() for want in petition["wants"]]
        wants += row.body["spec"].get("wants", ())
        barred = self._auditor.barred
        return any(
            (row.client, want["resource"], "lock") in barred or self._had_others(rid, want)
            for want in wants
        )

    def _had_others(self, rid: str, want: Mapping[str, Any]) -> bool:
        """Whether at some time the others that were reserved there left too little."""
        others = [
            each
            for other, row in self._auditor.rows.items()
            if other != rid and row.state in COMMITTED
            for each in row.body["wants"]
            if each["resource"] == want["resource"]
            and each["start"] < want["end"]
            and want["start"] < each["end"]
        ]
        taken = sum(each["units"] for each in others)
        return taken + want["units"] > self._auditor.capacities[want["resource"]]


def _state(petition: Mapping[str, Any]) -> str:
    return str(petition.get("state", "pending"))


def _is_given_up_too_soon(row: Row, words: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether its user was told that an owner has not answered, who still had time to, as its user had."""
    last = row.body["trail"][-1] if row.body.get("trail") else {}
    codes = {refusal["code"] for refusal in last.get("refusals", ())}
    if row.state != "closed" or RefusalCode.UNANSWERED not in codes:
        return False
    states = {_state(petition) for petition in words.values()}
    until_s = min(petition["until_s"] for petition in words.values())
    until_s = min(until_s, row.body["spec"].get("give_up_at") or until_s)
    return "lapsed" not in states and last["at_ms"] // 1_000 < until_s


def _is_taken_back(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    same = before.get("revision", 1) == after.get("revision", 1)
    return same and _state(before) in FINAL and _state(after) != _state(before)
