"""Promises in doubt: brokers are asked for the outcome, then, if they are silent, the peers.

Cooperative termination after Bernstein, Hadzilacos and Goodman 1987, section 7.4.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import ThisSite

INQUIRE_AFTER_MS: Final = 5_000
INQUIRE_EVERY_MS_MAX: Final = 60_000

PEERS_AFTER_INQUIRIES: Final = 3
"""Peers are asked once brokers have been silent for about 5 + 10 + 20 s."""


@dataclass(eq=False)
class InDoubtResolver:
    """The promises without an outcome: each ends only by the outcome, or by proof of it."""

    here: ThisSite
    stakes: Stakes
    claims: Claims
    outcomes: OutcomeHandler
    retention: Retention
    recovery: Recovery
    registers: Registers
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _inquiries: list[tuple[int, str, int, int]] = field(init=False, default_factory=list)
    """Heap of when to ask (monotonic) about which request and attempt, and how often it was asked."""
    _refusing_peers: dict[str, set[str]] = field(init=False, default_factory=dict)

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.ASKS,
            handles=[
                on(m.Outcome, lambda source, outcome, now: self.outcome(outcome, now)),
                on(m.PeerAsk, lambda source, ask, now: self.peer_ask(source, ask), owned=False),
                on(m.PeerSays, self.peer_says, owned=False),
            ],
            timed=self,
        )

    def restore(self, now: Moment) -> None:
        """Inquire at once about every promise that was stored."""
        for stake in self.stakes.awake():
            if stake.has("prepared"):
                self._inquire_later(stake, now, 0, after_ms=0)

    def promised(self, stake: Stake, now: Moment) -> None:
        self._inquire_later(stake, now, 0)

    def forget(self, rid: str) -> None:
        """End the doubt about the promise of `rid`."""
        self._refusing_peers.pop(rid, None)

    # The passing of time

    def advance(self, now: Moment) -> None:
        while self._inquiries and self._inquiries[0][0] <= now.monotonic_ms:
            _, rid, att, count = heapq.heappop(self._inquiries)
            self.inquire(rid, att, count, now)

    def next_deadline_ms(self) -> int | None:
        return self._inquiries[0][0] if self._inquiries else None

    def _inquire_later(
        self, stake: Stake, now: Moment, count: int, *, after_ms: int | None = None
    ) -> None:
        if after_ms is None:
            after_ms = min(INQUIRE_AFTER_MS << count, INQUIRE_EVERY_MS_MAX)
        due_ms = now.monotonic_ms + int(after_ms * (1 + 0.2 * self.jitter()))
        heapq.heappush(self._inquiries, (due_ms, stake.rid, stake.att, count))

    def inquire(self, rid: str, att: int, count: int, now: Moment) -> None:
        stake = self.stakes.get(rid)
        if stake is None or stake.att != att or not stake.has("prepared"):
            return
        if stake.coords:
            to = stake.coords[count % len(stake.coords)]
            inquire = m.Inquire(rid=rid, att=att, site=self.here.name, secret=stake.secret)
            self.outbox.send(to, inquire)
        if count >= PEERS_AFTER_INQUIRIES or not stake.coords:
            for part in stake.parts:
                if part.site != self.here.name:
                    ask = m.PeerAsk(
                        rid=rid, att=att, site=self.here.name, register=stake.register,
                        secret=part.secret or stake.secret, until=stake.ends_at,
                    )  # fmt: skip
                    self.outbox.send(part.url, ask)
        self._inquire_later(stake, now, min(count + 1, 30))

    def outcome(self, outcome: m.Outcome, now: Moment) -> None:
        stake = self.stakes.get(outcome.rid)
        if stake is None or outcome.outcome == "pending":
            return
        if outcome.outcome == "commit":
            self.outcomes.keep_proofs(stake, outcome)
            self.outcomes.commit(stake, outcome.rid, outcome.att, outcome.chosen, now)
            if outcome.done:
                self.retention.forget(outcome.rid)
        elif not stake.decided:
            self.outcomes.abort(stake, outcome.att)

    def peer_ask(self, source: str, ask: m.PeerAsk) -> None:
        """Answer what this site knows of the attempt; one that it has not promised is refused for ever.

        A promise of a lower attempt is not given up for it: only its broker's word ends that.
        """
        stake = self.stakes.get(ask.rid)
        if not self.takes_part(ask, stake):
            return
        if not self.recovery.is_certain_of(ask.register) and not (stake and stake.claims):
            return  # What it may have promised is forgotten.
        if stake is None:
            stake = self._stake_of_refusal(ask)
            self.claims.put(stake)
        if stake.has("prepared") and stake.att < ask.att:
            return
        if stake.has("intended") and stake.att == ask.att:
            return  # Its vote waits for a batch system, and may be yes.
        says: Literal["locked", "prepared", "never"] = "never"
        if stake.decided and stake.att == ask.att:
            says = "locked"
        elif stake.has("prepared") and stake.att == ask.att:
            says = "prepared"
        elif stake.att <= ask.att and stake.refused < ask.att and not stake.decided:
            self.claims.refuse(stake, ask.att, "abort")
        answer = m.PeerSays(
            rid=ask.rid,
            att=ask.att,
            site=self.here.name,
            says=says,
            proofs=stake.proofs if says == "locked" else {},
            chosen=(stake.chosen or {}) if says == "locked" else {},
        )
        self.outbox.send(source, answer)

    def _proves_commit(self, stake: Stake, says: m.PeerSays) -> bool:
        if not stake.register:
            return True
        key = self.registers.secret(stake.register)
        mine = says.chosen.get(self.here.name, ())
        true = proofs.of_commit(key, says.rid, says.att, mine)
        return proofs.same(says.proofs.get(self.here.name, ""), true)

    def takes_part(self, ask: m.PeerAsk, stake: Stake | None) -> bool:
        """Whether the asker proves that it takes part: then something may be told, and written down."""
        if stake is not None and not stake.register:
            return proofs.same(ask.secret, stake.secret)
        key = self.registers.secret(ask.register)
        if not key or (stake is not None and stake.register != ask.register):
            return False
        return proofs.same(ask.secret, proofs.of_peer(key, ask.rid, ask.site))

    def _stake_of_refusal(self, ask: m.PeerAsk) -> Stake:
        return Stake(
            rid=ask.rid,
            att=ask.att,
            principal=Principal(""),
            secret=proofs.of_request(self.registers.secret(ask.register), ask.rid),
            register=ask.register,
            need=1,
            parts=(),
            coords=(),
            claims=[],
            ends_at=ask.until,
        )

    def peer_says(self, source: str, says: m.PeerSays, now: Moment) -> None:
        """A locked peer proves the commit; more than p - need refusals prove that there is none.

        A peer speaks for itself only: from where its broker has said that it lives.
        """
        stake = self.stakes.get(says.rid)
        if stake is None or stake.att != says.att or not stake.has("prepared"):
            return
        if (says.site, source) not in {(part.site, part.url) for part in stake.parts}:
            self.outbox.alarm(f"{says.rid}: {source} speaks for {says.site}, which is not there")
            return
        if says.says == "locked":
            if not self._proves_commit(stake, says):
                self.outbox.alarm(
                    f"{says.rid}: {says.site} reports that it was committed, without proof"
                )
                return
            others = {site: of for site, of in says.proofs.items() if site != self.here.name}
            self.claims.prove(stake, others, stake.warrant)
            self.outcomes.commit(stake, says.rid, says.att, says.chosen, now)
        elif says.says == "never":
            refusing = self._refusing_peers.setdefault(says.rid, set())
            refusing.add(says.site)
            if len(refusing) > len(stake.parts) - stake.need:
                self.claims.refuse(stake, says.att, "abort")
