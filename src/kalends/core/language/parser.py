"""Parser of terms, from left to right; every error points at a column and has a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.durations import parse_duration, parse_offset
from kalends.core.errors import InvalidInput
from kalends.core.language.brackets import Bracket, BracketChoice, Part, PlacedTerm, multiplied
from kalends.core.language.scanner import Scanner
from kalends.core.language.values import read_number, read_value
from kalends.core.language.window_text import read_window
from kalends.core.requests import (
    Alternative,
    Attribute,
    AttributePreference,
    Operator,
    Term,
    WindowPreference,
    check_alternative,
)
from kalends.core.windows import TimeWindow

T = TypeVar("T")

_NOT_WORD: Final = r"(?![A-Za-z0-9_])"
_NOT_NAME: Final = r"(?![A-Za-z0-9_./-])"
_RESOURCE = re.compile(ids.RESOURCE_PATTERN + _NOT_NAME)
_COUNT_OF = re.compile(rf"([0-9]+)[ \t\r\n]*of{_NOT_NAME}")
_COUNT_AND_WORD = re.compile(r"([0-9]+)[ \t]*(?:of|x|\*)?[ \t]+([A-Za-z][A-Za-z0-9_./-]*)")
_ATTRIBUTE = re.compile(ids.ATTRIBUTE_PATTERN + r"(?![A-Za-z0-9_.-])")
_OPERATOR = re.compile(rf"!=|<=|>=|=|<|>|in{_NOT_WORD}")
_UNITS = re.compile(r"([0-9]+)(?:[ ]*\.\.[ ]*([0-9]+))?(?![A-Za-z0-9_.-])")
_DURATION = re.compile(r"[0-9A-Za-z.:]+")
_OFFSET = re.compile(r"[+-]?[ ]*[0-9A-Za-z.:]+")
_FOR = re.compile(f"for{_NOT_WORD}")
_WEIGHT = re.compile(f"weight{_NOT_WORD}")
_BETWEEN = re.compile(f"between{_NOT_WORD}")
_PREFER = re.compile(f"prefer{_NOT_WORD}")

_OPERATORS: Final[dict[str, Operator]] = {
    "=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "in": "in",
}  # fmt: skip
_MISTAKEN_OPERATORS: Final = {
    "==": "=", "=<": "<=", "=>": ">=", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!=", ":": "=",
    "is ": "=", "~": "=", "!": "!=", "not ": "!=",
}  # fmt: skip
_ONE_TERM: Final = "write site/name, or {kind=sgi}, or 3 of {kind=sgi}"


class TermsInText(NamedTuple):
    """The alternatives of a text, and the columns of its windows by their paths in a request."""

    alternatives: tuple[Alternative, ...]
    columns: Mapping[str, int]
    scanner: Scanner

    def pointed(self, error: InvalidInput) -> InvalidInput:
        """Return `error`, at its column if it is about a window."""
        at = self.columns.get(error.where or "")
        if at is None:
            return error
        return self.scanner.error(error.detail, remedy=error.remedy, at=at)


def parse_alternatives(text: str, zone: str = "") -> tuple[Alternative, ...]:
    """Return the alternatives that `text` asks for, in their order, by the grammar of the package.

    Windows without a zone are in `zone`; without that they are refused. Raises `InvalidInput` with the
    column, a line that shows it, what was expected and what to write; never anything else, whatever the text.
    """
    return read_alternatives(text, zone).alternatives


def read_alternatives(text: str, zone: str = "") -> TermsInText:
    """Do as `parse_alternatives`, and remember the columns of windows."""
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise InvalidInput(
            f"the text has {len(text)} characters, at most {limits.REQUEST_TEXT_MAX} are allowed",
            where="request",
            remedy="use the Python form for longer requests",
        )
    scanner = Scanner(text)
    choices = _read_choices(scanner, zone, 0)
    if not scanner.at_end:
        raise scanner.expected("'+', '|' or the end", _after_term_remedy(scanner))
    flats = multiplied(choices, scanner)
    columns = {}
    for number, flat in enumerate(flats):
        path = f"alternatives[{number}]"
        columns[f"{path}.windows"] = flat.at or max(placed.at for placed in flat.terms)
        for place, placed in enumerate(flat.terms):
            columns[f"{path}.terms[{place}].windows"] = placed.at
    alternatives = tuple(flat.alternative() for flat in flats)
    for number, alternative in enumerate(alternatives):
        check_alternative(alternative, f"alternatives[{number}]")
    return TermsInText(alternatives, columns, scanner)


def _separated(
    scanner: Scanner, sign: str, read: Callable[[Scanner], T], at_most: int, what: str
) -> tuple[T, ...]:
    items = [read(scanner)]
    while scanner.take_sign(sign):
        if len(items) == at_most:
            raise scanner.error(f"more than {at_most} {what}", remedy="use several requests")
        items.append(read(scanner))
    return tuple(items)


def _read_choices(scanner: Scanner, zone: str, depth: int) -> tuple[BracketChoice, ...]:
    """Read alternatives inside `depth` brackets; how many there are is known once they are multiplied out."""

    def read(inner: Scanner) -> BracketChoice:
        parts = _separated(
            inner,
            "+",
            lambda part: _read_part(part, zone, depth),
            limits.TERMS_MAX,
            "terms in one alternative",
        )
        # The weight behind a bracket is read with it.
        own = None if isinstance(parts[-1], Bracket) else _read_weight(inner)
        return BracketChoice(parts, own or 0.0)

    return _separated(scanner, "|", read, limits.REQUEST_TEXT_MAX, "alternatives")


def _read_part(scanner: Scanner, zone: str, depth: int) -> Part:
    begin = scanner.skip_spaces()
    if not scanner.take_sign("("):
        term = _read_term(scanner)
        at = scanner.skip_spaces()
        windows, preferences = _read_windows(scanner, zone)
        return PlacedTerm(replace(term, windows=windows, preferences=preferences), at)
    if depth == limits.BRACKETS_DEEP_MAX:
        raise scanner.error(
            f"more than {depth} brackets within brackets", remedy="leave some out", at=begin
        )
    choices = _read_choices(scanner, zone, depth + 1)
    if not scanner.take_sign(")"):
        raise scanner.expected("'+', '|' or ')'", _after_term_remedy(scanner))
    at = scanner.skip_spaces()
    windows, preferences = _read_windows(scanner, zone)
    return Bracket(choices, windows, preferences, _read_weight(scanner) or 0.0, at)


def _read_windows(
    scanner: Scanner, zone: str
) -> tuple[tuple[TimeWindow, ...], tuple[WindowPreference, ...]]:
    """Read the windows behind a term or a bracket, and the preferred ones."""
    windows: list[TimeWindow] = []
    preferences: list[WindowPreference] = []
    while True:
        begin = scanner.skip_spaces()
        if scanner.take(_BETWEEN):
            windows.append(read_window(scanner, zone))
        elif scanner.take(_PREFER):
            window = read_window(scanner, zone)
            weight = _read_weight(scanner)
            if weight is None:
                raise scanner.expected("'weight'", "write prefer 08:00 12:00 weight 2")
            preferences.append(WindowPreference(window=window, weight=weight))
        else:
            return tuple(windows), tuple(preferences)
        if max(len(windows), len(preferences)) > limits.WINDOWS_MAX:
            raise scanner.error(
                f"more than {limits.WINDOWS_MAX} windows", remedy="give fewer", at=begin
            )


def _read_weight(scanner: Scanner) -> float | None:
    """Return the number after ``weight``; None if ``weight`` does not come next."""
    if not scanner.take(_WEIGHT):
        return None
    start = scanner.skip_spaces()
    weight = read_number(scanner)
    if weight is None:
        raise scanner.expected("a number", "write weight 2; larger numbers are preferred")
    if abs(weight) > limits.WEIGHT_MAX:
        raise scanner.error(
            f"a weight is between {-limits.WEIGHT_MAX:,.0f} and {limits.WEIGHT_MAX:,.0f}",
            remedy="write smaller weights in the same proportions",
            at=start,
        )
    return float(weight)


def _read_term(scanner: Scanner) -> Term:
    resource, count = "", 1
    attributes: tuple[Attribute, ...] = ()
    preferred: tuple[AttributePreference, ...] = ()
    if (counted := scanner.take(_COUNT_OF)) and _brace_follows(scanner, counted):
        count = _bounded(scanner, counted, 1, limits.SELECTED_MAX, "different resources")
        attributes, preferred = _read_attributes(scanner)
    elif scanner.take_sign("{"):
        attributes, preferred = _read_attributes(scanner)
    elif named := scanner.take(_RESOURCE):
        resource = named[0]
    else:
        raise scanner.expected("a resource or {attributes}", _term_remedy(scanner))
    units, units_max, units_weight = _read_amount(scanner)
    offset_s = _read_offset(scanner) if scanner.take_sign("@") else 0
    duration_s = _read_duration(scanner) if scanner.take(_FOR) else 0
    return Term(
        resource=resource, attributes=attributes, count=count, units=units, units_max=units_max,
        units_weight=units_weight, preferred=preferred, offset_s=offset_s, duration_s=duration_s,
    )  # fmt: skip


def _brace_follows(scanner: Scanner, counted: re.Match[str]) -> bool:
    if scanner.take_sign("{"):
        return True
    remedy = f"write {counted[1]} of {{kind=sgi}}"
    if "/" in scanner.found:
        remedy = f"one resource by name has units: write {scanner.found}:{counted[1]}"
    elif scanner.found.isalnum():
        remedy = f"write {counted[1]} of {{kind={scanner.found}}}"
    raise scanner.expected("'{'", remedy)


def _term_remedy(scanner: Scanner) -> str:
    """Return the remedy for a text that does not begin a term."""
    counted = _COUNT_AND_WORD.match(scanner.text, scanner.skip_spaces())
    if counted and "/" in counted[2]:
        return f"one resource by name has units: write {counted[2]}:{counted[1]}"
    if counted:
        return f"write {counted[1]} of {{kind={counted[2].lower()}}}"
    word = scanner.found
    if _RESOURCE.fullmatch(word.lower()):
        return f"resource names are lower case: write {word.lower()}"
    if "/" in word:
        return "a resource is site/name: lower case letters, digits, - _ and ., each at most 63"
    if word[:1].isalpha():
        return f"name it site/{word.lower()}, or ask for any with {{kind={word.lower()}}}"
    if word[:1] == "|":
        return "separate alternatives with one |"
    return _ONE_TERM


def _after_term_remedy(scanner: Scanner) -> str:
    """Return the remedy for a text that cannot follow a term."""
    found = scanner.found
    before = scanner.text[: scanner.position].rstrip()
    if found.lower() in ("and", "with", "plus") or found[:1] in ("&", ",", ";"):
        return "join what is wanted together with +"
    if found.lower() == "or":
        return "separate alternatives with |"
    if found[:1] == "@":
        return "write the offset once, before the duration: @-10m for 30m"
    if found[:1] == ":":
        return "write units once, directly after the resource: sdsc/sp2:64 @-10m for 30m"
    if found == "for":
        return "write the duration before the window: sdsc/sp2 for 2h between 08:00 12:00"
    if found[:1].isdigit() and re.search(r"\bfor\s+\S+$", before):
        return "write the duration without spaces: 1h30m"
    if found[:1] == "*":
        return "write a weight as: sdsc/sp2 weight 2, or sdsc/sp2:(32..64 weight 2)"
    if found.isdigit():
        return f"write units after a colon: {(before.split() or [''])[-1][-63:]}:{found}"
    if found[:1] == "+":
        return "only an alternative has a weight: write (sdsc/sp2 weight 2) + caltech/onyx"
    return (
        "join terms with +, alternatives with |, and write @offset, 'for duration' and windows last"
    )


def _read_attributes(
    scanner: Scanner,
) -> tuple[tuple[Attribute, ...], tuple[AttributePreference, ...]]:
    """Read requirements and preferences up to and including the closing brace."""
    start = scanner.position
    if scanner.take_sign("}"):
        scanner.position -= 1
        raise scanner.error(
            "the braces are empty and match any resource", remedy="add a condition: {kind=sgi}"
        )
    comparisons = _separated(
        scanner, ",", _read_attribute, limits.ATTRIBUTES_MAX, "comparisons in one term"
    )
    if not scanner.take_sign("}"):
        raise scanner.expected("',' or '}'", "separate comparisons with commas, end with }")
    demands = tuple(each for each in comparisons if isinstance(each, Attribute))
    if not demands:
        raise scanner.error(
            "everything in the braces has a weight, so they match any resource",
            remedy="add a condition: {kind=sgi, memory>=128 weight 2}",
            at=start,
        )
    return demands, tuple(each for each in comparisons if isinstance(each, AttributePreference))


def _read_attribute(scanner: Scanner) -> Attribute | AttributePreference:
    """Return a comparison; with a weight it is a preference."""
    comparison = _read_comparison(scanner)
    weight = _read_weight(scanner)
    if weight is None:
        return comparison
    return AttributePreference(attribute=comparison, weight=weight)


def _read_comparison(scanner: Scanner) -> Attribute:
    name = scanner.take(_ATTRIBUTE)
    if name is None:
        lower = scanner.found.lower()
        remedy = "attribute names begin with a lower case letter: {kind=sgi, memory>=64}"
        if _ATTRIBUTE.fullmatch(lower):
            remedy = f"attribute names are lower case: write {lower}"
        raise scanner.expected("an attribute's name", remedy)
    operator = _read_operator(scanner, name[0])
    start = scanner.skip_spaces()
    if operator == "in":
        return Attribute(name=name[0], operator=operator, value=_read_list(scanner, name[0]))
    value = read_value(scanner, name[0], operator)
    if isinstance(value, bool) and operator not in ("=", "!="):
        raise scanner.error(
            f"true and false have no order for {operator}",
            remedy=f"write {name[0]}=true or {name[0]}!=true",
            at=start,
        )
    return Attribute(name=name[0], operator=operator, value=value)


def _read_operator(scanner: Scanner, name: str) -> Operator:
    start = scanner.skip_spaces()
    for mistake, meant in _MISTAKEN_OPERATORS.items():
        if scanner.text.startswith(mistake, start) and not scanner.text.startswith("!=", start):
            raise scanner.expected(
                "a comparison", f"write {name}{meant} instead of {mistake.strip()}"
            )
    operator = scanner.take(_OPERATOR)
    if operator is None:
        raise scanner.expected(
            "one of = != < <= > >= in", f"write {name}=true if {name} is to be true"
        )
    return _OPERATORS[operator[0]]


def _read_list(scanner: Scanner, name: str) -> tuple[str | int | float | bool, ...]:
    if not scanner.take_sign("("):
        raise scanner.expected("'('", f"write {name} in (sgi, pentium)")
    values = _separated(
        scanner, ",", lambda inner: read_value(inner, name, "="), limits.REQUEST_TEXT_MAX, "values"
    )
    if not scanner.take_sign(")"):
        raise scanner.expected("',' or ')'", "separate the values with commas, end with )")
    return values


def _read_amount(scanner: Scanner) -> tuple[int, int, float]:
    """Read ``(units, units_max, units_weight)`` after a colon; ``(1, 0, 1.0)`` without one."""
    if not scanner.take_sign(":"):
        return 1, 0, 1.0
    if not scanner.take_sign("("):
        return *_read_units(scanner), 1.0
    units, units_max = _read_units(scanner)
    start = scanner.skip_spaces()
    weight = _read_weight(scanner)
    if weight is None:
        raise scanner.expected(
            "'weight'", f"write ({units}..{units_max or units} weight 2), or leave the ( ) out"
        )
    if units_max <= units:
        raise scanner.error(
            f"{units} units are a fixed amount, which has no weight",
            remedy=f"write :{units}, or give a range: :({units}..{2 * units} weight 2)",
            at=start,
        )
    if not scanner.take_sign(")"):
        raise scanner.expected("')'", f"write ({units}..{units_max} weight 2)")
    return units, units_max, weight


def _read_units(scanner: Scanner) -> tuple[int, int]:
    """Read ``(units, units_max)``; the second is 0 for a fixed amount."""
    start = scanner.skip_spaces()
    match = scanner.take(_UNITS)
    if match is None:
        raise scanner.expected("a number of units", _units_remedy(scanner))
    units = _bounded(scanner, match, 1, limits.UNITS_MAX, "units")
    if match[2] is None:
        return units, 0
    units_max = _bounded(scanner, match, 2, limits.UNITS_MAX, "units")
    if units_max < units:
        raise scanner.error(
            f"{units}..{units_max} ends below its start",
            remedy=f"write {units_max}..{units}",
            at=start,
        )
    return units, units_max


def _units_remedy(scanner: Scanner) -> str:
    found = scanner.found
    if swapped := re.fullmatch(r"([0-9]+)-([0-9]+)", found):
        return f"write {swapped[1]}..{swapped[2]} for at least {swapped[1]}, at most {swapped[2]}"
    try:
        parse_duration(found)
    except InvalidInput:
        if amount := re.match(r"[0-9]+", found):
            return f"units have no name: write :{amount[0]}"
        return "write a whole number after the colon, e.g. sdsc/sp2:64"
    return f"a duration is written: for {found}"


def _bounded(scanner: Scanner, match: re.Match[str], group: int, at_most: int, what: str) -> int:
    digits = match[group].lstrip("0")
    if not digits or len(digits) > 9 or int(digits) > at_most:
        raise scanner.error(
            f"the number of {what} is between 1 and {at_most}",
            remedy="ask for less" if digits else "ask for at least 1",
            at=match.start(group),
        )
    return int(digits)


def _read_offset(scanner: Scanner) -> int:
    remedy = "write @-10m for ten minutes before the common start, @+2h for two hours after"
    return _read_length(scanner, _OFFSET, parse_offset, "an offset", remedy)


def _read_duration(scanner: Scanner) -> int:
    return _read_length(scanner, _DURATION, parse_duration, "a duration", "write for 30m")


def _read_length(
    scanner: Scanner,
    pattern: re.Pattern[str],
    parse: Callable[[str], int],
    what: str,
    remedy: str,
) -> int:
    start = scanner.skip_spaces()
    match = scanner.take(pattern)
    if match is None:
        raise scanner.expected(what, remedy)
    try:
        return parse(match[0])
    except InvalidInput as error:
        raise scanner.error(error.detail, remedy=error.remedy, at=start) from error
