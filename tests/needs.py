"""What tests need that a host may not have: such tests are left out, and listed, where it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from pythons import pythons

from kalends.agents.sandbox import landlock, namespaces
from kalends.demo.clusters import loopback_slurm
from tests.backends import loopback_oar
from tests.backends.operated_slurm import why_no_accounts


class Need(NamedTuple):
    """A need of the tests with `marker`; those of a plug-in are declared in its own ``conftest.py``."""

    marker: str
    what: str
    """What such a test does, for the list of markers."""
    why_not: Callable[[], str]
    """Returns why that cannot be done here; "" if it can."""
    when_asked: str = ""
    """Tests that are left out unless they are named with ``-m``, and why."""


DECLARED: Final = pytest.StashKey[list[Need]]()


def declare(config: pytest.Config, *needs: Need) -> None:
    """Declare needs of tests; called when pytest configures itself."""
    config.stash.setdefault(DECLARED, []).extend(needs)
    for each in needs:
        config.addinivalue_line(
            "markers", f"{each.marker}: {each.what}; left out, and listed, where that cannot be"
        )


def why_no_landlock() -> str:
    """Why this kernel's Landlock does not shut off all that it could, or "" when it does."""
    return "" if landlock.version() >= 6 else "they need all of Landlock: Linux 6.12"


def why_no_namespaces_of_all_kinds() -> str:
    """Why a zygote gets no namespaces of its own here, or "" when it does."""
    child = os.fork()
    if child == 0:
        os._exit(not namespaces.enter())
    return "this host allows no namespaces" if os.waitpid(child, 0)[1] else ""


def why_no_namespaces() -> str:
    """Why this process cannot make network namespaces, or "" when it can."""
    if os.geteuid() != 0:
        return "they need root"
    ip = shutil.which("ip")
    if ip is None:
        return "they need the command `ip`: apt-get install iproute2"
    if not os.path.exists("/dev/net/tun"):
        return "they need /dev/net/tun"
    name = f"kalends-probe-{os.getpid()}"
    made = subprocess.run([ip, "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"this machine makes no network namespace ({made.stderr.strip()})"
    entered = subprocess.run([ip, "-n", name, "link"], capture_output=True, text=True, check=False)
    subprocess.run([ip, "netns", "delete", name], check=True)
    if entered.returncode != 0:
        return f"this machine enters no network namespace ({entered.stderr.strip()})"
    return ""


def why_no_pythons() -> str:
    """Why there is nothing to compare this Python with, or "" when there is another."""
    return "" if len(pythons()) > 1 else "they need another of the Pythons 3.11 to 3.13"


def why_no_slurm() -> str:
    """Why no Slurm can be run here, or "" when it can."""
    why = loopback_slurm.why_not()
    return f"{why} (make test-backends does it for root)" if why else ""


def why_no_accounting() -> str:
    """Why no Slurm with its accounting can be run here, or "" when one can."""
    why = why_no_accounts()
    return f"{why} (make test-backends does it for root)" if why else ""


def why_no_oar() -> str:
    """Why no OAR can be run here, or "" when it can."""
    why = loopback_oar.why_not()
    return f"{why} (make test-oar does it for root)" if why else ""


def why_no_postgres() -> str:
    """Why no PostgreSQL can be run here, or "" when one can."""
    import postgres_clusters  # With the driver, which no other test needs.

    why = postgres_clusters.why_not()
    return f"{why} (make test does it for root)" if why else ""


NEEDS: Final = (
    Need("needs_root", "makes network namespaces or mounts", why_no_namespaces),
    Need("needs_slurm", "runs a real Slurm", why_no_slurm),
    Need("needs_accounting", "runs a real slurmdbd", why_no_accounting),
    Need("needs_postgres", "runs a real PostgreSQL", why_no_postgres),
    Need("needs_pythons", "compares Pythons", why_no_pythons),
    Need("needs_oar", "runs a real OAR", why_no_oar, "make test-oar runs them, in an hour"),
    Need("needs_landlock", "needs all of Landlock", why_no_landlock),
    Need("needs_namespaces", "needs namespaces", why_no_namespaces_of_all_kinds),
)
