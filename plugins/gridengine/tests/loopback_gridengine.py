"""A Grid Engine of its own, from nothing, in one folder: a master, and a host for each node.

It is Debian's Grid Engine, if it is installed; nothing is written elsewhere, and everything ends with this
process. Grid Engine tells hosts by their addresses, so each node has a network of its own (`OwnHosts`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.backends import own_hosts
from tests.backends.own_hosts import OwnHosts
from tests.support.patience import PATIENCE_S

from kalends.demo.clusters.loopback_slurm import wait_until

PROGRAMS: Final = Path("/usr/lib/gridengine")
SHARED: Final = Path("/var/lib/gridengine")
DEFAULTS: Final = Path("/usr/share/gridengine")
PACKAGES: Final = "gridengine-master gridengine-exec gridengine-client"
COMMANDS: Final = (
    "qstat", "qhost", "qconf", "qrsub", "qrstat", "qrdel", "qsub", "qdel", "qmod", "qalter", "qping",
    "qacct",
)  # fmt: skip
MASTER: Final = "master"
SLOTS: Final = 2

BOOTSTRAP: Final = """
admin_user root
default_domain none
ignore_fqdn false
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params {top}/spool/db
binary_path /usr/sbin
qmaster_spool_dir {top}/spool/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""

SETTINGS: Final = """
SGE_ROOT={top}; export SGE_ROOT
SGE_CELL=default; export SGE_CELL
SGE_QMASTER_PORT=6444; export SGE_QMASTER_PORT
SGE_EXECD_PORT=6445; export SGE_EXECD_PORT
PATH={top}/commands:$PATH; export PATH
"""

CHANGED: Final = {
    "execd_spool_dir": "{top}/spool/execd",
    "min_uid": "0",
    "min_gid": "0",
    "load_report_time": "00:00:02",
    "max_unheard": "00:00:10",
    "administrator_mail": "none",
    "mailer": "/bin/true",
}

ENVIRONMENT: Final = {
    "pe_name": "kalends", "slots": "9999", "allocation_rule": "$fill_up", "control_slaves": "FALSE",
    "job_is_first_task": "TRUE", "accounting_summary": "FALSE", "user_lists": "NONE",
    "xuser_lists": "NONE", "start_proc_args": "NONE", "stop_proc_args": "NONE", "urgency_slots": "min",
    "qsort_args": "NONE",
}  # fmt: skip

OF_HOSTS: Final = (
    "load_scaling", "complex_values", "user_lists", "xuser_lists", "projects", "xprojects",
    "usage_scaling", "report_variables",
)  # fmt: skip


def why_not() -> str:
    """Return why no Grid Engine can be run here; "" if one can."""
    missing = [
        each for each in ("sge_qmaster", "sge_execd", "qrsub") if not (PROGRAMS / each).exists()
    ]
    if missing:
        return f"Grid Engine is not installed (no {', '.join(missing)}): apt-get install {PACKAGES}"
    return own_hosts.why_not()


