"""``python -m kalends``: the program, whatever the path of programs says."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
"""The exit code of a program that was interrupted, as shells have it."""


def main() -> int:
    """The entry point of the ``kalends`` program; returns its exit code."""
    # What is loaded stays to the end: the collector of cycles would walk through all of it in vain,
    # several times while it is loaded and again and again later.
    gc.disable()
    try:
        import signal

        # While classes are made, an interrupt would be raised as another error, or be lost.
        typed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if typed:
            signal.signal(signal.SIGINT, _end_at_once)
        from kalends.cli import main as run

        if typed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        # It came before or after; the program itself handles it.
        print("kalends: interrupted", file=sys.stderr)
        return INTERRUPTED


def _end_at_once(*_: object) -> None:
    os.write(2, b"kalends: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
