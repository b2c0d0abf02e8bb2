"""A site with a machine that runs jobs, and a broker: what the session about jobs needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.patience import PATIENCE_S
from transcripts import environment


@contextmanager
def machine_room(directory: Path) -> Iterator[dict[str, str]]:
    """Both servers in `directory`; yields the variables of a session."""
    directory.chmod(0o755)
    home = directory / "home"
    home.mkdir()
    home.chmod(0o777)
    mapped = ", ".join(f'{name} = "nobody"' for name in ("ann", "bob"))
    users = f"users = {{ {mapped} }}" if os.geteuid() == 0 else ""
    site = f"""
[site]
name = "lab"
listen = "127.0.0.1:0"
store = "lab.sqlite"
[[site.resources]]
name = "box"
capacity = 4
grain = "1s"
[[site.machines]]
resource = "box"
grace = "1s"
{users}
"""
    with ExitStack() as servers:
        lab = servers.enter_context(_serving(directory / "lab.toml", site))
        of_broker = f"""
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
[[broker.sites]]
name = "lab"
url = "{lab}"
"""
        broker = servers.enter_context(_serving(directory / "broker.toml", of_broker))
        yield {"KALENDS_FACILITY": str(home), "KALENDS_BROKER": broker}


def without_times(printed: str) -> str:
    """Times and lengths of running jobs differ from run to run."""
    printed = re.sub(r"~?[A-Z][a-z]{2} YYYY-MM-DD [0-9:]{5,8} *", "THEN ", printed)
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
