#!/usr/bin/env python3
"""Habits of English that readers stumble over, counted file by file; no count may rise.

    tools/prose.py                 compare all texts with tools/prose_counts.json (make lint)
    tools/prose.py --list PATH...  print each hit in these files and folders
    tools/prose.py --lower         store the counts that have fallen; a new file has to have none

Texts are Markdown pages, help, errors, comments of the example configuration, and first lines of docstrings.
A sentence counts once for each habit. The program finds about half of what an editor would change, and a few
hits in a hundred are good English: those stay in the counts. docs/cli.md is left out, because it is made from
the help.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
COUNTS: Final = ROOT / "tools" / "prose_counts.json"
GENERATED: Final = frozenset({"docs/cli.md"})

SENTENCE_WORDS_MAX: Final = 40
"""A longer sentence is a chain of facts; so is one of CHAIN_WORDS with two semicolons."""
CHAIN_WORDS: Final = 25

_BEGIN: Final = r"(?:^|(?<=[.;:!] ))"
_BE: Final = r"(?:is|are|was|were|be|been|being)"
_VERB: Final = rf"(?:{_BE}|has|have|had|may|can|cannot|would|will|must|does|do)"
_PREPOSITION: Final = r"(?:of|to|with|for|from|by|than|beside)"


@dataclass(frozen=True)
class Habit:
    """A habit of writing, what to write instead, and how it is recognised.

    `patterns` are tried one after the other; an empty tuple stands for a rule that `_hits` knows.
    """

    name: str
    advice: str
    patterns: tuple[re.Pattern[str], ...] = ()

    def match(self, sentence: str) -> str:
        """Return the words of `sentence` that show the habit, or nothing."""
        for pattern in self.patterns:
            if found := pattern.search(sentence):
                return found.group().strip()
        return ""


def _habit(name: str, advice: str, *patterns: str) -> Habit:
    return Habit(name, advice, tuple(re.compile(pattern) for pattern in patterns))


CHAIN: Final = Habit("chain", "one fact a sentence, or a list")
START: Final = Habit("start", "begin with a noun: the reader sees this text alone")
HABITS: Final = (
    _habit(
        "who", "name the person: you, the user, the owner; or write if",
        rf"{_BEGIN}(?:Who|Whom|Whose)\b(?!.*\?)",
        r"\b[Ww]hoever\b",
        r"\b(?:for|from|to|of|than|by|with) who \w+",
    ),
    _habit(
        "what", "name the thing: booking, job, notice, file",
        rf"{_BEGIN}What (?!to\b|next\b|for\b)(?!.*\?)",
        rf"(?<=[;:] )what (?:(?!is needed){_VERB}|others|runs|waits|comes|nobody)\b",
        rf"\b{_PREPOSITION} what (?:{_VERB}|others|runs|waits|comes)\b",
    ),
    _habit(
        "told", "programs print, show, report, send; people say",
        rf"\b{_BE} (?:(?!never)\w+ly |not |also |never )?(?:said|told)\b(?! apart| from)",
        r"\b[Nn]othing is said\b",
        r"\btells (?!you\b|them\b|users?\b|the user\b|its user\b|people\b|whether\b)",
    ),
    _habit(
        "of", "about, from, by, for or with; older than, not of before",
        rf"{_BEGIN}Of (?!course\b)",
        r"\bof (?:before|long ago|old)\b|\b[Tt]he same of\b",
        r"(?<=[;:] )of (?:several|the|those|these|each|it|one|equal|which|an?)\b",
    ),
    _habit(
        "nobody", "name the role: another user, no broker, all users",
        r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b",
    ),
    _habit(
        "where", "if, when, with or without; where is for places",
        rf"{_BEGIN}Where (?!to\b)(?!.*\?)",
        rf"\bwhere (?:there {_BE}|nothing\b|none\b|no \w+ {_BE}\b)",
        r"\bwhere (?:(?:it|that) is (?:not|so|allowed|left)\b|you name\b|you (?:are|have) no)",
    ),
    _habit(
        "so-many", "give the quantity",
        r"\bso (?:many|much|long|often|few)\b(?! (?:so|that|for)\b)",
    ),
    _habit(
        "is-no", "is not a; no longer",
        rf"(?<!there )(?<!There )\b{_BE} no "
        r"(?!longer\b|more\b|less\b|fewer\b|\w+er\b|one\b|different\b|good\b|doubt\b|such\b|way\b)[a-z]+",
        r"\b(?:it|you|told|do so|asked|is|are) no more(?=[.,;:]|$| at\b)",
    ),
    _habit(
        "old-word", "a word in use: again, trust, next to, fix, because, instead of",
        r"\b(?:anew|[Bb]elieve[sd]?|as whom|takes? (?:you|the caller) for|[Bb]eside(?! each)|[Bb]esides)\b",
        r"\b(?:likewise|all the same|as ever|in vain|mends?|mended|in (?:the|their) place of)\b",
        rf", for (?:it|they|there|nobody|we|he|else) (?:{_VERB}|\w+s)\b",
        rf", for (?:its|their|the|an?|no|some) \w+ {_VERB}\b",
        r"\b(?:void|known|gone|delayed|lost) by (?:it|that|this)\b|(?:, |\()as C(?=[.,)]|$)",
        r"\b[Bb]efore an? (?:Slurm|real|batch|Grid|OAR)\b",
    ),
    CHAIN,
    START,
)  # fmt: skip

_PRONOUN: Final = re.compile(r"(?:It|Its|They|Them|Those|Theirs|it|they|those|theirs)\b(?! takes)")
_OPTION: Final = re.compile(
    r"\b(?:that|what|where|when|before|as if|find|[Rr]un|[Ss]ubmit|[Kk]eep|[Ll]et) it\b|\bof its (?!own)"
)
_FRAGMENT: Final = re.compile(
    r"(?:As|Of|Who|Whom|Whose|Which|How|Why|Where|When|With|Within|From|By|At|For|Said|Once|Only|Also"
    r"|Not|The same)\b"
)
_ERROR: Final = re.compile(
    r"(?:InvalidInput|TooLarge|KeyReused|Not(?:Authenticated|Allowed|Found)|Conflict|NoCommonTime|LostRace"
    r"|Expired|LimitExceeded|Unavailable|OutcomeUnknown|StoreDamaged|IllegalEvent|KalendsError|Refusal"
    r"|UsageError|ClickException|BadParameter)$"
)


@dataclass(frozen=True)
class Passage:
    """A paragraph, cell, help text, error or docstring: where it begins, and what it is read as."""

    line: int
    kind: str
    text: str

    def sentences(self) -> list[str]:
        """Return its sentences, with each piece of code as ``C``, and links as their words."""
        text = re.sub(r"``[^`]+``|`[^`]*`", "C", self.text).replace("**", "")
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"\s+", " ", text).strip()
        return [part for part in re.split(r"(?<=[.!?]) (?=[A-Z.C])", text) if len(part) > 3]


@dataclass(frozen=True)
class Hit:
    """A sentence that shows a habit."""

    file: str
    line: int
    habit: Habit
    match: str
    sentence: str

    def __str__(self) -> str:
        return (
            f"{self.file}:{self.line}: {self.habit.name} [{self.match}] {self.sentence[:240]}\n"
            f"    {self.habit.advice}"
        )


def main() -> int:
    """Run the command; its exit status is 1 where a count differs from the stored one."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--list", nargs="+", type=Path, metavar="PATH", help="print each hit below PATH"
    )
    what.add_argument("--lower", action="store_true", help="store the counts that have fallen")
    given = parser.parse_args()
    if given.list:
        for hit in hits(texts(given.list)):
            print(hit)
        return 0
    return compare(hits(texts(_everything())), lower=given.lower)


