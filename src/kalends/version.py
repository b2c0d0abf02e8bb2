"""The version of this kalends, which servers and clients say of themselves."""

from __future__ import annotations

VERSION = "0.1.0"
