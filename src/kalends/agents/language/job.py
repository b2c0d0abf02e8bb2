"""The job of a worker: check a source, or run it, and hand over one result.

A result is a dict of plain data with the fields of `kalends.agents.runs.RunOutcome` and `Checked`. Every
end that a script can come to is a result: nothing that it does is raised here.
"""

from __future__ import annotations

import marshal
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NoReturn

from kalends.agents.language import limits
from kalends.agents.language.answers import NotPlain, plain_answer
from kalends.agents.language.environment import environment
from kalends.agents.language.meter import Meter
from kalends.agents.language.parser import SCRIPT_FILE
from kalends.agents.language.policy import Rejected, compile_script, compile_with_functions
from kalends.agents.language.texts import printable

Result = dict[str, Any]
Finish = Callable[[Result], NoReturn]

_FRAMES_PER_CALL: Final = 8 + 2 * limits.SYNTAX_DEPTH_MAX + limits.LOOPS_DEPTH_MAX
"""Python frames that one call of a script's function takes at most, with what its code puts around the next.

Two for each chain of comparisons, and up to Python 3.11 one for each comprehension. None of these frames
takes space on the processor's stack.
"""


def perform(job: dict[str, Any], finish: Finish) -> NoReturn:
    """Do `job`, and call `finish` with its result, exactly once.

    `job` is ``{"op": "check", "source"}``, or ``{"op": "run", "source", "code", "function",
    "arguments", "inbox", "zones", "steps_max"}``. `code` is bytecode that a check has made of this
    source with this engine, or empty; it is trusted, so only a worker may be given any. `finish`
    must not return. When steps run out it is called from inside the script, which has no way to
    go on: so it ends the process, or raises what is no `Exception`.
    """
    if job["op"] == "check":
        finish(_check(job["source"]))
    finish(_run(job, finish))


def result(code: str, **fields: Any) -> Result:
    """Return a result with every field."""
    return {
        "code": code,
        "detail": "",
        "line": 0,
        "violations": [],
        "functions": [],
        "bytecode": b"",
        "answer": None,
        "sent": [],
        "steps": 0,
        **fields,
    }


def _check(source: str) -> Result:
    try:
        code, functions = compile_with_functions(source)
    except Rejected as rejected:
        return _rejected(rejected)
    return result("ok", functions=list(functions), bytecode=marshal.dumps(code))


def _rejected(rejected: Rejected) -> Result:
    first = rejected.violations[0]
    return result(
        "rejected",
        detail=printable(f"{first.rule}: {first.detail}", limits.DETAIL_CHARS_MAX),
        line=first.line,
        violations=[list(one) for one in rejected.violations],
    )


def _run(job: dict[str, Any], finish: Finish) -> Result:
    def exhausted() -> NoReturn:
        detail = f"all {job['steps_max']:,} steps are used up"
        finish(result("limit-steps", detail=detail, line=_running_line(), steps=meter.steps))

    meter = Meter(job["steps_max"], exhausted)
    try:
        code = _code_of(job)
    except Rejected as rejected:
        return _rejected(rejected)
    sent: list[Any] = []
    try:
        names = environment(meter, job["zones"], job["inbox"], sent)
        answer = plain_answer(_called(code, names, job["function"], job["arguments"]))
    except NotPlain as error:
        return result(error.code, detail=_detail(str(error)), steps=meter.steps)
    except Exception as error:  # Whatever a script raises is its outcome.
        return _failed(error, meter)
    return result("ok", answer=answer, sent=sent, steps=meter.steps)


def _code_of(job: dict[str, Any]) -> CodeType:
    if job["code"]:
        loaded = marshal.loads(job["code"])
        if isinstance(loaded, CodeType):
            return loaded
    return compile_script(job["source"])


def _called(code: CodeType, names: dict[str, Any], function: str, arguments: list[Any]) -> Any:
    """Return the result of the script's function, without Python's own recursion limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(_stack_depth() + _FRAMES_PER_CALL * limits.CALLS_MAX)
    try:
        exec(code, names)  # noqa: S102  # what this package is for
        if function not in names:
            raise NameError(f"the script defines no {function}")
        return names[function](*arguments)
    finally:
        sys.setrecursionlimit(before)


def _failed(error: Exception, meter: Meter) -> Result:
    if isinstance(error, RecursionError):
        code = "limit-recursion"
    elif isinstance(error, MemoryError):
        code = "limit-memory"
    else:
        code = "agent-error"
    line = _line_of(error.__traceback__)
    return result(code, detail=_detail(error_text(error)), line=line, steps=meter.steps)


def _detail(text: str) -> str:
    return printable(text, limits.DETAIL_CHARS_MAX)


def _line_of(traceback: TracebackType | None) -> int:
    """Return the innermost line of the script, 0 if there is none."""
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == SCRIPT_FILE:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _running_line() -> int:
    """Return the line of the script that is running now."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != SCRIPT_FILE:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def _stack_depth() -> int:
    depth = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


_QUOTED: Final = re.compile(r"'(\w+)'")
_SUGGESTION: Final = re.compile(r"\. Did you mean .*", re.DOTALL)


def error_text(error: Exception) -> str:
    """Return the kind of `error`, and what it says, if that is text."""
    said = error.args[0] if error.args and type(error.args[0]) is str else ""
    if isinstance(error, NameError):
        name = _QUOTED.search(said)
        return f"NameError: {name[1]} has no value yet" if name else f"NameError: {said}"
    if isinstance(error, ZeroDivisionError):
        said = "zero to a negative power" if "power" in said else "division by zero"
    if isinstance(error, TypeError):
        said = _SUGGESTION.sub("", said)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
