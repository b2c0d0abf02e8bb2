"""Sites with a machine each that runs jobs, and a broker: what the sessions about jobs need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.patience import PATIENCE_S
from transcripts import CLOCK, environment


class Machine(NamedTuple):
    """The machine of one site."""

    name: str
    nodes: int
    policy: str = "easy"
    memory: int = 64


@contextmanager
def machine_room(
    directory: Path, machines: Sequence[Machine] = (Machine("lab", 4),)
) -> Iterator[dict[str, str]]:
    """Their sites and a broker in `directory`; yields the variables of a session."""
    directory.chmod(0o755)
    home = directory / "home"
    home.mkdir()
    home.chmod(0o777)
    with ExitStack() as servers:
        of_sites = []
        for each in machines:
            serving = _serving(directory / f"{each.name}.toml", _site(each))
            url = servers.enter_context(serving)
            of_sites.append(f'[[broker.sites]]\nname = "{each.name}"\nurl = "{url}"\n')
        of_broker = f"""
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
bid_s_max = 30.0
{"".join(of_sites)}"""
        broker = servers.enter_context(_serving(directory / "broker.toml", of_broker))
        yield {"KALENDS_FACILITY": str(home), "KALENDS_BROKER": broker}


def _site(machine: Machine) -> str:
    mapped = ", ".join(f'{name} = "nobody"' for name in ("ann", "bob"))
    users = f"users = {{ {mapped} }}" if os.geteuid() == 0 else ""
    return f"""
[site]
name = "{machine.name}"
listen = "127.0.0.1:0"
store = "{machine.name}.sqlite"
[[site.resources]]
name = "box"
capacity = {machine.nodes}
grain = "1s"
attributes = {{ memory = {machine.memory} }}
[[site.machines]]
resource = "box"
policy = "{machine.policy}"
address = "{machine.name}.example"
grace = "1s"
{users}
"""


def without_times(printed: str) -> str:
    """Times and lengths of running jobs differ from run to run, and with them the width of their column."""
    printed = re.sub(r"(START \(UTC\)) +", r"\1  ", printed)
    printed = re.sub(rf"~?[A-Z][a-z]{{2}} YYYY-MM-DD {CLOCK} *", "THEN ", printed)
    return re.sub(r"(?m) +$", "", printed)


@contextmanager
def _serving(configuration: Path, text: str) -> Iterator[str]:
    """A server; yields its address."""
    configuration.write_text(text)
    command = [sys.executable, "-m", "kalends", "serve", str(configuration)]
    with subprocess.Popen(
        command, env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
