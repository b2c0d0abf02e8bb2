"""What is said of a program's exit, besides its status."""

import signal
from collections.abc import Mapping
from typing import Final

OF_SHELL: Final = 128
"""A shell that runs a program ends with this and the number of the signal that ended the program."""


def exit_words(status: int, limits: Mapping[str, int]) -> str:
    """Return words for an exit status, or the negative number of a signal; `limits` are an order's."""
    most = limits.get("FSIZE")
    if most and status in (-signal.SIGXFSZ, OF_SHELL + signal.SIGXFSZ):
        return (
            f"ended by SIGXFSZ: one of its files grew beyond {most} bytes, the owner's file_mb_max"
        )
    return f"ended by {_name_of(-status)}" if status < 0 else ""


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
