"""Reads scripts, one a line as JSON, and writes how each is checked and ends, on any Python.

It imports the language and nothing else, so that it runs on a Python where nothing is installed. What
Python's own parser says of a text that it cannot read is left out: its words and places are those of its
version.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any, Final, NoReturn

from kalends.agents.language.job import Result, perform

STEPS_MAX: Final = 5_000
BY_PARSER: Final = ("syntax", "too-deep")
ZONES: Final = {"UTC": [[0, 0]]}


class _Ended(BaseException):
    """Ends a run as the end of its process would."""


def end_of(job: dict[str, Any]) -> Result:
    """Return the result of `job`, without bytecode, and without what only this version's parser says."""
    ends: list[Result] = []

    def finish(result: Result) -> NoReturn:
        ends.append(result)
        raise _Ended

    with contextlib.suppress(_Ended):
        perform(job, finish)
    end = ends[0]
    del end["bytecode"]
    rules = sorted({rule for _, _, rule, _ in end["violations"]})
    if any(rule in BY_PARSER for rule in rules):
        return {"code": end["code"], "rules": rules}
    return end


def main() -> None:
    for line in sys.stdin:
        source, function, arguments = json.loads(line)
        checked = end_of({"op": "check", "source": source})
        print(json.dumps(checked))
        run = {
            "op": "run", "source": source, "code": b"", "function": function, "arguments": arguments,
            "inbox": [{"a": 1}], "zones": ZONES, "steps_max": STEPS_MAX,
        }  # fmt: skip
        if checked["code"] == "ok":
            # By its text, too: 1, 1.0 and True are equal, and no number is nan.
            print(repr(sorted(end_of(run).items())))


if __name__ == "__main__":
    main()
