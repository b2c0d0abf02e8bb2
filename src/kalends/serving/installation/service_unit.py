"""A systemd unit for one server, with a separate user and only the rights that it needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kalends.serving.http.connections import CONNECTIONS_MAX

HOMES: Final = ("/home", "/root", "/run/user")

_UNIT: Final = """\
[Unit]
Description=kalends {role} {name}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User={user}
Group={user}
ExecStartPre="{python}" -m kalends serve --check "{configuration}"
ExecStart="{python}" -m kalends serve "{configuration}"
ExecReload="{python}" -m kalends serve --check "{configuration}"
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2s
# If memory runs out, the kernel ends users' scripts first, and the server continues.
OOMPolicy=continue
TimeoutStopSec=30s
LimitNOFILE={descriptors}
UMask=0077
# A site that runs jobs needs other rights: docs/operating.md lists the lines to change.
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ReadWritePaths="{directory}"
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallFilter=seccomp landlock_create_ruleset landlock_restrict_self
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def service_unit(
    role: str, name: str, configuration: Path, python: Path, program: Iterable[Path] = ()
) -> str:
    """Return the unit of a server that writes only into the folder of its `configuration`.

    `program` are further paths that the interpreter reads: targets of links, and libraries. All paths are
    absolute. The server runs as `service_user`.
    """
    read = (configuration, python, *program)
    at_home = any(path.is_relative_to(home) for path in read for home in HOMES)
    return _UNIT.format(
        role=role, name=name, user=service_user(name), python=_escaped(python),
        configuration=_escaped(configuration), directory=_escaped(configuration.parent),
        descriptors=2 * CONNECTIONS_MAX, home="read-only" if at_home else "yes",
    )  # fmt: skip


def service_user(name: str) -> str:
    """Return the Unix user of a server: at most 31 characters, the limit of useradd(8)."""
    return f"kalends-{name}"[:31]


def user_entry(role: str, name: str) -> str:
    """Return the line of sysusers.d(5) that makes the user."""
    return f'u {service_user(name)} - "kalends {role} {name}"\n'


def _escaped(path: Path) -> str:
    """Return `path` in the form of a unit's quoted text."""
    return str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
