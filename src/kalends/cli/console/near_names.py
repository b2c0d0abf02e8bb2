"""Suggestions for names of resources that do not exist."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from kalends.cli.console.settings import Settings
from kalends.core.errors import KalendsError, NotFound, RefusalCode
from kalends.core.identifiers import RESOURCE_PATTERN
from kalends.core.near_names import near

_RESOURCE: Final = re.compile(RESOURCE_PATTERN)


def with_near_resources(settings: Settings, error: KalendsError) -> KalendsError:
    """Return `error`; if it is about unknown resources, its remedy suggests similar names."""
    if not isinstance(error, NotFound):
        return error
    unknown = {each.where for each in error.refusals if each.code == RefusalCode.UNKNOWN_RESOURCE}
    meant = _meant(
        settings, [name for name in unknown or {error.where} if _RESOURCE.fullmatch(name)]
    )
    if meant:
        error.remedy = "; ".join([*meant, error.remedy])
    return error


def _meant(settings: Settings, unknown: Collection[str]) -> list[str]:
    if not unknown:
        return []
    try:
        with settings.connect() as client:
            names = [each.name for each in client.resources().resources]
    except KalendsError:
        return []
    return list(dict.fromkeys(filter(None, (near(name, names) for name in unknown))))
