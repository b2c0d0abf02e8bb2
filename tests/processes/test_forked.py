"""Servers that are forked for tests are what users start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .facility import make_facility
from .servers import Server, StartFailed, running

SHOWN = ("Umask", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff")


def shown(server: Server) -> dict[str, object]:
    """What can be seen of its process from outside."""
    process = Path(f"/proc/{server.pid}")
    fields = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    streams = [os.path.basename(os.readlink(process / "fd" / each)) for each in "012"]
    return {
        "folder": os.readlink(process / "cwd"),
        "program": os.readlink(process / "exe"),
        # A pipe has a number of its own behind its name.
        "streams": [each.partition(":")[0] for each in streams],
        **{name: fields[name] for name in SHOWN},
    }


async def test_a_forked_server_looks_as_one_that_was_started_by_its_command(tmp_path: Path) -> None:
    looks = []
    for name, environment in (("forked", {}), ("started", {"ANYTHING": "makes it so"})):
        folder = tmp_path / name
        folder.mkdir()
        (site,) = make_facility(folder, sites=1).sites
        site.environment = environment
        async with running(site):
            looks.append(shown(site))
            assert await site.stop() == 0
        assert looks[0] == looks[-1]


async def test_how_a_forked_server_has_ended_is_told(tmp_path: Path) -> None:
    (site,) = make_facility(tmp_path, sites=1).sites
    await site.start()
    os.kill(site.pid, signal.SIGKILL)
    assert await site.stop() == -signal.SIGKILL
    assert not site.running
    site.configuration.write_text("[nonsense]")
    with pytest.raises(StartFailed, match="nonsense") as refused:
        await site.start()
    assert refused.value.code == 2
