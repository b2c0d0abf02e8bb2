"""The bases of what calls carry: bodies that are checked strictly, answers that may grow."""

from __future__ import annotations

import msgspec


class Body(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of call bodies: unknown fields are refused."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of answers: clients ignore fields that they do not know yet."""


class NotebookForm:
    """What a notebook shows as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # Imported here because only notebooks ask for it.
        from kalends.contract.pictures import as_html

        return as_html(self)
