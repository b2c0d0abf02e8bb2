"""Hosts of a test's own on this machine: each has namespaces, with a name, an address and its own processes.

They are joined by a bridge inside the first of them, and nothing leads out. All that runs on a host ends
with it, whatever it is. Needs root, and `ip`, `unshare` and `nsenter`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.patience import PATIENCE_S

NET: Final = "10.87.0"

# The shell is the first process of the host, which ends with it; it waits for all that nobody waits for.
HOLD: Final = (
    'hostname "$0" && mount --bind "$1" /etc/hosts && ip link set lo up && echo up'
    " && { sleep infinity & wait; }"
)


class OwnHosts:
    """Running hosts of these `names`; the first is the one to which the others are joined. A context."""

    def __init__(self, top: Path, names: Sequence[str]) -> None:
        self._file = top / "hosts"
        self._file.write_text(
            "127.0.0.1 localhost\n"
            + "".join(f"{NET}.{number} {name}\n" for number, name in enumerate(names, 1))
        )
        self.names = tuple(names)
        self._holders: dict[str, subprocess.Popen[str]] = {}
        self._inner: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            for name in self.names:
                self._start(name)
            self._join()
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

    def inside(self, name: str) -> list[str]:
        """Return the words that run a command on a host, if they stand before it."""
        return ["nsenter", "-t", str(self._inner[name]), "--net", "--uts", "--mount", "--pid"]

    def run(
        self,
        name: str,
        *command: str,
        variables: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host; raises `CalledProcessError` unless told not to.

        `TimeoutExpired` where it never ends: OAR's clients wait for ever for a server that was killed.
        """
        return subprocess.run(
            [*self.inside(name), *command], check=check, text=True, capture_output=True,
            stdin=subprocess.DEVNULL, env=variables, timeout=PATIENCE_S,
        )  # fmt: skip

    def stop(self) -> None:
        """End everything on all hosts."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()
        self._holders.clear()

    def _start(self, name: str) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", HOLD, name, str(self._file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._holders[name] = holder
        assert holder.stdout is not None
        if holder.stdout.readline() != "up\n":
            raise RuntimeError(f"no host of our own comes up ({name})")
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text()
        self._inner[name] = int(children.split()[0])

    def _join(self) -> None:
        first = self.names[0]
        self.run(first, "ip", "link", "add", "kal", "type", "bridge")
        self.run(first, "ip", "addr", "add", f"{NET}.1/24", "dev", "kal")
        self.run(first, "ip", "link", "set", "kal", "up")
        for number, name in enumerate(self.names[1:], 2):
            port, inner = f"kal{number}", str(self._inner[name])
            self.run(first, "ip", "link", "add", port, "type", "veth", "peer", "name", "up0")
            # Only this process sees the number by which the kernel knows the other host here.
            outside = ["nsenter", "-t", str(self._inner[first]), "--net"]
            subprocess.run([*outside, "ip", "link", "set", "up0", "netns", inner], check=True)
            self.run(first, "ip", "link", "set", port, "master", "kal", "up")
            self.run(name, "ip", "addr", "add", f"{NET}.{number}/24", "dev", "up0")
            self.run(name, "ip", "link", "set", "up0", "up")


def why_not() -> str:
    """Return why there can be no hosts of our own here; "" if there can."""
    missing = [each for each in ("ip", "unshare", "nsenter") if shutil.which(each) is None]
    if missing:
        return f"they need {', '.join(missing)}: apt-get install iproute2 util-linux"
    made = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "true"], check=False, capture_output=True
    )
    return "" if made.returncode == 0 else "this process makes no namespaces: they need root"
