"""The sandbox: single-use processes that can do nothing but compute, and their parents.

    host (server) ── SEQPACKET ──> zygote: clean, warmed up, holds no secret, reads nothing of an agent
      │  <── worker's pid, pidfd, socket; and how it ended      │ fork, spares ahead of need
      └──── one job, one answer, each a frame of MessagePack ──> worker: locks itself down, runs, exits

In the zygote and the workers: `zygote`, `worker`, `lockdown`, and the walls: `seccomp`, `landlock`,
`namespaces`. In the host: `sandbox` (the engine), which asks `fair_queue` and `budgets` whose turn it is,
`bytecode` for what is compiled already, `pool` for a worker, `frames` and `results` for what it said, or
how it died. `witness` sees a worker die of a forbidden system call, before anything is run.

Loaded in the zygote too: so this module loads nothing by itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kalends.agents.sandbox.engines import NoEngine as NoEngine
    from kalends.agents.sandbox.engines import engine_for as engine_for
    from kalends.agents.sandbox.sandbox import Sandbox as Sandbox
    from kalends.agents.sandbox.sandbox import SandboxLimits as SandboxLimits
    from kalends.agents.sandbox.zygote_process import SandboxUnavailable as SandboxUnavailable

_HOME = {
    "Sandbox": "kalends.agents.sandbox.sandbox",
    "SandboxLimits": "kalends.agents.sandbox.sandbox",
    "SandboxUnavailable": "kalends.agents.sandbox.zygote_process",
    "NoEngine": "kalends.agents.sandbox.engines",
    "engine_for": "kalends.agents.sandbox.engines",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
