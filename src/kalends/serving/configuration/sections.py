"""The base of all sections of the file, texts with a form, durations, and checks for several sections."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.core import identifiers
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.stores.postgres.driver import SCHEMES

MAIL_ADDRESS: Final = re.compile(identifiers.MAIL_PATTERN)


Name = Annotated[str, Meta(pattern=whole(identifiers.NAME_PATTERN))]


NameIfAny = Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.NAME_PATTERN)))]


ClockTime = Annotated[str, Meta(pattern=whole(identifiers.CLOCK_PATTERN))]


AttributeName = Annotated[str, Meta(pattern=whole(identifiers.ATTRIBUTE_PATTERN))]


Text = Annotated[str, Meta(max_length=1_000)]


MailAddress = Annotated[str, Meta(pattern=whole(identifiers.MAIL_PATTERN))]


class Day(date):
    """A day, written ``2026-03-02``, in quotation marks or without."""


class DurationS(int):
    """Seconds; in the file a text with a unit, such as ``"15m"``."""


class DurationOrNoneS(DurationS):
    """Seconds; in the file also ``"0s"``, which turns a feature off."""


class StorePlace:
    """A store: the file at `path`, or the database at `url`, whose password nothing here shows.

    What a server keeps next to it, on its own host, lies in `folder`.
    """

    def __init__(
        self, path: Path | None = None, *, url: str = "", folder: Path | None = None
    ) -> None:
        self.path = path
        self.url = url
        self.folder = folder or (path.parent if path is not None else Path())

    @classmethod
    def named(cls, text: str, base: Path) -> StorePlace:
        """Return the place that an owner calls `text` in a file of the directory `base`."""
        if text.startswith(SCHEMES):
            return cls(url=text, folder=base)
        return cls(base / Path(text).expanduser())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePlace) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __str__(self) -> str:
        return str(self.path) if self.path else "postgresql://..."

    def __repr__(self) -> str:
        return f"StorePlace({self})"

    @property
    def _identity(self) -> tuple[Path | None, str, Path]:
        return self.path, self.url, self.folder


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in the file: unknown fields are refused."""


def check_at_most(length_s: int, length_s_max: int, where: str) -> None:
    if length_s > length_s_max:
        raise InvalidInput(
            f"{format_duration(length_s)} is too long",
            where=where,
            remedy=f"at most {format_duration(length_s_max)}",
        )


def check_unique(names: list[str], where: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InvalidInput(
                f"{name!r} is listed twice", where=f"{where}[{index}].name", remedy="rename one"
            )
