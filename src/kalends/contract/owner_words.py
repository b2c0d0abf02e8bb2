"""Text for users about approval by owners, for sites and brokers."""

from __future__ import annotations

from kalends.core.errors import Refusal, RefusalCode


def refusal_of(where: str, declined: bool, word: str) -> Refusal:
    """Return the refusal for what the owner of `where` has `declined`, or has not answered in time."""
    if not declined:
        detail = "its owner did not answer in time"
        return Refusal(where=where, code=RefusalCode.UNANSWERED, detail=detail)
    said = f": {word}" if word else ""
    detail = f"its owner has declined it{said}"
    return Refusal(where=where, code=RefusalCode.DECLINED, detail=detail)
