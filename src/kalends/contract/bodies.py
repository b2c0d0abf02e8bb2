"""The bases of what calls carry: bodies that are checked strictly, answers that may grow."""

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
        """Return the beginning of all fields that have been set: an interactive session shows it."""
        whole = super().__repr__()
        return whole if len(whole) <= REPR_MAX else f"{whole[: REPR_MAX - 4]}...)"


class NotebookForm:
    """What a notebook shows as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # Imported here because only notebooks ask for it.
        from kalends.contract.pictures import as_html

        return as_html(self)
