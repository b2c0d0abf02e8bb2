"""The installed package holds nothing that is under other terms than its own: no data of others."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

KINDS = {".agent.py", ".css", ".html", ".js", ".py", ".svg", ".toml", "py.typed"}
"""Programs, and configurations and pages of ours. Workload logs and tables of others are neither."""


def packaged() -> list[Path]:
    """Return the files that setuptools takes: modules of packages, and what package-data names."""
    where = ROOT / "src"
    found = {init.parent for init in where.rglob("__init__.py")}
    files = [module for package in found for module in package.glob("*.py")]
    for package, patterns in SETTINGS["tool"]["setuptools"]["package-data"].items():
        for pattern in patterns:
            matched = list((where / package.replace(".", "/")).glob(pattern))
            assert matched, f"{package} has nothing like {pattern}"
            files += matched
    return files


def test_the_wheel_holds_programs_and_configurations_and_no_data_of_others() -> None:
    files = packaged()
    assert len(files) > 100
    assert not [path for path in files if not path.name.endswith(tuple(KINDS))]
    assert not [path for path in files if "Copyright" in path.read_text("utf-8")]


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
