"""Bookings that need the approval of their owner: asked for, waited for, given or refused.

A slot that waits for its owner's word is held, and shown so. Other than any other hold it is durable, and so
is each word before anybody hears it. It is no promise: an older request takes it as it takes any hold, and it
ends with its broker's lease. Nothing is promised without the word (`why_not`), whatever a broker says.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract import owner_calls
from kalends.contract.fields import Want
from kalends.contract.owner_calls import approval_refusal
from kalends.core.errors import Conflict, NotFound, Refusal, RefusalCode, Unavailable
from kalends.core.identifiers import is_part, only_one
from kalends.core.intervals import Moment
from kalends.core.limits import OWNER_WORD_MAX
from kalends.core.principals import Principal
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake, claims_of
from kalends.resource_servers.participation.claims.occupancy import (
    are_alternatives,
    wants_beyond,
)
from kalends.resource_servers.participation.claims.petitions import (
    Petition,
    PetitionState,
)
from kalends.resource_servers.participation.kernel import Ground
from kalends.resource_servers.participation.parts import Plug, Tier, on

LOOK_AGAIN_MS: Final = 3_600_000
"""A clock that is set changes when a petition is over: the next look is at most so far away."""


class OwnerApproval:
    """All petitions of a site; each is kept in the stake of its request."""

    def __init__(self, ground: Ground) -> None:
        """Go on with the petitions that were stored."""
        base = ground.base
        self._limits, self._settle = ground.limits, base.settle
        self.book, self.claims, self.outbox = base.book, ground.claims, base.outbox
        self._recovery, self._rulings = ground.recovery, ground.rulings
        self._askers: dict[str, str] = {}
        """Where the broker of each pending petition has last asked from."""
        self._due_ms: dict[str, int] = {}
        """For each pending petition, when it is looked at next (monotonic)."""
        for stake in self.book.stakes.awake():
            if stake.petition is not None and stake.petition.state == "pending":
                self._schedule(stake.rid, stake.petition, base.now)

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return (Plug(Tier.ENDS, handles=[on(m.OwnerAsk, self.ask)], timed=self),)

    # What needs the owner's word

    def needed(
        self, rid: str, principal: Principal, wants: Sequence[Want], replaces: str = ""
    ) -> tuple[Want, ...]:
        """Return those of `wants` that need the word: all but what goes on within the old reservation."""
        asked = self._rulings.asks_owner if self._rulings.decides else None
        guarded = [
            want
            for want in wants
            if (calendar := self.book.calendars.get(want.resource)) is not None
            and (calendar.needs_approval(principal) or (asked and asked(rid, principal, want)))
        ]
        return wants_beyond(guarded, self._standing(replaces, principal.user)) if guarded else ()

    def _standing(self, replaces: str, user: str) -> list[Claim]:
        """Return what is locked of the reservation of `user` that a change `replaces`."""
        old = self.book.stakes.get(replaces) if replaces else None
        mine = old is not None and old.principal.user == user
        return old.claims_in("locked") if old is not None and mine else []

    def unapproved(
        self, rid: str, principal: Principal, wants: Sequence[Want], replaces: str,
        petition: Petition | None,
    ) -> tuple[Want, ...]:  # fmt: skip
        """Return those of `wants` that need the word, and do not have it by `petition`."""
        found = self.needed(rid, principal, wants, replaces)
        if petition is None or petition.state != "approved" or petition.user != principal.user:
            return found
        return wants_beyond(found, claims_of(petition.wants))

    def lacking(self, stake: Stake, named: Container[int] | None = None) -> tuple[Want, ...]:
        """Return what `stake` claims, or what the `named` holds are, and cannot be promised yet."""
        wants = [each.want for each in stake.claims if named is None or each.hold_id in named]
        return self.unapproved(stake.rid, stake.principal, wants, stake.replaces, stake.petition)

    def only_held(self, visit: m.Visit) -> m.Visit:
        """Return `visit` as one that holds, where what it wants may not be promised at once."""
        if visit.mode != "vote":
            return visit
        _, petition = _with_petition(self.book.stakes.get(visit.rid))
        if not self.unapproved(visit.rid, visit.principal, visit.wants, visit.replaces, petition):
            return visit
        return replace(visit, mode="hold")

    def why_not_again(self, relock: m.Relock) -> str:
        """Return why what a register says was committed is not locked again, or "".

        A site that knows that it has forgotten may have forgotten the word, too: it believes the register.
        It is locked beside what it replaces, so that nothing of it is within that.
        """
        _, petition = _with_petition(self.book.stakes.get(relock.rid))
        lacking = self.unapproved(relock.rid, relock.principal, relock.wants, "", petition)
        return f"its owner has not approved {lacking[0].resource}" if lacking else ""

    def why_not(self, stake: Stake, named: Container[int]) -> tuple[Refusal, ...]:
        """Return why the `named` holds are not promised: their owner has not approved them."""
        return tuple(
            Refusal(
                where=want.resource, code=RefusalCode.HELD, detail="its owner has not approved it"
            )
            for want in self.lacking(stake, named)
        )

    def why_over(self, rid: str) -> tuple[Refusal, ...]:
        """Return why the owner can no longer decide on this request: decided, or its time has passed."""
        _, petition = _with_petition(self.book.stakes.get(rid))
        if petition is None or petition.stands:
            return ()
        return (
            approval_refusal(
                petition.wants[0].resource, petition.state == "declined", petition.word
            ),
        )

    # The broker asks

    def ask(self, source: str, ask: m.OwnerAsk, now: Moment) -> None:
        """Put what is held before the owner, once; tell how that stands."""
        stake, petition = _with_petition(self.book.stakes.get(ask.rid))
        if stake is None or (petition is not None and not petition.stands):
            self._say(source, ask.rid, ask.att, petition)
            return
        if ask.att <= stake.refused or ask.att < stake.att:
            seen = max(stake.att, stake.refused)
            self.outbox.send(source, m.Stale(rid=ask.rid, att=ask.att, seen=seen))
            return
        named = set(ask.hold_ids)
        held = [each for each in stake.claims_in("held") if each.hold_id in named]
        if ask.att > stake.att or len(held) < len(named) or are_alternatives(held):
            self._say(source, ask.rid, ask.att, None)
            return
        refusal = self._never(stake, held, now)
        if refusal is None and stake.bill is not None:
            unpaid = self.claims.payments.why_not_promise(stake, named, now)
            refusal = replace(unpaid[0], where=held[0].resource) if unpaid else None
            if refusal is not None:
                self.claims.refuse(stake, stake.att, "abort")
        if refusal is not None:
            says = m.OwnerSays(
                rid=ask.rid, att=ask.att, state="declined", resources=(refusal.where,),
                word=refusal.detail,
            )  # fmt: skip
            self.outbox.send(source, says)
            return
        if len(held) < len(stake.claims):
            self.claims.keep_only(stake, named)
        self._petition(source, stake, ask, now)

    def _never(self, stake: Stake, held: Sequence[Claim], now: Moment) -> Refusal | None:
        """Return why the owner's rules let this user hold, and never lock; then the owner is not asked."""
        wants = [each.want for each in held]
        found = self.book.refusals(
            stake.principal, wants, ("lock",), now.wall_s, replaces=stake.replaces
        )
        return next((each for each in found if each.code == RefusalCode.NOT_ALLOWED), None)

    def _petition(self, source: str, stake: Stake, ask: m.OwnerAsk, now: Moment) -> None:
        before = petition = stake.petition
        wants = self.needed(
            stake.rid, stake.principal, [each.want for each in stake.claims], stake.replaces
        )
        user = stake.principal.user
        seen = petition is not None and petition.user == user
        if petition is None or not seen or wants_beyond(wants, claims_of(petition.wants)):
            until_s = min((self._last_s(want, stake, now.wall_s) for want in wants), default=0)
            number = petition.revision + 1 if petition is not None else 1
            petition = Petition(
                user=user, wants=wants, asked_s=now.wall_s, until_s=until_s, revision=number,
                reservation=ask.reservation, note=ask.note, state="pending" if wants else "approved",
            )  # fmt: skip
        hold_ids = tuple(claim.hold_id for claim in stake.claims)
        unpaid = stake.bill is not None and stake.bill.charge and not stake.bill.shares
        if petition is not before or petition.hold_ids != hold_ids or unpaid:
            petition = replace(petition, hold_ids=hold_ids)
            self.claims.put_before_owner(stake, petition, now)
        if petition.state == "pending":
            self._askers[stake.rid] = source
            self._schedule(stake.rid, petition, now)
        self._say(source, stake.rid, stake.att, petition)

    def within_s(self) -> int:
        """Return how long the owner may think."""
        return self._limits().approval_s

    def _last_s(self, want: Want, stake: Stake, now_s: int) -> int:
        """Return until when the owner may think: until the slot begins, or what it goes on with ends."""
        running = (
            each.end
            for each in self._standing(stake.replaces, stake.principal.user)
            if each.resource == want.resource and each.start == want.start <= now_s
        )
        return min(now_s + self.within_s(), max(running, default=want.start))

    def _say(self, to: str, rid: str, att: int, petition: Petition | None) -> None:
        """Tell how `petition` stands; None: what it was about is not held."""
        if petition is None:
            self.outbox.send(to, m.OwnerSays(rid=rid, att=att, state="lost"))
            return
        resources = tuple(dict.fromkeys(want.resource for want in petition.wants))
        self.outbox.send(
            to,
            m.OwnerSays(
                rid=rid, att=att, state=petition.state, resources=resources,
                until=petition.until_s, word=petition.word,
            ),
        )  # fmt: skip

    # The owner decides

    def pending(self) -> Iterator[tuple[Stake, Petition]]:
        """Yield what waits for a word, and is held: the queue of the owner."""
        for rid in self._due_ms:
            stake, petition = _with_petition(self.book.stakes.peek(rid))
            if stake is not None and petition is not None and _is_held(stake, petition):
                yield stake, petition

    def decide(
        self, body: owner_calls.DecideApproval, by: str, now: Moment
    ) -> tuple[Stake, Petition]:
        """Give the owner's word; the same word again changes nothing.

        Where two people have to approve, the first word is kept, and the request waits for that of another.
        Either of them can decline.

        Raises `NotFound` where nothing of the request was put before the owner, `InvalidInput` for a part of
        several ids, and `Conflict` where it is decided otherwise, is over, or is about other slots than those
        of its revision. Raises `Unavailable` while the site may have forgotten an earlier word: its store may
        be an older copy.
        """
        rid = self._named(body.id)
        stake, petition = _with_petition(self.book.stakes.get(rid))
        self._check_is_certain(stake, rid)
        if stake is None or petition is None or not petition.wants:
            raise NotFound(
                f"no request {rid} waits for the owner's approval, or was decided here", where="id",
                remedy="kalends admin requests lists the waiting requests", request_id=rid,
            )  # fmt: skip
        wanted: PetitionState = "approved" if body.approve else "declined"
        if petition.state == wanted:
            return stake, petition
        if petition.state == "pending" and petition.until_s <= now.wall_s:
            raise _decided_already(replace(petition, state="lapsed"), rid)
        if petition.state != "pending":
            raise _decided_already(petition, rid)
        if petition.revision != body.revision:
            raise Conflict(
                "the request is for other slots now", where="revision",
                remedy=f"look at it in kalends admin requests, then name it ID/{petition.revision}",
                request_id=rid,
            )  # fmt: skip
        if not _is_held(stake, petition):
            raise Conflict(
                "the request holds no slot here: it was given up, or an older request has the slot",
                where="id", remedy="kalends admin requests lists the waiting requests", request_id=rid,
            )  # fmt: skip
        words = "; ".join(filter(None, (petition.word, body.word)))
        if body.approve and petition.first in ("", by) and self._needs_two(stake, petition):
            if not petition.first:
                petition = replace(petition, first=by, word=body.word)
                self.claims.keep_word(stake, petition)
                self._settle(now)
            return stake, petition
        petition = replace(
            petition, state=wanted, by=by, decided_s=now.wall_s,
            word=words[:OWNER_WORD_MAX] if body.approve else body.word,
        )  # fmt: skip
        self._end(stake, petition)
        self._settle(now)
        return stake, petition

    def _needs_two(self, stake: Stake, petition: Petition) -> bool:
        calendars = [self.book.calendars.get(want.resource) for want in petition.wants]
        limits = [each.rules.limits for each in calendars if each is not None]
        return any(each.needs_two_approvals(stake.principal) for each in limits)

    def _named(self, part: str) -> str:
        """Return the id that `part` is of, among those that wait or are decided; `part` itself for none.

        A word that is repeated is never taken for another request: both would be meant. A quarter of a
        second for a million.
        """
        stakes = self.book.stakes
        if part in stakes:
            return part
        found = [rid for rid in stakes if is_part(part, rid) and _was_asked(stakes.peek(rid))]
        return only_one(part, found, "kalends admin requests") if found else part

    def _check_is_certain(self, stake: Stake | None, rid: str) -> None:
        """Whether a decision may be forgotten: its broker alone knows if it was made before."""
        closed = self._recovery.refusal()
        if closed is None and (stake is None or self._recovery.is_certain_of(stake.register)):
            return
        why = (
            closed.detail if closed is not None else "its broker has not connected since the start"
        )
        raise Unavailable(
            f"this site cannot tell yet whether it was decided already: {why}", where="id",
            remedy="try again in a minute; if brokers never return: kalends admin reconcile --help",
            request_id=rid,
        )  # fmt: skip

    def _end(self, stake: Stake, petition: Petition) -> None:
        """Store the word, or that there was none in time; then the broker hears it."""
        self._due_ms.pop(stake.rid, None)
        self.claims.keep_word(stake, petition)
        asker = self._askers.pop(stake.rid, None)
        if asker is not None:
            self._say(asker, stake.rid, stake.att, petition)

    # The passing of time

    def advance(self, now: Moment) -> None:
        """End what has waited for its owner for too long."""
        for rid in [rid for rid, due_ms in self._due_ms.items() if due_ms <= now.monotonic_ms]:
            stake, petition = _with_petition(self.book.stakes.get(rid))
            if stake is None or petition is None or _is_given_up(stake, petition):
                self._due_ms.pop(rid, None)
                self._askers.pop(rid, None)
            elif now.wall_s < petition.until_s:
                self._schedule(rid, petition, now)
            else:
                self._end(stake, replace(petition, state="lapsed", decided_s=now.wall_s))

    def next_deadline_ms(self) -> int | None:
        return min(self._due_ms.values(), default=None)

    def _schedule(self, rid: str, petition: Petition, now: Moment) -> None:
        left_ms = max(petition.until_s * 1000 - now.wall_ms, 0)
        self._due_ms[rid] = now.monotonic_ms + min(left_ms, LOOK_AGAIN_MS)


