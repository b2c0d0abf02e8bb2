"""Errors for callers while the store of a broker cannot be used, or is not trusted yet."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.core.errors import OutcomeUnknown, Unavailable

LOST = "the broker lost its store, or stopped"


def unknown(why: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{why}, while this was being decided", remedy="repeat the call with the same key"
    )


def unusable() -> Unavailable:
    return Unavailable(
        "this broker's store cannot be used now",
        where="store",
        remedy="try again in a moment, or ask another replica",
        retry_after_s=1.0,
    )


def stuck(stuck_s: float, because: str) -> Unavailable:
    return Unavailable(
        f"the broker's store has not taken a write for {stuck_s:.1f} s: {because}",
        where="store",
        remedy="try again in a moment; the broker continues once the store takes writes again",
        retry_after_s=1.0,
    )


def put_back() -> Unavailable:
    return Unavailable(
        "this broker's register was restored to an earlier state, and is compared with its sites first",
        where="store",
        remedy="try again in a moment; /healthz shows the operator of the broker which sites are missing",
        retry_after_s=5.0,
    )


def not_certain() -> Unavailable:
    return Unavailable(
        "this broker was just started, and its sites have not yet confirmed its store",
        where="store",
        remedy="try again in some seconds",
        retry_after_s=1.0,
    )


def promoted(unheard: Sequence[str]) -> Unavailable:
    return Unavailable(
        "the database of this broker's register failed over, or was restored, and these sites have not"
        f" confirmed yet that nothing was lost: {', '.join(unheard)}",
        where="store",
        remedy="try again later; the operator of the broker can go on without these sites:"
        " kalends admin reconcile --go-on",
        retry_after_s=5.0,
    )
