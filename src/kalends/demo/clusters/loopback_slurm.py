"""A Slurm cluster on loopback, from nothing, in one folder: a controller, and a daemon for each node.

It is Debian's Slurm, if it is installed; nothing is written elsewhere, and all processes are children of this
one, and end with it. Nodes are slots of this host, as ours are.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

PROGRAMS: Final = ("slurmctld", "slurmd", "slurmstepd", "munged", "sbatch", "squeue", "scancel")
PACKAGES: Final = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
UP_S_MAX: Final = 120.0
DOWN_S_MAX: Final = 20.0
LOOK_EVERY_S: Final = 0.05
PORTS: Final = range(10_000, 32_000)
SYSTEM_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

CONFIGURATION: Final = """
ClusterName={name}
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
AccountingStorageType=accounting_storage/none
"""

PARTITION: Final = (
    "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=60 State=UP\n"
)


def why_not() -> str:
    """Return why Slurm cannot be run here; "" if it can."""
    if missing := [each for each in PROGRAMS if shutil.which(each, path=SYSTEM_PATH) is None]:
        return f"Slurm is not installed (no {', '.join(missing)}): apt-get install {PACKAGES}"
    return "" if os.geteuid() == 0 else "Slurm's daemons need root"


def wait_until(holds: Callable[[], object], within_s: float, what: str) -> None:
    """Return when it holds; raises `TimeoutError`, which says that `what` did not come up or go."""
    until_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what} did not come up, or did not go: see its logs")
        time.sleep(LOOK_EVERY_S)


class LoopbackSlurm:
    """A running Slurm of `nodes` nodes of one slot each, in the empty folder `top`; a context."""

    def __init__(self, top: Path, nodes: int, *, name: str = "loopback") -> None:
        self._top = top
        self._nodes = nodes
        self._name = name
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment = {**os.environ, "PATH": SYSTEM_PATH, "SLURM_CONF": f"{top}/slurm.conf"}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def configuration_file(self) -> Path:
        return self._top / "slurm.conf"

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
            self._end_jobs()
            wait_until(lambda: not self.step_daemons(), DOWN_S_MAX, "Slurm")
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

    def start(self) -> None:
        """Return when all nodes are idle; whatever it raises, `stop` ends what runs by then."""
        top = self._top
        for name in ("state", "spool", "log", "run", "work"):
            (top / name).mkdir()
        key = top / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self._port = free_ports(self._nodes + 1)
        (top / "slurm.conf").write_text(self._configuration())
        # No job gets a control group, yet slurmd loads a plugin; this one asks nothing of the host.
        (top / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._spawn(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={top}/munge.sock",
            f"--pid-file={top}/run/munged.pid", f"--log-file={top}/log/munged.log",
            f"--seed-file={top}/run/munge.seed",
        )  # fmt: skip
        wait_until((top / "munge.sock").exists, UP_S_MAX, "Slurm")
        self._start_controller()
        steps = shutil.which("slurmstepd", path=SYSTEM_PATH)
        assert steps is not None
        for number in range(1, self._nodes + 1):
            self._spawn("slurmd", "-D", "-f", f"{top}/slurm.conf", "-d", steps, "-N", f"n{number}")
        wait_until(lambda: self._idle() == self._nodes, UP_S_MAX, "Slurm")

    def _start_controller(self) -> subprocess.Popen[bytes]:
        return self._spawn("slurmctld", "-D", "-f", f"{self._top}/slurm.conf")

    def _end_jobs(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):  # Also where nobody answers.
            jobs = self.said("squeue", "-h", "-a", "-o", "%i").split()
            if jobs:
                self.said("scancel", *jobs)

    def _configuration(self) -> str:
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(name=self._name, host=host, top=self._top, port=self._port)
        lines = [
            f"NodeName=n{number} NodeHostName={host} NodeAddr=127.0.0.1"
            f" Port={self._port + number} CPUs=1 State=UNKNOWN\n"
            for number in range(1, self._nodes + 1)
        ]
        return text + "".join(lines) + PARTITION

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        found = shutil.which(program, path=SYSTEM_PATH)
        assert found is not None
        folder = self._top / "log"
        with (folder / f"{program}.out").open("ab") as log:
            process = subprocess.Popen(
                [found, *arguments], env=self._environment, cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,  # A terminal's Ctrl-C ends us, and we end them.
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _idle(self) -> int:
        try:
            return len(self.said("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())
        except subprocess.CalledProcessError:
            return 0


def free_ports(count: int) -> int:
    """Return the first of a number of consecutive free ports."""
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