def _with_petition(stake: Stake | None) -> tuple[Stake | None, Petition | None]:
    return stake, stake.petition if stake is not None else None


def _was_asked(stake: Stake | None) -> bool:
    """Whether anything of it was put before the owner."""
    return stake is not None and stake.petition is not None and bool(stake.petition.wants)


def _is_held(stake: Stake, petition: Petition) -> bool:
    """Whether what was put before the owner is held, and not other slots of the same request."""
    held = {each.hold_id for each in stake.claims_in("held")}
    return bool(held) and held <= set(petition.hold_ids)


def _is_given_up(stake: Stake, petition: Petition) -> bool:
    """Whether nobody waits for the owner any more: it claims other slots since, or the attempt is over."""
    if petition.state != "pending":
        return True
    if stake.claims:
        return not _is_held(stake, petition)
    return stake.refused >= stake.att


def _decided_already(petition: Petition, rid: str) -> Conflict:
    if petition.state == "lapsed":
        return Conflict(
            "its time has passed: it was given up without a decision", where="id",
            remedy="its user may ask again", request_id=rid,
        )  # fmt: skip
    remedy = "its user may ask again"
    if petition.state == "approved":
        remedy = "to have the slot back, reclaim it: kalends admin reclaim --help"
    by = f", by {petition.by}" if petition.by else ""
    return Conflict(
        f"it was {petition.state} already{by}", where="id", remedy=remedy, request_id=rid
    )
