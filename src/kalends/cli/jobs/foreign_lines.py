"""Options of other batch systems in a script, such as ``#SBATCH -N 2``: found, and put into our words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.job_paths import check_output_path


class ForeignLine(NamedTuple):
    """A line of a script with options of another batch system; `ours` are ours for the same, or ""."""

    number: int
    text: str
    ours: str


def foreign_lines(script: str) -> Iterator[ForeignLine]:
    """Provide the lines of a script that another batch system would read as options.

    Most systems stop at the first command. Grid Engine reads the whole script.
    """
    commands = False
    for number, line in enumerate(map(str.strip, script.split("\n")), 1):
        commands = commands or (bool(line) and not line.startswith("#"))
        found = _MARK.match(line)
        if found and (not commands or found[1] == "#$"):
            mark = found[1].upper()
            ours = _ours(line[found.end() :], _OPTIONS.get(mark, {}), glued=mark != "#$")
            yield ForeignLine(number, line, " ".join(ours))


_MARK: Final = re.compile(r"(#SBATCH|#PBS|#OAR|#BSUB|#MSUB|#PJM|#COBALT|#FLUX:|#\$)\s+(?=-)", re.I)

Words = Callable[[str], list[str]]


def _ours(options: str, known: Mapping[str, Words], *, glued: bool) -> Iterator[str]:
    """Provide our words for `options`; with `glued` a value may follow its letter at once: ``-N2``."""
    lexer = shlex.shlex(options, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, "#"
    try:
        words = list(lexer)
    except ValueError:  # Its quotes do not match: there is no counterpart of that.
        return
    place = 0
    while place < len(words):
        name, equals, value = words[place].partition("=")
        place += 1
        if glued and name not in known and name[:2] in known:
            name, value, equals = name[:2], words[place - 1][2:], "="
        if not equals and place < len(words) and not words[place].startswith("-"):
            value = words[place]
            place += 1
        if name in known:
            yield from map(shlex.quote, known[name](value))


def _same(option: str) -> Words:
    return lambda value: [option, value] if value else []


def _flag(option: str) -> Words:
    return lambda value: [option] if value not in ("n", "no") else []


def _path(option: str) -> Words:
    def words(value: str) -> list[str]:
        for theirs in ("%A", "%J", "%jobid%", "$PBS_JOBID", "$JOB_ID"):
            value = value.replace(theirs, "%j")
        for theirs in ("$TASK_ID", "%I", "^array_index^"):
            value = value.replace(theirs, "%a")
        value = value.replace("$USER", "%u").removeprefix(":")
        try:
            check_output_path(value, option, is_array=True)
        except InvalidInput:
            return [option, "FILE"]
        return [option, value] if value else []

    return words


def _nodes(value: str) -> list[str]:
    first = value.partition("-")[0]
    return ["-n", first] if first.isdecimal() else []


def _time(value: str) -> list[str]:
    """Read minutes, [[hours:]minutes:]seconds or days-hours[:minutes[:seconds]], as Slurm does."""
    days, dash, rest = value.rpartition("-")
    parts = rest.split(":")
    if not all(each.isdecimal() and len(each) < 8 for each in ([days] if dash else []) + parts):
        return ["--for", "DURATION"] if value else []
    numbers = [int(each) for each in parts]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 1:
        hours, minutes, seconds = 0, numbers[0], 0
    else:
        hours, minutes, seconds = (0, *numbers)[-3:]
    length_s = int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
    return ["--for", format_duration(length_s)] if length_s else []


def _clock(value: str) -> list[str]:
    """Read seconds or hours:minutes:seconds, as PBS, Grid Engine and OAR do."""
    return _time(value if ":" in value else f"0:{value}")


def _resources(value: str) -> list[str]:
    """Read the list of ``-l``: ``nodes=2:ppn=8,walltime=1:00:00``, ``select=2`` or ``h_rt=1:0:0``."""
    found: list[str] = []
    for name, number in re.findall(r"(?:^|[,/:])(nodes|select)=(\d+)", value):
        found += ["-n", number] if name else []
    for length in re.findall(r"(?:^|[,:])(?:walltime|h_rt)=([\d:]+)", value):
        found += _clock(length)
    return found


def _array(value: str) -> list[str]:
    return ["--array", value] if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", value) else []


_HAPPENED: Final = {
    "after": ":started",
    "afterany": ":ended",
    "afternotok": ":failed",
    "afterok": "",
}


def _dependency(value: str) -> list[str]:
    found: list[str] = []
    for part in value.removeprefix("depend=").split(","):
        how, *jobs = part.split(":")
        if how in _HAPPENED:
            found += [word for job in jobs for word in ("--after", f"{job}{_HAPPENED[how]}")]
    return found


def _after_end(value: str) -> list[str]:
    return [word for job in value.split(",") if job for word in ("--after", f"{job}:ended")]


def _mail(value: str) -> list[str]:
    words = value.lower().split(",")
    if words == ["all"]:
        words = ["begin", "end", "fail"]
    letters = {"b": "begin", "e": "end", "a": "fail"}
    if len(words) == 1 and words[0] and set(words[0]) <= set(letters):
        words = [letters[each] for each in words[0]]
    known = [each for each in ("begin", "end", "fail") if each in words]
    return ["--notify", ",".join(known)] if known else []


def _environment(value: str) -> list[str]:
    given = [each for each in value.split(",") if "=" in each]
    return [word for each in given for word in ("--env", each)]


def _signal(value: str) -> list[str]:
    found = re.fullmatch(r"(?:\w+:)?([A-Z]+\d?)@(\d+)", value)
    return ["--warn", f"{found[1]}@{found[2]}s"] if found else []


def _both(names: tuple[str, ...], words: Words) -> dict[str, Words]:
    return dict.fromkeys(names, words)


_SLURM: Final = {
    **_both(("-N", "--nodes"), _nodes),
    **_both(("-t", "--time"), _time),
    **_both(("-J", "--job-name"), _same("--name")),
    **_both(("-o", "--output"), _path("--output")),
    **_both(("-e", "--error"), _path("--error")),
    **_both(("-i", "--input"), _same("--input")),
    **_both(("-A", "--account"), _same("--project")),
    **_both(("-D", "--chdir"), _same("--directory")),
    **_both(("-a", "--array"), _array),
    **_both(("-d", "--dependency"), _dependency),
    **_both(("-H", "--hold"), _flag("--held")),
    "--requeue": _flag("--rerun"),
    "--mail-type": _mail,
    "--mail-user": _same("--notify-to"),
    "--export": _environment,
    "--signal": _signal,
}
_PBS: Final = {
    "-l": _resources, "-N": _same("--name"), "-o": _path("--output"), "-e": _path("--error"),
    "-A": _same("--project"), "-P": _same("--project"), "-d": _same("--directory"),
    "-J": _array, "-t": _array, "-W": _dependency, "-m": _mail, "-M": _same("--notify-to"),
    "-v": _environment, "-h": _flag("--held"), "-r": _flag("--rerun"),
}  # fmt: skip
_GRID_ENGINE: Final = {
    "-l": _resources, "-N": _same("--name"), "-o": _path("--output"), "-e": _path("--error"),
    "-A": _same("--project"), "-P": _same("--project"), "-wd": _same("--directory"),
    "-i": _same("--input"), "-t": _array, "-hold_jid": _after_end, "-m": _mail,
    "-M": _same("--notify-to"), "-v": _environment, "-h": _flag("--held"), "-r": _flag("--rerun"),
}  # fmt: skip
_OAR: Final = {
    **_both(("-l", "--resource"), _resources),
    **_both(("-n", "--name"), _same("--name")),
    **_both(("-O", "--stdout"), _path("--output")),
    **_both(("-E", "--stderr"), _path("--error")),
    **_both(("-d", "--directory"), _same("--directory")),
    **_both(("-h", "--hold"), _flag("--held")),
    "--project": _same("--project"),
}
_OPTIONS: Final[Mapping[str, Mapping[str, Words]]] = {
    "#SBATCH": _SLURM, "#PBS": _PBS, "#$": _GRID_ENGINE, "#OAR": _OAR,
}  # fmt: skip
