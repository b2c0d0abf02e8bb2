"""``python -m kalends``: the program, whatever the path of programs says."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """The entry point of the ``kalends`` program; returns its exit code."""
    # What is loaded stays to the end: the collector of cycles would walk through all of it in vain,
    # several times while it is loaded and again and again later.
    gc.disable()
    try:
        from kalends.cli import main as run

        gc.freeze()
        gc.enable()
        return run()
    except KeyboardInterrupt:
        # It came while the program was loaded; later, the program handles it.
        print("kalends: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
