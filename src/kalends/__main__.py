"""``python -m kalends``: the program, whatever the path of programs says."""

from __future__ import annotations

import sys

from kalends.client.cli import main

if __name__ == "__main__":
    sys.exit(main())
