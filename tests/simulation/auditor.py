"""The judge: keeps its own books of what was stored, said and answered, and finds broken promises.

It reads facts and rows as bytes, rows by its own statements, and messages where they enter the
network; it asks nothing of the code under test. Whatever a node does in the wrong order is seen here,
because what is durable is learned from the disks and what is said from the network.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kalends.broker.coordination.record.decision_record import Record
from kalends.contract import messages as m
from kalends.contract.calls import RequestView
from kalends.core.errors import KalendsError
from kalends.resource_servers.journal.contract import Loaded
from kalends.resource_servers.participation.claims.claim_sets import (
    StakeDropped,
    StakeStored,
    TimeClosed,
)
from kalends.resource_servers.participation.claims.petitions import Petition
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.registers import RegisterStored
from tests.simulation.clocks import EPOCH_S, SKEW_MS_MAX
from tests.simulation.kernel import Kernel, Violation
from tests.support.register_rows import COMMITTED, Row

if TYPE_CHECKING:
    from tests.simulation.batch_systems import BatchSystem
    from tests.simulation.nodes import BrokerNode, Call, Node, SiteNode

NEXT_STATES = {
    "open": ("open", "commit", "closed"),
    "commit": COMMITTED,
    "closed": ("closed",),
    "cancelled": ("cancelled",),
    "replaced": ("replaced",),
}


class Piece(NamedTuple):
    """A claim that takes room; `rid` asked for it."""

    rid: str
    hold_id: int
    resource: str
    start: int
    end: int
    units: int
    state: str
    common: int = 0
    """Claims of one request with different common starts are alternatives: only one will be locked."""
    gap_s: int = 0


class SiteBooks(NamedTuple):
    """What the judge knows of the store of one site."""

    stored: dict[str, dict[str, Any]]
    bodies: dict[str, bytes]
    dropped: set[tuple[str, str]]
    bound: set[str]
    hold_ids: dict[tuple[str, int], tuple[Any, ...]]
    horizon: int
    epoch: int


class Auditor:
    """`capacities` by resource; `barred` holds who may not (user, resource, "hold" or "lock")."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.connection: sqlite3.Connection | None = None
        self.capacities: dict[str, int] = {}
        self.barred: set[tuple[str, str, str]] = set()
        self.guarded: set[str] = set()
        self.asked: set[str] = set()
        """Resources of which scripts may ask the owner; each of the guarded needs a word."""
        """Resources whose owners approve each booking."""
        self.approved: dict[tuple[str, str], list[Petition]] = {}
        """What owners have approved, by site and request."""
        self.nobody_waits_in_vain = False
        """Nothing goes wrong here, and nobody considers what they hold: all that is held comes free."""
        self.nobody_dies = False
        """All replicas live, and renew their leases."""
        self.horizon_back_s = 0
        """So far may a site take back what it has closed when its clock is right again: more than
        nothing only where records are kept for less than clocks are wrong."""
        self.kept_after_end_s = 86_400
        """So long after its slots is every record kept."""
        self.clocks_wrong_s = SKEW_MS_MAX // 1_000
        """By so much clocks may be wrong without that anybody finds fault with them."""
        self.expected_alarms: tuple[str, ...] = ()
        self.systems: dict[str, BatchSystem] = {}
        """Of sites that stand before one."""
        """Parts of alarms that are right, for something goes wrong on purpose."""
        self.hostile: frozenset[str] = frozenset()
        """Sites that are not judged: they belong to somebody who may do anything."""
        self.hostile_registers: frozenset[str] = frozenset()
        """Registers of brokers who may do anything: what is theirs only takes room."""
        self.rows: dict[str, Row] = {}
        self.stored: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.bodies: dict[str, dict[str, bytes]] = defaultdict(dict)
        self.dropped: set[tuple[str, str]] = set()
        self.bound: dict[str, set[str]] = defaultdict(set)
        """For each site the registers that it has bound to a key."""
        self.horizons: dict[str, int] = defaultdict(int)
        self.forgotten: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        """For each site whose store was put back, what it had stored before."""
        self._torn: dict[str, Sequence[SiteFact]] = {}
        self._epochs: dict[str, int] = defaultdict(int)
        self._rid_of_key: dict[tuple[str, str], str] = {}
        self._outcomes: dict[tuple[str, int], str] = {}
        self._hold_ids: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._stamps: dict[str, dict[int, int]] = defaultdict(dict)
        self._seen: dict[str, Any] = {}
        self._refused_begin: set[str] = set()
        """Requests that the register did not take, for another has their key."""
        self.given_up: set[str] = set()
        """Requests whose users were told, without a row, that they never began."""
        self._votes: set[tuple[str, str, int]] = set()
        """Site, request and attempt of every visit that asked for a promise."""
        self._told_approved: set[tuple[str, str, int]] = set()
        self.answers = 0
        self.checks = 0

    # What sites store

    def site_opened(self, node: SiteNode, loaded: Loaded, epoch: int) -> None:
        """A life begins: what is loaded must be what was stored, no more and no less."""
        site = node.name
        if site in self.hostile:
            return
        if epoch <= self._epochs[site]:
            self._wrong(f"{site}: epoch {epoch} follows {self._epochs[site]}")
        self._epochs[site] = epoch
        found = {stake.rid: msgspec.msgpack.encode(stake) for stake in loaded.stakes}
        torn = self._torn.pop(site, None)
        if torn is not None and found != self.bodies[site]:
            self.site_stored(site, torn)
        if found != self.bodies[site]:
            self._wrong(
                f"{site}: the store has lost or invented {found.keys() ^ self.bodies[site]}"
            )
        if loaded.horizon_s != self.horizons[site]:
            self._wrong(f"{site}: horizon {loaded.horizon_s}, stored was {self.horizons[site]}")

    def tearing(self, site: str, facts: Sequence[SiteFact]) -> None:
        """A loss of power while `facts` are written: they may be there later, all or none."""
        self._torn[site] = facts

    def site_stored(self, site: str, facts: Sequence[SiteFact]) -> None:
        if site in self.hostile:
            return
        for fact in facts:
            if isinstance(fact, StakeStored):
                after = msgspec.msgpack.decode(fact.body)
                self._stake_changed(site, fact.rid, self.stored[site].get(fact.rid), after)
                self.stored[site][fact.rid] = after
                self.bodies[site][fact.rid] = fact.body
            elif isinstance(fact, StakeDropped):
                self._stake_dropped(site, fact.rid)
            elif isinstance(fact, RegisterStored):
                self.bound[site].add(fact.register)
            elif isinstance(fact, TimeClosed):
                if fact.horizon_s < self.horizons[site] - self.horizon_back_s:
                    self._wrong(f"{site}: the horizon went back")
                if not self._has_passed(fact.horizon_s):
                    self._wrong(f"{site}: a time is closed that has not passed")
                self.horizons[site] = fact.horizon_s
        self._fits(f"{site} as stored", self.stored[site])

    def site_is_at(self, site: str, told: int, stored: int) -> None:
        """What a site tells of its position tells whether a copy of its store lacks anything."""
        if told != stored and site not in self.hostile:
            self._wrong(f"{site} tells that it is at {told}, and has stored {stored}")

    def books_of(self, site: str) -> SiteBooks:
        return SiteBooks(
            dict(self.stored[site]), dict(self.bodies[site]),
            {each for each in self.dropped if each[0] == site}, set(self.bound[site]),
            {key: what for key, what in self._hold_ids.items() if key[0] == site},
            self.horizons[site], self._epochs[site],
        )  # fmt: skip

    def put_back(self, site: str, books: SiteBooks) -> None:
        """The store of `site` is as in `books` again: what came later is forgotten there."""
        self.forgotten[site] |= self.stored[site]
        self.stored[site], self.bodies[site] = books.stored, books.bodies
        self.dropped -= {each for each in self.dropped if each[0] == site} - books.dropped
        self.bound[site], self.horizons[site] = books.bound, books.horizon
        for key in [each for each in self._hold_ids if each[0] == site]:
            del self._hold_ids[key]
        self._hold_ids |= books.hold_ids
        self._epochs[site] = books.epoch
        self._torn.pop(site, None)

    def _stake_changed(
        self, site: str, rid: str, before: dict[str, Any] | None, after: dict[str, Any]
    ) -> None:
        if before is not None and before["register"] not in ("", after["register"]):
            self._wrong(f"{site}: {rid} went from one register to another")
        foreign = after["register"] in self.hostile_registers
        if before is not None and not foreign:
            if after["att"] < before["att"] or after["refused"] < before["refused"]:
                self._wrong(f"{site}: the attempt of {rid} went back")
            self._nothing_left_without_proof(site, rid, before, after)
        self._is_approved(site, rid, after)
        already = {c["hold_id"]: c["state"] for c in before["claims"]} if before else {}
        row = self.rows.get(rid)
        for claim in after["claims"]:
            user = after["principal"]["user"]
            if claim["state"] != "held" and (user, claim["resource"], "lock") in self.barred:
                self._wrong(f"{site}: {user} has {claim['resource']} {claim['state']}")
            if foreign:
                continue
            if claim["state"] == "locked" and already.get(claim["hold_id"]) != "locked":
                named = row is not None and row.committed(after["att"])
                if row is None or not named or not self._is_chosen(site, row, claim):
                    self._wrong(f"{site}: {rid} is locked, but the register has {_brief(row)}")

    def _is_chosen(self, site: str, row: Row, claim: Mapping[str, Any]) -> bool:
        """A site that has forgotten it locks it again under another number, or what was used of it."""
        same = {"resource", "start", "units"}
        return claim["hold_id"] in row.chosen(site) or (
            bool(self.forgotten[site])
            and any(
                all(want[name] == claim[name] for name in same) and claim["end"] <= want["end"]
                for want in row.body["wants"]
            )
        )

    def _is_approved(self, site: str, rid: str, stake: Mapping[str, Any]) -> None:
        """At no time has it more than its owner has approved for this user, or than stood before."""
        promised = [
            (each["resource"], each["start"], each["end"], each["units"])
            for each in stake["claims"]
            if each["resource"] in self.guarded and each["state"] in ("prepared", "locked")
        ]
        replaced = self.stored[site].get(stake["replaces"]) or {"claims": ()}
        before = [(c["resource"], c["start"], c["end"], c["units"]) for c in replaced["claims"]]
        words = [
            [(want.resource, want.start, want.end, want.units) for want in petition.wants]
            for petition in self.approved.get((site, rid), ())
            if petition.user == stake["principal"]["user"]
        ]
        if not any(
            all(
                units_at(promised, resource, start)
                <= max(units_at(before, resource, start), units_at(word, resource, start))
                for resource, start in _corners(*promised, *before, *word)
            )
            for word in (*words, [])
        ):
            self._wrong(f"{site}: {rid} has {promised} without its owner's word")

    def _nothing_left_without_proof(
        self, site: str, rid: str, before: dict[str, Any], after: dict[str, Any]
    ) -> None:
        """A promise, and a lock, is left only by the register's outcome or proof of it."""
        row = self.rows.get(rid)
        att = before["att"]
        now = {c["hold_id"]: c["state"] for c in after["claims"]}
        for claim in before["claims"]:
            hold_id, was, is_now = claim["hold_id"], claim["state"], now.get(claim["hold_id"])
            if was == "prepared" and (is_now != "prepared" or after["att"] != att):
                decided = self._dead(rid, att) or (
                    row is not None
                    and row.committed(att)
                    and (is_now == "locked") == (hold_id in row.chosen(site))
                )
                if not decided and not self._peers_refused(site, rid, before):
                    self._wrong(
                        f"{site}: the promise of {rid} attempt {att} became {is_now}"
                        f" without proof; the register has {_brief(row)}"
                    )
            proof: dict[str, tuple[str, ...]] = {
                "cancelled": ("cancelled",),
                "replaced": ("replaced",),
            }
            if self.forgotten[site]:  # What takes its place is locked by itself, and it is freed.
                proof["cancelled"] = ("cancelled", "replaced")
            if (
                was == "locked"
                and is_now != "locked"
                and (row is None or is_now is None or row.state not in proof.get(is_now, ()))
            ):
                self._wrong(f"{site}: the lock of {rid} became {is_now}; {_brief(row)}")

    def _peers_refused(self, site: str, rid: str, stake: Mapping[str, Any]) -> bool:
        """So many others durably refuse this attempt that it never had, and never gets, enough."""
        refusing = 0
        for name in {part["site"] for part in stake["parts"]} - {site}:
            said = (self.stored[name].get(rid), self.forgotten[name].get(rid))
            refusing += any(peer is not None and peer["refused"] >= stake["att"] for peer in said)
        return bool(refusing > len(stake["parts"]) - stake["need"])

    def _stake_dropped(self, site: str, rid: str) -> None:
        before = self.stored[site].pop(rid, None)
        self.bodies[site].pop(rid, None)
        self.dropped.add((site, rid))
        if before is None or before["register"] in self.hostile_registers:
            return
        if before["ends_at"] > self.horizons[site]:
            self._wrong(f"{site}: {rid} was dropped before the horizon was raised over it")
        if any(claim["state"] == "prepared" for claim in before["claims"]):
            self._wrong(f"{site}: the promise of {rid} was dropped")
        if not self._has_passed(before["ends_at"] + self.kept_after_end_s):
            self._wrong(f"{site}: {rid} was dropped too soon after its end")
        for peer in before["chosen"] or {}:
            stake = self.stored[peer].get(rid)
            if stake is not None and any(each["state"] == "prepared" for each in stake["claims"]):
                self._wrong(f"{site}: dropped {rid}, of which {peer} is still in doubt")

    # What the register stores

    def register_changed(self, rids: Iterable[str]) -> None:
        assert self.connection is not None
        changed = []
        for rid in sorted(rids):
            found = self.connection.execute(
                "select client, key, att, state, owner, done, body from request where rid = ?",
                (rid,),
            ).fetchone()
            before = self.rows.get(rid)
            if found is None:
                if before is not None:
                    self._wrong(f"the row of {rid} is gone")
                self._refused_begin.add(rid)
                continue
            body = msgspec.msgpack.decode(found[6]) if found[6] is not None else {}
            row = Row(*found[:5], bool(found[5]), body)
            self.rows[rid] = row
            changed.append((rid, before, row))
        for rid, before, row in changed:
            self._row_changed(rid, before, row)

    def _row_changed(self, rid: str, before: Row | None, row: Row) -> None:
        if before is None:
            self._row_appeared(rid, row)
        else:
            if row.state not in NEXT_STATES[before.state]:
                self._wrong(f"{rid} went from {before.state} to {row.state}")
            if row.att < before.att or (before.state != "open" and row.att != before.att):
                self._wrong(f"{rid} went from attempt {before.att} to {row.att} in {row.state}")
            if before.state in COMMITTED and before.body["chosen"] != row.body["chosen"]:
                self._wrong(f"what {rid} chose has changed")
        if row.state == "commit" and (before is None or before.state != "commit"):
            self._row_committed(rid, row)
        if row.state == "closed" and row.client and self.nobody_waits_in_vain:
            self._has_not_waited_in_vain(rid, row)

    def _row_appeared(self, rid: str, row: Row) -> None:
        if not row.client:
            return
        if rid in self._refused_begin:
            self._wrong(f"{rid} has begun after the register had refused it")
        if self._rid_of_key.setdefault((row.client, row.key), rid) != rid:
            self._wrong(f"key {row.key} has two requests")
        if rid in self.given_up:
            self._wrong(f"{rid} has begun after its user was told that it never did")
        name, _, start = row.owner.partition(":")
        lives = self._stamps[name]
        stamp = row.body["stamp"]
        replaced = self.rows.get(row.body.get("replaces", ""))
        if replaced is not None and replaced.body["stamp"] == stamp:
            return  # What its owner has taken back is looked for again by its old place.
        if stamp <= max((last for life, last in lives.items() if life < int(start)), default=0):
            self._wrong(f"the stamps of {name} went back with {rid}")
        lives[int(start)] = max(lives.get(int(start), 0), stamp)

    def _row_committed(self, rid: str, row: Row) -> None:
        """Every chosen claim must be promised, durably and for this very attempt."""
        self._outcome(rid, row.att, "commit")
        wanted = sorted(
            (w["resource"], w["start"], w["end"], w["units"]) for w in row.body["wants"]
        )
        promised = [want for want in wanted if want[0].partition("/")[0] in self.hostile]
        for site in row.body["chosen"]:
            if site in self.hostile:
                continue
            ids = row.chosen(site)
            for stakes in (self.stored[site], self.forgotten[site]):
                stake = stakes.get(rid)
                claims = [
                    c
                    for c in (stake["claims"] if stake and stake["att"] == row.att else ())
                    if c["hold_id"] in ids and c["state"] == "prepared"
                ]
                if len(claims) == len(ids):
                    break
            else:
                self._wrong(
                    f"{rid} is committed, but {site} has promised attempt {row.att} of {stake}"
                )
            promised += [(c["resource"], c["start"], c["end"], c["units"]) for c in claims]
        if sorted(promised) != wanted:
            self._wrong(f"{rid} is committed with {promised}, wanted was {wanted}")
        if not row.body.get("replaces"):
            self._is_what_was_asked(rid, row.body["spec"]["request"], wanted)
        old = row.body.get("replaces", "")
        if old and self.rows[old].state != "replaced":
            self._wrong(f"{rid} is committed in place of {old}, which is {self.rows[old].state}")

    def _has_not_waited_in_vain(self, rid: str, row: Row) -> None:
        """Whoever is in line gets it, or is told that it is locked; the time is never over before."""
        detail = (row.body.get("problem") or {}).get("detail", "")
        if detail in ("still taken at the deadline", "the request ran out of time"):
            self._wrong(f"{rid} has waited in vain: {row.body['trail']}")

    def _is_what_was_asked(
        self, rid: str, request: Mapping[str, Any], wanted: Sequence[tuple[str, int, int, int]]
    ) -> None:
        """Every term at its count and units, with different resources, all at one time."""
        terms = request["alternatives"][0]["terms"]
        named = sorted(term["resource"] for term in terms if "resource" in term)
        units = Counter[int]()
        for term in terms:
            units[term.get("units", 1)] += term.get("count", 1)
        if len({(start, end) for _, start, end, _ in wanted}) != 1:
            self._wrong(f"{rid} is committed at different times: {wanted}")
        if Counter(want[3] for want in wanted) != units:
            self._wrong(f"{rid} is committed with {wanted}, asked was {terms}")
        if len({want[0] for want in wanted}) != len(wanted) or (
            named and named != sorted(want[0] for want in wanted)
        ):
            self._wrong(f"{rid} is committed with {wanted}, asked was {terms}")

    def _outcome(self, rid: str, att: int, outcome: str) -> None:
        if self._outcomes.setdefault((rid, att), outcome) != outcome:
            self._wrong(f"attempt {att} of {rid} has two outcomes")

    # What is said

    def sent(self, node: Node, to: str, message: m.Message) -> None:
        """A message leaves `node`: what it promises must be durable already."""
        self.checks += 1
        if node.name in self.hostile or self._is_foreign(node.name, message):
            return
        match message:
            case m.Visited() if message.ahead >= 0:
                if (node.name, message.rid, message.att) in self._votes:
                    self._wrong(f"{node.name} lets {message.rid} wait, which asked for a promise")
            case m.Visited() if message.vote == "yes":
                held = {slot.hold_id for slot in message.held}
                self._is_promised(node.name, message.rid, message.att, held)
            case m.Voted() if message.vote == "yes":
                self._is_promised(node.name, message.rid, message.att)
            case m.OwnerSays():
                self._owner_says(node.name, message)
            case m.Reclaim() if node.name in self.systems:
                self._is_lost(node.name, message)
            case m.Done() if message.of != "abort":
                self._is_done(node.name, message)
            case m.PeerSays():
                self._peer_says(node.name, message)
            case m.Visit() if message.att == 1 and message.mode == "vote":
                self._votes.add((to, message.rid, 1))
            case m.Visit() | m.Dispatch() if message.att > 1:
                row = self.rows.get(message.rid)
                if row is None or row.att < message.att:
                    self._wrong(f"a visit of attempt {message.att} left before it was raised")
            case m.Decide() | m.Outcome() if message.outcome != "pending":
                self._decision(message)
            case m.Cancel():
                row = self.rows.get(message.rid)
                # A site that says that it keeps what was replaced long ago is told to free it.
                freed = row is not None and row.state == "replaced" and (
                    to in self.hostile or bool(self.forgotten[to])
                )  # fmt: skip
                if row is None or (row.state != "cancelled" and not freed):
                    self._wrong(f"a cancel left, but the register has {_brief(row)}")

    def _is_foreign(self, site: str, message: m.Message) -> bool:
        """Whether it is about what a hostile broker has asked for."""
        rid = getattr(message, "rid", "")
        stake = self.stored[site].get(rid)
        owner = stake["register"] if stake is not None else ""
        return owner in self.hostile_registers if owner else (
            bool(self.hostile_registers) and rid not in self.rows
        )  # fmt: skip

    def _is_promised(
        self, site: str, rid: str, att: int, held: frozenset[int] | set[int] = frozenset()
    ) -> None:
        stake = self.stored[site].get(rid)
        if stake is not None and site in self.systems:
            self._is_granted(site, stake)
        promised = stake is not None and stake["att"] == att and (
            stake["chosen"] is not None or any(c["state"] == "prepared" for c in stake["claims"])
        ) and held <= _ids(stake)  # fmt: skip
        row = self.rows.get(rid)
        # A yes that waited behind later facts may be overtaken by the outcome of its attempt.
        decided = self._dead(rid, att) or (row is not None and row.committed(att))
        if not promised and not decided:
            self._wrong(f"{site} says yes to attempt {att} of {rid}, which is not stored")

    def _owner_says(self, site: str, says: m.OwnerSays) -> None:
        """A word is told once it is durable, and never taken back."""
        told = (site, says.rid, says.att)
        if says.state == "approved":
            stake = self.stored[site].get(says.rid)
            petition = stake["petition"] if stake is not None else None
            if petition is None or petition.get("state") != "approved":
                self._wrong(f"{site} tells {says.rid} a word that is not stored")
            self._told_approved.add(told)
        elif says.state != "lost" and told in self._told_approved:
            self._wrong(f"{site} takes its word to {says.rid} back: {says.state}")

    def _is_granted(self, site: str, stake: Mapping[str, Any]) -> None:
        """At the vote the batch system keeps what it is about, or did until somebody took it away."""
        system = self.systems[site]
        for claim in stake["claims"]:
            if claim["resource"] == f"{site}/n" and claim["end"] > system.clock_s():
                what = (claim["start"], claim["end"], claim["units"], stake["principal"]["user"])
                if not system.keeps(*what):
                    self._wrong(
                        f"{site} says yes to {stake['rid']}, but its system keeps not {what}"
                    )

    def _is_lost(self, site: str, reclaim: m.Reclaim) -> None:
        """Only what its batch system cannot keep is given up; by an owner nothing is reclaimed here."""
        stake = self.stored[site].get(reclaim.rid)
        for claim in stake["claims"] if stake is not None else ():
            if (claim["resource"], claim["start"]) == (f"{site}/n", reclaim.start):
                user = stake["principal"]["user"] if stake is not None else ""
                why = self.systems[site].why_not_given_up(claim["start"], claim["end"], user)
                if why:
                    self._wrong(f"{site} gives up {reclaim}, and {why}")

    def _is_done(self, site: str, done: m.Done) -> None:
        stake = self.stored[site].get(done.rid)
        row = self.rows.get(done.rid)
        if row is None:
            self._wrong(f"{site} is done with {done.rid}, of which there is no row")
        if stake is None:
            forgot = done.of == "cancel" and done.rid in self.forgotten[site]
            if row.chosen(site) and (site, done.rid) not in self.dropped and not forgot:
                self._wrong(f"{site} is done with {done.rid}, of which it has stored nothing")
            return
        if done.of == "commit" and row.chosen(site) and stake["chosen"] is None:
            self._wrong(f"{site} is done with {done.rid}, but its lock is not stored")
        if done.of == "cancel" and any(c["state"] == "locked" for c in stake["claims"]):
            self._wrong(f"{site} is done with cancelling {done.rid}, but the lock still stands")

    def _peer_says(self, site: str, says: m.PeerSays) -> None:
        stake = self.stored[site].get(says.rid)
        if says.says == "never":
            refused = stake is not None and stake["refused"] >= says.att
            if not refused and not self._dead(says.rid, says.att):
                self._wrong(f"{site} says never to {says.rid}, but has not stored that")
        if says.says == "locked" and (stake is None or stake["chosen"] is None):
            self._wrong(f"{site} says locked of {says.rid}, but has not stored that")

    def _decision(self, said: m.Decide | m.Outcome) -> None:
        row = self.rows.get(said.rid)
        self._outcome(said.rid, said.att, said.outcome)
        if said.outcome == "commit":
            if row is None or not row.committed(said.att):
                self._wrong(f"commit of {said.rid} was said, but the register has {_brief(row)}")
            if {site: list(ids) for site, ids in said.chosen.items()} != row.body["chosen"]:
                self._wrong(f"commit of {said.rid} was said with {said.chosen}: {_brief(row)}")
        elif row is not None and not self._dead(said.rid, said.att):
            self._wrong(f"abort of {said.rid} was said, but the register has {_brief(row)}")

    def told(self, node: BrokerNode, call: Call, answer: RequestView | KalendsError) -> None:
        """A user is answered: it must be true, and stay true."""
        self.answers += 1
        said = answer.state if isinstance(answer, RequestView) else type(answer).__name__
        self._kernel.note(f"{node.name} answers {call.kind} {call.key or call.rid[-6:]}: {said}")
        if isinstance(answer, KalendsError):
            return
        rid = self._rid_of_key.get((call.user, call.key), "") if call.key else call.rid
        row = self.rows.get(rid)
        state = row.state if row is not None else ""
        if row is None:
            if answer.state != "failed":
                self._wrong(f"{call.key} was told {answer.state}, but nothing is stored")
            if not call.replaces and call.change is None:
                self.given_up.add(answer.id)
            return
        true = {
            "open": True,
            "held": state != "open" or bool(row.body.get("held_until_ms")),
            "reserved": state in COMMITTED,
            "failed": state == "closed",
            "cancelled": state in ("closed", "cancelled"),
            "replaced": state == "replaced",
        }[answer.state]
        if not true:
            self._wrong(f"{call.kind} of {rid} was told {answer.state}, the register has {state}")
        claims = [(c.resource, c.start, c.end, c.units) for c in answer.claims]
        wants = [
            (w["resource"], w["start"], w["end"], w["units"]) for w in row.body.get("wants", ())
        ]
        firm = answer.state == "reserved" or (answer.state == "held" and state == "open")
        if firm and sorted(claims) != sorted(wants):
            self._wrong(f"{rid} was told {claims}, the register has {wants}")

    # What sites have in memory

    def site_stepped(self, node: SiteNode, alarms: Sequence[str]) -> None:
        if node.name in self.hostile:
            return
        for alarm in alarms:
            # A repeat of what was settled and forgotten is refused, and the operator told.
            about = alarm.partition(":")[0]
            foreign = bool(self.hostile_registers) and about not in self.rows and "-" in about
            expected = foreign or any(part in alarm for part in self.expected_alarms)
            if (node.name, alarm.partition(":")[0]) not in self.dropped and not expected:
                self._wrong(f"{node.name} raises the alarm: {alarm}")
        if node.system is not None:
            offered = node.system.uncounted(node.participant.book.calendars[f"{node.name}/n"].free)
            if offered:
                self._wrong(offered[0])
        stakes = node.participant.book.stakes
        seen = [
            (rid, s.att, len(s.claims), s.claims and s.claims[0].state) for rid, s in stakes.items()
        ]
        if self._seen.get(node.name) == seen:
            return
        self._seen[node.name] = seen
        plain = {rid: msgspec.to_builtins(stake) for rid, stake in stakes.items()}
        for rid, stake in plain.items():
            user = stake["principal"]["user"]
            for claim in stake["claims"]:
                if claim["state"] == "held" and (user, claim["resource"], "hold") in self.barred:
                    self._wrong(f"{node.name}: {user} holds {claim['resource']}")
                what = (rid, claim["resource"], claim["start"], claim["end"], claim["units"])
                if self._hold_ids.setdefault((node.name, claim["hold_id"]), what) != what:
                    self._wrong(f"{node.name}: hold id {claim['hold_id']} was used twice")
        self._fits(node.name, plain)

    def broker_stepped(self, node: BrokerNode, alarms: Sequence[str]) -> None:
        for alarm in alarms:
            if not any(part in alarm for part in self.expected_alarms):
                self._wrong(f"{node.name} raises the alarm: {alarm}")

    def takes_over(self, node: BrokerNode, records: Sequence[Record]) -> None:
        """Who lives is not taken over from: it would cost an attempt each time."""
        for record in records:
            if self.nobody_dies:
                self._wrong(f"{node.name} takes {record.rid} over from {record.owner}, which lives")

    def found_unattended(self, node: BrokerNode, records: Sequence[Record]) -> None:
        """The heartbeat would take them up again; but whoever takes a request over goes on with it."""
        for record in records:
            row = self.rows[record.rid]
            # What was read may have come late.
            still = row.owner == record.owner and not row.done
            if still and record.rid not in node.coordinator.cases:
                self._wrong(f"{node.name} owns {record.rid}, and does not work on it")

    def _fits(self, where: str, stakes: Mapping[str, Mapping[str, Any]]) -> None:
        """At every instant, what is taken is no more than there is; a change counts as the larger."""
        self.checks += 1
        taken: dict[str, list[tuple[Piece, list[Mapping[str, Any]]]]] = defaultdict(list)
        for rid, stake in stakes.items():
            for claim in stake["claims"]:
                if claim["state"] not in ("held", "intended", "prepared", "locked"):
                    continue
                old = stakes.get(stake["replaces"]) if stake["chosen"] is None else None
                credit = [c for c in old["claims"] if c["state"] == "locked"] if old else []
                taken[claim["resource"]].append((Piece(rid=rid, **claim), credit))
        for resource, pieces in taken.items():
            times = sorted({t for piece, _ in pieces for t in (piece.start, piece.end)}
                           | {t for _, credit in pieces for c in credit
                              for t in (c["start"], c["end"])})  # fmt: skip
            for start, end in pairwise(times):
                units = _units_between(resource, start, end, pieces)
                if units > self.capacities[resource]:
                    over = [piece for piece, _ in pieces if piece.start < end and start < piece.end]
                    self._wrong(f"{where}: {units} units of {resource} are taken: {over}")

    # The end

    def decided(self) -> dict[str, tuple[str, int]]:
        """Return what the register has decided of each request."""
        return {rid: (row.state, row.att) for rid, row in self.rows.items()}

    def finish(self, sites: Sequence[SiteNode]) -> None:
        """All is quiet: all of it or nothing, everywhere; nothing is held or promised any more."""
        for site in sites:
            for rid, stake in site.participant.book.stakes.items():
                if stake.register in self.hostile_registers:
                    continue
                states = {claim.state for claim in stake.claims}
                if states & {"held", "intended", "prepared", "queued"}:
                    self._wrong(f"{site.name}: {rid} is still {states} when all is quiet")
            waiting = site.participant.waiting_here()
            if waiting and not self.hostile_registers:
                self._wrong(f"{waiting} still wait at {site.name} when all is quiet")
        for rid, row in self.rows.items():
            if not row.done and not self.hostile:
                self._wrong(f"{rid} is {row.state} and not finished when all is quiet")
            for site in sites:
                stake = self.stored[site.name].get(rid)
                there = [c for c in (stake["claims"] if stake else ()) if c["state"] == "locked"]
                locked: Any = {claim["hold_id"] for claim in there}
                expected: Any = row.chosen(site.name) if row.state == "commit" else set()
                if self.forgotten[site.name]:
                    locked = sorted(
                        (c["resource"], c["start"], c["end"], c["units"]) for c in there
                    )
                    wants = row.body.get("wants", ()) if expected else ()
                    expected = sorted(
                        (w["resource"], w["start"], w["end"], w["units"])
                        for w in wants if w["resource"].startswith(f"{site.name}/")
                    )  # fmt: skip
                if locked != expected and (site.name, rid) not in self.dropped:
                    self._wrong(f"{site.name} has {locked} of {rid} locked, not {expected}")
        for site in sites:
            for rid, stake in self.stored[site.name].items():
                foreign = stake["register"] in self.hostile_registers
                if rid not in self.rows and stake["claims"] and not foreign:
                    self._wrong(f"{site.name} has claims of {rid}, of which there is no row")
        for rid in self.given_up:
            if rid in self.rows and self.rows[rid].state in COMMITTED:
                self._wrong(f"{rid} is committed, but its user was told that it never began")

    def _has_passed(self, at_s: int) -> bool:
        """Truly, but for the minutes by which clocks are wrong that nobody finds fault with."""
        return at_s <= self.true_s() + self.clocks_wrong_s

    def true_s(self) -> int:
        """The true time (seconds UTC), which no node knows."""
        return EPOCH_S + self._kernel.now_ms // 1_000

    def _dead(self, rid: str, att: int) -> bool:
        """Attempt `att` of `rid` was never committed, and never can be."""
        row = self.rows.get(rid)
        return row.dead(att) if row is not None else rid in self._refused_begin

    def _wrong(self, text: str) -> Any:
        raise Violation(text)