def compare(found: list[Hit], *, lower: bool) -> int:
    """Compare the counts of `found` with the stored ones, or store them if none has risen."""
    stored: dict[str, int] = json.loads(COUNTS.read_text(encoding="utf-8"))
    counts = Counter(hit.file for hit in found)
    risen = {file for file, count in counts.items() if count > stored.get(file, 0)}
    for hit in found:
        if hit.file in risen:
            print(hit)
    if risen:
        print("More hits than are stored, all of them above:")
        for file in sorted(risen):
            print(f"  {file}: {counts[file]} (at most {stored.get(file, 0)})")
        print("Write the new sentences in another way: CONTRIBUTING.md, Style, says how.")
        return 1
    if lower:
        COUNTS.write_text(json.dumps(counts, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    elif counts != stored:
        print("Fewer hits than are stored. So that they stay away, commit what this writes:")
        print("  tools/prose.py --lower")
        return 1
    print(f"prose: {counts.total()} hits in {len(counts)} files")
    return 0


def _everything() -> list[Path]:
    plug_ins = [*ROOT.glob("plugins/*/README.md"), *ROOT.glob("plugins/*/src")]
    return [*sorted(ROOT.glob("*.md")), ROOT / "docs", ROOT / "src", *sorted(plug_ins)]


def texts(paths: list[Path]) -> list[Path]:
    """Return the Markdown and Python files that `paths` are or hold, without generated ones."""
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.suffix in {".md", ".py"}
    ]
    return [file for file in files if _name(file) not in GENERATED]


def _name(file: Path) -> str:
    """Return the path of `file` in the project."""
    whole = file.resolve()
    return whole.relative_to(ROOT).as_posix() if whole.is_relative_to(ROOT) else str(file)


def hits(files: list[Path]) -> list[Hit]:
    """Return all hits in `files`, in the order of their lines."""
    return [
        Hit(_name(file), passage.line, habit, match, sentence)
        for file in files
        for passage in sorted(_passages(file), key=lambda each: each.line)
        for index, sentence in enumerate(passage.sentences())
        for habit, match in judge(sentence, passage.kind, first=index == 0)
    ]


def judge(sentence: str, kind: str, *, first: bool) -> Iterator[tuple[Habit, str]]:
    """Yield each habit that `sentence` shows, with the words that show it.

    Args:
        sentence: One sentence, with code as ``C``.
        kind: What it stands in: ``paragraph``, ``cell``, ``help``, ``option``, ``error`` or ``docstring``.
        first: It begins its passage, where a pronoun has no noun to stand for.
    """
    for habit in HABITS:
        if match := habit.match(sentence):
            yield habit, match
    words = len(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", sentence)))
    semicolons = sentence.count(";")
    if words > SENTENCE_WORDS_MAX or (words > CHAIN_WORDS and semicolons >= 2):
        yield CHAIN, f"{words} words, {semicolons} semicolons"
    if first and kind != "cell":
        other = {"option": _OPTION.search, "docstring": _FRAGMENT.match}.get(kind, _PRONOUN.match)
        if found := _PRONOUN.match(sentence) or other(sentence):
            yield START, found.group()


def _passages(file: Path) -> Iterator[Passage]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield from _of_markdown(text)
        return
    if file.name == "example_configuration.py":
        for number, line in enumerate(text.splitlines(), 1):
            if "#" in line:
                yield Passage(number, "help", line.partition("#")[2].strip("# -"))
    for node in ast.walk(ast.parse(text)):
        yield from _of_node(node, refusals=file.name.startswith("refusal"))


def _of_markdown(text: str) -> Iterator[Passage]:
    """Yield headings, paragraphs, items of lists and cells of tables, without code and comments."""
    held: list[str] = []
    begin, fenced = 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark = line.lstrip()
        fence = mark.startswith(("```", "~~~"))
        fenced ^= fence
        item = re.match(r"\s*(?:[-*]|\d+\.) +", line)
        other = fenced or fence or not mark or item or mark.startswith(("#", "|", "<!--"))
        if held and other:
            yield Passage(begin, "paragraph", " ".join(held))
            held = []
        code = line.startswith("    ") and not held and not item
        if fenced or fence or not mark or code or mark.startswith("<!--"):
            continue
        if mark.startswith("|"):
            for cell in mark.strip("|").split(" | "):
                if set(cell) - set("-: "):
                    yield Passage(number, "cell", cell.strip())
            continue
        begin = begin if held else number
        held.append(line[item.end() :] if item else line.lstrip("# "))


def _of_node(node: ast.AST, *, refusals: bool) -> Iterator[Passage]:
    """Yield what `node` says to people: its docstring, its help, or the parts of an error."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, documented):
        text = ast.get_docstring(node) or ""
        command = any(
            "command" in ast.unparse(each) for each in getattr(node, "decorator_list", ())
        )
        parts = text.split("\n\n") if command else text.splitlines()[:1]
        for part in parts:
            yield Passage(getattr(node, "lineno", 1), "help" if command else "docstring", part)
    elif isinstance(node, ast.Call):
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        named = {word.arg: word.value for word in node.keywords}
        for key in ("help", "epilog"):
            if key in named:
                yield Passage(node.lineno, "option", _words(named[key]))
        if _ERROR.match(name):
            for each in [*node.args, *(named[key] for key in ("detail", "remedy") if key in named)]:
                yield Passage(node.lineno, "error", _words(each))
    elif isinstance(node, ast.Tuple) and refusals:
        for each in node.elts:
            if " " in _words(each):
                yield Passage(node.lineno, "error", _words(each))


def _words(node: ast.AST) -> str:
    """Return the text that `node` is, with what is filled in as ``C``; nothing if it is not a text."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "C"
            for part in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


if __name__ == "__main__":
    sys.exit(main())
