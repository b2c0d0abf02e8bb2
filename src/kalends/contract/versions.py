"""Versions and features that servers exchange when they open a session.

They are in headers of the request and of its answer: before the first frame, so that even that frame has
only features of the other side. Older servers ignore these headers. A server without them has the base
version. The number of the version is for people, and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kalends.core.errors import Conflict, InvalidInput, Refusal, RefusalCode
from kalends.core.features import FEATURES, REQUIRED, Feature

VERSION_HEADER: Final = "Kalends-Version"
FEATURES_HEADER: Final = "Kalends-Features"

VERSION_HEADERS: Final = (VERSION_HEADER, FEATURES_HEADER)

FEATURES_MAX: Final = 256
"""Maximum number of features: more than there will be in decades."""

_NUMBER: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,63}")
_FEATURE: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")

KNOWN: Final = frozenset(each.name for each in FEATURES)
"""The names of the features that this kalends knows."""


class ServerVersion(NamedTuple):
    """The version of a server's kalends ("": too old to report it), and the features that it knows."""

    number: str = ""
    features: frozenset[str] = frozenset()

    def knows(self, feature: Feature) -> bool:
        return feature.name in self.features

    def headers(self) -> dict[str, str]:
        """Return the headers of a server of this version; none if it is too old to report it."""
        if not self.number:
            return {}
        return {VERSION_HEADER: self.number, FEATURES_HEADER: ", ".join(sorted(self.features))}

    def __str__(self) -> str:
        return f"kalends {self.number}" if self.number else "an older kalends"


BASE: Final = ServerVersion()
"""A server that does not report its features."""

OURS: Final = ServerVersion(features=KNOWN)
"""A peer with our own features, until a session reports others."""


def older(where: str, version: ServerVersion, feature: Feature) -> Refusal:
    """Return the refusal of a request or message to `where` because of its version."""
    return Refusal(
        where=where,
        code=RefusalCode.OLDER_VERSION,
        detail=f"it runs {version}, which knows nothing of {feature.words}",
    )


def own_version(number: str, features: frozenset[str] = KNOWN) -> ServerVersion:
    """Return the version of this kalends; with fewer `features`, a server behaves like an older one."""
    return ServerVersion(number if _NUMBER.fullmatch(number) else "unknown", features)


def version_in(headers: Mapping[str, str]) -> ServerVersion:
    """Return the other side's version; raises `InvalidInput` for invalid headers.

    Features that we do not know count, too: a peer may be newer.
    """
    number = headers.get(VERSION_HEADER, "")
    if not number:
        return BASE
    if not _NUMBER.fullmatch(number):
        raise InvalidInput("this is not a version", where=VERSION_HEADER)
    said = headers.get(FEATURES_HEADER, "")
    names = [each.strip() for each in said.split(",")] if said else []
    if len(names) > FEATURES_MAX or not all(map(_FEATURE.fullmatch, names)):
        raise InvalidInput("this is not a list of features", where=FEATURES_HEADER)
    return ServerVersion(number, frozenset(names))


def agreed(ours: ServerVersion, theirs: ServerVersion, us: str, them: str) -> frozenset[str]:
    """Return the names of the features that may be used between `us` and `them`, the names for errors.

    Raises `Conflict`, which names both versions, if one is too old for the other.
    """
    missing = [each for each in REQUIRED if not theirs.knows(each)]
    if missing:
        raise Conflict(
            f"{them} runs {theirs}, too old for {us}, which runs {ours}:"
            f" it knows nothing of {', '.join(each.words for each in missing)}",
            remedy=f"upgrade {them}",
        )
    return ours.features & theirs.features
