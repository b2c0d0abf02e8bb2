"""The terms of a request to poll for, each with the resources that could serve it.

A resource counts as available when it is free for its stage of the earliest common start that the
request allows: the slot whose chance of being taken the model is about. Where one term's candidates
are another's too, both may end up with the same resources, so that each is polled for what all need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kalends.broker.planning.demand import Catalogue
from kalends.broker.planning.start_ranges import ranges
from kalends.core.identifiers import split_resource
from kalends.core.permitted_starts import permitted_starts
from kalends.core.requests import DAY_S, Request, has_windows, span_of, term_interval
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Stage, Step

_DAYS_AHEAD: Final = 8
"""Days in which the first start within windows is looked for."""


class PollTerm(NamedTuple):
    """A term that needs `needed` of the resources in `grains` (each with its grain in s).

    The term is number `term` of the request, counted through all alternatives. `start` is where its
    stage begins at the earliest.
    """

    term: int
    needed: int
    stage: Stage
    start: int
    grains: Mapping[str, int]
    named: bool = False

    def serves(self, name: str, steps: Sequence[Step]) -> bool:
        """Tell whether `name`, free by `steps`, has room for the stage at its first start."""
        stage = Stage(0, self.stage.length_s, self.stage.units)
        last = self.start + self.grains[name] - 1
        return next(ranges(steps, stage, self.start, last), None) is not None


def wanted_of(
    request: Request,
    infos: Mapping[str, ResourceInfo],
    names: Collection[str],
    now_s: int,
) -> tuple[PollTerm, ...]:
    """Return, for every term of all alternatives, those of `names` it names or could pick.

    A term that none could serve is left out: no poll helps it.
    """
    found: list[PollTerm] = []
    number = 0
    known = sorted(name for name in names if name in infos)
    catalogue = Catalogue({name: infos[name] for name in known})
    for place, alternative in enumerate(request.alternatives):
        first = _first_start(request, place, max(request.not_before, now_s))
        of_one = []
        for term in alternative.terms:
            begin, end = term_interval(request, term, first)
            serving = (
                [name for name in known if name == term.resource]
                if term.resource
                else catalogue.serving(term)
            )
            grains = {
                name: infos[name].grain_s for name in serving if infos[name].capacity >= term.units
            }
            if grains:
                stage = Stage(begin - first, end - begin, term.units)
                of_one.append(
                    PollTerm(number, term.count, stage, begin, grains, bool(term.resource))
                )
            number += 1
        found += [wanted._replace(needed=_needed(wanted, of_one)) for wanted in of_one]
    return tuple(found)


def _first_start(request: Request, number: int, begin: int) -> int:
    """Return the first start from `begin` on that the windows of an alternative permit in the next days."""
    lead_s, tail_s = span_of(request, request.alternatives[number])
    if not has_windows(request.alternatives[number]):
        return begin - lead_s
    end = begin + tail_s - lead_s + _DAYS_AHEAD * DAY_S
    permitted = permitted_starts(request, number, begin, min(end, request.not_after or end))
    return permitted[0][0] if permitted else begin - lead_s


def hurried(request: Request) -> bool:
    """Tell whether no plan is better than one at the earliest start: who is silent can wait."""
    terms = [term for alternative in request.alternatives for term in alternative.terms]
    return (
        len(request.alternatives) == 1
        and not request.preferences
        and not request.alternatives[0].preferences
        and not any(term.preferences for term in terms)
        and not any(term.preferred or term.units_max > term.units for term in terms)
    )


def sites_of(names: Collection[str]) -> dict[str, list[str]]:
    """Return `names` by their sites, both in order."""
    by_site: dict[str, list[str]] = {}
    for name in sorted(names):
        by_site.setdefault(split_resource(name)[0], []).append(name)
    return by_site


def _needed(wanted: PollTerm, of_one: Sequence[PollTerm]) -> int:
    """Return the need of a term and its competitors; never more than there are."""
    if wanted.named:
        return 1
    rivals = [
        other
        for other in of_one
        if not other.named
        and other.stage.overlaps(wanted.stage)
        and not other.grains.keys().isdisjoint(wanted.grains)
    ]
    return min(sum(other.needed for other in rivals), len(wanted.grains))
