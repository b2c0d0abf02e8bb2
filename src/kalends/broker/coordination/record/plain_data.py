"""Messages of agents and to agents: JSON text that is plain data, small, and safe to pass on."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from kalends.core import limits
from kalends.core.errors import InvalidInput

DEPTH_MAX: Final = 8


def plain_data(text: str, where: str) -> Any:
    """The value of `text`; raises `InvalidInput` for what every codec on the way could not carry.

    That is: anything but JSON, numbers beyond 64 bits or not finite, half characters, and lists in
    lists deeper than `DEPTH_MAX`.
    """
    if len(text) > limits.AGENT_MESSAGE_CHARS_MAX:
        raise _refused(f"it has more than {limits.AGENT_MESSAGE_CHARS_MAX} characters", where)
    try:
        value = msgspec.json.decode(text)
        _check(value, where, DEPTH_MAX)
        msgspec.msgpack.encode(value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _refused(f"it is not JSON: {error}", where) from error
    return value


def _check(value: Any, where: str, depth_left: int) -> None:
    if isinstance(value, dict | list):
        if not depth_left:
            raise _refused(f"it is nested deeper than {DEPTH_MAX}", where)
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(each, where, depth_left - 1)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise _refused("a number in it has more than 64 bits", where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refused("a number in it is not finite", where)


def _refused(detail: str, where: str) -> InvalidInput:
    return InvalidInput(
        f"invalid message for an agent: {detail}",
        where=where,
        remedy="send small plain data: texts, numbers, true, false, null, lists and objects of them",
    )
