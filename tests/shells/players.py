"""Processes that have loaded all that is played, and play what they are told, one play after the other.

To load it takes as long as a short play, so the tests of one process share one. Every play is forked from
it as it stands once all is loaded: as from a process that was started for that play alone.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import Final

from tests.shells.reports import Report


class Players:
    """Such a process, which ends with the one that has started it; `hash_seed` orders its sets."""

    def __init__(self, hash_seed: int) -> None:
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.shells", "--told"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        )
        atexit.register(self.dismiss)

    def play(self, name: str, seed: int, mutation: str) -> Report:
        """Play it, and say what came of it; whoever is disturbed meanwhile must dismiss them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([name, seed, mutation]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"the process that plays has died at {name} {seed} {mutation}"
        return Report(**json.loads(line))

    def dismiss(self) -> None:
        self._process.kill()
        self._process.communicate()
        atexit.unregister(self.dismiss)


_of_threads: Final[dict[tuple[int, int], Players]] = {}
"""By thread, and by what orders their sets."""


def play(name: str, seed: int, *, mutation: str = "", hash_seed: int = 0) -> Report:
    """Play it by the players of this thread, who are called when they are needed first."""
    whose = threading.get_ident(), hash_seed
    if whose not in _of_threads:
        _of_threads[whose] = Players(hash_seed)
    try:
        return _of_threads[whose].play(name, seed, mutation)
    except BaseException:
        _of_threads.pop(whose).dismiss()
        raise
