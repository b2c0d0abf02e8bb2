"""What `make` installs is what pyproject.toml asks for, and every file of it is known by its hash."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[3]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: Final = PROJECT["project"]["optional-dependencies"]
ENTRY: Final = re.compile(r"^([\w.-]+==\S+)(?: ; (.+?))? \\$")
HASH: Final = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")
REMEDY: Final = "run `make lock`, and commit what it wrote"


def entries(name: str) -> dict[str, list[Requirement]]:
    """What the lock `name` pins, by package: several where Pythons or systems differ."""
    pinned: dict[str, list[Requirement]] = {}
    for line in (ROOT / "locks" / f"{name}.txt").read_text().splitlines():
        if entry := ENTRY.match(line):
            requirement = Requirement(entry[1])
            pinned.setdefault(canonicalize_name(requirement.name), []).append(requirement)
        else:
            assert HASH.match(line) or line.startswith("#"), line
    return pinned


def asked_for(extras: list[str]) -> Iterator[Requirement]:
    for text in PROJECT["project"]["dependencies"]:
        yield Requirement(text)
    for extra in extras:
        for text in EXTRAS[extra]:
            requirement = Requirement(text)
            if requirement.name == "kalends":
                yield from asked_for(sorted(requirement.extras))
            else:
                yield requirement


def asked_for_by_plug_ins() -> Iterator[Requirement]:
    for path in (ROOT / "plugins").glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        extras = project.get("optional-dependencies", {}).values()
        for text in itertools.chain(project["dependencies"], *extras):
            requirement = Requirement(text)
            if requirement.name != "kalends":
                yield requirement


@pytest.mark.parametrize(
    ("name", "extras"),
    [("server", ["server", "plot"]), ("test", ["server", "test", "bench"])],
)
def test_a_lock_holds_all_that_is_asked_for_in_versions_that_will_do(
    name: str, extras: list[str]
) -> None:
    pinned = entries(name)
    of_plug_ins = asked_for_by_plug_ins() if name == "test" else ()
    for requirement in (*asked_for(extras), *of_plug_ins):
        versions = pinned.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in locks/{name}.txt: {REMEDY}"
        for version in versions:
            (pin,) = version.specifier
            assert pin.version in requirement.specifier, f"{requirement}, {pin}: {REMEDY}"


def test_a_server_runs_on_what_was_tested() -> None:
    tested = entries("test")
    for name, versions in entries("server").items():
        assert tested[name] == versions, f"{name}: {REMEDY}"


@pytest.mark.parametrize("name", ["server", "test", "release"])
def test_every_package_of_a_lock_has_a_hash(name: str) -> None:
    lines = (ROOT / "locks" / f"{name}.txt").read_text().splitlines()
    for line, following in itertools.pairwise(lines):
        if ENTRY.match(line):
            assert HASH.match(following), line
