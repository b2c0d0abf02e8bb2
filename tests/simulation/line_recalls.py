"""The judge of promises and recalls: what was recalled is given up in time, a promise never."""

from __future__ import annotations

from collections.abc import Callable

from kalends.contract import messages as m
from tests.simulation.line_books import FASTEST
from tests.simulation.line_hearing import LineHearing
from tests.simulation.line_turns import Turns
from tests.simulation.listening import milliseconds


class LineRecalls(LineHearing):
    """What sites say of holds that they have made; `complaints` are in words."""

    def __init__(self, turns: Turns, now_ms: Callable[[], int]) -> None:
        super().__init__(turns, now_ms)
        self.complaints: list[str] = []
        self.recalls = 0

    def _voted(self, site: str, voted: m.Voted, moment: int) -> None:
        books, rid = self._sites[site], voted.rid
        since = self._delivered.pop((site, rid, voted.att, "prepare"), self._silent_since[site])
        asked = books.asked.get(rid)
        if isinstance(asked, m.Prepare):
            del books.asked[rid]
        taken = books.taken.get(rid)
        if voted.vote != "yes" or taken is None or taken.att != voted.att:
            return
        if taken.state == "held":
            if isinstance(asked, m.Prepare):
                named = set(asked.hold_ids)
                taken.spans = {key: span for key, span in taken.spans.items() if key in named}
            taken.state, taken.since, taken.sure = "promised", since, True
            taken.recall_until_ms = taken.overdue_ms = 0

    def _recalled(self, site: str, recall: m.Recall, moment: int) -> None:
        self.recalls += 1
        books = self._sites[site]
        taken = books.taken.get(recall.rid)
        if taken is None or taken.att != recall.att:
            return
        books.recalled |= taken.spans.keys()
        if taken.state == "promised" and taken.sure and taken.since < self._silent_since[site]:
            self._wrong(f"{site} recalls what it has promised to {recall.rid}")
        elif taken.state == "held" and not taken.recall_until_ms:
            taken.recall_until_ms = int(milliseconds(moment) + recall.left_ms * FASTEST)

    def _lost(self, site: str, renewed: m.Renewed, moment: int) -> None:
        books = self._sites[site]
        taken = books.taken.get(renewed.rid)
        if taken is None or taken.att != renewed.att:
            return
        if taken.renewing is not None and taken.spans.keys() <= set(renewed.kept):
            taken.asked_ms, taken.hold_ms = taken.renewing
        taken.renewing = None
        lost = taken.spans.keys() & set(renewed.lost)
        if not lost:
            return
        if taken.state == "promised" and taken.sure and taken.since < self._silent_since[site]:
            self._wrong(f"{site} takes back what it has promised to {renewed.rid}")
        elif taken.state == "held":
            expected = lost <= books.recalled or renewed.rid in books.before_owners
            if taken.surely(milliseconds(moment)) and not expected:
                self._wrong(f"{site} takes back what {renewed.rid} holds, and has not recalled it")
            for hold_id in renewed.lost:
                taken.spans.pop(hold_id, None)
            if not taken.spans:
                books.enter_again(renewed.rid, moment)

    def _wrong(self, text: str) -> None:
        self.complaints.append(f"{self._now_ms()} ms: {text}")
