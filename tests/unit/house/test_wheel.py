"""The installed package holds nothing under other terms than its own; clients need no part of servers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

KINDS = (".py", ".toml", "py.typed")
"""Programs and configurations of ours. Workload logs and tables of others are neither."""

CLIENT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"a client has no {name}", name=name)

sys.meta_path.insert(0, Missing())
import kalends
from kalends.cli import cli
assert kalends.__file__.startswith(sys.argv[1]), kalends.__file__
kalends.Client, kalends.Request, kalends.simulate
cli(["find", "--help"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The wheel of this checkout, unpacked. It is made of a copy: making it writes beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    build = "from setuptools.build_meta import build_wheel; build_wheel('made')"
    subprocess.run([sys.executable, "-c", build], cwd=folder, check=True, capture_output=True)
    (made,) = (folder / "made").glob("*.whl")
    with ZipFile(made) as archive:
        archive.extractall(folder / "unpacked")
    yield folder / "unpacked"
    shutil.rmtree(folder)


def test_the_wheel_holds_programs_and_configurations_and_no_data_of_others(wheel: Path) -> None:
    files = [path for path in (wheel / "kalends").rglob("*") if path.is_file()]
    sources = [path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")]
    assert {*sources} <= {path.relative_to(wheel) for path in files}
    assert not [path for path in files if not path.name.endswith(KINDS)]
    assert not [path for path in files if "Copyright" in path.read_text("utf-8")]
    beside = sorted(path.name for path in wheel.iterdir())
    assert beside == ["kalends", f"kalends-{SETTINGS['project']['version']}.dist-info"]


def test_a_client_needs_nothing_that_only_servers_need(wheel: Path) -> None:
    """Neither does it ask for it, however indirectly, nor does it miss it."""
    project = SETTINGS["project"]
    needed = _with_all_they_need(project["dependencies"])
    only_servers = _with_all_they_need(project["optional-dependencies"]["server"]) - needed
    assert {"numpy", "pyjwt", "restrictedpython", "sortedcontainers"} <= only_servers
    missing = {
        module
        for module, names in packages_distributions().items()
        if {canonicalize_name(name) for name in names} <= only_servers
    }
    assert {"numpy", "jwt"} <= missing
    words = [sys.executable, "-c", f"MISSING = {missing!r}\n{CLIENT}", str(wheel)]
    done = subprocess.run(
        words, env={"PYTHONPATH": str(wheel), "LC_ALL": "C.UTF-8"}, cwd=wheel,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "kalends find" in done.stdout


def _with_all_they_need(lines: Iterable[str]) -> set[str]:
    """Return the names of distributions, and of all that these need."""
    found: set[tuple[str, str]] = set()
    left = [(Requirement(line), "") for line in lines]
    while left:
        requirement, extra = left.pop()
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        asked = name, ",".join(sorted(requirement.extras))
        if asked in found:
            continue
        found.add(asked)
        try:
            lines = requires(name) or ()
        except PackageNotFoundError:
            continue
        left += [(Requirement(line), each) for line in lines for each in ("", *requirement.extras)]
    return {name for name, _ in found} - {"kalends"}


def test_no_package_carries_data_that_package_data_does_not_name() -> None:
    tools = SETTINGS["tool"]["setuptools"]
    assert tools["packages"]["find"] == {"where": ["src"]}
    assert "include-package-data" not in tools
    assert not (ROOT / "MANIFEST.in").exists()


def test_the_wheel_has_one_licence_which_the_readme_names() -> None:
    project = SETTINGS["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    licence = (ROOT / "README.md").read_text("utf-8").partition("## Licence")[2]
    assert "That is all of the installed package" in " ".join(licence.split())
