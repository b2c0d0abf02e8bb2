"""Job scripts: reading them, and the options in their ``#KALENDS`` lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.jobs.foreign_lines import foreign_lines
from kalends.core.errors import InvalidInput
from kalends.core.limits import JOB_SCRIPT_BYTES_MAX

MARK: Final = "#KALENDS"
_ALMOST: Final = re.compile(r"#\s*kalends\s+-", re.IGNORECASE)
OPTION: Final = "--script"

UNREAD_SHOWN_MAX: Final = 20
UNREAD_CHARACTERS_MAX: Final = 80

NOT_OF_A_JOB: Final = frozenset({"script", "implementations", "pick", "rank", "key", "each_line"})
"""Options of this call alone: they name files of the caller's, or make the call repeatable."""


class JobCommand(ServerCommand):
    """A command whose ``--script`` may bring options along; those on the command line win.

    What stands behind ``--`` is the program, also where no machine is named.
    """

    WORDS: Final = "kalends.words"
    """Where a context keeps what was said of all the jobs that ``--each-line`` names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[self.WORDS] = _of_each(args)
        end = args.index("--") if "--" in args else len(args)
        args, program = args[:end], args[end + 1 :]
        path = script_named(args)
        if path is not None and path.strip():
            machine = 0 if args[0].startswith("-") else 1
            args = [*args[:machine], *self._options_in(ctx, read_script(path)), *args[machine:]]
        rest = super().parse_args(ctx, args)
        ctx.params["program"] = (*ctx.params.get("program", ()), *program)
        return rest

    def _options_in(self, ctx: click.Context, text: str) -> list[str]:
        """Return the options of a script; raises `InvalidInput` for others."""
        found: list[str] = []
        tell_unread(text)
        for number, words in directives(text):
            self.check_options(ctx, words, f"{MARK}, line {number}")
            found += words
        return found

    def check_options(self, ctx: click.Context, words: list[str], where: str) -> None:
        """Raise `InvalidInput` unless `words` are options of a job."""
        try:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(words))
        except click.UsageError as error:
            unknown = isinstance(error, click.NoSuchOption)
            raise InvalidInput(
                # What it is said to be like may be no option of a job.
                error.message if unknown else error.format_message(),
                where=where,
                remedy=f"kalends {ctx.info_name} -h lists them",
            ) from error
        if isinstance(given.get("machine"), str):
            raise InvalidInput(
                f"{given['machine']!r} is no option",
                where=where,
                remedy="give the machine on the command line, and what is to run below",
            )
        for option in self.get_params(ctx):
            if option.name in given and self._is_of_the_call(ctx, option):
                raise InvalidInput(
                    f"{option.opts[-1]} is no option of a job",
                    where=where,
                    remedy="give it on the command line",
                )

    def _is_of_the_call(self, ctx: click.Context, option: click.Parameter) -> bool:
        """Return whether an option is about the call, not the job: a script names neither server nor user."""
        taken = {name for each in self._shared_options() for name in each.opts}
        taken |= set(self.get_help_option_names(ctx))
        return option.name in NOT_OF_A_JOB or not taken.isdisjoint(option.opts)


def _of_each(args: list[str]) -> list[str]:
    """Return what holds for each job of ``--each-line FILE``: all but that, and the key of the call."""
    kept: list[str] = []
    passed = False
    for word in args:
        if passed:
            passed = False
        elif word in ("--each-line", "--key"):
            passed = True
        elif not word.startswith(("--each-line=", "--key=")):
            kept.append(word)
    return kept


def script_named(args: list[str]) -> str | None:
    """Return the file that ``--script FILE`` or ``--script=FILE`` names, None without."""
    for number, word in enumerate(args):
        if word == OPTION and number + 1 < len(args):
            return args[number + 1]
        if word.startswith(f"{OPTION}="):
            return word.removeprefix(f"{OPTION}=")
    return None


def read_script(path: str) -> str:
    """Return the text of a job script; raises `InvalidInput`."""
    return read_text(path, OPTION)


def read_text(path: str, option: str) -> str:
    """Return the text of the file that `option` names; raises `InvalidInput`."""
    try:
        with Path(path).open("rb") as file:
            found = file.read(JOB_SCRIPT_BYTES_MAX + 1)
        if len(found) > JOB_SCRIPT_BYTES_MAX:
            raise InvalidInput(
                f"{path} has more than {JOB_SCRIPT_BYTES_MAX} bytes",
                where=option,
                remedy="keep it on the machine, and run it as a command",
            )
        return found.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or 'it is not a text'}",
            where=option,
            remedy="name a file of text",
        ) from error


def directives(script: str) -> Iterator[tuple[int, list[str]]]:
    """Provide the words in the ``#KALENDS`` lines of a script, with the numbers of the lines.

    They stand before the first line that is neither empty nor a comment; a word that begins with ``#``
    begins a comment. Raises `InvalidInput` for a line whose quotes do not match.
    """
    for number, line in enumerate(map(str.strip, script.split("\n")), 1):
        if line.split(None, 1)[:1] == [MARK]:
            yield number, words_in(line.removeprefix(MARK), f"{MARK}, line {number}")
        elif line and not line.startswith("#"):
            return


def tell_unread(script: str, *, options_are_read: bool = True) -> None:
    """Print which lines of a script look like options, and are not read as such."""
    said = list(_unread(script, options_are_read))
    for number, why in said[:UNREAD_SHOWN_MAX]:
        output.say(f"kalends: line {number} is not read: {why}", error=True)
    if len(said) > UNREAD_SHOWN_MAX:
        more = len(said) - UNREAD_SHOWN_MAX
        output.say(f"kalends: {more} more lines with options are not read", error=True)


def _unread(script: str, options_are_read: bool) -> Iterator[tuple[int, str]]:
    commands = False
    foreign = {each.number: each for each in foreign_lines(script)}
    for number, line in enumerate(map(str.strip, script.split("\n")), 1):
        commands = commands or (bool(line) and not line.startswith("#"))
        if number in foreign:
            ours = foreign[number].ours
            there = f"; write {MARK} {ours}" if ours and options_are_read else ""
            yield number, f"{line[:UNREAD_CHARACTERS_MAX]}{there}"
        elif not _ALMOST.match(line):
            continue
        elif not options_are_read:
            yield number, f"{MARK} lines are read in the file of --script alone"
        elif line.split(None, 1)[0] != MARK:
            yield number, f"options stand behind {MARK}"
        elif commands:
            yield number, f"{MARK} stands before the first command"


def words_in(line: str, where: str) -> list[str]:
    """Return the words of a line as a shell would, but for its variables; raises `InvalidInput`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if word.startswith("#"):
                break
            words.append(word)
    except ValueError as error:
        raise InvalidInput(
            f"it cannot be read: {error}", where=where, remedy="close the quotes"
        ) from error
    return words
