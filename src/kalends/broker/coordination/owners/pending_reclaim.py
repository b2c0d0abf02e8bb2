"""A broker's knowledge about one reservation that an owner reclaims, which may be lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kalends.broker.coordination.owners.relocation import Relocation, Wants
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.trust.answer_checks import SiteQuestion
from kalends.contract.messages import Reclaim, Want
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.spans import Step
from kalends.core.times import format_duration, format_time


@dataclass(slots=True)
class PendingReclaim:
    """The reservation `rid` that is to go, by the `reclaims` of each site that has said so.

    `record` is what stands, `moved` what it may become. `stamp`, where it is not 0, lets it look also
    at room that younger requests wait for. `tried` are slots that were asked for already, and `change`
    the request that asks now.
    """

    rid: str
    reclaims: dict[str, Reclaim]
    began_ms: int
    record: Record | None = None
    moved: Relocation | None = None
    stamp: int = 0
    queries: dict[int, SiteQuestion] = field(default_factory=dict)
    free: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    tried: set[Wants] = field(default_factory=set)
    refused: int = 0
    """Tries that failed by the rule of an owner, and not by bad luck."""
    change: str = ""
    look: int = 0
    """The number of the last look at what stands: earlier ones show nothing any more."""
    taking_over: bool = False
    """The register has been asked to let this replica look after it."""

    @property
    def owners(self) -> str:
        return ", ".join(sorted(self.reclaims))

    @property
    def reason(self) -> str:
        reasons = [
            each.reason or ("it cannot be kept" if each.lost else "")
            for _, each in sorted(self.reclaims.items())
        ]
        return "; ".join(dict.fromkeys(reason for reason in reasons if reason))

    def cancels(self, wants: Collection[Want]) -> bool:
        """Return whether any site cancels for one of `wants`, wherever the reservation could be moved."""
        return any(each.cancel and concerns(each, wants) for each in self.reclaims.values())

    def concerns(self, wants: Collection[Want]) -> bool:
        """Return whether any site takes back one of `wants`."""
        return any(concerns(reclaim, wants) for reclaim in self.reclaims.values())

    @property
    def in_words(self) -> str:
        """``sdsc needs sdsc/sp2 from ... for 4h: a new pump``, of every owner who does, or cannot."""
        return "; ".join(
            f"{site} {_does(each)} {_units(each)}{', '.join(each.resources)}"
            f" from {format_time(each.start, 'UTC')} for {format_duration(each.end - each.start)}"
            + (f": {each.reason}" if each.reason else "")
            for site, each in sorted(self.reclaims.items())
        )

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(
            Refusal(
                where=name,
                code=RefusalCode.BLACKOUT,
                detail=each.reason or "its owner needs it then",
                rule="reclaim",
            )
            for _, each in sorted(self.reclaims.items())
            for name in each.resources
        )


def concerns(reclaim: Reclaim, wants: Iterable[Want]) -> bool:
    """Return whether any of `wants` lies in what is reclaimed."""
    return any(
        want.resource in reclaim.resources and want.start < reclaim.end and reclaim.start < want.end
        for want in wants
    )


def _does(reclaim: Reclaim) -> str:
    if reclaim.cancel:
        return "cancels"
    return "cannot keep" if reclaim.lost else "needs"


def _units(reclaim: Reclaim) -> str:
    return f"{reclaim.units} unit{'s' * (reclaim.units > 1)} of " if reclaim.units else ""
