"""Hosts, as servers know them."""

from __future__ import annotations

from typing import NamedTuple


class Host(NamedTuple):
    """A host: an id that it keeps over restarts and that no other host has, and the name that people use."""

    id: str
    name: str