def _units_between(
    resource: str,
    start: int,
    end: int,
    pieces: Sequence[tuple[Piece, Sequence[Mapping[str, Any]]]],
) -> int:
    wanted: dict[str, Counter[int]] = defaultdict(Counter)
    credits: dict[str, Sequence[Mapping[str, Any]]] = {}
    for piece, credit in pieces:
        if piece.start < end and start < piece.end:
            wanted[piece.rid][piece.common] += piece.units
            credits[piece.rid] = credit
    total = 0
    for rid, by_start in wanted.items():
        old = sum(
            c["units"]
            for c in credits[rid]
            if c["resource"] == resource and c["start"] < end and start < c["end"]
        )
        total += max(0, max(by_start.values()) - old)
    return total


def _ids(stake: Mapping[str, Any]) -> set[int]:
    return {claim["hold_id"] for claim in stake["claims"]} | {
        hold_id for ids in (stake["chosen"] or {}).values() for hold_id in ids
    }


Taken = tuple[str, int, int, int]
"""Resource, start, end, units."""


def units_at(taken: Iterable[Taken], where: str, at: int) -> int:
    """How much of `where` is taken at a time."""
    return sum(units for name, start, end, units in taken if name == where and start <= at < end)


def _corners(*taken: Taken) -> set[tuple[str, int]]:
    return {(name, at) for name, start, end, _ in taken for at in (start, end)}


def _brief(row: Row | None) -> str:
    return (
        "no row"
        if row is None
        else f"{row.state} at attempt {row.att}, chosen {row.body.get('chosen')}"
    )
