"""What all tests share: Hypothesis's settings, and what happens to tests that need root.

Servers under test listen on port 0 and say which port they got, so there is no fixture for ports.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import effort

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

# Whoever has tried the demo in this shell has settings there that are for no server under test.
for name in ("BROKER", "TOKEN", "TOKEN_FILE", "USER", "CA", "ZONE", "FACILITY"):
    os.environ.pop(f"KALENDS_{name}", None)

NOT_RUN = pytest.StashKey[list[str]]()
WHY_NOT = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "needs_root: makes network namespaces or mounts; left out, and listed, where that cannot be",
    )
    config.stash[NOT_RUN] = []
    config.stash[WHY_NOT] = ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    privileged = [item for item in items if item.get_closest_marker("needs_root")]
    reason = why_no_namespaces() if privileged else ""
    if reason:
        items[:] = [item for item in items if item not in privileged]
        config.hook.pytest_deselected(items=privileged)
        config.stash[NOT_RUN] = [item.nodeid for item in privileged]
        config.stash[WHY_NOT] = reason


def pytest_collection_finish() -> None:
    """What is there by now stays to the end: no collection of garbage has to look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["not_run"] = (session.config.stash[NOT_RUN], session.config.stash[WHY_NOT])
        output["steps"] = dict(effort.steps)
        output["operations"] = dict(effort.operations)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Each xdist worker collects everything: the last one's list stands for all. Steps add up."""
    config = node.config  # type: ignore[attr-defined]  # xdist exports no type for a node
    output = getattr(node, "workeroutput", {})
    config.stash[NOT_RUN], config.stash[WHY_NOT] = output.get("not_run", ([], ""))
    effort.steps.update(output.get("steps", {}))
    effort.operations.update(output.get("operations", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for compared, count in sorted(effort.steps.items()):
        terminalreporter.write_line(f"{count:,} steps compared with a slow twin: {compared}")
    for object_, count in sorted(effort.operations.items()):
        terminalreporter.write_line(f"{count:,} operations checked for linearizability: {object_}")
    names = config.stash[NOT_RUN]
    if names:
        terminalreporter.section(f"{len(names)} tests NOT RUN: {config.stash[WHY_NOT]}", red=True)
        for name in names:
            terminalreporter.write_line(f"NOT RUN {name}")


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
