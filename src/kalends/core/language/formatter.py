"""Requests' terms as text: the shortest that `parse_alternatives` reads as the same value."""

from __future__ import annotations

from collections.abc import Iterable

from kalends.core.durations import format_duration
from kalends.core.language.values import format_value, format_weight
from kalends.core.language.window_text import format_windows
from kalends.core.requests import Alternative, Attribute, Term


def format_alternatives(alternatives: Iterable[Alternative]) -> str:
    """Format as ``sdsc/sp2:64 | ctc/sp2:64 + caltech/onyx``, which `parse_alternatives` reads back."""
    return " | ".join(_alternative(alternative) for alternative in alternatives)


def format_term(term: Term) -> str:
    """Format as ``3 of {kind=sgi}:2 @-10m for 1h``, leaving out defaults, and its windows."""
    return _what(term) + _units(term) + _stage(term)


def format_comparison(comparison: Attribute) -> str:
    """Format as ``memory>=64`` or ``kind in (sgi, pentium)``."""
    if isinstance(comparison.value, tuple):
        values = ", ".join(format_value(value) for value in comparison.value)
        return f"{comparison.name} {comparison.operator} ({values})"
    return f"{comparison.name}{comparison.operator}{format_value(comparison.value)}"


def _alternative(alternative: Alternative) -> str:
    terms = " + ".join(format_term(term) + format_windows(term) for term in alternative.terms)
    if own := format_windows(alternative):
        terms = f"({terms}){own}"
    return f"{terms} weight {format_weight(alternative.weight)}" if alternative.weight else terms


def _what(term: Term) -> str:
    if term.resource:
        return term.resource
    inside = [format_comparison(comparison) for comparison in term.attributes]
    inside += [
        f"{format_comparison(each.attribute)} weight {format_weight(each.weight)}"
        for each in term.preferred
    ]
    return (f"{term.count} of " if term.count > 1 else "") + f"{{{', '.join(inside)}}}"


def _units(term: Term) -> str:
    if term.units_max and term.units_weight != 1.0:
        return f":({term.units}..{term.units_max} weight {format_weight(term.units_weight)})"
    if term.units_max:
        return f":{term.units}..{term.units_max}"
    return f":{term.units}" if term.units > 1 else ""


def _stage(term: Term) -> str:
    sign = "+" if term.offset_s > 0 else ""
    offset = f" @{sign}{format_duration(term.offset_s)}" if term.offset_s else ""
    duration = f" for {format_duration(term.duration_s)}" if term.duration_s else ""
    return offset + duration
