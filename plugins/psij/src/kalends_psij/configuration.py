"""Where an executor submits to, and as whom."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kalends.client.logins.caller_identity import login_name, token_in
from kalends.core.identifiers import split_resource
from psij import JobExecutorConfig

DEFAULT_URL: Final = "http://127.0.0.1:7100"
ALL: Final = "*"
PATIENCE_S: Final = 300.0


class KalendsExecutorConfig(JobExecutorConfig):
    """The settings of an executor. What is not given is taken from the variables of the command line."""

    def __init__(
        self,
        launcher_log_file: Path | None = None,
        work_directory: Path | None = None,
        *,
        machine: str = "",
        token: str = "",
        token_file: str = "",
        user: str = "",
        ca: str = "",
        export: Collection[str] = (),
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`machine` (``lab/box``) is for jobs without a queue name.

        `token`, or what is in `token_file`, is for servers that ask for one, `user` for others; `ca` is a
        file of certificates to trust. `export` names variables of this process that jobs inherit, ``*``
        means all. After a call that may or may not have been carried out, it is repeated for `patience_s`.
        """
        super().__init__(launcher_log_file, work_directory)
        self.machine = machine
        self.token = token
        self.token_file = token_file
        self.user = user
        self.ca = ca
        self.export = frozenset(export)
        self.patience_s = patience_s

    @classmethod
    def from_config(cls, config: JobExecutorConfig | None) -> KalendsExecutorConfig:
        """Return `config` itself if it is one of ours, else one with what it says."""
        if isinstance(config, cls):
            return config
        config = config or JobExecutorConfig.DEFAULT
        return cls(config.launcher_log_file, config.work_directory)


@dataclass(frozen=True)
class ServerAccess:
    """A server, and who calls it: executors for which these are the same share one connection."""

    url: str
    token: str
    user: str
    ca: str


def access_of(url: str | None, config: KalendsExecutorConfig) -> tuple[ServerAccess, str]:
    """Return the server and the machine ("": none) that an executor was made for; raises `InvalidInput`.

    The path of `url`, if there is one, is the machine: ``https://lab.example:7101/lab/box``.
    """
    parts = urlsplit(url or os.environ.get("KALENDS_BROKER", "") or DEFAULT_URL)
    named = parts.path.strip("/")
    machine = named or config.machine or os.environ.get("KALENDS_MACHINE", "")
    if machine:
        split_resource(machine)
    token = config.token or token_in(config.token_file, "token_file")
    token = token or os.environ.get("KALENDS_TOKEN", "")
    token = token or token_in(os.environ.get("KALENDS_TOKEN_FILE", ""), "KALENDS_TOKEN_FILE")
    user = config.user or os.environ.get("KALENDS_USER", "")
    ca = config.ca or os.environ.get("KALENDS_CA", "")
    server = f"{parts.scheme}://{parts.netloc}"
    return ServerAccess(server, token, "" if token else user or login_name(), ca), machine
