"""The folder of a site on PostgreSQL: one process of the site works there, and its standby in another one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kalends.core.errors import Conflict, Unavailable
from kalends.serving.configuration import SiteConfiguration


class FolderLock:
    """Held while this process works in the folder of its site; it ends with the process.

    Raises `Conflict` while another process does: both would write one audit log and one file of agents'
    runs, and take the jobs of machines for their own. Raises `Unavailable` if the lock cannot be made.
    """

    def __init__(self, site: SiteConfiguration) -> None:
        place = _place(site)
        try:
            self._descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f"the lock of the folder cannot be made: {error.strerror}",
                where=str(place),
                remedy="check that the folder exists and is writable",
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            refusal = _refusal(site, _holder(self._descriptor))
            os.close(self._descriptor)
            raise refusal from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()}, at {site.listen}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def folder_lock(site: SiteConfiguration) -> FolderLock | None:
    """Keep other processes of `site` out of its folder; None for a store in a file, which has its own lock.

    Raises as `FolderLock`.
    """
    return FolderLock(site) if site.store.path is None else None


def folder_problem(site: SiteConfiguration) -> str:
    """Return why a start of `site` in its folder would be refused now, or ""; writes nothing.

    Who listens at the address of `site` is this site itself, which runs.
    """
    try:
        descriptor = os.open(_place(site), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        return "" if holder.endswith(f", at {site.listen}") else str(_refusal(site, holder))
    finally:
        os.close(descriptor)
    return ""


def _place(site: SiteConfiguration) -> Path:
    return site.store_file.with_suffix(".lock")


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 1_000, 0).decode(errors="replace").strip()


def _refusal(site: SiteConfiguration, holder: str) -> Conflict:
    return Conflict(
        f"another process of site {site.name} works in the folder {_place(site).parent}: {holder}",
        where="site.folder",
        remedy="start each process once; a standby runs on another host, or for a trial on this one in a"
        " `folder` of its own",
    )
