"""The site's half of the commit protocol, as a pure state machine.

Messages and the passing of time go in, together with `now`; facts to store, messages to send and
alarms come out (`Effects`; persist before send). A vote of yes is a promise: it ends only by the
register's outcome (Decide, Outcome), by proof of it (a higher attempt, a locked peer), or by so many
durable refusals of peers that a commit can never have happened. The rules of each state are in
`transitions`; what is booked where is `book`'s.

Presumed abort (Mohan and Lindsay 1983) with numbered attempts; recall and grace period after
Ramamoorthi et al. 1997, section 3; cooperative termination after Bernstein, Hadzilacos and Goodman
1987, section 7.4.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from kalends.calendars import ResourceCalendar
from kalends.core import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.resource_servers.book import SiteBook
from kalends.resource_servers.effects import Effects, Send
from kalends.resource_servers.stakes import (
    Claim,
    HorizonRaised,
    Stake,
    StakeDropped,
    stored,
)
from kalends.resource_servers.transitions import ClaimEvent
from kalends.resource_servers.views import look

SEQUENCE_BITS: Final = 40
"""Of a hold id: 10^12 claims between two restarts; the epoch is above."""

INQUIRE_AFTER_MS: Final = 5_000
INQUIRE_EVERY_MS_MAX: Final = 60_000
PEERS_AFTER_INQUIRIES: Final = 3
"""Peers are asked once brokers have been silent for about 5 + 10 + 20 s."""

COLLECT_EVERY_MS: Final = 60_000
KEEP_AFTER_END_S: Final = 86_400
"""Records outlive their slots by a day: more than any clock is wrong and any message is late."""


class ParticipantLimits(NamedTuple):
    """Per principal at this site; a client that votes and never decides is bounded by the second."""

    held_per_principal_max: int = 64
    promised_per_principal_max: int = 64
    hold_ms_max: int = 3_600_000


DEFAULT_LIMITS: Final = ParticipantLimits()


class Participant:
    """One site. Not thread-safe; `receive` and `advance` take effect at once in memory.

    `epoch` must be higher than at any earlier start of this site; `jitter` gives numbers in [0, 1).
    """

    def __init__(
        self,
        site: str,
        url: str,
        calendars: Mapping[str, ResourceCalendar],
        *,
        epoch: int,
        jitter: Callable[[], float],
        limits: ParticipantLimits = DEFAULT_LIMITS,
        stakes: Iterable[Stake] = (),
        horizon_s: int = 0,
        now: Moment,
    ) -> None:
        self.site = site
        self.url = url
        self.epoch = epoch
        self.draining = False
        self.horizon_s = horizon_s
        self._limits = limits
        self._jitter = jitter
        self._sequence = 0
        self._effects = Effects()
        self._inquiries: list[tuple[int, str, int, int]] = []
        self._refusing_peers: dict[str, set[str]] = {}
        self._forgettable: set[str] = set()
        self._collect_at_ms = now.monotonic_ms + COLLECT_EVERY_MS
        self.book = SiteBook(calendars, self._new_id)
        self.book.restore(stakes)
        for stake in self.book.stakes.values():
            if stake.has("prepared"):
                self._inquire_later(stake, now, 0, after_ms=0)

    # Events in

    def receive(self, source: str, message: m.Message, now: Moment) -> None:
        """Take one message from the session or URL `source`, to which answers go."""
        match message:
            case m.Visit():
                self._visit(source, message, now)
            case m.Decide():
                self._decide(source, message)
            case m.Prepare():
                self._prepare(source, message, now)
            case m.Query():
                view = look(self.book, message, self.epoch, now.wall_s)
                self._send(source, view)
            case m.Renew():
                self._renew(source, message, now)
            case m.Release():
                self._release(message.rid, message.att, message.hold_ids)
            case m.Forget():
                if message.rid in self.book.stakes:
                    self._forgettable.add(message.rid)
            case m.Cancel():
                self._cancel(source, message)
            case m.Outcome():
                self._outcome(message)
            case m.PeerAsk():
                self._peer_ask(source, message)
            case m.PeerSays():
                self._peer_says(message)
            case m.Give():
                if message.hold_ids:
                    self._release(message.rid, message.att, message.hold_ids)
            case _:
                self._alarm(f"{type(message).__name__} from {source} is not for a site")

    def advance(self, now: Moment) -> None:
        """Let time pass: end holds, inquire about promises, drop what is no longer needed."""
        for stake in self.book.expire(now.monotonic_ms):
            self._move(stake, "expiry")
            self._clear(stake)
        while self._inquiries and self._inquiries[0][0] <= now.monotonic_ms:
            _, rid, att, count = heapq.heappop(self._inquiries)
            self._inquire(rid, att, count, now)
        if self._collect_at_ms <= now.monotonic_ms:
            self._collect_at_ms = now.monotonic_ms + COLLECT_EVERY_MS
            self._collect(now)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do next (monotonic)."""
        expiry_ms = self.book.next_expiry_ms()
        inquiry_ms = self._inquiries[0][0] if self._inquiries else self._collect_at_ms
        return min(self._collect_at_ms, inquiry_ms, expiry_ms or self._collect_at_ms)

    def take_effects(self) -> Effects:
        """All effects since the last call, in order."""
        taken, self._effects = self._effects, Effects()
        return taken

    def hello(self) -> m.Hello:
        """What a broker is told first on every session."""
        infos = tuple(calendar.info for calendar in self.book.calendars.values())
        return m.Hello(site=self.site, epoch=self.epoch, resources=infos)

    def check(self) -> None:
        """Raises `AssertionError` when an invariant of stakes or calendars does not hold."""
        self.book.check()

    # Visit: hold, or promise at once

    def _visit(self, source: str, visit: m.Visit, now: Moment) -> None:
        stake = self.book.stakes.get(visit.rid)
        if stake is not None:
            seen = max(stake.att, stake.refused)
            if visit.att <= stake.refused or visit.att < stake.att or stake.decided:
                self._send(source, m.Stale(rid=visit.rid, att=visit.att, seen=seen))
                return
            if stake.att == visit.att and stake.claims:
                self._repeat_visit(source, stake, visit, now)
                return
            if stake.att < visit.att:
                self._supersede(stake, visit.att)
        refusals = self._why_not(visit, now)
        if refusals and stake is not None:
            self._clear(stake)
        refusals = refusals or self._take(stake, visit, now)
        if refusals:
            self._answer_visit(
                source, visit, "no" if visit.mode == "vote" else "none", (), refusals
            )
            return
        self._accept(source, self.book.stakes[visit.rid], visit)

    def _repeat_visit(self, source: str, stake: Stake, visit: m.Visit, now: Moment) -> None:
        """The answer follows from the state: a vote that found only a hold promises it now."""
        if visit.mode == "vote" and stake.has("held"):
            named = {claim.hold_id for claim in stake.claims}
            refusals = self._why_not_promise(stake, named, now)
            if refusals:
                self._answer_visit(source, visit, "no", (), refusals)
                return
            self.book.restate(stake, "prepared", None)
            self._promise(stake, "visit-vote", now)
        self._accept(source, stake, visit)

    def _supersede(self, stake: Stake, att: int) -> None:
        """Attempt `att` exists, so the one before can never be committed: its promise is void."""
        self._forget_doubt(stake)
        stake.refused = max(stake.refused, stake.att)
        stake.att = att
        if stake.claims:
            self.book.vacate(stake)
            if stake.has("prepared"):
                self._move(stake, "visit-newer")
                self._store(stake, "visit-newer")

    def _why_not(self, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        """The refusals by rules and limits; occupancy is `_take`'s."""
        if self.draining:
            return (self._refuse(RefusalCode.DRAINED, "the owner takes no new claims now"),)
        user = visit.principal.user
        state: Literal["held", "prepared"] = "prepared" if visit.mode == "vote" else "held"
        count_max = (
            self._limits.promised_per_principal_max
            if state == "prepared"
            else self._limits.held_per_principal_max
        )
        if self.book.count(user, state) + len(visit.wants) > count_max:
            detail = f"more than {count_max} claims of one user would be {state} at once"
            return (self._refuse(RefusalCode.LIMIT, detail),)
        if any(want.end <= self.horizon_s for want in visit.wants):
            return (self._refuse(RefusalCode.PAST, "the records of that time are closed"),)
        if visit.replaces:
            refusal = self._refuse_change(visit)
            if refusal is not None:
                return (refusal,)
        actions = ("hold", "lock") if visit.mode == "vote" else ("hold",)
        return tuple(self.book.refusals(visit.principal, visit.wants, actions, now.wall_s))

    def _refuse_change(self, visit: m.Visit) -> Refusal | None:
        old = self.book.stakes.get(visit.replaces)
        if old is None or not old.has("locked") or old.principal.user != visit.principal.user:
            detail = "the reservation to change is not locked here for this user"
            return self._refuse(RefusalCode.BEING_CHANGED, detail)
        if self.book.changer_of(visit.replaces) not in ("", visit.rid):
            detail = "another change of this reservation is under way"
            return self._refuse(RefusalCode.BEING_CHANGED, detail)
        return None

    def _take(self, before: Stake | None, visit: m.Visit, now: Moment) -> tuple[Refusal, ...]:
        """Book every want of the visit, or none and say which has no room."""
        stake = self._stake_for(before, visit)
        self.book.stakes[visit.rid] = stake
        if visit.mode == "vote":
            full = self.book.occupy(stake, "prepared", None)
        else:
            hold_ms = min(visit.hold_ms, self._limits.hold_ms_max)
            full = self.book.occupy(stake, "held", now.monotonic_ms + hold_ms)
        if full:
            refusals = self.book.busy(stake, full)
            self._clear(stake)
            return refusals
        if visit.mode == "vote":
            self._promise(stake, "visit-vote", now)
        else:
            for claim in stake.claims:
                if claim.state == "absent":
                    claim.move("visit-hold")
        return ()

    def _stake_for(self, before: Stake | None, visit: m.Visit) -> Stake:
        """The stake of this attempt; a want that was held before keeps its hold id."""
        kept = {(c.resource, c.start, c.end, c.units): c for c in before.claims} if before else {}
        claims = []
        for want in visit.wants:
            claim = kept.pop((want.resource, want.start, want.end, want.units), None)
            if claim is None or claim.state != "held" or visit.mode == "vote":
                claim = Claim(self._new_id(), want.resource, want.start, want.end, want.units)
            claims.append(claim)
        ends_at = max(want.end for want in visit.wants)
        return Stake(
            rid=visit.rid,
            att=visit.att,
            principal=visit.principal,
            secret=visit.secret,
            need=visit.need,
            parts=visit.parts,
            coords=visit.coords,
            claims=claims,
            refused=before.refused if before else 0,
            replaces=visit.replaces,
            ends_at=max(ends_at, before.ends_at if before else 0),
        )

    def _accept(self, source: str, stake: Stake, visit: m.Visit) -> None:
        held = tuple(m.HeldSlot(i, claim.hold_id) for i, claim in enumerate(stake.claims))
        vote: Literal["yes", "none"] = "yes" if stake.has("prepared") else "none"
        self._answer_visit(source, visit, vote, held, ())

    def _answer_visit(
        self,
        source: str,
        visit: m.Visit,
        vote: Literal["yes", "no", "none"],
        held: tuple[m.HeldSlot, ...],
        refusals: tuple[Refusal, ...],
    ) -> None:
        visited = m.Visited(
            rid=visit.rid, att=visit.att, epoch=self.epoch, vote=vote, held=held, refusals=refusals
        )
        self._send(source, visited)

    # Prepare: promise what is held

    def _prepare(self, source: str, prepare: m.Prepare, now: Moment) -> None:
        vote, refusals = self._vote(prepare, now)
        voted = m.Voted(
            rid=prepare.rid, att=prepare.att, epoch=self.epoch, vote=vote, refusals=refusals
        )
        self._send(source, voted)

    def _vote(
        self, prepare: m.Prepare, now: Moment
    ) -> tuple[Literal["yes", "no", "stale"], tuple[Refusal, ...]]:
        stake = self.book.stakes.get(prepare.rid)
        if stake is None:
            return "no", (self._refuse(RefusalCode.BUSY, "the hold has ended"),)
        if prepare.att <= stake.refused or prepare.att < stake.att:
            return "stale", ()
        named = set(prepare.hold_ids)
        if prepare.att > stake.att or not named <= {claim.hold_id for claim in stake.claims}:
            return "no", (self._refuse(RefusalCode.BUSY, "the hold has ended"),)
        if not stake.has("held"):
            return ("yes", ()) if stake.has("prepared") or stake.has("locked") else ("stale", ())
        refusals = self._why_not_promise(stake, named, now)
        if refusals:
            return "no", refusals
        self.book.keep_only(stake, named)
        self.book.restate(stake, "prepared", None)
        stake.parts, stake.need = prepare.parts, prepare.need
        self._promise(stake, "prepare", now)
        return "yes", ()

    def _why_not_promise(self, stake: Stake, named: set[int], now: Moment) -> tuple[Refusal, ...]:
        """The owner may still say no here, and never after."""
        user = stake.principal.user
        if self.book.count(user, "prepared") + len(named) > self._limits.promised_per_principal_max:
            return (self._refuse(RefusalCode.LIMIT, "too many promises to one user at once"),)
        wants = [
            m.Want(claim.resource, claim.start, claim.end, claim.units)
            for claim in stake.claims
            if claim.hold_id in named
        ]
        return tuple(self.book.refusals(stake.principal, wants, ("lock",), now.wall_s))

    def _promise(self, stake: Stake, event: ClaimEvent, now: Moment) -> None:
        self._move(stake, event)
        self._store(stake, event)
        self._inquire_later(stake, now, 0)

    # Decide: the outcome

    def _decide(self, source: str, decide: m.Decide) -> None:
        stake = self.book.stakes.get(decide.rid)
        if decide.outcome == "commit":
            applied = self._commit(stake, decide.rid, decide.att, decide.chosen)
        else:
            applied = self._abort(stake, decide.att)
        if applied:
            self._send(source, m.Done(rid=decide.rid, att=decide.att, of=decide.outcome))

    def _commit(self, stake: Stake | None, rid: str, att: int, chosen: m.Chosen) -> bool:
        """Lock what was chosen here; False (and an alarm) when this site has no such promise."""
        mine = set(chosen.get(self.site, ()))
        if stake is None or (stake.att != att and not mine):
            if mine:
                self._alarm(f"{rid}: commit of attempt {att}, of which nothing is known here")
            return not mine
        if stake.decided:
            return True
        promised = {claim.hold_id for claim in stake.claims_in("prepared")}
        if stake.att != att or not mine <= promised:
            self._alarm(f"{rid}: commit of attempt {att}, but that is not promised here")
            return False
        stake.chosen = chosen
        self._forget_doubt(stake)
        if mine and mine == promised and not stake.replaces:
            self.book.restate(stake, "locked", None)
            self._move(stake, "commit-chosen")
            self._store(stake, "commit-chosen")
            return True
        self.book.vacate(stake)
        old = self.book.stakes.get(stake.replaces)
        if old is not None and old.has("locked"):
            self.book.leave(old)
            self._move(old, "replace")
            self._store(old, "replace")
        for claim in stake.claims:
            claim.move("commit-chosen" if claim.hold_id in mine else "commit-other")
        stake.claims = stake.claims_in("locked")
        if stake.claims:
            full = self.book.occupy(stake, "locked", None)
            assert not full, f"{rid}: what was promised must fit on {full}"
        self._store(stake, "commit-chosen" if mine else "commit-other")
        return True

    def _abort(self, stake: Stake | None, att: int) -> bool:
        if stake is None or att < stake.att:
            return True
        if stake.decided:
            self._alarm(f"{stake.rid}: abort of attempt {att}, which was committed here")
            return False
        if stake.claims or stake.refused < att:
            self._refuse_attempt(stake, att, "abort")
        return True

    def _refuse_attempt(self, stake: Stake, att: int, event: ClaimEvent) -> None:
        """Durably: nothing of attempt `att` or below will ever be promised here again."""
        self._forget_doubt(stake)
        self.book.vacate(stake)
        self._move(stake, event)
        stake.claims = []
        stake.refused = max(stake.refused, att)
        self._store(stake, event)

    def _cancel(self, source: str, cancel: m.Cancel) -> None:
        stake = self.book.stakes.get(cancel.rid)
        if stake is not None and stake.has("prepared"):
            self._alarm(f"{cancel.rid}: cancel of what is only promised here")
            return
        if stake is not None and stake.has("locked"):
            self.book.leave(stake)
            self._move(stake, "cancel")
            self._store(stake, "cancel")
        self._send(source, m.Done(rid=cancel.rid, att=cancel.att, of="cancel"))

    # Holds

    def _release(self, rid: str, att: int, hold_ids: tuple[int, ...]) -> None:
        """Give up these holds, or all when none is named; promises are only decided, not released."""
        stake = self.book.stakes.get(rid)
        if stake is None or att < stake.att or not stake.has("held"):
            return
        kept = {claim.hold_id for claim in stake.claims} - set(hold_ids)
        if hold_ids and kept:
            self.book.keep_only(stake, kept)
            return
        self.book.vacate(stake)
        self._move(stake, "release")
        self._clear(stake)

    def _renew(self, source: str, renew: m.Renew, now: Moment) -> None:
        stake = self.book.stakes.get(renew.rid)
        if stake is not None and renew.att < max(stake.att, stake.refused):
            seen = max(stake.att, stake.refused)
            self._send(source, m.Stale(rid=renew.rid, att=renew.att, seen=seen))
            return
        alive = {claim.hold_id for claim in stake.claims} if stake is not None else set()
        if stake is not None and stake.has("held"):
            hold_ms = min(renew.hold_ms, self._limits.hold_ms_max)
            self.book.restate(stake, "held", now.monotonic_ms + hold_ms)
        renewed = m.Renewed(
            rid=renew.rid,
            att=renew.att,
            epoch=self.epoch,
            kept=tuple(hold_id for hold_id in renew.hold_ids if hold_id in alive),
            lost=tuple(hold_id for hold_id in renew.hold_ids if hold_id not in alive),
        )
        self._send(source, renewed)

    # In doubt

    def _inquire_later(
        self, stake: Stake, now: Moment, count: int, *, after_ms: int | None = None
    ) -> None:
        if after_ms is None:
            after_ms = min(INQUIRE_AFTER_MS << count, INQUIRE_EVERY_MS_MAX)
        due_ms = now.monotonic_ms + int(after_ms * (1 + 0.2 * self._jitter()))
        heapq.heappush(self._inquiries, (due_ms, stake.rid, stake.att, count))

    def _inquire(self, rid: str, att: int, count: int, now: Moment) -> None:
        stake = self.book.stakes.get(rid)
        if stake is None or stake.att != att or not stake.has("prepared"):
            return
        if stake.coords:
            to = stake.coords[count % len(stake.coords)]
            inquire = m.Inquire(rid=rid, att=att, site=self.site, secret=stake.secret)
            self._send(to, inquire)
        if count >= PEERS_AFTER_INQUIRIES or not stake.coords:
            ask = m.PeerAsk(
                rid=rid, att=att, site=self.site, secret=stake.secret, until=stake.ends_at
            )
            for part in stake.parts:
                if part.site != self.site:
                    self._send(part.url, ask)
        self._inquire_later(stake, now, min(count + 1, 30))

    def _outcome(self, outcome: m.Outcome) -> None:
        stake = self.book.stakes.get(outcome.rid)
        if stake is None or outcome.outcome == "pending":
            return
        if outcome.outcome == "commit":
            self._commit(stake, outcome.rid, outcome.att, outcome.chosen)
        elif not stake.decided:
            self._abort(stake, outcome.att)

    def _peer_ask(self, source: str, ask: m.PeerAsk) -> None:
        """What this site knows of the attempt; where it has not promised it, it refuses it for ever."""
        stake = self.book.stakes.get(ask.rid)
        if stake is None:
            stake = self._stake_of_refusal(ask)
            self.book.stakes[ask.rid] = stake
        elif stake.secret != ask.secret:
            return
        says: Literal["locked", "prepared", "never"] = "never"
        if stake.decided and stake.att == ask.att:
            says = "locked"
        elif stake.has("prepared") and stake.att == ask.att:
            says = "prepared"
        elif stake.att <= ask.att and stake.refused < ask.att and not stake.decided:
            self._refuse_attempt(stake, ask.att, "abort")
        answer = m.PeerSays(
            rid=ask.rid,
            att=ask.att,
            site=self.site,
            says=says,
            chosen=(stake.chosen or {}) if says == "locked" else {},
        )
        self._send(source, answer)

    def _stake_of_refusal(self, ask: m.PeerAsk) -> Stake:
        return Stake(
            rid=ask.rid,
            att=ask.att,
            principal=m.Principal(""),
            secret=ask.secret,
            need=1,
            parts=(),
            coords=(),
            claims=[],
            ends_at=ask.until,
        )

    def _peer_says(self, says: m.PeerSays) -> None:
        """A locked peer proves the commit; more than p - need refusals prove that there is none."""
        stake = self.book.stakes.get(says.rid)
        if stake is None or stake.att != says.att or not stake.has("prepared"):
            return
        if says.site not in {part.site for part in stake.parts}:
            return
        if says.says == "locked":
            self._commit(stake, says.rid, says.att, says.chosen)
        elif says.says == "never":
            refusing = self._refusing_peers.setdefault(says.rid, set())
            refusing.add(says.site)
            if len(refusing) > len(stake.parts) - stake.need:
                self._refuse_attempt(stake, says.att, "abort")

    # Records

    def _collect(self, now: Moment) -> None:
        """Drop records whose slots ended long ago, after closing that time durably.

        A commit is kept until its broker says Forget; when that was lost, an inquiry brings it again.
        """
        limit_s = now.wall_s - KEEP_AFTER_END_S
        ended = []
        for stake in self.book.stakes.values():
            if stake.ends_at > limit_s or stake.has("held") or stake.has("prepared"):
                continue
            if stake.decided and stake.rid not in self._forgettable and stake.coords:
                to = stake.coords[0]
                inquire = m.Inquire(
                    rid=stake.rid, att=stake.att, site=self.site, secret=stake.secret
                )
                self._send(to, inquire)
            elif not self.book.changer_of(stake.rid):
                ended.append(stake)
        if not ended:
            return
        self.horizon_s = max(self.horizon_s, *(stake.ends_at for stake in ended))
        self._effects.facts.append(HorizonRaised(self.horizon_s))
        for stake in ended:
            if stake.claims:
                self.book.vacate(stake)
            del self.book.stakes[stake.rid]
            self._forgettable.discard(stake.rid)
            self._effects.facts.append(StakeDropped(stake.rid))

    def _clear(self, stake: Stake) -> None:
        """Nothing is claimed any more; remember the stake only when it refused an attempt."""
        stake.claims = []
        if not stake.refused:
            del self.book.stakes[stake.rid]

    def _forget_doubt(self, stake: Stake) -> None:
        self._refusing_peers.pop(stake.rid, None)

    def _move(self, stake: Stake, event: ClaimEvent) -> None:
        for claim in stake.claims:
            claim.move(event)

    def _store(self, stake: Stake, event: str) -> None:
        self._effects.facts.append(stored(stake, event))

    def _send(self, to: str, message: m.Message) -> None:
        self._effects.sends.append(Send(to, message))

    def _alarm(self, text: str) -> None:
        self._effects.alarms.append(text)

    def _refuse(self, code: str, detail: str) -> Refusal:
        return Refusal(where=self.site, code=code, detail=detail)

    def _new_id(self) -> int:
        self._sequence += 1
        return self.epoch << SEQUENCE_BITS | self._sequence
