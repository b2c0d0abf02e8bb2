"""What all tests share, those of plug-ins too: Hypothesis's settings, and what becomes of tests with needs.

Servers under test listen on port 0 and say which port they got, so there is no fixture for ports.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings
from tests import effort
from tests.needs import DECLARED, NEEDS, declare

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


ORDER = pytest.StashKey[list[str]]()
"""The arguments as they were given."""


def pytest_configure(config: pytest.Config) -> None:
    declare(config, *NEEDS)
    config.stash[NOT_RUN] = {}
    _begin_elsewhere(config)


def _begin_elsewhere(config: pytest.Config) -> None:
    """Let each worker of xdist collect from another argument on.

    In a fresh clone, pytest compiles each module when it is first imported. Workers in step would all compile
    all of them; now each finds most of them compiled by others.
    """
    config.stash[ORDER] = [*config.args]
    worker = getattr(config, "workerinput", None)
    if worker is None or any("::" in each for each in config.args):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    first = len(config.args) * number // worker["workercount"]
    config.args[:] = [*config.args[first:], *config.args[:first]]


def _in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of a worker in the order that all workers must agree on."""
    if config.args == config.stash[ORDER]:
        return
    folder = config.invocation_params.dir
    given = [folder / each for each in config.stash[ORDER]]
    numbers = {
        path: next(at for at, each in enumerate(given) if path.is_relative_to(each))
        for path in {item.path for item in items}
    }
    items.sort(key=lambda item: numbers[item.path])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _in_order(config, items)
    for need in config.stash[DECLARED]:
        needy = [item for item in items if item.get_closest_marker(need.marker)]
        asked_for = not need.when_asked or need.marker in config.option.markexpr
        reason = (need.why_not() if asked_for else need.when_asked) if needy else ""
        if not asked_for and config.option.markexpr:
            items[:] = [item for item in items if item not in needy]
            continue
        if reason:
            items[:] = [item for item in items if item not in needy]
            config.hook.pytest_deselected(items=needy)
            config.stash[NOT_RUN].setdefault(reason, []).extend(item.nodeid for item in needy)


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """A server that a test runs in this process hides files, and sends logs where it was told."""
    mask, logging = os.umask(0o022), structlog.get_config()
    os.umask(mask)
    logging["processors"] = [*logging["processors"]]
    yield
    os.umask(mask)
    if structlog.get_config() != logging:
        structlog.configure(**logging)


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
        if reason in [need.when_asked for need in config.stash[DECLARED]]:
            # They have a command of their own, and are many.
            files = Counter(name.partition("::")[0] for name in names)
            names = [f"{count} of {file}" for file, count in sorted(files.items())]
        for name in names:
            terminalreporter.write_line(f"NOT RUN {name}")
