"""Common times of sites near one another: what a hub makes of their reports, and what proves it.

A hub passes an agent on to near sites, and makes one answer of all reports. It leaves out the starts at
which they do not hold what only they can serve: no reservation could begin there. The slots that are left
keep their places in their site's order of preference, so a broker finds among them what it would have found
among all. Each site proves every start of its own; the hub can join these proofs, and make none. So it can
leave out a start, but not move or invent one. Ramamoorthi et al. 1997, section 3: nearby agents "can
designate a common agent".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from kalends.contract import proofs
from kalends.contract.messages import HOLD_ID_MAX, CommonPart, CommonTimes, Pick, SiteReport
from kalends.core import limits
from kalends.core.scripts import Ask, HeldChoice

_PROOF: Final = re.compile(r"[0-9a-f]{32}")


class SiteSlots(NamedTuple):
    """The slots held by a site, in short: by common start, the picks in order of preference."""

    part: CommonPart
    starts: dict[int, tuple[Pick, ...]]


def slots_of(report: SiteReport, asks: Sequence[Ask]) -> SiteSlots | None:
    """Return `report` in short, or None where that would not be all that has to be known of it.

    That is so when the agent has failed, and when the numbers of the slots are not in a row.
    """
    if report.code != "ok" or len(report.held) > limits.CHOICES_MAX:
        return None
    places = {(ask.term, ask.resource): place for place, ask in enumerate(asks)}
    first = report.held[0].hold_id if report.held else 0
    starts: dict[int, tuple[Pick, ...]] = {}
    for rank, hold in enumerate(report.held):
        place = places.get((hold.term, hold.resource))
        if place is None or hold != _hold(asks[place], hold.common, first + rank):
            return None
        starts[hold.common] = (*starts.get(hold.common, ()), (place, rank))
    part = CommonPart(
        report.site, report.epoch, first, len(report.held), report.sent, report.run, report.approval
    )
    return SiteSlots(part, starts)


def seals_of(
    key: str, rid: str, att: int, report: SiteReport, asks: Sequence[Ask]
) -> tuple[str, ...]:
    """Return the proofs of a site with this key for `report`: as a whole, in short, and of each start."""
    found = slots_of(report, asks)
    short = () if found is None else _proofs(key, rid, att, found.part, found.starts.items())
    return (_whole(key, rid, att, report), *short)


def is_sealed(key: str, rid: str, att: int, report: SiteReport) -> bool:
    """Return whether the site with this key has proved `report` as a whole."""
    return report.seals[:1] != () and proofs.same(report.seals[0], _whole(key, rid, att, report))


def common_times(
    reports: Sequence[SiteReport],
    asks: Mapping[str, Sequence[Ask]],
    needs: Iterable[tuple[int, int]],
) -> CommonTimes | None:
    """Return the common times of `reports`, the hub's own first; None if a broker needs them.

    A start is left out only if too few resources are held then for one of `needs`.
    """
    found = [slots_of(report, asks[report.site]) for report in reports]
    parts = [each for each in found if each is not None]
    if len(parts) < len(reports):
        return None
    common = [start for start in sorted({c for each in parts for c in each.starts})
              if _serves(start, parts, asks, needs)]  # fmt: skip
    if not common or len(common) > limits.CLAIMS_MAX:
        return None
    told: list[str] = []
    for report, (_, starts) in zip(reports[1:], parts[1:], strict=True):
        if len(report.seals) != len(starts) + 2:
            return None
        of_start = dict(zip(sorted(starts), report.seals[2:], strict=True))
        told += (report.seals[1], *(of_start[start] for start in common if start in starts))
    if not all(map(_PROOF.fullmatch, told)):
        return None
    return CommonTimes(
        tuple(each.part for each in parts),
        tuple((start, tuple(each.starts.get(start, ()) for each in parts)) for start in common),
        proofs.joined(told),
    )


def complaint_about(common: CommonTimes) -> str:
    """Return what is wrong with `common`, whatever was asked; "" for nothing."""
    starts = [start for start, _ in common.starts]
    if starts != sorted(set(starts)):
        return "names common starts twice, or in disorder"
    if any(len(picks) != len(common.sites) for _, picks in common.starts):
        return "names common starts without saying what is held at each site"
    for number, part in enumerate(common.sites):
        if part.held and not 0 < part.first <= HOLD_ID_MAX - part.held:
            return "numbers slots as no site does"
        ranks = [hold_id - part.first for hold_id in held_of(common, number)]
        if len(set(ranks)) != len(ranks) or max(ranks, default=-1) >= part.held:
            return "names slots twice, or more of them than are held"
    return ""


def held_of(common: CommonTimes, number: int) -> list[int]:
    """Return the numbers of what one of the sites holds at common starts."""
    first = common.sites[number].first
    return [first + rank for _, picks in common.starts for _, rank in picks[number]]


def is_proved(keys: Mapping[str, str], rid: str, att: int, common: CommonTimes) -> bool:
    """Return whether all but the first site have proved `common`; `keys` are those of the sites."""
    told: list[str] = []
    for number, part in enumerate(common.sites[1:], start=1):
        starts = ((start, picks[number]) for start, picks in common.starts if picks[number])
        told += _proofs(keys[part.site], rid, att, part, starts)
    return proofs.same(common.seal, proofs.joined(told))


def report_in(common: CommonTimes, number: int, asks: Sequence[Ask]) -> SiteReport | None:
    """Return the report of one of the sites, with the slots held at common starts.

    None if that is not what was asked for.
    """
    part = common.sites[number]
    picked = [
        (rank, place, start) for start, picks in common.starts for place, rank in picks[number]
    ]
    if any(place >= len(asks) for _, place, _ in picked):
        return None
    held = tuple(
        _hold(asks[place], start, part.first + rank) for rank, place, start in sorted(picked)
    )
    return SiteReport(
        part.site, part.epoch, held=held, sent=part.sent, run=part.run, approval=part.approval
    )


def _serves(
    start: int,
    parts: Sequence[SiteSlots],
    asks: Mapping[str, Sequence[Ask]],
    needs: Iterable[tuple[int, int]],
) -> bool:
    resources: dict[int, set[str]] = {}
    for part, starts in parts:
        for place, _ in starts.get(start, ()):
            ask = asks[part.site][place]
            resources.setdefault(ask.term, set()).add(ask.resource)
    return all(len(resources.get(term, ())) >= wanted for term, wanted in needs)


def _hold(ask: Ask, common: int, hold_id: int) -> HeldChoice:
    begin = common + ask.offset_s
    return HeldChoice(
        hold_id, ask.term, ask.resource, begin, begin + ask.length_s, ask.units, common
    )


def _proofs(
    key: str, rid: str, att: int, part: CommonPart, starts: Iterable[tuple[int, tuple[Pick, ...]]]
) -> list[str]:
    """Return the proofs of `part` and of each start, which names the first slot and so belongs to it."""
    return [
        proofs.of_choice(key, rid, att, "part", _text(part)),
        *(
            proofs.of_choice(key, rid, att, "start", _text((part.first, start, picks)))
            for start, picks in sorted(starts)
        ),
    ]


def _whole(key: str, rid: str, att: int, report: SiteReport) -> str:
    bare = msgspec.structs.replace(report, seals=())
    return proofs.of_choice(key, rid, att, "whole", _text(bare))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
