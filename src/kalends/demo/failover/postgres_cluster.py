"""A PostgreSQL cluster from nothing, in one folder, and standbys of it: started, killed, promoted, stopped.

It listens on a socket in that folder, which is closed to other users, and on nothing else. PostgreSQL refuses
to run as root: there it runs as another user. It ends with the thread that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from kalends.core.errors import Unavailable

PROGRAMS: Final = ("initdb", "postgres", "pg_basebackup", "pg_ctl", "psql")
INSTALLED: Final = (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin"))
"""Where packages of Debian and of Red Hat put the programs of each version."""

OTHER_USERS: Final = ("postgres", "nobody")
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
LOOK_EVERY_S: Final = 0.01
PR_SET_PDEATHSIG: Final = 1

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    # Sessions of stores that were closed, or killed, go on for a moment on a busy machine.
    "max_connections": "300",
    "shared_buffers": "32MB",
    "max_wal_senders": "4",
    "wal_keep_size": "64MB",
    "wal_sender_timeout": "2s",
    "wal_retrieve_retry_interval": "100ms",
    "hot_standby": "on",
    # In its own folder: what is left of a killed server goes with it.
    "dynamic_shared_memory_type": "mmap",
}


def binaries() -> Path | None:
    """Return the folder of the server's programs: the newest package, else by the path; or None."""
    packaged = [path for top, each in INSTALLED for path in Path(top).glob(each)]
    newest_first = sorted(packaged, key=_version, reverse=True)
    return next(filter(_is_complete, [*newest_first, *_on_path()]), None)


def why_not() -> str:
    """Return why no cluster can be run here; "" if one can."""
    if binaries() is None:
        return "no PostgreSQL server is installed: apt-get install postgresql"
    if os.geteuid() == 0 and _other_user() is None:
        return "PostgreSQL refuses to run as root, and there is no user postgres: adduser --system postgres"
    return ""


