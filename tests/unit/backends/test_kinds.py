"""Kinds of batch systems are found by the names that owners write, or refused with what to install."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from kalends import extras
from kalends.backends import kinds
from kalends.backends.kinds import kind_named
from kalends.core.errors import InvalidInput

PLUG_INS = Path(__file__).parents[3] / "plugins"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The entry points of an installation with these plug-ins only."""
    found: dict[str, str] = {}
    monkeypatch.setattr(kinds, "_plug_ins", lambda: found)
    return found


def test_slots_are_reserved_or_jobs_taken_or_both() -> None:
    found = {name: kind_named(name) for name in ("slurm", "oar", *kinds.PLUG_INS)}
    assert {name for name, kind in found.items() if kind.adapter} == {"slurm", "oar", "gridengine"}
    assert {name for name, kind in found.items() if kind.queue} == {"slurm", "psij"}


@pytest.mark.parametrize("name", kinds.PLUG_INS)
def test_without_its_plug_in_a_kind_is_refused_with_the_command_that_installs_it(
    alone: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=f"no batch system of kind {name}") as refused:
        kind_named(name, "site.batch_systems[0].kind")
    assert refused.value.where == "site.batch_systems[0].kind"
    program, *words = shlex.split(refused.value.remedy.removeprefix("install it: "))
    assert (program, words) == (sys.executable, ["-m", "pip", "install", str(PLUG_INS / name)])
    assert (PLUG_INS / name / "pyproject.toml").is_file()
    # An installation that is no clone.
    monkeypatch.setattr(extras, "__file__", str(tmp_path / "lib" / "kalends" / "extras.py"))
    with pytest.raises(InvalidInput) as refused:
        kind_named(name)
    assert f"install ./plugins/{name} (in a clone of kalends)" in refused.value.remedy


def test_a_kind_that_nobody_has_is_refused_with_those_that_are_there(
    alone: dict[str, str],
) -> None:
    with pytest.raises(InvalidInput) as refused:
        kind_named("x")
    assert refused.value.remedy == "write one of oar, slurm"
    with pytest.raises(InvalidInput) as refused:
        kind_named("gridengin")
    assert refused.value.remedy == "did you mean gridengine?"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("kalends_missing.kind:KIND", "cannot be loaded: No module named 'kalends_missing'"),
        ("kalends.backends.kinds:NOTHING", "cannot be loaded: module"),
        ("kalends.backends.kinds:GROUP", "is not a kind of batch system"),
    ],
)
def test_a_plug_in_that_is_broken_is_refused_with_the_reason(
    alone: dict[str, str], value: str, why: str
) -> None:
    alone["broken"] = value
    with pytest.raises(InvalidInput, match=why):
        kind_named("broken")
