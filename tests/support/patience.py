"""How long a test waits for what must come: nobody fails because the machine is slow."""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 300.0
"""Longer than anything takes that does not hang, on a machine that does ten things at once."""
