"""Requirements and preferences of a job that a broker places, read from texts."""

from __future__ import annotations

from collections.abc import Mapping

from kalends.client.inputs.given_values import by_name
from kalends.client.inputs.request_builder import Duration, length_s
from kalends.core.attributes import PlacePreference
from kalends.core.errors import InvalidInput
from kalends.core.requests import Alternative, Attribute, Term


def attributes_in(text: str, where: str) -> tuple[Attribute, ...]:
    """Read ``memory>=64, site=sdsc``; raises `InvalidInput` for anything else, also for ""."""
    from kalends.core.language import parse_alternatives  # Most commands about jobs do not need it.

    read = parse_alternatives(f"{{{text}}}")
    attributes = read[0].terms[0].attributes
    if read != (Alternative(terms=(Term(attributes=attributes),)),):
        raise InvalidInput(
            f"{text!r} is not a list of attributes",
            where=where,
            remedy="write attributes with commas between them, e.g. memory>=64, site=sdsc",
        )
    return attributes


def preferences_in(prefer: Mapping[str, Duration]) -> tuple[PlacePreference, ...]:
    """Read ``{"site=sdsc": "30m"}``; raises `InvalidInput`."""
    return tuple(
        PlacePreference(
            attributes=attributes_in(attributes, "prefer"), worth_s=length_s(worth, where="prefer")
        )
        for attributes, worth in by_name(prefer, where="prefer").items()
    )


def preference_named(text: str) -> tuple[str, str]:
    """Split ``site=sdsc:30m`` into attributes and the delay that they are worth; raises `InvalidInput`."""
    attributes, colon, worth = text.rpartition(":")
    if not (attributes.strip() and colon and worth.strip()):
        raise InvalidInput(
            f"{text!r} is not ATTRIBUTES:DURATION",
            where="--prefer",
            remedy="write attributes, a colon and a duration, e.g. site=sdsc:30m",
        )
    return attributes, worth.strip()