class PostgresCluster:
    """One server and its data in `place`, where its socket is too."""

    def __init__(self, place: Path) -> None:
        """Raises `Unavailable` where no cluster can be run."""
        folder = binaries()
        why = why_not()
        if folder is None or why:
            raise Unavailable(why, remedy="run this command, or run kalends as an ordinary user")
        self.place = place
        self.data = place / "data"
        self.log = place / "log"
        self._binaries = folder
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def role(self) -> str:
        """The role that made the cluster, and may do everything in it."""
        return (self._user or pwd.getpwuid(os.geteuid())).pw_name

    def initialise(self) -> None:
        """Make its data, with `SETTINGS`."""
        self.run(
            "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8",
            "--pgdata", str(self.data),
        )  # fmt: skip
        self.configure(SETTINGS)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set `settings` for the next start, or `reload`; the last value of a setting counts."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def reload(self, settings: Mapping[str, str]) -> None:
        """Give `settings` to the running server; returns when new sessions have them."""
        self.configure(settings)
        loaded = self.ask("select pg_conf_load_time()")
        self.ask("select pg_reload_conf()")
        while self.ask("select pg_conf_load_time()") == loaded:
            time.sleep(LOOK_EVERY_S)

    def start(self) -> None:
        """Start it; returns when it lets sessions in.

        Raises `Unavailable` with the end of its log; then it does not run.
        """
        server = str(self._binaries / "postgres")
        self._process = self.spawn(self.log, server, "-D", str(self.data), "-k", str(self.place))
        pid_file = self.data / "postmaster.pid"
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            # Its last line says whether sessions are let in.
            with contextlib.suppress(FileNotFoundError):
                lines = pid_file.read_text().splitlines()
                ready = len(lines) >= 8 and lines[7].strip() in ("ready", "standby")
                if ready and int(lines[0]) == self._process.pid:
                    return
            time.sleep(LOOK_EVERY_S)
        self.stop()
        raise _failed("PostgreSQL does not start", self.log.read_text(errors="replace"))

    @property
    def pid(self) -> int:
        """The process to kill, or that was killed."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End all its processes at once, as if its host had failed."""
        assert self._process is not None
        self.send(signal.SIGKILL)
        self._process.wait()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """End it at once, because its data is not needed any more; harmless when it does not run."""
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def send(self, number: int) -> None:
        """Send a signal to the server and all its children."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)

    def standby(self, place: Path, name: str) -> Self:
        """Make, in `place`, a standby of this one that calls itself `name`, and start it."""
        other = type(self)(place)
        self.run(
            "pg_basebackup", "--host", str(self.place), "--username", self.role, "--pgdata", str(other.data),
            "--wal-method=stream", "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        (other.data / "standby.signal").touch()
        source = f"host={self.place} user={self.role} application_name={name}"
        # Once it is promoted, it waits for nobody.
        other.configure({"primary_conninfo": source, "synchronous_standby_names": ""})
        other.start()
        return other

    def wait_for_standby(self, name: str) -> None:
        """Return when commits wait for the standby `name`."""
        query = f"select sync_state from pg_stat_replication where application_name = '{name}'"
        while self.ask(query) not in ("sync", "quorum"):
            time.sleep(LOOK_EVERY_S)

    def promote(self) -> None:
        """Make a primary of this standby; returns when it is one."""
        self.run("pg_ctl", "promote", "--pgdata", str(self.data), "--wait")

    def ask(self, query: str) -> str:
        """Return what the server answers to `query`, by a session of its own."""
        return self.run(
            "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--host", str(self.place),
            "--username", self.role, "--dbname", "postgres", "--command", query,
        ).strip()  # fmt: skip

    def run(self, program: str, *arguments: str) -> str:
        """Return what a program of PostgreSQL prints; raises `Unavailable` with what it complains about."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [self._binaries / program, *arguments],
            capture_output=True,
            text=True,
            **self._surroundings(),
        )
        if done.returncode:
            raise _failed(f"{program} failed", done.stderr)
        return done.stdout

    def spawn(self, log: Path, *command: str) -> subprocess.Popen[bytes]:
        """Start a program as the server's user; it ends with this thread."""
        with log.open("ab") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, preexec_fn=_end_with_parent, **self._surroundings()
            )  # fmt: skip

    def own(self, path: Path) -> None:
        """Give `path` to the server's user."""
        _own(path, self._user)

    def _surroundings(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "cwd": self.place,
            "env": {"PATH": f"{self._binaries}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            "stdin": subprocess.DEVNULL,
            # A terminal's Ctrl-C reaches us, and we end it.
            "start_new_session": True,
        }
        if self._user is not None:
            found |= {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        return found


@contextlib.contextmanager
def cluster_place(where: Path | None = None) -> Iterator[Path]:
    """Provide a folder for a cluster, in `where` or among temporary files; removed at the end.

    Its name is short enough for a socket, and it belongs to the user whom the server runs as.
    """
    folder = Path(tempfile.mkdtemp(prefix="kalends-postgres-", dir=where))
    try:
        _own(folder, _other_user())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def url_of(*clusters: PostgresCluster, database: str = "postgres") -> str:
    """Return the URL of a store in `database`, at whichever of `clusters` is the primary."""
    hosts = ",".join(quote(str(cluster.place)) for cluster in clusters)
    return f"postgresql:///{database}?host={hosts}&user={clusters[0].role}"


def _on_path() -> Iterator[Path]:
    if tool := shutil.which("pg_config"):
        said = subprocess.run([tool, "--bindir"], capture_output=True, text=True, check=False)
        if said.stdout.strip():
            yield Path(said.stdout.strip())
    if tool := shutil.which("initdb"):
        yield Path(tool).resolve().parent


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / program, os.X_OK) for program in PROGRAMS)


def _version(folder: Path) -> int:
    number = folder.parent.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _other_user() -> pwd.struct_passwd | None:
    """Return the user of servers if we are root; None if we are not, or there is no such user."""
    if os.geteuid() == 0:
        for name in OTHER_USERS:
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
    return None


def _own(path: Path, user: pwd.struct_passwd | None) -> None:
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def _failed(what: str, said: str) -> Unavailable:
    return Unavailable(
        f"{what}: {said.strip()[-2000:]}", remedy="repair what PostgreSQL complains about"
    )


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
