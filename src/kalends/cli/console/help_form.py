"""The form of every help text: description, options by section, and examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LAST = "Options"
"""The title of options without a section; they come last."""


class SectionedOption(click.Option):
    """An option that help lists under the title `section`."""

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


def section(title: str) -> Callable[..., Callable[[F], F]]:
    """Return `click.option` for options that help lists under `title`."""
    return partial(click.option, cls=SectionedOption, section=title)


def write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options of `command`, one list for each section."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for option in command.get_params(ctx):
        if isinstance(option, click.Option) and (row := option.get_help_record(ctx)) is not None:
            title = option.section if isinstance(option, SectionedOption) else LAST
            sections.setdefault(title, []).append(row)
    for title in sorted(sections, key=LAST.__eq__):
        with formatter.section(title):
            formatter.write_dl(sections[title])


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    """Write each example on a line of its own, unwrapped, so that it can be copied."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")
