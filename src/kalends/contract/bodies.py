"""Base classes of calls: strictly checked bodies, and answers that may get new fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import msgspec

REPR_MAX: Final = 300
"""Characters of an answer in an interactive session: four lines of a terminal."""


class Body(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of call bodies: unknown fields are refused."""


class Answer(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """Base of answers: clients ignore fields that they do not know yet."""

    def __repr__(self) -> str:
        """Return the set fields, cut at `REPR_MAX`, for interactive sessions."""
        whole = super().__repr__()
        return whole if len(whole) <= REPR_MAX else f"{whole[: REPR_MAX - 4]}...)"


class NotebookForm:
    """An answer that a notebook shows as HTML, once the client is loaded, which draws it."""

    __slots__ = ()

    _drawn: ClassVar[Callable[[object], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if NotebookForm._drawn is None else NotebookForm._drawn(self)

    @classmethod
    def draw_by(cls, as_html: Callable[[object], str]) -> None:
        """Show all answers as `as_html` draws them."""
        NotebookForm._drawn = as_html
