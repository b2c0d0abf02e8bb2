"""Base classes of calls: strictly checked bodies, and answers that may get new fields."""

from __future__ import annotations

from typing import Final

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
    """An answer that a notebook shows as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # Imported here because only notebooks need it.
        from kalends.contract.pictures import as_html

        return as_html(self)
