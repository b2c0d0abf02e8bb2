"""The bases of what calls carry: bodies that are checked strictly, answers that may grow."""

from __future__ import annotations

import msgspec


class Body(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of call bodies: unknown fields are refused."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of answers: clients ignore fields that they do not know yet."""
