"""The phase between visit and promise: slots held, waited for, and to be given back.

Hold what can be held; wait in line where others are before; give back what an older request needs, as
long as not all is held (Ramamoorthi et al. 1997, section 4). A site that says that it is locked ends
the attempt: the holds go, and another start is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec import structs

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, on
from kalends.broker.coordination.phases import ASKED_PHASES
from kalends.broker.coordination.record import decision_notices
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.refusal_errors import PERMANENT, hold_ran_out, site_down
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import (
    REQUEST_MS_MAX,
    TransactionTable,
    deadline_ms,
)
from kalends.broker.coordination.trust.answer_checks import (
    AnswerChecks,
    bad_answer,
    complaint_about_holds,
)
from kalends.broker.coordination.trust.cost_checks import (
    complaint_about_cost,
    complaint_about_limit,
    complaint_about_payer,
)
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.broker.coordination.voting.prepare_phase import PreparePhase, no_answers
from kalends.contract import messages as m
from kalends.contract.calls import Waiting
from kalends.contract.costs import Cost, Pays
from kalends.core.errors import KalendsError, LostRace, Refusal, RefusalCode
from kalends.core.identifiers import site_of
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of

ROUNDS_MAX: Final = 8
"""Plans that turn out to be taken before a request without patience gives up."""

PATIENT_ROUNDS_MAX: Final = 64
"""The same for one that waits: each round is a start that somebody else has got."""

OWNERS_NO: Final = frozenset({RefusalCode.DECLINED, RefusalCode.UNANSWERED})
"""Refusals that end a request: whoever wants other slots, asks again."""

AWAITED: Final = frozenset({RefusalCode.HELD, RefusalCode.BUSY})
"""Refusals that time may mend."""


@dataclass(eq=False)
class Negotiation:
    """Answers of sites to visits, and their messages about holds and places in line."""

    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    checks: AnswerChecks
    in_flight: RequestsInFlight
    prepare: PreparePhase

    @property
    def part(self) -> CoordinatorPart:
        resend, over = self.prepare.resend, self.over
        return CoordinatorPart(
            handles=(
                on(m.Visited, self.visited), on(m.Grant, self.granted), on(m.Locked, self.locked),
                on(m.Recall, self.recalled), on(m.Renewed, self.renewed), on(m.Stale, self.stale),
                on(m.Voted, self.voted),
            ),
            phases=(
                PhaseOwner(("voting",), resend, self.votes_late, over, forgot=self.forgotten),
                PhaseOwner(("holding",), resend, self.holds_late, over, holds=True),
                PhaseOwner(("held",), too_late=self.hold_over, holds=True),
                PhaseOwner(
                    ("preparing",), resend, self.promises_late, over, forgot=self.forgotten,
                    holds=True,
                ),
            ),
        )  # fmt: skip

    def visited(self, site: str, visited: m.Visited, now: Moment) -> None:
        case = self.table.live(visited.rid, visited.att, ("voting", "holding"))
        if case is None or (part := case.parts.get(site)) is None:
            return
        self.in_flight.answered(case.rid, site)
        case.tries.silent.discard(site)
        if visited.ahead >= 0 and case.phase == "holding":
            self._in_line(case, part, visited, now)
        elif visited.refusals or not visited.held:
            self.refused(case, visited.refusals, now)
        elif case.phase == "voting" and visited.approval:
            # What others have promised is to be held, as long as the owner thinks.
            case.record.owners = structs.replace(case.record.owners, approve=True)
            detail = f"the owner of {site} has to approve it: held first"
            self.prepare.give_up_attempt(case, detail, (), now)
        elif case.phase == "voting" and visited.vote != "yes":
            self._bad_holds(case, site, "holds the slots that it was asked to promise", now)
        elif visited.cost and (
            complaint := self.complaint_of(case, part, visited.cost, promised=visited.vote == "yes")
        ):
            self._bad_holds(case, site, complaint, now)
        else:
            part.voted = visited.vote == "yes"
            part.approval = visited.approval
            part.cost = visited.cost
            self._holds(case, part, visited.held, now)

    def granted(self, site: str, grant: m.Grant, now: Moment) -> None:
        case = self.table.live(grant.rid, grant.att, ("holding",))
        if case is None or (part := case.parts.get(site)) is None:
            return
        part.approval = grant.approval
        if part.ahead >= 0 and not complaint_about_holds(grant.held, part.wants):
            self.log.add(case, "granted", f"{site} holds it", now)
        self._holds(case, part, grant.held, now)

    def _bad_holds(self, case: Transaction, site: str, complaint: str, now: Moment) -> None:
        self.checks.complain(site, complaint, now)
        self.refused(case, (bad_answer(site),), now)

    def _holds(
        self, case: Transaction, part: Branch, held: tuple[m.HeldSlot, ...], now: Moment
    ) -> None:
        if complaint := complaint_about_holds(held, part.wants):
            self._bad_holds(case, part.site, complaint, now)
            return
        part.hold_ids = tuple(slot.hold_id for slot in held)
        part.ahead, part.awaits = -1, ()
        if case.phase == "voting" and all(part.voted for part in case.parts.values()):
            self.prepare.commit(case, now)
        elif case.phase == "holding" and all(part.hold_ids for part in case.parts.values()):
            self.prepare.all_held(case, now)
        elif case.phase == "holding":
            self._note_line(case, now)

    def _in_line(self, case: Transaction, part: Branch, visited: m.Visited, now: Moment) -> None:
        """Note the number of requests ahead in memory only: it can be asked for at any time."""
        first = not case.awaited
        part.hold_ids = ()
        part.ahead, part.awaits = visited.ahead, visited.refusals
        if first and visited.refusals:
            ahead = f", {visited.ahead} ahead" if visited.ahead else ""
            detail = f"queued at {part.site}{ahead}"
            self.log.add(case, "waiting", detail, now, visited.refusals)
        self._note_line(case, now)

    def _note_line(self, case: Transaction, now: Moment) -> None:
        """Write down what it waits for in lines, unless what is written still holds."""
        waiting, known = self._waiting(case, now), case.record.waiting
        told = known.awaited if known is not None and known.earliest else ()
        if waiting is not None and waiting.awaited and not (told and {*told} <= {*waiting.awaited}):
            self.prepare.note_waiting(case, waiting)

    def _waiting(self, case: Transaction, now: Moment) -> Waiting | None:
        """Return what the case waits for now, for its user."""
        known = case.record.waiting
        if case.phase == "waiting":
            ahead = max((part.ahead for part in case.parts.values()), default=0)
            return known and structs.replace(known, ahead=max(ahead, 0))
        if case.phase == "asking":
            return known
        if case.phase == "looking" and known is not None and not (known.earliest or known.approval):
            return known  # A look that finds nothing leads back to that wait.
        in_line = [part for part in case.parts.values() if part.ahead >= 0]
        if case.phase != "holding" or not in_line:
            return None
        return Waiting(
            since=known.since if known else now.wall_s,
            until=(now.wall_ms + case.deadline_ms - now.monotonic_ms) // 1000,
            ahead=max(part.ahead for part in in_line),
            awaited=tuple(dict.fromkeys(each.where for each in case.awaited)),
            earliest=min(want.start for want in case.record.wants),
        )

    def waiting_of(self, rid: str, now: Moment) -> Waiting | None:
        """What the open request `rid` waits for now; None when this replica does not work on it."""
        case = self.table.cases.get(rid)
        return self._waiting(case, now) if case is not None else None

    def locked(self, site: str, locked: m.Locked, now: Moment) -> None:
        """Handle slots that can no longer be had (or waited for)."""
        case = self.table.live(locked.rid, locked.att, ("holding", "waiting"))
        if case is None or site not in case.parts:
            return
        if case.phase == "waiting":
            self.prepare.close(case, error_of(locked.refusals), "failed", now)
        else:
            self.refused(case, locked.refusals, now)

    def stale(self, site: str, stale: m.Stale, now: Moment) -> None:
        """A site that takes part knows of a later attempt: look whether ours is the one that counts."""
        case = self.table.live(stale.rid, stale.att, ASKED_PHASES)
        if case is not None and site in case.parts:
            case.stale.add(site)
            self.table.write(case, r.Read(stale.rid))

    def recalled(self, site: str, recall: m.Recall, now: Moment) -> None:
        self.give_back(site, recall.rid, recall.att, recall.left_ms, now)

    def give_back(self, site: str, rid: str, att: int, left_ms: int, now: Moment) -> None:
        """An older request wants what is held there: give it back, or let the user decide."""
        case = self.table.live(rid, att, ("holding", "held", "asking"))
        if case is None or (part := case.parts.get(site)) is None or not part.hold_ids:
            return
        record = case.record
        if case.phase == "asking":
            self._hold_again(case, now)
        if case.phase == "holding":
            secret = self.credentials.secret(record, site)
            give = m.Give(rid=rid, att=att, secret=secret, hold_ids=part.hold_ids)
            self.outbox.send(site, give)
            part.hold_ids, part.ahead = (), max(part.ahead, 0)
            detail = (
                f"an older request gets the slot at {site}; this one keeps its place in the queue"
            )
            self.log.add(case, "given-back", detail, now)
        elif not record.recalled_until:
            record.recalled_until = (now.wall_ms + left_ms) // 1000
            detail = f"an older request wants the slots held at {site}: lock them, or lose them"
            self.log.add(case, "recalled", detail, now)
            self.prepare.note_waiting(case, None, decision_notices.on_recall(record, now))

    def renewed(self, site: str, renewed: m.Renewed, now: Moment) -> None:
        """A hold that is lost (a restart, a recall, or our silence) is asked for again.

        Of a place that was promised, the nodes are others' by now, where nothing was decided for too long.
        """
        phases = ("held", "holding", "asking", "preparing", "telling")
        case = self.table.live(renewed.rid, renewed.att, phases)
        if case is None or (part := case.parts.get(site)) is None:
            return
        if case.phase in ("preparing", "telling"):
            if case.record.spec.placement is not None and set(part.hold_ids) & set(renewed.lost):
                self._fell_back(case, part, now)
            return
        if not set(part.surplus) & set(renewed.kept):
            part.surplus = ()
        if set(part.hold_ids) & set(renewed.lost):
            self.lost(case, part, now)
        elif renewed.recall_ms:
            self.give_back(site, renewed.rid, renewed.att, renewed.recall_ms, now)

    def _fell_back(self, case: Transaction, part: Branch, now: Moment) -> None:
        """Let a decided job begin late; ask for places again for any other."""
        told = f"{part.site} gave the nodes to others, because nothing was decided in time"
        if case.phase == "preparing":
            self.prepare.give_up_attempt(case, told, (), now)
        else:
            self.outbox.alarm(f"job of request {case.rid}: {told}")

    def lost(self, case: Transaction, part: Branch, now: Moment) -> None:
        """It goes back in line where other sites, or owners, are waited for; a user's hold is begun anew."""
        if case.phase == "asking":
            self._hold_again(case, now)
        if case.phase == "holding" and case.record.spec.patience != "none":
            part.hold_ids = ()
            self.prepare.send_visit(case, part)
            return
        if case.phase == "held":
            case.deadline_ms = max(case.deadline_ms, now.monotonic_ms + REQUEST_MS_MAX)
        self.prepare.give_up_attempt(case, f"{part.site} has lost the hold", (), now)

    def _hold_again(self, case: Transaction, now: Moment) -> None:
        """Wait until all slots are held again before the owners are asked."""
        case.enter("hold")
        case.noted = False
        case.deadline_ms = deadline_ms(case.record, now)
        self.prepare.wait_for_votes(case, now)

    def voted(self, site: str, voted: m.Voted, now: Moment) -> None:
        case = self.table.live(voted.rid, voted.att, ("preparing",))
        if case is None or (part := case.parts.get(site)) is None:
            return
        if voted.vote != "yes":
            case.tries.unkept.add(site)
            self.refused(case, voted.refusals, now)
            return
        cost = voted.cost
        if cost and (complaint := self.complaint_of(case, part, cost, promised=True)):
            case.tries.unkept.add(site)
            self._bad_holds(case, site, complaint, now)
            return
        part.voted, part.cost = True, cost
        if all(part.voted for part in case.parts.values()):
            self.prepare.commit(case, now)

    def complaint_of(self, case: Transaction, part: Branch, cost: Cost, *, promised: bool) -> str:
        """Return what is wrong with the `cost` of the slots that `part` holds, or has promised."""
        record = case.record
        pays = record.pays(part.site) or Pays()
        found = complaint_about_cost(cost, part.wants, changes=bool(record.replaces))
        found = found or complaint_about_payer(cost, record.user, pays.project)
        # What is paid back is fixed with the promise: before it, nobody knows what is to be paid.
        return found or (complaint_about_limit(cost, pays.at_most) if promised else "")

    def refused(self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment) -> None:
        """A site said no (or too late): this attempt is over; try another plan, wait, or give up."""
        tries = case.tries
        tries.refusals = list(refusals)
        silent = {site_of(each.where) for each in refusals if each.code == RefusalCode.SITE_DOWN}
        tries.silent |= silent
        if any(each.code in OWNERS_NO for each in refusals):
            self.prepare.close(case, error_of(refusals), "failed", now)
            return
        tries.rounds += not silent  # How many races were lost: no other was faster here.
        patient = case.record.spec.patience != "none"
        if self._may_be_held_again(case, refusals):
            detail = "the slots that owners are to approve are held again"
            self.prepare.give_up_attempt(case, detail, refusals, now)
            return
        if case.record.owners.approve:
            case.record.owners = structs.replace(case.record.owners, approve=False)
        if case.fixed or case.record.held_until_ms:
            if self._may_wait(case, refusals):
                if any(each.code != RefusalCode.HELD for each in refusals):
                    tries.look_first = not case.record.held_until_ms
                why = "a site did not answer" if silent else "lost the race"
                detail = f"{why}; trying the same slots again"
                self.prepare.give_up_attempt(case, detail, refusals, now)
            else:
                self.prepare.close(case, error_of(refusals), "failed", now)
        elif tries.rounds >= (PATIENT_ROUNDS_MAX if patient else ROUNDS_MAX):
            self.prepare.close(case, _given_up(case, refusals), "failed", now)
        else:
            permanent = {each.where: each for each in refusals if each.code in PERMANENT}
            tries.shunned |= permanent
            if refusals and not (permanent or silent) and tries.planned is not None:
                tries.excluded.add(tries.planned)
            why = "a site did not answer" if silent else "lost the race, or an owner refused"
            self.prepare.give_up_attempt(case, why, refusals, now)

    def _may_be_held_again(self, case: Transaction, refusals: tuple[Refusal, ...]) -> bool:
        """Whether owners go on thinking about just these slots, which may be had again in a moment."""
        codes = {refusal.code for refusal in refusals}
        soon = case.tries.rounds < PATIENT_ROUNDS_MAX and case.record.spec.patience != "none"
        passing = codes <= {RefusalCode.HELD, RefusalCode.SITE_DOWN}
        return case.record.owners.approve and soon and passing

    def _may_wait(self, case: Transaction, refusals: tuple[Refusal, ...]) -> bool:
        """Whether just these slots are worth another attempt."""
        codes = {refusal.code for refusal in refusals}
        patience = case.record.spec.patience
        if patience == "none" or not codes or case.tries.rounds >= PATIENT_ROUNDS_MAX:
            return False
        if codes <= {RefusalCode.HELD, RefusalCode.CREDIT_PROMISED, RefusalCode.SITE_DOWN}:
            return True
        return (
            codes <= {*AWAITED, RefusalCode.SITE_DOWN}
            and patience == "taken"
            and not case.record.held_until_ms
        )

    def votes_late(self, case: Transaction, now: Moment) -> None:
        self.refused(case, no_answers(_silent(case)), now)

    def holds_late(self, case: Transaction, now: Moment) -> None:
        """Go on waiting if every site has answered, and only those before are waited for.

        A site that is down for a while ends nothing that owners think about.
        """
        in_line = all(part.hold_ids or part.ahead >= 0 for part in case.parts.values())
        if in_line or case.record.owners.approve:
            self._wait_longer(case, now)
        else:
            self.refused(case, no_answers(_silent(case)), now)

    def promises_late(self, case: Transaction, now: Moment) -> None:
        """Wait longer for slots that their user locks: another attempt could lose them to other users."""
        if case.record.held_until_ms:
            self._wait_longer(case, now)
            return
        silent = _silent(case)
        case.tries.unkept |= {*silent}
        self.refused(case, no_answers(silent), now)

    def hold_over(self, case: Transaction, now: Moment) -> None:
        self.prepare.close(case, hold_ran_out(), "expired", now)

    def _wait_longer(self, case: Transaction, now: Moment) -> None:
        case.phase_deadline_ms = now.monotonic_ms + self.prepare.vote_ms_max(case)

    def over(self, case: Transaction, now: Moment) -> None:
        silent = _silent(case)
        if case.phase == "holding" and not silent:
            self.prepare.still_taken(case, now)
        else:
            self.prepare.ran_out(case, silent, now)

    def forgotten(self, case: Transaction, part: Branch, now: Moment) -> None:
        """No attempt goes on that counts on a promise which is gone."""
        if part.voted:
            self.refused(case, (site_down(part.site, "it has forgotten its promise"),), now)


def _silent(case: Transaction) -> tuple[str, ...]:
    """Return the sites that have not answered."""
    held = case.phase == "holding"
    return tuple(
        part.site
        for part in case.parts.values()
        if not (part.voted or (held and (part.hold_ids or part.ahead >= 0)))
    )


def _given_up(case: Transaction, refusals: tuple[Refusal, ...]) -> KalendsError:
    """Return why no further start is tried: others took each, or the owners' rules allow none."""
    rules = [refusal for refusal in refusals if refusal.code not in AWAITED]
    if rules:
        return error_of(refusals)
    return LostRace(
        f"lost the race {case.tries.rounds} times",
        remedy="try again, or ask for a wider window",
        refusals=refusals,
    )
