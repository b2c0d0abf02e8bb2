"""What a worker does in tests of the sandbox: any Python at all, as if the language were no obstacle."""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgpack

ENGINE: Final = "unrestricted"

TOOLS: Final = {
    "os": os, "signal": signal, "sys": sys, "time": time, "msgpack": msgpack,
    "by": lambda name: lambda slot: slot[name],
}  # fmt: skip


def perform(job: dict[str, Any], finish: Callable[[dict[str, Any]], NoReturn]) -> None:
    """See `kalends.agents.language.job`: without the language."""
    if job["op"] == "check":
        try:
            code = compile(job["source"], "<agent>", "exec")
        except SyntaxError:
            finish({"code": "rejected", "detail": "not Python"})
        finish({"code": "ok", "functions": ["choose"], "bytecode": marshal.dumps(code)})
    names = dict(TOOLS)
    exec(marshal.loads(job["code"]) if job["code"] else job["source"], names)
    finish({"code": "ok", "answer": names[job["function"]](*job["arguments"])})