class LoopbackGridEngine:
    """A running Grid Engine of these nodes, in the empty folder `top`; a context."""

    def __init__(self, top: Path, nodes: Sequence[str]) -> None:
        self._top = top
        self.nodes = tuple(nodes)
        self._hosts = OwnHosts(top, [MASTER, *nodes])
        self.settings = top / "default" / "common" / "settings.sh"
        self._environment = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "SGE_ROOT": str(top), "SGE_CELL": "default",
            "SGE_QMASTER_PORT": "6444", "SGE_EXECD_PORT": "6445", "TZ": "UTC", "LC_ALL": "C",
        }  # fmt: skip

    def __enter__(self) -> Self:
        self._hosts.__enter__()
        try:
            self._lay_out()
            self.start_master()
            self._configure()
            for node in self.nodes:
                self.start_node(node)
            wait_until(lambda: not self._unheard(), PATIENCE_S, "Grid Engine")
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
        self._hosts.stop()

    def said(self, *command: str) -> str:
        """Return what a command of Grid Engine's prints on the master; raises `CalledProcessError`."""
        return self._run(MASTER, str(PROGRAMS / command[0]), *command[1:]).stdout

    def said_to(self, user: str, *command: str) -> str:
        """Return what a command prints for a user."""
        as_user = ["runuser", "-p", "-u", user, "--"]
        return self._run(MASTER, *as_user, str(PROGRAMS / command[0]), *command[1:]).stdout

    def tried(self, *command: str) -> None:
        """Run a command of Grid Engine's that may fail."""
        self._run(MASTER, str(PROGRAMS / command[0]), *command[1:], check=False)

    # The master, as its operator or an accident treats it

    def freeze_master(self) -> None:
        self._signal(MASTER, self._pid_file, "STOP")

    def thaw_master(self) -> None:
        self._signal(MASTER, self._pid_file, "CONT")

    def kill_master(self) -> None:
        self._signal(MASTER, self._pid_file, "KILL")
        wait_until(lambda: not self.is_up(), PATIENCE_S, "Grid Engine")

    def stop_master(self) -> None:
        self._signal(MASTER, self._pid_file, "TERM")
        wait_until(lambda: not self.is_up(), PATIENCE_S, "Grid Engine")

    def start_master(self) -> None:
        """Start it, unless it runs. Nodes that have lost one come to it within half a minute."""
        if not self._runs(MASTER, self._pid_file):
            self._pid_file.unlink(missing_ok=True)
            self._run(MASTER, str(PROGRAMS / "sge_qmaster"))
        wait_until(self.is_up, PATIENCE_S, "Grid Engine")

    def is_up(self) -> bool:
        """Whether the master answers, and its scheduler has begun: a moment later it tells its clock."""
        done = self._run(MASTER, str(PROGRAMS / "qconf"), "-sss", check=False)
        return done.returncode == 0 and done.stdout.strip() == MASTER

    # Nodes

    def start_node(self, node: str) -> None:
        """Start the daemon of a node, unless it runs."""
        if not self._runs(node, self._pid_file_of(node)):
            self._run(node, str(PROGRAMS / "sge_execd"))

    def kill_node(self, node: str) -> None:
        """Kill the daemon of a node; its jobs go on."""
        self._signal(node, self._pid_file_of(node), "KILL")
        wait_until(lambda: not self._runs(node, self._pid_file_of(node)), PATIENCE_S, "Grid Engine")

    # The parts

    @property
    def _pid_file(self) -> Path:
        return self._top / "spool" / "qmaster" / "qmaster.pid"

    def _pid_file_of(self, node: str) -> Path:
        return self._top / "spool" / "execd" / node / "execd.pid"

    def _runs(self, host: str, pid_file: Path) -> bool:
        try:
            pid = pid_file.read_text().strip()
        except OSError:
            return False
        return self._run(host, "kill", "-0", pid, check=False).returncode == 0

    def _signal(self, host: str, pid_file: Path, signal: str) -> None:
        self._run(host, "kill", f"-{signal}", pid_file.read_text().strip(), check=False)

    def _run(
        self, host: str, *command: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self._hosts.run(host, *command, variables=self._environment, check=check)

    def _lay_out(self) -> None:
        top = self._top
        for name in ("spool/qmaster", "spool/db", "spool/execd", "default/common", "commands"):
            (top / name).mkdir(parents=True)
        for name in ("bin", "lib", "util", "utilbin"):
            (top / name).symlink_to(SHARED / name)
        common = self.settings.parent
        (common / "bootstrap").write_text(BOOTSTRAP.format(top=top).lstrip())
        (common / "act_qmaster").write_text(f"{MASTER}\n")
        self.settings.write_text(SETTINGS.format(top=top))
        for command in COMMANDS:
            script = top / "commands" / command
            words = " ".join([*self._hosts.inside(MASTER), str(PROGRAMS / command)])
            script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            script.chmod(0o755)
        lines = (DEFAULTS / "default-configuration").read_text().splitlines()
        text = "".join(f"{self._changed(line)}\n" for line in lines)
        (top / "configuration").write_text(text)
        spool = [str(PROGRAMS / "spoolinit"), "berkeleydb", "libspoolb", f"{top}/spool/db", "init"]
        self._run(MASTER, *spool)
        defaults = str(PROGRAMS / "spooldefaults")
        resources = DEFAULTS / "util" / "resources"
        self._run(MASTER, defaults, "configuration", str(top / "configuration"))
        self._run(MASTER, defaults, "complexes", str(resources / "centry"))
        self._run(MASTER, defaults, "usersets", str(resources / "usersets"))
        self._run(MASTER, defaults, "managers", "root")

    def _changed(self, line: str) -> str:
        word = line.split(" ")[0].split("\t")[0]
        return f"{word} {CHANGED[word].format(top=self._top)}" if word in CHANGED else line

    def _configure(self) -> None:
        self.said("qconf", "-as", MASTER)
        for node in self.nodes:
            self._put("-Ae", {"hostname": node, **dict.fromkeys(OF_HOSTS, "NONE")})
            self.said("qconf", "-ah", node)
        self._put("-Ahgrp", {"group_name": "@allhosts", "hostlist": " ".join(self.nodes)})
        self._put("-Ap", ENVIRONMENT)
        self._put("-Ap", {**ENVIRONMENT, "pe_name": "spread", "allocation_rule": "1"})
        template = self._fields(self.said("qconf", "-sq"))
        template |= {
            "qname": "all.q", "hostlist": "@allhosts", "load_thresholds": "NONE", "pe_list": "kalends spread",
            "slots": str(SLOTS), "shell": "/bin/sh",
        }  # fmt: skip
        self._put("-Aq", template)
        scheduler = self._fields(self.said("qconf", "-ssconf"))
        scheduler |= {
            "schedule_interval": "0:0:2",
            "flush_submit_sec": "1",
            "flush_finish_sec": "1",
        }
        self._put("-Msconf", scheduler)

    def _put(self, option: str, fields: dict[str, str]) -> None:
        path = self._top / "fields"
        path.write_text("".join(f"{name} {value}\n" for name, value in fields.items()))
        self.said("qconf", option, str(path))

    def _fields(self, text: str) -> dict[str, str]:
        return dict(line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line)

    def _unheard(self) -> bool:
        return self.said("qstat", "-f", "-xml").count("<state>au</state>") > 0
