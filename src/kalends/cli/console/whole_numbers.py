"""Whole numbers as values of options: one type for all commands."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from kalends.core.excerpts import excerpt

_WRITTEN: Final = re.compile(r"[+-]?[0-9]{1,1000}")


class WholeNumber(click.IntRange):
    """A whole number from `min` to `max`, in ASCII digits; every refusal names what is accepted."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; raises `click.BadParameter` for other text, and outside the limits."""
        text = str(value).strip()
        if _WRITTEN.fullmatch(text):
            number = int(text)
            least, most = self.min, self.max
            if (least is None or least <= number) and (most is None or number <= most):
                return number
        wanted = f"a whole number{self._limits()}, in digits"
        raise click.BadParameter(f"{excerpt(text)!r} is not {wanted}.", ctx, param)

    def _limits(self) -> str:
        if self.min is not None and self.max is not None:
            return f" from {self.min:.0f} to {self.max:.0f}"
        return "" if self.min is None else f" of at least {self.min:.0f}"

    def _describe_range(self) -> str:
        """Return the limits as help prints them, if there are any."""
        limited = self.min is not None or self.max is not None
        return super()._describe_range() if limited else ""
