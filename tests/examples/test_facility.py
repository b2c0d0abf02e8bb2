"""examples/facility works as its README says: keys by its script, servers from its configurations."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from transcripts import EXAMPLES, environment

from kalends.demo.facility import (
    BROKER,
    OPERATOR,
    THREE_SITES,
    USER,
    Facility,
    all_sites_up,
    servers,
)


@pytest.mark.parametrize("virtual", [(), ("west",)])
def test_the_script_makes_keys_and_tokens_that_all_servers_believe(
    tmp_path: Path, virtual: tuple[str, ...]
) -> None:
    directory = tmp_path / "my-facility"
    shutil.copytree(EXAMPLES / "facility", directory)
    subprocess.run(
        [directory / "make-keys.sh"], env=environment({}), capture_output=True, check=True
    )
    assert all(path.stat().st_mode & 0o077 == 0 for path in (directory / "tokens").iterdir())

    for name in virtual:
        shutil.copy(directory / f"broker-{name}.toml", directory / "broker.toml")
    plan = replace(THREE_SITES, virtual=dict.fromkeys(virtual, ""))
    sp2 = "{through=west}:64" if virtual else "sdsc/sp2:64"

    async def book_as_the_readme_says() -> subprocess.CompletedProcess[str]:
        async with servers(directory, plan=plan) as running:
            assert set(running) == {BROKER, *THREE_SITES.sites, *virtual}
            facility = Facility(directory, running)
            await all_sites_up(facility.broker_url, facility.token(OPERATOR))
            command = ["kalends", "book", f"{sp2} + caltech/beamline + ncsa/cave", "--for=2h"]
            return await asyncio.to_thread(
                subprocess.run, command,
                env=environment(facility.environment()), capture_output=True, text=True,
            )  # fmt: skip

    booked = asyncio.run(book_as_the_readme_says())
    assert booked.returncode == 0, booked.stderr
    assert booked.stdout.startswith("reserved")
    assert f"user     {USER}" in booked.stdout
    assert "sdsc/sp2 64" in " ".join(booked.stdout.split())


def test_the_script_overwrites_no_key(tmp_path: Path) -> None:
    directory = tmp_path / "my-facility"
    shutil.copytree(EXAMPLES / "facility", directory)
    script = [directory / "make-keys.sh"]
    subprocess.run(script, env=environment({}), capture_output=True, check=True)
    key = (directory / "keys" / "people").read_bytes()
    again = subprocess.run(script, env=environment({}), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "never overwritten" in again.stderr
    assert (directory / "keys" / "people").read_bytes() == key
