"""Resources of a table (CSV), added to the configuration of a site."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from kalends.cli.servers.server import read_configuration
from kalends.client.imports.tables import read_table
from kalends.core.errors import InvalidInput
from kalends.rim.private_files import replace
from kalends.serving.configuration import load_configuration

TEXTS: Final = ("name", "zone", "grain", "horizon", "description")
"""The columns that are fields of a resource with a text; `capacity` is a number, and others attributes."""


class ImportedResource(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a row: the resource was ``made``, is ``there`` already, or the row is ``bad``."""

    line: int
    name: str
    state: Literal["made", "there", "bad"]
    problem: str = ""


def import_resources(file: Path, configuration: Path, *, dry_run: bool) -> list[ImportedResource]:
    """Add the resources in the table `file` to the site in `configuration`, if it has none of that name.

    A row that is no resource stops no other. The file is written at once, or not at all if the whole would
    not be valid. Raises `InvalidInput`.
    """
    site = read_configuration(configuration).site
    if site is None:
        raise InvalidInput("no site is configured there", where=str(configuration))
    known = {each.name for each in site.resources}
    done, blocks = [], []
    for row in read_table(file, ("name",), others=True).rows:
        name, block = row.cells["name"], _block(row.cells)
        problem = "" if name in known else _problem(block)
        done.append(
            ImportedResource(
                line=row.line, name=name, problem=problem,
                state="there" if name in known else "bad" if problem else "made",
            )
        )  # fmt: skip
        if done[-1].state == "made":
            known.add(name)
            blocks.append(block)
    if blocks:
        _write(configuration, blocks, dry_run=dry_run)
    return done


def _write(configuration: Path, blocks: list[str], *, dry_run: bool) -> None:
    place = configuration.resolve()
    text = "\n".join([place.read_bytes().decode().rstrip("\r\n"), "", *blocks])
    load_configuration(text, configuration.parent)
    if not dry_run:
        replace(place, text.encode(), place.stat().st_mode & 0o777)


def _block(cells: Mapping[str, str]) -> str:
    """Return the resource as a section of a configuration."""
    lines = ["[[site.resources]]"]
    lines += [f"{each} = {_text(cells[each])}" for each in TEXTS if cells.get(each)]
    if cells.get("capacity"):
        lines.append(f"capacity = {_value(cells['capacity'])}")
    attributes = {
        name: text for name, text in cells.items() if text and name not in (*TEXTS, "capacity")
    }
    if attributes:
        inside = ", ".join(f"{_text(name)} = {_value(text)}" for name, text in attributes.items())
        lines.append(f"attributes = {{ {inside} }}")
    return "\n".join([*lines, ""])


def _problem(block: str) -> str:
    """Return what is wrong with a resource, and in which column; "" for nothing."""
    try:
        load_configuration(f'[site]\nname = "site"\nstore = "site.sqlite"\n\n{block}', Path())
    except InvalidInput as error:
        column = error.where.removeprefix("site.resources[0].")
        return f"column {column}: {error.detail}"
    return ""


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _value(text: str) -> str:
    """Return a whole number as it is, and anything else as a text."""
    return text if text.isdecimal() and text.isascii() and not text.startswith("0") else _text(text)
