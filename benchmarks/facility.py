"""Real server processes on loopback for a benchmark: sites and a broker, started and stopped whole."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.slow_line import Passed

LISTENING = re.compile(r"listening (?:site|broker) \S+ (http://\S+)")
STOP_WAIT_S = 20
ROOT = Path(__file__).resolve().parent.parent


class Server(NamedTuple):
    process: subprocess.Popen[str]
    url: str


class Line(NamedTuple):
    """A slow line to a server, and the port that tells what has passed over it."""

    process: subprocess.Popen[str]
    url: str
    teller_port: int

    def passed(self) -> Passed:
        with socket.create_connection(("127.0.0.1", self.teller_port)) as connection:
            told = b"".join(iter(lambda: connection.recv(65_536), b""))
        return msgspec.json.decode(told, type=Passed)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


class Facility(NamedTuple):
    """`lines` are the slow lines to the sites, where there are such."""

    broker: Server
    sites: list[Server]
    lines: list[Line]

    def cpu_seconds(self) -> dict[str, float]:
        """User and system seconds that each process has used so far (Linux)."""
        names = ["broker", *(f"site {number}" for number in range(len(self.sites)))]
        return {
            name: cpu_seconds(server.process.pid)
            for name, server in zip(names, [self.broker, *self.sites], strict=True)
        }


def own_environment(url: str = "", user: str = "") -> dict[str, str]:
    """Return the environment of a program under measurement: nothing that its caller has set for kalends.

    `url` is the server that it calls, and `user` its user there; "" leaves them out.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KALENDS_")}
    # No profile of whoever measures: it may name another server, a token, a zone, a machine.
    kept["XDG_CONFIG_HOME"] = os.devnull
    return kept | {
        name: each for name, each in (("KALENDS_BROKER", url), ("KALENDS_USER", user)) if each
    }


def start_server(configuration: Path) -> Server:
    """Start ``kalends serve`` and wait for its address; raises `RuntimeError` with its log."""
    log = configuration.with_suffix(".log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "kalends", "serve", str(configuration)],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=own_environment(),
    )
    assert process.stdout is not None
    for line in process.stdout:
        found = LISTENING.search(line)
        if found:
            return Server(process, found.group(1))
    process.wait()
    log.seek(0)
    raise RuntimeError(f"{configuration.name} did not start:\n{log.read()[-2000:]}")


@contextlib.contextmanager
def facility(
    directory: Path,
    sites: int,
    *,
    capacity: int,
    one_way_ms: float = 0,
    grain: str = "1m",
    zone: str = "UTC",
    of_resource: str = "",
) -> Iterator[Facility]:
    """`sites` sites ``site0..`` with one capacity resource each, and a broker that knows them.

    `one_way_ms` puts a slow line between the broker and every site. `of_resource` is more of the
    configuration of each resource.
    """
    servers: list[Server] = []
    lines: list[Line] = []
    try:
        for number in range(sites):
            path = directory / f"site{number}.toml"
            path.write_text(_site(number, capacity, grain, zone) + of_resource)
            servers.append(start_server(path))
        urls = [server.url for server in servers]
        if one_way_ms:
            lines.extend(start_line(server.url, one_way_ms) for server in servers)
            urls = [line.url for line in lines]
        path = directory / "broker.toml"
        path.write_text(broker_text({f"site{number}": url for number, url in enumerate(urls)}))
        broker = start_server(path)
        servers.append(broker)
        yield Facility(broker, servers[:-1], lines)
    finally:
        stop(servers)
        for line in lines:
            line.close()


def start_line(url: str, one_way_ms: float) -> Line:
    """A line to the server at `url` that holds every byte back for `one_way_ms`, until it is closed."""
    port = url.rpartition(":")[2].strip("/")
    command = [sys.executable, "-m", "benchmarks.slow_line", port, str(one_way_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    listening, telling = process.stdout.readline().split()
    return Line(process, f"http://127.0.0.1:{listening}", int(telling))


def stop(servers: list[Server]) -> None:
    for server in servers:
        server.process.send_signal(signal.SIGTERM)
    for server in servers:
        try:
            server.process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def _site(number: int, capacity: int, grain: str, zone: str) -> str:
    return f"""
[log]
level = "warning"
[site]
name = "site{number}"
listen = "127.0.0.1:0"
store = "site{number}.sqlite"
[site.limits]
promised_per_principal_max = 1000000
calls_per_s = 1e9
calls_burst = 1000000000
[[site.resources]]
name = "cluster"
capacity = {capacity}
grain = "{grain}"
zone = "{zone}"
attributes = {{ kind = "cluster" }}
"""


def broker_text(urls: dict[str, str]) -> str:
    """Return the configuration of a broker with the sites at `urls`, by name."""
    sites = "".join(
        f'[[broker.sites]]\nname = "{name}"\nurl = "{url}"\n' for name, url in urls.items()
    )
    return f"""
[log]
level = "warning"
[broker]
name = "broker"
listen = "127.0.0.1:0"
store = "broker.sqlite"
[broker.limits]
open_per_principal_max = 1000000
calls_per_s = 1e9
calls_burst = 1000000000
{sites}"""


def cpu_seconds(pid: int) -> float:
    """User and system seconds that the process has used so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
