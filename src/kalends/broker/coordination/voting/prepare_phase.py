"""The steps of an attempt: ask for promises or holds, prepare, and ask for the decision.

The first attempt at known slots asks for promises at once (one round trip); later ones hold first and
then prepare, which is phase one of two-phase commit. An attempt ends by Commit, by Raise, which voids
it for ever and begins the next, or by Close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.phases import EndKind
from kalends.broker.coordination.record import decision_notices
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.refusal_errors import site_away, site_down, site_unknown
from kalends.broker.coordination.record.views import problem_of
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Branch, Transaction, by_site
from kalends.broker.coordination.transaction_table import REQUEST_MS_MAX, TransactionTable
from kalends.broker.coordination.trust.credentials import Credentials, Identity
from kalends.broker.coordination.voting.decide_phase import RESEND_AFTER_MS
from kalends.broker.planning.directory import Directory
from kalends.contract import messages as m
from kalends.contract.calls import PlacedJob, Waiting
from kalends.contract.messages import Want
from kalends.contract.slots_text import slots_text
from kalends.core.errors import Expired, KalendsError, NoCommonTime, Refusal
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.refusals import TRY_LATER, error_of
from kalends.core.steps import Step
from kalends.notices.request_notice import RequestNotice

VOTE_MS_MAX: Final = 10_000
"""For so long votes are waited for, and longer where a site says that its own may take longer."""
PLACE_VOTE_MS_MAX: Final = 4_000
"""The same of a place in a queue, which is held and can be promised at once."""
ON_THE_WAY_MS: Final = 2_000
"""A vote that took as long as it may has still to come back."""
HOLD_MS: Final = 30_000
"""The life of a site's hold without a Renew: longer than a vote and two round trips."""
ASKED_HOLD_MS: Final = 120_000
"""The same while an owner thinks: a broker that starts anew, or another replica, finds it as it was."""
RENEW_EVERY_MS: Final = 10_000


