"""Looking before asking: which sites to query for a request, and the plan that their views allow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from kalends.broker.case import by_site
from kalends.broker.directory import Directory
from kalends.broker.explaining import explain
from kalends.broker.planner import Free, Plan, candidates, executable, plan
from kalends.broker.record import Record
from kalends.broker.refusals import error_of, site_down
from kalends.calendars import unknown_resource
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.messages import Want
from kalends.core.requests import Request

_NOBODY_HAS: Final = frozenset({RefusalCode.UNKNOWN_RESOURCE, RefusalCode.TOO_MUCH})
"""Refusals that can only be given by one who knows all sites."""


class Looking(NamedTuple):
    """What to ask of each site: every candidate resource over the whole window."""

    by_site: dict[str, tuple[Want, ...]]

    @classmethod
    def of(
        cls, record: Record, directory: Directory, shunned: Collection[str], wall_s: int
    ) -> Looking:
        """Raises the error that refuses the request already, when a named resource cannot be asked."""
        request = record.spec.request
        return cls.of_request(request, directory, shunned, wall_s)

    @classmethod
    def of_request(
        cls, request: Request, directory: Directory, shunned: Collection[str], wall_s: int
    ) -> Looking:
        executable(request)
        named, refusals = _named(request, directory)
        if refusals:
            raise error_of(refusals)
        picked = {
            name
            for names in candidates(request, directory.resources).values()
            for name in names
            if name not in shunned and split_resource(name)[0] not in shunned
        }
        asked = sorted(name for name in picked | named if directory.is_up(split_resource(name)[0]))
        start = max(request.not_before, wall_s - limits.DURATION_S_MAX)
        horizon = max((directory.resources[name].horizon_s for name in asked), default=1)
        end = min(request.not_after or wall_s + horizon, limits.TIME_S_MAX)
        wants = tuple(Want(name, start, max(end, start + 1), 1) for name in asked)
        return cls(by_site(wants))

    @staticmethod
    def planned(
        record: Record,
        directory: Directory,
        free: Free,
        refusals: Sequence[Refusal],
        excluded: Collection[int],
    ) -> Plan | tuple[Refusal, ...]:
        """The earliest plan not in `excluded`, or the refusals that explain why there is none."""
        request = record.spec.request
        infos = directory.resources
        found = plan(request, infos, free, excluded=excluded)
        if found:
            return found[0]
        named = {term.resource for term in request.alternatives[0].terms if term.resource}
        of_named = [refusal for refusal in refusals if refusal.where in named]
        return tuple(of_named) or (*refusals, *_explained(request, directory, free))


def _explained(request: Request, directory: Directory, free: Free) -> tuple[Refusal, ...]:
    """Why there is no plan; what is picked by attributes may be at a site that is not heard."""
    explained = explain(request, directory.resources, free)
    named = {term.resource for term in request.alternatives[0].terms if term.resource}
    if len(named) == len(request.alternatives[0].terms):
        return explained
    unheard = [
        site_down(site.name, site.detail) for site in directory.sites.values() if not site.up
    ]
    if not unheard:
        return explained
    known = [each for each in explained if each.where in named or each.code not in _NOBODY_HAS]
    return (*known, *unheard)


def batched(wants: tuple[Want, ...]) -> Iterator[tuple[Want, ...]]:
    """`wants` in parts that each fit into one Query."""
    for first in range(0, len(wants), limits.CLAIMS_MAX):
        yield wants[first : first + limits.CLAIMS_MAX]


def _named(request: Request, directory: Directory) -> tuple[set[str], list[Refusal]]:
    """The resources that are named, and why some of them cannot be asked for at all."""
    named = {term.resource for term in request.alternatives[0].terms if term.resource}
    refusals = []
    for name in sorted(named):
        site = split_resource(name)[0]
        if site in directory.sites and not directory.is_up(site):
            refusals.append(site_down(site, directory.sites[site].detail or "not connected"))
        elif name not in directory.resources:
            refusals.append(unknown_resource(name))
    return named, refusals
