"""Both sides of each promise, compared for an auditor: a comparison that corrects nothing.

What is on its way from one side to the other is no difference: only what the register has told to its end is
looked at, and what is found must be found twice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from kalends.broker.coordination.record.decision_record import Cancel
from kalends.broker.reconciliation.comparison import Findings, Ours, compare
from kalends.broker.reconciliation.reconciler import ComparedRows, leads_on, page_of
from kalends.contract import messages as m


@dataclass(slots=True)
class _Look:
    """Through all that one site keeps; `before` is what the first pass has found."""

    after: str = ""
    found: set[str] = field(default_factory=set)
    before: set[str] | None = None


class Audits:
    """All audits of one replica; `differences` are those of each site that was looked through."""

    def __init__(self, secret: Callable[[], str]) -> None:
        self.sends: list[tuple[str, m.Message]] = []
        self.differences: dict[str, tuple[str, ...]] = {}
        self._secret = secret
        self._running: dict[str, _Look] = {}

    def begin(self, site: str) -> None:
        """Look through `site`, unless that is under way."""
        if site not in self._running:
            self.differences.pop(site, None)
            self._running[site] = _Look()
            self.sends.append((site, m.Compare()))

    def running(self, site: str) -> bool:
        return site in self._running

    def lost(self, site: str) -> None:
        """End the audit, because the session ended or a comparison is correcting the differences."""
        self._running.pop(site, None)

    def take(self) -> list[tuple[str, m.Message]]:
        """Return the messages to send since the last call."""
        sends, self.sends = self.sends, []
        return sends

    def awaits(self, site: str, page: m.Compared) -> bool:
        """Whether this page was asked for; any other, and one that leads nowhere, is let go."""
        look = self._running.get(site)
        return look is not None and leads_on(page, look.after)

    def receive(self, site: str, page: m.Compared, found: ComparedRows, now_ms: int) -> None:
        """Take a page that it `awaits`, with what the register has `found` for it."""
        look = self._running.get(site)
        if look is None or not leads_on(page, look.after):
            return
        page, rows = page_of(found.rows, page)
        told = [row for row in rows if row.done]
        untold = {row.rid for row in rows if not row.done}
        kept = tuple(each for each in page.kept if each.rid not in untold)
        page = m.Compared(after=page.after, until=page.until, horizon=page.horizon, kept=kept)
        ours = Ours(self._secret(), {}, ())
        ended = {row.rid for row in told if row.state != "commit"}
        findings = compare(site, page, told, ours, now_ms, found.changes)
        look.found |= set(_in_words(site, findings, ended))
        if page.until:
            self._next(site, look, page.until)
        elif look.found and look.before is None:
            look.before, look.found = look.found, set()
            self._next(site, look, "")
        else:
            del self._running[site]
            twice = look.found & look.before if look.before is not None else set()
            self.differences[site] = tuple(sorted(twice))

    def _next(self, site: str, look: _Look, after: str) -> None:
        look.after = after
        self.sends.append((site, m.Compare(after=after)))


def _in_words(site: str, findings: Findings, ended: Container[str]) -> Iterator[str]:
    for message in findings.messages:
        if isinstance(message, m.Recharge):
            # It is told without a look at the ledger, which takes it once.
            continue
        what = "is no longer reserved, but still locked"
        if isinstance(message, m.Relock):
            used = message.rid in ended
            what = "was used until it ended: forgotten" if used else "is reserved, but not locked"
        yield f"{message.rid} {what} at {site}"
    for operation in findings.operations:
        if isinstance(operation, Cancel):
            yield f"{operation.rid} was cancelled at {site}, and the register has forgotten it"
        else:
            rid = operation.record.rid
            what = "cancelled" if operation.record.state == "cancelled" else "locked"
            yield f"{rid} is {what} at {site}, and the register has forgotten it"
    for lost in findings.unproved:
        yield f"{lost.id} at {site}: {', '.join(lost.blockers)}"
