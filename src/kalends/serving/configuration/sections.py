"""The base of all sections of the file, texts with a form, durations, and checks for several sections."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kalends.core import identifiers
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole

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
