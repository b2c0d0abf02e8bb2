"""Requests that would book more at a site that is leaving the broker, or that is new to a replica. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from kalends.broker.planning.directory import LEAVING
from kalends.contract.fields import Want
from kalends.core.errors import NotFound, Unavailable
from kalends.core.identifiers import split_resource
from kalends.core.requests import Request


def check_new(request: Request, leaving: Collection[str]) -> None:
    """Raise `NotFound` if each alternative of `request` names a resource of a site that is `leaving`."""
    named = [
        {_site(term.resource) for term in each.terms if term.resource}.intersection(leaving)
        for each in request.alternatives
    ]
    if all(named):
        raise _leaves(min(map(min, named)))


def check_change(wants: Sequence[Want], kept: Sequence[Want], leaving: Collection[str]) -> None:
    """Raise `NotFound` if `wants` take more at a site that is `leaving` than the slots that are `kept`."""
    for want in wants:
        if _site(want.resource) in leaving and not any(_is_within(want, old) for old in kept):
            raise _leaves(_site(want.resource))


def check_known(kept: Sequence[Want], sites: Container[str]) -> None:
    """Raise `Unavailable` if a slot that is `kept` lies at none of the `sites` that this replica uses.

    Another replica has booked it there: this one uses a new site from its next look into the register on.
    """
    for want in kept:
        if (site := _site(want.resource)) not in sites:
            raise Unavailable(
                f"{site} has just joined, and this replica of the broker does not use it yet",
                where="request",
                remedy="try again in a few seconds",
                retry_after_s=1.0,
            )


def _is_within(want: Want, old: Want) -> bool:
    same = want.resource == old.resource and want.units <= old.units
    return same and old.start <= want.start and want.end <= old.end


def _site(resource: str) -> str:
    return split_resource(resource)[0]


def _leaves(site: str) -> NotFound:
    return NotFound(
        f"{site}: {LEAVING}",
        where="request",
        remedy="book elsewhere; earlier reservations there stay as they are",
    )
