"""Whether this host can run the programs of other Unix users: they need its Python, and ways to it."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path


def beyond_reach(paths: Iterable[Path]) -> list[str]:
    """Return what keeps users other than root from these paths: each folder, or file, once."""
    found: dict[Path, None] = {}
    for path in paths:
        for named in (path, path.resolve()):
            for each in (*reversed(named.parents), named):
                if not each.stat().st_mode & stat.S_IXOTH:
                    found[each] = None
                    break
    return [
        f"only some users of this host can enter or run {each}: jobs of others cannot use the site's "
        "Python. Install it elsewhere (not below /root), or chmod o+x"
        for each in found
    ]
