"""Checks of an order before a shepherd gets it, so that the shepherd can rely on it."""

from __future__ import annotations

import math
from typing import Final, NoReturn

from kalends.batch.shepherds.folders import is_name
from kalends.batch.shepherds.order import (
    ORDER_BYTES_MAX,
    RESOURCES,
    SIGNALS,
    JobOrder,
    encode_order,
)
from kalends.core.errors import InvalidInput
from kalends.core.limits import DURATION_S_MAX

EXTENT_MAX: Final = 10_000
CORES_MAX: Final = 65_536


def check_name(name: str) -> None:
    """Raise `InvalidInput` unless `name` is that of an attempt, and so safe as part of a path."""
    if not is_name(name):
        _refuse(
            "name", f"{name[:40]!r} is not the name of an attempt", "write JOB.ATTEMPT, e.g. 17.1"
        )


def check_order(order: JobOrder) -> None:
    """Raise `InvalidInput` for an order that no shepherd could carry out; `where` is the field."""
    check_name(order.name)
    if not (order.argv or order.script) or (not order.script and not order.argv[0]):
        _refuse("argv", "nothing to run", "name a program, or give a script")
    if order.script and not order.script.startswith("#!"):
        _refuse(
            "script", "the first line of the script names no interpreter", "begin it with #!/bin/sh"
        )
    for where, text in _texts(order):
        if "\0" in text:
            _refuse(where, "a null character", "leave it out")
    for name in order.environment:
        if not name or "=" in name:
            _refuse(
                "environment", f"no variable can be named {name!r}", "use letters, digits and '_'"
            )
    for name, value in order.resources.items():
        if name not in RESOURCES or value < 0:
            _refuse(
                "resources",
                f"limit {name} = {value} is not possible",
                f"use {', '.join(RESOURCES)}",
            )
    if order.warning not in SIGNALS:
        _refuse(
            "warning", f"{order.warning} is not a signal for warnings", f"use {', '.join(SIGNALS)}"
        )
    if len(order.cores) > CORES_MAX or any(core < 0 for core in order.cores):
        _refuse("cores", "processor numbers below 0", "number them from 0 on")
    if order.terminal != (0, 0) and not all(1 <= each <= EXTENT_MAX for each in order.terminal):
        _refuse("terminal", "the terminal has an impossible size", "give rows and columns")
    if order.piped and order.terminal == (0, 0):
        _refuse(
            "piped",
            "standard streams are pipes, but there is no terminal",
            "ask for a terminal, too",
        )
    _check_times(order)
    if len(encode_order(order)) > ORDER_BYTES_MAX:
        _refuse("script", "the order is too long", "keep long texts in files of the user")


def _check_times(order: JobOrder) -> None:
    for where, value in (
        ("limit_s", order.limit_s), ("warn_s", order.warn_s), ("grace_s", order.grace_s),
        ("attach_s", order.attach_s),
    ):  # fmt: skip
        if not (math.isfinite(value) and 0 <= value <= DURATION_S_MAX):
            _refuse(where, f"{value} s", f"give seconds up to {DURATION_S_MAX}")
    if order.limit_s <= 0:
        _refuse("limit_s", "a time limit of 0 s", "give a limit above 0")


def _texts(order: JobOrder) -> list[tuple[str, str]]:
    texts = [("argv", each) for each in order.argv]
    for name, value in order.environment.items():
        texts += [("environment", name), ("environment", value)]
    for where in ("script", "user", "directory", "input", "output", "error"):
        texts.append((where, getattr(order, where)))
    return texts


def _refuse(where: str, detail: str, remedy: str) -> NoReturn:
    raise InvalidInput(detail, where=where, remedy=remedy)