@dataclass(eq=False)
class PreparePhase:
    """From the first visit of an attempt to the register operation that ends it."""

    identity: Identity
    directory: Directory
    table: TransactionTable
    outbox: CoordinatorOutbox
    log: EventLog
    credentials: Credentials
    deadlines: Deadlines
    in_flight: RequestsInFlight
    joint: Callable[[Transaction, r.Commit, Moment], bool] = field(
        init=False, default=lambda case, op, now: False
    )
    """Whether the request is committed together with others, once they are ready."""

    def unreachable(self, wants: tuple[Want, ...]) -> KalendsError | None:
        """Return the error for sites of `wants` that cannot be asked, if there are such."""
        sites = self.directory.sites
        down = [
            site_away(sites[site]) if site in sites else site_unknown(site)
            for site in by_site(wants)
            if not self.directory.is_up(site)
        ]
        return error_of(down) if down else None

    def visit(
        self, case: Transaction, wants: tuple[Want, ...], now: Moment, *, hopeful: bool = False
    ) -> None:
        """Ask every site for its slots: promised at once at attempt 1, held in later ones.

        `hopeful`: promises at once would be refused, for others hold some of them still, or an owner has to
        approve them.
        """
        record = case.record
        hold = record.spec.hold or record.att > 1 or hopeful or record.owners.approve
        case.enter("hold" if hold else "vote")
        self.in_flight.ask(record, wants)
        case.parts = {site: Branch(site, of_site) for site, of_site in by_site(wants).items()}
        self.wait_for_votes(case, now)
        for part in case.parts.values():
            self.send_visit(case, part)

    def send_visit(self, case: Transaction, part: Branch) -> None:
        record = case.record
        visit = m.Visit(
            rid=record.rid,
            att=record.att,
            stamp=record.stamp,
            mode="vote" if case.phase == "voting" else "hold",
            principal=record.principal,
            wants=part.wants,
            parts=self.participants(case, part.site),
            need=len(case.parts),
            coords=self.identity.coords,
            secret=self.credentials.secret(record, part.site),
            hold_ms=HOLD_MS,
            replaces=record.replaces,
            queue=case.phase == "holding" and record.spec.patience != "none",
            considered=record.spec.hold,
            jobs=_jobs_on(record.spec.step, part.wants),
            pays=record.pays(part.site),
            heir_of=record.spec.heir_of,
        )
        self.outbox.send(part.site, visit)

    def resend(self, case: Transaction, part: Branch) -> None:
        """Ask a site again that has not answered."""
        if case.phase == "preparing":
            if not part.voted:
                self._send_prepare(case, part)
        elif not (part.voted if case.phase == "voting" else part.hold_ids):
            self.send_visit(case, part)

    def participants(self, case: Transaction, asker: str) -> tuple[m.Part, ...]:
        """The sites that take part; `asker` is told what proves itself to each of the others."""
        urls = self.directory.peer_urls
        return tuple(
            m.Part(
                site,
                urls[site],
                self.credentials.peer_proof(site, case.rid, asker) if site != asker else "",
            )
            for site in case.parts
        )

    def all_held(self, case: Transaction, now: Moment) -> None:
        record = case.record
        if record.spec.hold and not (case.lock_wanted or record.owners.approve):
            case.enter("keep")
            case.noted = False
            record.waiting = None
            last_ms = now.wall_ms + record.spec.hold_s * 1_000
            if not record.held_until_ms:
                self.log.add(case, "held", "", now)
            # A clock that was set back prolongs nothing.
            record.held_until_ms = min(record.held_until_ms or last_ms, last_ms)
            left_ms = max(record.held_until_ms - now.wall_ms, 0)
            case.phase_deadline_ms = now.monotonic_ms + left_ms
            case.renew_at_ms = now.monotonic_ms + RENEW_EVERY_MS
            self.deadlines.schedule(case)
            told = decision_notices.on_hold(record, now)
            record.listed = False
            asked = [part for part in case.parts.values() if part.approval]
            needed = tuple(want.resource for part in asked for want in part.wants)
            if needed != record.owners.needed:
                record.owners = replace(record.owners, needed=needed)
            body = r.encode_record(record)
            self.table.write(case, r.Note(case.rid, record.att, body, notices=told))
        else:
            self.go_on(case, now)

    def go_on(self, case: Transaction, now: Moment) -> None:
        """Lock what is held; first those owners are asked who have to approve it."""
        if any(part.approval for part in case.parts.values()):
            self._ask_owners(case, now)
        else:
            self.prepare(case, now)

    def _ask_owners(self, case: Transaction, now: Moment) -> None:
        case.enter("ask")
        record = case.record
        record.owners = replace(
            record.owners, approve=True, asked_at=record.owners.asked_at or now.wall_s
        )
        record.recalled_until = record.held_until_ms = 0
        case.noted = False
        self.wait_for_votes(case, now)
        case.renew_at_ms = now.monotonic_ms  # For as long as owners think.
        if record.waiting is not None and record.waiting.approval:
            left_ms = record.waiting.until * 1000 - now.wall_ms
            case.phase_deadline_ms = now.monotonic_ms + max(left_ms, 0)
        self.deadlines.schedule(case)
        for part in case.parts.values():
            part.owner = None
            self.ask_owner(case, part)

    def ask_owner(self, case: Transaction, part: Branch) -> None:
        """Have the owner of `part` asked, or hear how that stands; nobody where no owner has to approve."""
        if not part.approval:
            return
        ask = m.OwnerAsk(
            rid=case.rid, att=case.record.att, secret=self.credentials.secret(case.record, part.site),
            hold_ids=part.hold_ids, reservation=case.record.reservation,
            note=case.record.spec.request.note,
        )  # fmt: skip
        self.outbox.send(part.site, ask)

    def prepare(self, case: Transaction, now: Moment) -> None:
        """Phase one of two-phase commit, for slots that are held."""
        case.enter("lock")
        case.deadline_ms = max(case.deadline_ms, now.monotonic_ms + REQUEST_MS_MAX)
        case.record.recalled_until = 0
        self.wait_for_votes(case, now)
        for part in case.parts.values():
            self._send_prepare(case, part)

    def _send_prepare(self, case: Transaction, part: Branch) -> None:
        prepare = m.Prepare(
            rid=case.rid,
            att=case.record.att,
            secret=self.credentials.secret(case.record, part.site),
            hold_ids=part.hold_ids,
            parts=self.participants(case, part.site),
            need=len(case.parts),
            pays=case.record.pays(part.site),
        )
        self.outbox.send(part.site, prepare)

    def commit(self, case: Transaction, now: Moment) -> None:
        """Every chosen site has promised this attempt: ask the register to decide."""
        case.enter("decide")
        record = case.record
        record.waiting = None
        record.chosen = {part.site: part.hold_ids for part in case.parts.values()}
        record.costs = {part.site: part.cost for part in case.parts.values() if part.cost}
        if record.spec.step is not None:
            jobs = _jobs_on(record.spec.step, record.wants)
            record.job = replace(record.job, machines=_in_order(record, tuple(jobs)))
        record.wants = tuple(want for part in case.parts.values() for want in part.wants)
        record.held_until_ms = 0
        if record.replaces:
            to = _places(record.job.placed) if record.job.placed else slots_text(record.wants)
            self._log_change(case, to, now)
        else:
            self.log.add(case, "reserved", "", now)
        place, places = record.spec.placement, tuple(case.parts) if record.asks_first else ()
        op = r.Commit(
            case.rid, record.att, record.replaces, r.encode_record(record), places,
            elsewhere=place is not None and bool(place.elsewhere),
            running=place is not None and place.running in ("there", "lost"),
            again=record.may_start_twice, begins=record.begins, heir=_heir(record, now),
            notices=decision_notices.on_commit(record, now),
        )  # fmt: skip
        if not self.joint(case, op, now):
            self.table.write(case, op)

    def _log_change(self, case: Transaction, to: str, now: Moment) -> None:
        spec = case.record.spec
        if spec.heir_of:
            self.log.add(case, "handed-over", f"by {spec.heir_of} to {case.record.user}", now)
            return
        by = spec.by_others
        asked = f", by {by.by}" if by is not None and spec.by_participant else ""
        self.log.add(case, "changed", f"to {to}{asked}", now)

    def give_up_attempt(
        self, case: Transaction, detail: str, refusals: tuple[Refusal, ...], now: Moment
    ) -> None:
        """Ask the register for the next attempt, which voids this one for ever."""
        case.enter("retry")
        case.record.recalled_until = 0
        if case.record.waiting is not None and case.record.waiting.earliest:
            case.record.waiting = None  # It leaves the lines with this attempt.
        self.log.add(case, "retrying", detail, now, refusals)
        record = case.record
        # Whoever has taken it over does not know the source of its script yet.
        script = "" if case.agent.source else record.spec.script
        op = r.Raise(case.rid, record.att, self.identity.owner, r.encode_record(record), script)
        self.table.write(case, op)

    def close(
        self, case: Transaction, error: KalendsError | None, kind: EndKind, now: Moment
    ) -> None:
        """Give the request up; the attempt is dead once the register says so."""
        case.enter(kind)
        record = case.record
        if error is not None:
            if error.remedy == TRY_LATER:
                error.remedy = f"{TRY_LATER}, with a new key"
            record.problem = problem_of(error, record.reservation)
            self.log.add(case, kind, error.detail, now, error.refusals)
        else:
            self.log.add(case, kind, "", now)
        told = decision_notices.on_close(record, now, released=kind == "released")
        self.table.write(case, r.Close(case.rid, record.att, r.encode_record(record), notices=told))

    def ran_out(self, case: Transaction, silent: Iterable[str], now: Moment) -> None:
        """The time of the request is over, and these sites have not answered."""
        refusals = no_answers(silent)
        error = error_of(refusals) if refusals else Expired("the request ran out of time")
        self.close(case, error, "failed", now)

    def still_taken(self, case: Transaction, now: Moment) -> None:
        """The time of the request is over, and all sites have answered."""
        error = NoCommonTime(
            "still taken at the deadline",
            remedy="wait longer, give a wider window, or see `kalends find`",
            refusals=case.awaited or tuple(case.tries.refusals),
        )
        self.close(case, error, "failed", now)

    def renew(self, case: Transaction, part: Branch) -> None:
        """Keep a hold, if there is one; give up other slots that an agent has held, until that is heard."""
        if not part.hold_ids:
            return
        record = case.record
        if part.surplus and case.phase in ("held", "asking"):
            self.release(case, part.site, part.surplus)
        renew = m.Renew(
            rid=case.rid, att=record.att, secret=self.credentials.secret(record, part.site),
            hold_ids=part.hold_ids,
            hold_ms=ASKED_HOLD_MS if case.phase == "asking" else HOLD_MS,
            considered=record.spec.hold and not record.owners.approve,
        )  # fmt: skip
        self.outbox.send(part.site, renew)

    def release(
        self, case: Transaction, site: str, hold_ids: tuple[int, ...] = (), won: m.Won | None = None
    ) -> None:
        """Give up these holds there, or all when none is named."""
        secret = self.credentials.secret(case.record, site)
        release = m.Release(
            rid=case.rid, att=case.record.att, secret=secret, hold_ids=hold_ids, won=won
        )
        self.outbox.send(site, release)

    def note_waiting(
        self, case: Transaction, waiting: Waiting | None, notices: tuple[RequestNotice, ...] = ()
    ) -> None:
        """Write down what it waits for: others may look at it, and a take-over goes on with it."""
        case.record.waiting = waiting
        body = r.encode_record(case.record)
        self.table.write(case, r.Note(case.rid, case.record.att, body, "waiting", notices=notices))

    def note_awaited(
        self, case: Transaction, refusals: tuple[Refusal, ...], now: Moment, *, listed: bool
    ) -> None:
        """Write down what `refusals` say it waits for, unless just that is written already."""
        record = case.record
        awaited = tuple(dict.fromkeys(refusal.where for refusal in refusals))
        known = record.waiting
        if known is not None and known.listed == listed and not known.approval:
            if known.awaited == awaited:
                return
            waiting = replace(known, awaited=awaited, earliest=0)
        else:
            until = (now.wall_ms + case.deadline_ms - now.monotonic_ms) // 1000
            waiting = Waiting(since=now.wall_s, until=until, awaited=awaited, listed=listed)
        self.log.add(
            case,
            "listed" if listed else "waiting",
            f"waits for {', '.join(awaited)}",
            now,
            refusals,
        )
        self.note_waiting(case, waiting)

    def vote_ms_max(self, case: Transaction) -> int:
        """Return for how long the votes of its sites are waited for."""
        if case.record.spec.placement is not None:
            return PLACE_VOTE_MS_MAX
        sites = (self.directory.sites.get(site) for site in case.parts)
        told_ms = max((site.vote_ms for site in sites if site is not None), default=0)
        return max(VOTE_MS_MAX, told_ms + ON_THE_WAY_MS)

    def wait_for_votes(self, case: Transaction, now: Moment) -> None:
        case.phase_deadline_ms = now.monotonic_ms + self.vote_ms_max(case)
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self.deadlines.later(now, RESEND_AFTER_MS)
        case.renew_at_ms = now.monotonic_ms + RENEW_EVERY_MS
        self.deadlines.schedule(case)


def no_answers(sites: Iterable[str]) -> tuple[Refusal, ...]:
    """Return a refusal for each site that has not answered."""
    return tuple(site_down(site, "the site did not answer in time") for site in sites)


def _jobs_on(step: Step | None, wants: tuple[Want, ...]) -> dict[str, JobRequest]:
    """Return what runs in step on which of `wants`, in their order."""
    jobs = {want.resource: step.job_on(want.resource) for want in wants} if step else {}
    return {machine: job for machine, job in jobs.items() if job is not None}


def _in_order(record: Record, machines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the machines in the order in which the request names them; those that it does not name last."""
    terms = record.spec.request.alternatives[record.alternative].terms
    named = [term.resource for term in terms if term.resource in machines]
    return (*named, *(each for each in machines if each not in named))


def _heir(record: Record, now: Moment) -> r.Heir | None:
    giver = record.spec.heir_of
    return r.Heir(record.reservation, record.user, giver, now.wall_s) if giver else None


def _places(placed: PlacedJob) -> str:
    return " and ".join(f"{each.machine}/{each.number}" for each in (placed, *placed.also))
