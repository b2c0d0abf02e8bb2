"""Resources that an owner gives only together with others of the same site."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from kalends.core.limits import TERMS_MAX
from kalends.core.requests import Alternative, Request, Term
from kalends.core.resources import ResourceInfo


def accompanied(request: Request, infos: Mapping[str, ResourceInfo]) -> Request:
    """Return `request` with a term for each resource that comes with one of those that it names."""
    if not any(
        term.resource in infos and infos[term.resource].companions
        for alternative in request.alternatives
        for term in alternative.terms
    ):
        return request
    complete = tuple(_complete(each, infos) for each in request.alternatives)
    return structs.replace(request, alternatives=complete)


def _complete(alternative: Alternative, infos: Mapping[str, ResourceInfo]) -> Alternative:
    terms = list(alternative.terms)
    for term in terms:  # It grows: what comes with a resource may come with another one itself.
        info = infos.get(term.resource)
        for name in info.companions if info is not None else ():
            with_it = Term(
                resource=name,
                offset_s=term.offset_s,
                duration_s=term.duration_s,
                windows=term.windows,
            )
            there = any(
                (each.resource, each.offset_s, each.duration_s)
                == (name, term.offset_s, term.duration_s)
                for each in terms
            )
            if not there and len(terms) < TERMS_MAX:
                terms.append(with_it)
    return structs.replace(alternative, terms=tuple(terms))
