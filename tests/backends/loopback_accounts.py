"""The accounting of a Slurm on loopback, from nothing, in one folder: a database, and slurmdbd before it.

The database listens on a socket in a folder that is root's alone, and on nothing else.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kalends.demo.clusters.loopback_slurm import wait_until

PROGRAMS: Final = ("slurmdbd", "mariadbd", "sacctmgr", "sacct")
PACKAGES: Final = "slurmdbd mariadb-server-core"
TABLES: Final = Path("/usr/share/mysql/mysql_system_tables.sql")
UP_S_MAX: Final = 120.0

DATABASE: Final = (
    "--no-defaults", "--user=root", "--skip-networking", "--skip-grant-tables", "--skip-name-resolve",
    "--skip-log-bin", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M",
    "--innodb-flush-log-at-trx-commit=0",
)  # fmt: skip

CONFIGURATION: Final = """
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge.sock
PidFile={top}/run/slurmdbd.pid
LogFile={top}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
"""

OF_CONTROLLER: Final = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={top}/munge.sock
"""

Spawn = Callable[..., "subprocess.Popen[bytes]"]


def missing(path: str) -> list[str]:
    """Return which of its programs are not on `path`."""
    return [each for each in PROGRAMS if shutil.which(each, path=path) is None]


class LoopbackAccounts:
    """A database and a slurmdbd in the folder `top`, on `port`; their starter ends what `spawn` has begun."""

    def __init__(self, top: Path, port: int, spawn: Spawn, environment: Mapping[str, str]) -> None:
        self._top = top
        self._port = port
        self._spawn = spawn
        self._environment = environment
        self._daemon: subprocess.Popen[bytes]

    @property
    def lines(self) -> str:
        """Return what the controller's configuration says of it."""
        return OF_CONTROLLER.format(top=self._top, port=self._port)

    def start(self, cluster: str) -> None:
        """Start both, and make `cluster` known; munge runs already."""
        folder = self._top / "database"
        folder.mkdir(mode=0o700)
        (folder / "data").mkdir()
        place = f"--datadir={folder}/data"
        program = shutil.which("mariadbd", path=self._environment["PATH"])
        assert program is not None
        subprocess.run(
            [program, *DATABASE, "--bootstrap", place], env=dict(self._environment), check=True,
            input="create database mysql;\nuse mysql;\n" + TABLES.read_text(), text=True,
            capture_output=True,
        )  # fmt: skip
        socket = folder / "sql.sock"
        self._spawn("mariadbd", *DATABASE, place, f"--socket={socket}")
        wait_until(socket.exists, UP_S_MAX, "Slurm's database")
        path = self._top / "slurmdbd.conf"
        path.write_text(CONFIGURATION.format(top=self._top, port=self._port))
        path.chmod(0o600)
        self.start_daemon()
        self._said("sacctmgr", "-i", "add", "cluster", cluster)

    def start_daemon(self) -> None:
        """Start slurmdbd, and return when it answers."""
        socket = str(self._top / "database" / "sql.sock")
        self._daemon = self._spawn("env", f"MYSQL_UNIX_PORT={socket}", "slurmdbd", "-D")
        wait_until(self._answers, UP_S_MAX, "slurmdbd")

    def stop_daemon(self) -> None:
        """End slurmdbd; the controller keeps for it what happens meanwhile."""
        self._daemon.terminate()
        self._daemon.wait()

    def _answers(self) -> bool:
        try:
            self._said("sacctmgr", "-n", "show", "cluster")
        except subprocess.CalledProcessError:
            return False
        return True

    def _said(self, *command: str) -> None:
        subprocess.run(
            command, env=dict(self._environment), check=True, capture_output=True, timeout=UP_S_MAX
        )
