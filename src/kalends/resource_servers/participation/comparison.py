"""A site that has forgotten promises, for an older image of its store was put back.

It cannot know that by itself. A broker's Welcome says what its register remembers of the site: a life
and a position in it. What the site's own past does not include, it has forgotten. Then it takes nothing
new until every register that it knows of has compared what is promised here with what it has decided,
and had locked again what was lost.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Literal

from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claim_sets import Claim, Stake
from kalends.resource_servers.participation.in_doubt import InDoubt
from kalends.resource_servers.participation.participant_state import RECOVERY_MS_MIN
from kalends.resource_servers.participation.past import RecoveryChanged

BLOCKERS_SHOWN: Final = 16


class Comparing(InDoubt):
    """Recognised by what others remember, compared by what they have decided."""

    def meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        """Answer who has been welcomed: is the past that its register remembers in ours?"""
        register = welcome.register
        self._told_forgotten = {told for told in self._told_forgotten if told[0] != source}
        known = all(
            self.past.includes(register, mark, self.position) for mark in welcome.remembered
        )
        if not known and register not in self._settled:
            self._fall_behind(register, now)
        behind = self.recovering and register not in self._settled
        marks = self._registers.marks(register)
        self.outbox.send(source, m.Known(behind=behind, forgotten=not known, marks=marks))

    def _fall_behind(self, register: str, now: Moment) -> None:
        """Durably: nothing new is taken here until the registers have compared."""
        self._accusers.add(register)
        if self.recovering:
            return
        self.recovering = True
        self._recovers_at_ms = now.monotonic_ms + RECOVERY_MS_MIN
        self.outbox.store(RecoveryChanged(on=True))
        self.outbox.alarm(
            "an older image of this site's store was put back: promises are forgotten here"
        )
        for stake in [each for each in self.book.stakes.awake() if each.has("held")]:
            self.claims.end_hold(stake, "expiry")

    def _closed(self) -> Refusal | None:
        """Why nothing new is taken at all; None when it is."""
        if self.draining:
            return self.here.refusal(RefusalCode.DRAINED, "the owner takes no new claims now")
        if self.recovering:
            detail = "what was promised here is compared with the brokers first"
            return self.here.refusal(RefusalCode.DRAINED, detail)
        if self._recovers_at_ms is not None and self._registers.missing():
            # One of them may be about to find that we have forgotten what we promised it.
            detail = "the site has just begun, and waits some seconds for its brokers"
            return self.here.refusal(RefusalCode.DRAINED, detail)
        return None

    def unsettled(self) -> dict[str, int]:
        """The registers that have not compared yet, with the number of reservations they have here."""
        counts = dict.fromkeys({*self._accusers, *self._registers.welcomed()}, 0)
        for register, number in self.book.stakes.registers_at_rest().items():
            if register and number:
                counts[register] = counts.get(register, 0) + number
        for stake in self.book.stakes.awake():
            if stake.register and (stake.has("locked") or stake.has("prepared")):
                counts[stake.register] = counts.get(stake.register, 0) + 1
        return {register: counts[register] for register in counts if register not in self._settled}

    def go_on(self) -> None:
        """The owner takes new bookings again, whatever has not been compared."""
        self._recover()

    def _settle_register(self, source: str) -> None:
        self._settled.add(self._registers.of(source))

    def _end_recovery(self, now: Moment) -> None:
        if self._recovers_at_ms is not None and self._recovers_at_ms <= now.monotonic_ms:
            self._recovers_at_ms = None
        if self.recovering and self._recovers_at_ms is None and not self.unsettled():
            self._recover()

    def _recover(self) -> None:
        if self.recovering:
            self.recovering = False
            self.outbox.store(RecoveryChanged(on=False))

    # Pages

    def _compare(self, source: str, compare: m.Compare) -> None:
        """A page of what is promised here to the register of `source`, in order of id."""
        register = self._registers.of(source)
        if not compare.after or source not in self._pages:
            self._pages[source] = sorted(self.book.stakes.perhaps_of(register))
        rids = self._pages[source]
        first = bisect_right(rids, compare.after)
        page = rids[first : first + limits.COMPARED_MAX]
        more = first + len(page) < len(rids)
        if not more:
            del self._pages[source]
        stakes = (self.book.stakes.peek(rid) for rid in page)
        kept = tuple(
            _kept(stake, state)
            for stake in stakes
            if stake and stake.register == register and (state := _state_of(stake))
        )
        until = page[-1] if more else ""
        self.outbox.send(
            source, m.Compared(after=compare.after, until=until, horizon=self.horizon_s, kept=kept)
        )

    # Locking again

    def _relock(self, source: str, relock: m.Relock) -> None:
        stake = self.book.stakes.get(relock.rid)
        key = self._registers.secret(self._registers.of(source))
        true = stake.secret if stake is not None else key and proofs.of_request(key, relock.rid)
        if true and not proofs.same(relock.secret, true):
            self.outbox.alarm(
                f"{relock.rid}: {source} wants it locked again, but knows not its secret"
            )
            return
        if stake is not None and not stake.register:
            self.claims.adopt(stake, self._registers.of(source))
            self.claims.store(stake, "proven")
        blockers: tuple[str, ...] = ()
        if stake is not None and stake.has("prepared") and stake.att == relock.att:
            self._commit(stake, relock.rid, relock.att, relock.chosen)
        if stake is None or not stake.decided:
            if stake is not None and stake.has("held"):
                self.claims.end_hold(stake, "expiry")
            blockers = self._lock_again(source, relock, self.book.stakes.get(relock.rid))
        self.outbox.send(source, m.Relocked(rid=relock.rid, blockers=blockers))

    def _lock_again(self, source: str, relock: m.Relock, before: Stake | None) -> tuple[str, ...]:
        """Lock what was chosen here, as it was decided; returns what stands in the way."""
        unknown = [w.resource for w in relock.wants if w.resource not in self.book.calendars]
        if unknown:
            return tuple(f"{resource} is not configured" for resource in unknown)
        if any(want.start >= want.end for want in relock.wants):
            return ("it asks for a time that is none",)
        first = min(want.start for want in relock.wants)
        refusals = self.book.refusals(relock.principal, relock.wants, ("hold", "lock"), first)
        if refusals:
            return tuple(f"its owner's rules: {refusal.detail}"[:256] for refusal in refusals)
        claims = [
            Claim(self.numbers.new(), want.resource, want.start, want.end, want.units, "locked")
            for want in relock.wants
        ]
        ends_at = max(want.end for want in relock.wants)
        stake = Stake(
            rid=relock.rid,
            att=relock.att,
            principal=relock.principal,
            secret=relock.secret,
            need=relock.need,
            parts=relock.parts,
            coords=relock.coords,
            claims=claims,
            refused=before.refused if before is not None else 0,
            chosen=relock.chosen,
            stamp=relock.stamp,
            ends_at=ends_at,
            register=self._registers.of(source),
            proofs=relock.proofs,
            warrant=relock.warrant,
            replaces=relock.replaces,
        )
        full = self.claims.lock_again(stake, before)
        if full:
            return self._blockers_of(stake) or (f"{full} has no room",)
        self._forget_doubt(stake.rid)
        return ()

    def _blockers_of(self, stake: Stake) -> tuple[str, ...]:
        """The other requests that have what the claims of `stake` need."""
        rids = {
            booking.reservation
            for claim in stake.claims
            for booking in self.book.calendars[claim.resource].calendar.listing(
                claim.start, claim.end
            )
            if booking.state in ("prepared", "locked") and booking.reservation != stake.rid
        }
        return tuple(sorted(rids)[:BLOCKERS_SHOWN])


def _state_of(stake: Stake) -> Literal["", "promised", "locked", "cancelled", "replaced"]:
    """What a register may have to know of `stake`; "" where nothing was decided or promised."""
    if stake.has("prepared"):
        return "promised"
    if stake.has("locked"):
        return "locked"
    if stake.has("replaced"):
        return "replaced"
    return "cancelled" if stake.has("cancelled") else ""


def _kept(stake: Stake, state: Literal["promised", "locked", "cancelled", "replaced"]) -> m.Kept:
    wants = tuple(m.Want(c.resource, c.start, c.end, c.units) for c in stake.claims)
    return m.Kept(
        rid=stake.rid,
        att=stake.att,
        state=state,
        principal=stake.principal,
        secret=stake.secret,
        stamp=stake.stamp,
        wants=wants,
        chosen=stake.chosen or {},
        replaces=stake.replaces,
        warrant=stake.warrant,
    )
