"""A Slurm cluster on loopback, from nothing, in one folder: a controller, and a daemon for each node.

It is Debian's Slurm, if it is installed; nothing is written elsewhere, and all processes are children of this
one, and end with it. Nodes are slots of this host, as ours are.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PROGRAMS: Final = ("slurmctld", "slurmd", "slurmstepd", "munged", "sbatch", "squeue", "scancel")
PACKAGES: Final = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
UP_S_MAX: Final = 120.0
DOWN_S_MAX: Final = 20.0
PORTS: Final = range(10_000, 32_000)
SYSTEM_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
LOOK_EVERY_S: Final = 0.05

CONFIGURATION: Final = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.sock
CredType=cred/munge
StateSaveLocation={top}/state
SlurmdSpoolDir={top}/spool/%n
SlurmctldPidFile={top}/run/slurmctld.pid
SlurmdPidFile={top}/run/slurmd-%n.pid
SlurmctldLogFile={top}/log/slurmctld.log
SlurmdLogFile={top}/log/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_resolution=1,batch_sched_delay=0,sched_interval=2
PriorityType=priority/basic
ReturnToService=2
SlurmdParameters=config_overrides
MaxArraySize=10001
MaxJobCount=50000
MinJobAge=60
KillWait=1
"""

PARTITION: Final = (
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP\n"
)


def why_not() -> str:
    """Return why Slurm cannot be measured here; "" if it can."""
    missing = [each for each in PROGRAMS if shutil.which(each, path=SYSTEM_PATH) is None]
    if missing:
        return f"Slurm is not installed (no {', '.join(missing)}): apt-get install {PACKAGES}"
    return "" if os.geteuid() == 0 else "Slurm's daemons need root"


class LoopbackSlurm:
    """A running Slurm of `nodes` nodes of one slot each, in the empty folder `top`; a context."""

    def __init__(self, top: Path, nodes: int) -> None:
        self._top = top
        self._nodes = nodes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._controller: subprocess.Popen[bytes]
        self._environment = {**os.environ, "PATH": SYSTEM_PATH, "SLURM_CONF": f"{top}/slurm.conf"}

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def said(self, *command: str) -> str:
        """Return what a command of Slurm's prints; raises `CalledProcessError`."""
        done = subprocess.run(
            command, env=self._environment, cwd=self._top / "work", check=True, text=True,
            capture_output=True,
        )  # fmt: skip
        return done.stdout

    def jobs(self) -> int:
        """Return how many jobs wait or run; each of an array counts."""
        return len(self.said("squeue", "-h", "-r", "-o", "%i").split())

    # The controller, as its operator or an accident treats it

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
        text = self._configuration(nodes)
        path = self._top / "slurm.conf"
        changed = text != path.read_text()
        if changed:
            if self._controller.poll() is None:
                self.stop_controller()
            path.write_text(text)
        if self._controller.poll() is not None:
            self._processes.remove(self._controller)
            self._controller = self._spawn("slurmctld", "-D", "-f", f"{self._top}/slurm.conf")
            _wait(lambda: self._idle(), UP_S_MAX)

    def step_daemons(self) -> list[int]:
        """Return the processes that look after running jobs."""
        found = []
        for each in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = os.readlink(f"/proc/{each}/exe")
                folder = os.readlink(f"/proc/{each}/cwd")
            except OSError:
                continue
            if "slurmstepd" in program and folder.startswith(str(self._top)):
                found.append(int(each))
        return found

    def stop(self) -> None:
        """End all jobs and all daemons."""
        if self._processes:
            subprocess.run(["scancel", "-u", "root"], env=self._environment, check=False)
            _wait(lambda: not self.step_daemons(), DOWN_S_MAX)
        for process in reversed(self._processes):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(DOWN_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def _start(self) -> None:
        top = self._top
        for name in ("state", "spool", "log", "run", "work"):
            (top / name).mkdir()
        key = top / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._port = _free_ports(self._nodes + 1)
        (top / "slurm.conf").write_text(self._configuration())
        # No job gets a control group, yet slurmd loads a plugin; this one asks nothing of the host.
        (top / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._spawn(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={top}/munge.sock",
            f"--pid-file={top}/run/munged.pid", f"--log-file={top}/log/munged.log",
            f"--seed-file={top}/run/munge.seed",
        )  # fmt: skip
        _wait((top / "munge.sock").exists, UP_S_MAX)
        self._controller = self._spawn("slurmctld", "-D", "-c", "-f", f"{top}/slurm.conf")
        steps = shutil.which("slurmstepd", path=SYSTEM_PATH)
        assert steps is not None
        for number in range(1, self._nodes + 1):
            self._spawn("slurmd", "-D", "-f", f"{top}/slurm.conf", "-d", steps, "-N", f"n{number}")
        _wait(lambda: self._idle() == self._nodes, UP_S_MAX)

    def _configuration(self, nodes: Sequence[str] = ()) -> str:
        """Return the cluster's configuration; of all nodes, or of some."""
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(host=host, top=self._top, port=self._port)
        every = [f"n{number}" for number in range(1, self._nodes + 1)]
        lines = [
            f"NodeName={name} NodeHostName={host} NodeAddr=127.0.0.1"
            f" Port={self._port + number} CPUs=1 State=UNKNOWN\n"
            for number, name in enumerate(every, 1)
            if name in (nodes or every)
        ]
        return text + "".join(lines) + PARTITION

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        found = shutil.which(program, path=SYSTEM_PATH)
        assert found is not None
        folder = self._top / "log"
        with (folder / f"{program}.out").open("ab") as log:
            process = subprocess.Popen(
                [found, *arguments], env=self._environment, cwd=folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _idle(self) -> int:
        try:
            return len(self.said("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())
        except subprocess.CalledProcessError:
            return 0


def _wait(holds: Callable[[], object], within_s: float) -> None:
    """Return when it holds; raises `TimeoutError`."""
    until_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError("Slurm did not come up, or did not go: see its logs")
        time.sleep(LOOK_EVERY_S)


def _free_ports(count: int) -> int:
    """Return the first of so many consecutive ports where nobody listens."""
    while True:
        first = random.choice(PORTS[:-count])
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
