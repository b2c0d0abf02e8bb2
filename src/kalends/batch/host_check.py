"""Whether this host can run the programs of other Unix users: they need Python, and ways to folders."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kalends.batch.shepherds.folders import Folders

OWNING_NOTHING: Final = "nobody"
"""In the place of users whom no configuration names."""
USERS_TRIED_MAX: Final = 1_000
USERS_TOLD_MAX: Final = 3
LOOK_S_MAX: Final = 30.0
_CLOSED: Final = 'for each do [ -x "$each" ] || printf "%s\\0" "$each"; done'


def closed_to_scripts(folder: Path, users: Mapping[str, str]) -> list[str]:
    """Return what keeps the Unix users of jobs from their scripts below `folder`.

    To be called by root. `users` says who each user of ours is here; others are taken for `OWNING_NOTHING`.
    """
    return [
        f"the Unix users of jobs ({who}) cannot enter {closed}, and scripts of jobs are below it. Run: "
        f"chmod o+x {shlex.quote(str(closed))}; or name another folder as `directory` of the machine"
        for closed, who in _closed_to((Path(Folders(str(folder)).spool),), users)
    ]


def closed_to_programs(users: Mapping[str, str]) -> list[str]:
    """Return why programs that import kalends cannot use the site's Python, see `closed_to_scripts`."""
    python = (Path(sys.executable), Path(__file__).parents[1])
    return [
        f"the Unix users of jobs ({who}) cannot enter or run {closed}, so programs that import kalends "
        "cannot use the site's Python. Install it elsewhere (not below /root), or run: "
        f"chmod o+x {shlex.quote(str(closed))}"
        for closed, who in _closed_to(python, users)
    ]


def not_writable(folder: Path) -> list[str]:
    """Return why jobs cannot be recorded in `folder`: a nameless file is written there, or above it."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"kalends")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return [f"jobs cannot be recorded in {folder}: {there}: {error.strerror}"]
    return []


def _closed_to(paths: Collection[Path], users: Mapping[str, str]) -> list[tuple[Path, str]]:
    """Return each closed folder or file, with the users who cannot go through it."""
    found: dict[Path, list[str]] = {}
    for name in sorted({OWNING_NOTHING, *users.values()})[:USERS_TRIED_MAX]:
        for each in beyond_reach(paths, name):
            found.setdefault(each, []).append(name)
    return [(closed, named_few(names)) for closed, names in found.items()]


def beyond_reach(paths: Iterable[Path], user: str) -> list[Path]:
    """Return the first folder, or file, on the way to each of `paths` that a Unix user cannot enter or run.

    The kernel decides it for a process of that user, which only root and the user themselves can start. What
    is not there yet, and a user who is not, keeps nobody from anything.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return []
    ways = [list(_way(named)) for path in paths for named in (path.absolute(), path.resolve())]
    closed = _closed({each for way in ways for each in way}, account)
    first = (next((each for each in way if each in closed), None) for way in ways)
    return list(dict.fromkeys(each for each in first if each is not None))


def homeless(users: Mapping[str, str]) -> list[str]:
    """Return the Unix users who cannot enter their homes, where jobs run by default."""
    found = []
    for name in sorted(set(users.values()))[:USERS_TRIED_MAX]:
        try:
            home = Path(pwd.getpwnam(name).pw_dir)
        except KeyError:
            continue
        if not home.is_dir() or beyond_reach((home,), name):
            found.append(name)
    return found


def named_few(names: Collection[str]) -> str:
    """Return the first of `names`, and the number of the others."""
    some = ", ".join(list(names)[:USERS_TOLD_MAX])
    more = len(names) - USERS_TOLD_MAX
    return f"{some} and {more} more" if more > 0 else some


def _way(path: Path) -> Iterator[Path]:
    for each in (*reversed(path.parents), path):
        if not each.exists():
            return
        if not each.is_symlink():  # What it leads to is on the resolved way.
            yield each


def _closed(paths: Collection[Path], account: pwd.struct_passwd) -> set[Path]:
    done = subprocess.run(
        ["/bin/sh", "-c", _CLOSED, "sh", *map(str, paths)],
        user=account.pw_uid, group=account.pw_gid, cwd="/", env={}, check=True,
        extra_groups=os.getgrouplist(account.pw_name, account.pw_gid) if os.geteuid() == 0 else None,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=LOOK_S_MAX,
    )  # fmt: skip
    return {Path(os.fsdecode(each)) for each in done.stdout.split(b"\0") if each}
