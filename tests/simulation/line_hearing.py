"""The books of all sites, as far as they follow from what sites are asked; what they say is judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, Final

from kalends.contract import messages as m
from tests.simulation.line_books import SiteBooks, Taken, Waiter
from tests.simulation.line_turns import Turns
from tests.simulation.listening import Listener, milliseconds

PETITION_MS: Final = 120_000
"""What waits for its owner is kept so long after a restart without its broker."""


class LineHearing(Listener):
    """Who asks a site for something may wait there, and who gives something up has it no more."""

    def __init__(self, turns: Turns, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self._turns = turns
        self._sites: dict[str, SiteBooks] = defaultdict(SiteBooks)
        self._visits: dict[tuple[str, str, int], m.Visit] = {}
        self._replaces: dict[str, str] = {}
        self._dispatches: dict[tuple[str, str, int], m.Dispatch] = {}
        self._reported_ids: set[tuple[str, int]] = set()
        """Site and number of every hold that was reported for an agent."""
        self._delivered: dict[tuple[str, str, int, str], int] = {}
        """When the first message of this kind, that is not answered yet, came."""
        self._promised_since: dict[tuple[str, str, int], int] = {}
        """When a promise was asked for that a crash left unanswered: it may have been stored."""
        self._given_up: dict[tuple[str, str], tuple[int, int]] = {}
        """Up to which attempt, and when, all holds of a request were last given back."""
        self.guarded: Collection[str] = ()
        """Resources whose owners approve what is booked: what is held of them may outlast a crash."""

    def on_delivered(self, site: str, source: str, message: m.Message, moment: int) -> None:
        books = self._sites[site]
        if self._silent_since[site] == moment:
            books.aborted.clear()
            books.unheard.clear()
        match message:
            case m.Visit() | m.Dispatch():
                self._visited(site, message, moment)
            case m.Await():
                known = books.listed.get(message.rid)
                wish = _as_visit(message)
                sure = known is not None and known.sure and known.visit == wish
                books.listed[message.rid] = Waiter(
                    wish, moment, milliseconds(moment), sure, length_s=message.length_s
                )
                self._turns.listed(message.rid, message.stamp)
            case m.Prepare():
                key = (site, message.rid, message.att, "prepare")
                self._delivered.setdefault(key, moment)
                unanswered = books.asked.get(message.rid)
                if unanswered is None or unanswered.att < message.att:
                    books.asked[message.rid] = message
            case m.Release():
                self._released(site, message, moment)
            case m.Give():
                taken = books.taken.get(message.rid)
                if (
                    taken is not None
                    and taken.state == "held"
                    and taken.att == message.att
                    and taken.spans.keys() <= set(message.hold_ids)
                ):
                    books.enter_again(message.rid, moment)
            case m.Renew():
                taken = books.taken.get(message.rid)
                if taken is not None and taken.state == "held" and taken.att <= message.att:
                    renewed = milliseconds(moment), message.hold_ms
                    if taken.surely(renewed[0]):
                        taken.asked_ms, taken.hold_ms = renewed
                    else:
                        taken.renewing = renewed
            case m.Decide() | m.Outcome():
                self._decided(site, message, moment)
            case m.Cancel():
                books.drop(message.rid, message.att, "locked", "held")
            case m.OwnerAsk():
                books.before_owners.add(message.rid)
            case m.PeerAsk() | m.PeerSays():
                taken = books.taken.get(message.rid)
                if taken is not None:
                    taken.sure = False
                if message.rid in books.waiters:
                    books.waiters[message.rid].sure = False

    def _visited(self, site: str, visit: m.Visit | m.Dispatch, moment: int) -> None:
        books = self._sites[site]
        self._turns.asked(visit.rid, visit.stamp)
        self._delivered.setdefault((site, visit.rid, visit.att, "visit"), moment)
        taken = books.taken.get(visit.rid)
        if taken is not None and taken.att < visit.att:
            taken.sure = False
        books.leave(visit.rid, visit.att - 1, moment)
        if isinstance(visit, m.Dispatch):
            self._dispatches[site, visit.rid, visit.att] = visit
            known = books.agents.get(visit.rid)
            if known is None or known[1].att < visit.att:
                books.agents[visit.rid] = milliseconds(moment), visit
            return
        self._visits[site, visit.rid, visit.att] = visit
        if visit.replaces:
            self._replaces[visit.rid] = visit.replaces
        books.asked[visit.rid] = visit
        if visit.queue and (taken is None or taken.att < visit.att):
            books.enter(visit, moment)

    def _released(self, site: str, release: m.Release, moment: int) -> None:
        books = self._sites[site]
        taken = books.taken.get(release.rid)
        if not release.hold_ids:
            self._given_up[site, release.rid] = release.att, moment
            books.leave(release.rid, release.att, moment)
            if release.rid in books.listed:
                del books.listed[release.rid]
                books.unlisted[release.rid] = moment
            books.end_hold(release.rid, release.att, moment)
        elif taken is not None and taken.state == "held" and taken.att <= release.att:
            for hold_id in release.hold_ids:
                taken.spans.pop(hold_id, None)
            if not taken.spans:
                del books.taken[release.rid]

    def _decided(self, site: str, decision: m.Decide | m.Outcome, moment: int) -> None:
        books, rid = self._sites[site], decision.rid
        if decision.outcome == "pending":
            return
        books.leave(rid, decision.att, moment)
        taken = books.taken.get(rid)
        if decision.outcome == "commit" and rid in self._replaces:
            books.taken.pop(self._replaces[rid], None)
        if decision.outcome == "abort":
            self._delivered[site, rid, decision.att, "abort"] = moment
            self._given_up[site, rid] = decision.att, moment
            asked = books.asked.pop(rid, None)
            if asked is not None and wants_promise(asked):
                books.unheard[rid] = asked
            promised = taken is not None and (taken.state == "promised" or rid in books.unheard)
            stored = promised or (taken is not None and self._is_guarded(taken))
            if taken is not None and stored and taken.att <= decision.att:
                books.aborted[rid] = taken
            books.end_hold(rid, decision.att, moment)
            books.drop(rid, decision.att, "promised")
        elif taken is not None and taken.att == decision.att:
            chosen = set(decision.chosen.get(site, ()))
            taken.spans = {key: span for key, span in taken.spans.items() if key in chosen}
            taken.state = "locked"
            if not taken.spans:
                del books.taken[rid]

    def on_crashed(self, site: str, moment: int) -> None:
        books = self._sites[site]
        books.waiters.clear()
        books.listed.clear()
        books.agents.clear()
        for rid, asked in list(books.asked.items()):
            if not wants_promise(asked):
                del books.asked[rid]
        for rid, taken in list(books.taken.items()):
            if self._is_guarded(taken):
                _outlast(taken, moment)
            elif taken.state == "held" and rid not in books.asked:
                del books.taken[rid]
            elif taken.state == "held":
                # Gone with the crash, unless its promise was stored.
                taken.sure = False
        for rid, taken in books.aborted.items():
            taken.sure = False
            if self._is_guarded(taken):
                _outlast(taken, moment)
            books.taken.setdefault(rid, taken)
        for rid, asked in books.unheard.items():
            books.asked.setdefault(rid, asked)
        for key in [key for key in self._delivered if key[0] == site]:
            came = self._delivered.pop(key)
            asked = books.asked.get(key[1])
            if asked is not None and asked.att == key[2]:
                self._promised_since.setdefault(key[:3], came)

    def _is_guarded(self, taken: Taken) -> bool:
        """Whether it is held, and waits for an owner: then it is stored."""
        spans = taken.spans.values()
        return taken.state == "held" and any(span[0] in self.guarded for span in spans)

    # What sites say of attempts that are over

    def _over(self, site: str, stale: m.Stale, moment: int) -> None:
        """Its attempt is over: a visit of it that came late does not wait either, and holds nothing."""
        books, rid = self._sites[site], stale.rid
        books.drop(rid, stale.att, "held")
        asked = books.asked.get(rid)
        if asked is not None and asked.att <= stale.att:
            del books.asked[rid]
        books.leave(rid, stale.att, moment)
        self._delivered.pop((site, rid, stale.att, "visit"), None)

    def _aborted(self, books: SiteBooks, site: str, done: m.Done) -> None:
        """What was answered only after the abort had come, and is of before, is over as well."""
        came = self._delivered.get((site, done.rid, done.att, "abort"), 0)
        taken = books.taken.get(done.rid)
        if taken is not None and taken.since <= came:
            books.drop(done.rid, done.att, "held", "promised")


def _outlast(taken: Taken, moment: int) -> None:
    """A hold that was stored outlasts a crash, for a while; whether it was, nobody has heard."""
    taken.sure = False
    taken.asked_ms, taken.hold_ms = milliseconds(moment), PETITION_MS


def wants_promise(asked: m.Visit | m.Prepare) -> bool:
    """What it asks for may be stored, and then survives a crash, though nobody has heard so."""
    return isinstance(asked, m.Prepare) or asked.mode == "vote"


def _as_visit(wish: m.Await) -> Any:
    """For its stamp and wants."""
    return m.Visit(
        rid=wish.rid, att=wish.att, stamp=wish.stamp, mode="hold", principal=wish.principal,
        wants=wish.wants, parts=(m.Part("nobody", ""),), need=1, secret="-" * 16, hold_ms=1,
    )  # fmt: skip
