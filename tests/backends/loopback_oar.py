"""An OAR of its own, from nothing, in one folder: a PostgreSQL, a server, and nodes that are names.

It is Debian's OAR, if it is installed. Its commands know one place for its configuration: so all of it runs
on a host of its own (`OwnHosts`), where that place is the folder's. Jobs there are of OAR's type `noop`: they
take nodes, and nothing runs on them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kalends.demo.clusters.loopback_slurm import wait_until
from tests.backends import own_hosts
from tests.backends.own_hosts import OwnHosts
from tests.support.patience import PATIENCE_S

POSTGRES: Final = Path("/usr/lib/postgresql")
TABLES: Final = Path("/usr/lib/oar/database")
DEFAULTS: Final = Path("/etc/oar")
PROGRAMS: Final = tuple(Path("/usr/lib/oar") / each for each in ("Almighty", "oarsub", "oarnodes"))
PACKAGES: Final = "oar-server oar-server-pgsql oar-user oar-user-pgsql oar-node postgresql"
SERVER: Final = "server"
PARTS: Final = 2
"""Resources of a node."""

VARIABLES: Final = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}
SETTINGS: Final = 'PATH="{top}/commands:$PATH"; export PATH\n'

CHANGED: Final = {
    "DB_BASE_PASSWD": "not-asked-for",
    "DB_BASE_PASSWD_RO": "not-asked-for",
    "FINAUD_FREQUENCY": "0",
    "LOG_FILE": "{top}/log/oar.log",
    "OAR_RUNTIME_DIRECTORY": "{top}/home",
    "SCHEDULER_MIN_TIME_BETWEEN_2_CALLS": "1",
    "WALLTIME_CHANGE_ENABLED": "yes",
    "WALLTIME_MAX_INCREASE": "-1",
}


def why_not() -> str:
    """Return why no OAR can be run here; "" if one can."""
    missing = [each.name for each in PROGRAMS if not each.exists()]
    missing += [] if any(POSTGRES.glob("*/bin/initdb")) else ["PostgreSQL"]
    if missing:
        return f"OAR is not installed (no {', '.join(missing)}): apt-get install {PACKAGES}"
    return own_hosts.why_not()


class LoopbackOar:
    """A running OAR of these nodes, in the empty folder `top`; a context.

    `users` may have any number of reservations.
    """

    def __init__(self, top: Path, nodes: Sequence[str], users: Sequence[str]) -> None:
        self._top = top
        self._users = users
        self.nodes = tuple(nodes)
        self.settings = top / "settings.sh"
        self._hosts = OwnHosts(top, [SERVER])
        self._bin = max(POSTGRES.glob("*/bin/initdb")).parent
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._hosts.__enter__()
        try:
            self._lay_out()
            self._start_database()
            self._fill_database()
            self._start_server()
            self.set_nodes(self.nodes)
        except BaseException:
            self._hosts.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._signal(signal.SIGKILL)
        self._hosts.stop()

    def said(self, *command: str, user: str = "root") -> str:
        """Return what a command of OAR's prints for a user; raises `CalledProcessError`."""
        return self._run("runuser", "-u", user, "--", *command).stdout

    def begun(self, *command: str, user: str) -> subprocess.Popen[bytes]:
        """Begin a command of OAR's that may never end; it ends with this OAR at the latest."""
        return subprocess.Popen(
            [*self._hosts.inside(SERVER), "runuser", "-u", user, "--", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=VARIABLES,
        )  # fmt: skip

    def asked(self, query: str) -> list[str]:
        """Return the rows that the database has; OAR's own commands take a second each."""
        psql = ("psql", "-h", "127.0.0.1", "-U", "oar", "-d", "oar", "-A", "-t", "-q")
        return self._run(*psql, "-c", query).stdout.split()

    def tried(self, *command: str) -> None:
        """Run a command of OAR's that may fail."""
        self._run(*command, check=False)

    # The server, as its operator or an accident treats it

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def crash(self) -> None:
        """Kill the server and its database, with what they have not written down."""
        self._signal(signal.SIGKILL)
        self._database("stop", "-m", "immediate")

    def stop(self) -> None:
        self._signal(signal.SIGKILL)
        self._database("stop", "-m", "fast")

    def start(self) -> None:
        """Start what does not run."""
        if self._database("status").returncode != 0:
            self._start_database()
        if self._server is None or self._server.poll() is not None:
            self._start_server()

    def set_nodes(self, wanted: Sequence[str]) -> None:
        """Have just these nodes."""
        listed = self.asked("select distinct network_address from resources")
        for node in self.nodes:
            if node in wanted and node not in listed:
                for part in range(PARTS):
                    self.said("oarnodesetting", "-a", "-h", node, "-p", f"cpuset={part}")
            if node not in wanted and node in listed:
                self.said("oarnodesetting", "-h", node, "-s", "Dead")
                of_node = f"from resources where network_address = '{node}'"
                wait_until(
                    partial(self.asked, f"select 1 {of_node} and state = 'Dead'"), PATIENCE_S, "OAR"
                )
                for number in self.asked(f"select resource_id {of_node}"):
                    self.said("oarremoveresource", number)

    # The parts

    def _run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._hosts.run(SERVER, *command, variables=VARIABLES, check=check)

    def _signal(self, number: int) -> None:
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, number)
            if number == signal.SIGKILL:
                self._server.wait()

    def _lay_out(self) -> None:
        top = self._top
        for name in ("home", "log", "commands", "database"):
            (top / name).mkdir()
        shutil.copytree(DEFAULTS, top / "etc")
        configuration = top / "etc" / "oar.conf"
        text = configuration.read_text()
        for name, value in CHANGED.items():
            line = f'{name}="{value.format(top=top)}"'
            text, found = re.subn(rf"(?m)^#? *{name}=.*$", line, text, count=1)
            text += "" if found else f"{line}\n"
        configuration.write_text(text)
        (top / "home" / "unlimited_reservation.users").write_text("\n".join(self._users))
        for each in (*(top / "etc").rglob("*"), top / "etc", top / "home", top / "log"):
            shutil.chown(each, "oar", "oar")
        shutil.chown(top / "database", "postgres")
        self._run("mount", "--bind", f"{top}/etc", str(DEFAULTS))
        self._run("mount", "--bind", f"{top}/home", "/var/lib/oar")
        self.settings.write_text(SETTINGS.format(top=top))
        inside = " ".join(self._hosts.inside(SERVER))
        for command in ("oarstat", "oarnodes", "oardel", "runuser"):
            script = top / "commands" / command
            script.write_text(
                f'#!/bin/sh\nPATH=/usr/bin:/bin:/usr/sbin\nexec {inside} {command} "$@"\n'
            )
            script.chmod(0o755)

    def _database(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``pg_ctl`` on the database."""
        folder = self._top / "database"
        return self._run(
            "runuser", "-u", "postgres", "--", str(self._bin / "pg_ctl"), "-w", "-s", "-D", str(folder),
            "-l", str(folder / "log"),
            "-o", f"-c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}",
            *words, check=False,
        )  # fmt: skip

    def _start_database(self) -> None:
        folder = self._top / "database"
        if not (folder / "PG_VERSION").exists():
            initdb = (str(self._bin / "initdb"), "-A", "trust", "--no-sync", "-D", str(folder))
            self._run("runuser", "-u", "postgres", "--", *initdb)
        self._database("start").check_returncode()

    def _fill_database(self) -> None:
        psql = ("psql", "-h", "127.0.0.1", "-v", "ON_ERROR_STOP=1", "-q")
        for statement in ("create role oar login superuser", "create role oar_ro login"):
            self._run(*psql, "-U", "postgres", "-c", statement)
        self._run(*psql, "-U", "postgres", "-c", "create database oar owner oar")
        for name in ("pg_structure", "pg_default_admission_rules", "default_data"):
            self._run(*psql, "-U", "oar", "-d", "oar", "-f", str(TABLES / f"{name}.sql"))
        grant = "grant select on all tables in schema public to oar_ro"
        self._run(*psql, "-U", "oar", "-d", "oar", "-c", grant)

    def _start_server(self) -> None:
        with (self._top / "log" / "almighty").open("ab") as log:
            self._server = subprocess.Popen(
                [*self._hosts.inside(SERVER), "/usr/sbin/Almighty"], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_until(self._listens, PATIENCE_S, "OAR")

    def _listens(self) -> bool:
        found = self._run("ss", "-Hltn", "sport = :6666").stdout
        return bool(found.strip())
