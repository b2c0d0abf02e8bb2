"""A Slurm on loopback that its operator, or an accident, does things to, with all that Slurm can count."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kalends.demo.clusters import loopback_slurm
from kalends.demo.clusters.loopback_slurm import (
    DOWN_S_MAX,
    SYSTEM_PATH,
    UP_S_MAX,
    LoopbackSlurm,
    free_ports,
    wait_until,
)
from tests.backends import loopback_accounts
from tests.backends.loopback_accounts import LoopbackAccounts


def why_no_accounts() -> str:
    """Return why Slurm with its accounting cannot be run here; "" if it can."""
    if missing := loopback_accounts.missing(SYSTEM_PATH):
        packages = f"{loopback_slurm.PACKAGES} {loopback_accounts.PACKAGES}"
        return f"Slurm is not installed (no {', '.join(missing)}): apt-get install {packages}"
    return loopback_slurm.why_not()


class OperatedSlurm(LoopbackSlurm):
    """A running Slurm of `nodes` nodes of `cores` slots each; its controller is started and stopped apart.

    `licences` are what Slurm counts: ``matlab:10``. With `accounting` a slurmdbd keeps its jobs in a
    database; that takes three seconds more to start.
    """

    def __init__(
        self, top: Path, nodes: int, *, cores: int = 1, licences: str = "", accounting: bool = False
    ) -> None:
        super().__init__(top, nodes)
        self._cores = cores
        self._licences = licences
        self._chosen: Sequence[str] = ()
        self._controller: subprocess.Popen[bytes]
        self.accounting: LoopbackAccounts | None = None
        if accounting:
            port = free_ports(1)
            self.accounting = LoopbackAccounts(top, port, self._spawn, self._environment)

    def would_start(self, user: str, nodes: int, minutes: int, since: int) -> int:
        """Return when a job of `user` would start, by ``sbatch --test-only`` (seconds UTC); 0 for never."""
        begin = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        done = subprocess.run(
            ("sbatch", "--test-only", f"--uid={user}", f"-N{nodes}", f"--begin={begin}",
             f"--time={minutes}", "--wrap=true"),
            env={**self._environment, "TZ": "UTC"}, cwd=self._top / "work", check=False, text=True,
            capture_output=True,
        )  # fmt: skip
        found = re.search(r"to start at (\S+)", done.stderr)
        if found is None:
            return 0
        return int(datetime.fromisoformat(f"{found.group(1)}+00:00").timestamp())

    def freeze_controller(self) -> None:
        """Let the controller do nothing until `thaw_controller`."""
        self._controller.send_signal(signal.SIGSTOP)

    def thaw_controller(self) -> None:
        self._controller.send_signal(signal.SIGCONT)

    def kill_controller(self) -> None:
        self._controller.kill()
        self._controller.wait()

    def stop_controller(self) -> None:
        self._controller.terminate()
        self._controller.wait(DOWN_S_MAX)

    def start_controller(self, nodes: Sequence[str] = ()) -> None:
        """Start it again, unless it runs; with `nodes` alone, or with all."""
        self._chosen = nodes
        text = self._configuration()
        if text != self.configuration_file.read_text():
            if self._controller.poll() is None:
                self.stop_controller()
            self.configuration_file.write_text(text)
        if self._controller.poll() is not None:
            self._processes.remove(self._controller)
            self._controller = super()._start_controller()
            wait_until(self._idle, UP_S_MAX, "Slurm")

    def _start_controller(self) -> subprocess.Popen[bytes]:
        if self.accounting is not None:
            self.accounting.start(self._name)
        self._controller = super()._start_controller()
        return self._controller

    def _configuration(self) -> str:
        text = super()._configuration().replace("CPUs=1 ", f"CPUs={self._cores} ")
        if self.accounting is not None:
            text = re.sub("^Accounting.*\n", self.accounting.lines, text, flags=re.MULTILINE)
        lines = [
            line
            for line in text.splitlines(keepends=True)
            if not (self._chosen and line.startswith("NodeName="))
            or line.split()[0].removeprefix("NodeName=") in self._chosen
        ]
        licences = f"Licenses={self._licences}\n" if self._licences else ""
        return licences + "".join(lines)
