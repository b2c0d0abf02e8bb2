"""What all tests share: Hypothesis's settings, and what happens to tests that need root, or Slurm.

Servers under test listen on port 0 and say which port they got, so there is no fixture for ports.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from pythons import pythons

from kalends.agents.sandbox import landlock, namespaces
from kalends.demo.clusters import loopback_slurm
from tests import effort
from tests.backends import loopback_gridengine, loopback_oar

# A busy machine makes examples slow, never wrong: no verdict may hang on time.
settings.register_profile(
    "kalends",
    # The same examples every day; new ones whenever somebody asks for more of them.
    derandomize=effort.EFFORT == 1,
    deadline=None,
    max_examples=effort.examples(60),
    # Without `explain`, which traces every line and can take minutes.
    phases=[phase for phase in Phase if phase is not Phase.explain],
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kalends")

# Whoever has tried the demo in this shell, or has profiles, calls servers that are not under test.
USUAL = "BROKER TOKEN TOKEN_FILE USER CA ZONE MACHINE PROFILE FACILITY"
for name in USUAL.split():
    os.environ.pop(f"KALENDS_{name}", None)
os.environ["KALENDS_CONFIG"] = "/nowhere/config.toml"

NOT_RUN = pytest.StashKey[dict[str, list[str]]]()
"""By the reason."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "needs_root: makes network namespaces or mounts; left out, and listed, where that cannot be",
    )
    config.addinivalue_line(
        "markers", "needs_slurm: runs a real Slurm; left out, and listed, where there is none"
    )
    config.addinivalue_line(
        "markers",
        "needs_accounting: runs a real slurmdbd; left out, and listed, where there is none",
    )
    config.addinivalue_line(
        "markers", "needs_landlock: needs all of Landlock; left out, and listed, on older kernels"
    )
    config.addinivalue_line(
        "markers",
        "needs_namespaces: needs namespaces; left out, and listed, where none are allowed",
    )
    config.addinivalue_line(
        "markers", "needs_pythons: compares Pythons; left out, and listed, where there is only one"
    )
    config.addinivalue_line(
        "markers", "needs_gridengine: runs a real Grid Engine; left out, and listed, without one"
    )
    config.addinivalue_line(
        "markers", "needs_oar: runs a real OAR; left out, and listed, where there is none"
    )
    config.stash[NOT_RUN] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for marker, why_not in NEEDS:
        needy = [item for item in items if item.get_closest_marker(marker)]
        asked_for = marker not in WHEN_ASKED or marker in config.option.markexpr
        reason = (why_not() if asked_for else WHEN_ASKED[marker]) if needy else ""
        if not asked_for and config.option.markexpr:
            items[:] = [item for item in items if item not in needy]
            continue
        if reason:
            items[:] = [item for item in items if item not in needy]
            config.hook.pytest_deselected(items=needy)
            config.stash[NOT_RUN].setdefault(reason, []).extend(item.nodeid for item in needy)


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: no collection of garbage has to look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["not_run"] = session.config.stash[NOT_RUN]
        output["steps"] = dict(effort.steps)
        output["operations"] = dict(effort.operations)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Each xdist worker collects everything: the last one's list stands for all. Steps add up."""
    config = node.config  # type: ignore[attr-defined]  # xdist exports no type for a node
    output = getattr(node, "workeroutput", {})
    config.stash[NOT_RUN] = output.get("not_run", {})
    effort.steps.update(output.get("steps", {}))
    effort.operations.update(output.get("operations", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for compared, count in sorted(effort.steps.items()):
        terminalreporter.write_line(f"{count:,} steps compared with a slow twin: {compared}")
    for object_, count in sorted(effort.operations.items()):
        terminalreporter.write_line(f"{count:,} operations checked for linearizability: {object_}")
    for reason, names in config.stash[NOT_RUN].items():
        terminalreporter.section(f"{len(names)} tests NOT RUN: {reason}", red=True)
        if reason in WHEN_ASKED.values():
            # They have a command of their own, and are many.
            files = Counter(name.partition("::")[0] for name in names)
            names = [f"{count} of {file}" for file, count in sorted(files.items())]
        for name in names:
            terminalreporter.write_line(f"NOT RUN {name}")


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
    why = loopback_slurm.why_not(accounting=True)
    return f"{why} (make test-backends does it for root)" if why else ""


def why_no_gridengine() -> str:
    """Why no Grid Engine can be run here, or "" when it can."""
    why = loopback_gridengine.why_not()
    return f"{why} (make test-gridengine does it for root)" if why else ""


def why_no_oar() -> str:
    """Why no OAR can be run here, or "" when it can."""
    why = loopback_oar.why_not()
    return f"{why} (make test-oar does it for root)" if why else ""


WHEN_ASKED: Final = {
    "needs_gridengine": "make test-gridengine runs them, in half an hour",
    "needs_oar": "make test-oar runs them, in an hour",
}
"""What is left out, and listed, unless it is named with ``-m``."""

NEEDS: Final = (
    ("needs_root", why_no_namespaces),
    ("needs_slurm", why_no_slurm),
    ("needs_accounting", why_no_accounting),
    ("needs_pythons", why_no_pythons),
    ("needs_gridengine", why_no_gridengine),
    ("needs_oar", why_no_oar),
    ("needs_landlock", why_no_landlock),
    ("needs_namespaces", why_no_namespaces_of_all_kinds),
)
