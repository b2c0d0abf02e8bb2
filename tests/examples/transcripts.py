"""What an example prints, made comparable: ids, clock times and addresses differ in every run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OUTPUT = EXAMPLES / "output"
PAPERS = EXAMPLES / "papers"

CLOCK = "[0-9]{2}(?::[0-9]{2}){1,2}"
"""A time of day as it is printed: without seconds on the minute."""

_SUBSTITUTIONS = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\b(?=[0-9a-f]*[0-9])(?!0badc0de)[0-9a-f]{8}\b", "SHORT-ID"),
    (r"127\.0\.0\.1:[0-9]{4,5}", "127.0.0.1:PORT"),
    (r"(?m)^after    .* [0-9:]+ P[SD]T \(UTC-0[78]:00\)$", "after    NOW"),
    (r"it is already .*? \(UTC[-+][0-9:]+\)", "it is already NOW"),
    (rf"(?m)^[A-Z][a-z]{{2}} [0-9-]{{10}} {CLOCK}  (?=[a-z]|SHORT-ID  [a-z])", "NOW  "),
    (r"(valid until|expires |  uploaded) .*", r"\1 THEN"),
    (r"(?m)^(  since    ).*$", r"\1THEN"),
    (r"(?m)^(  changed  .* on ).*? \(UTC[-+][0-9:]+\)", r"\1THEN"),
    (r"recalled until .*", "recalled until SOON"),
    (rf"lock (by {CLOCK}|it now) or", "lock SOON or"),
    (rf"gives up [A-Z][a-z]{{2}} [0-9-]{{10}} {CLOCK}", "gives up THEN"),
    (rf"(?m)^(SHORT-ID +[0-9]+ .* )[A-Z][a-z]{{2}} [0-9-]{{10}} {CLOCK}$", r"\1THEN"),
    # When a script was uploaded, and when it ran; how long that took, and what ran it.
    (rf"(?m)(  choose(?:, recall)?  +)[A-Z][a-z]{{2}} [0-9-]{{10}} {CLOCK}$", r"\1THEN"),
    (rf"(?m)^( *[0-9]+  )[A-Z][a-z]{{2}} [0-9-]{{10}} {CLOCK} +(?=SHORT-ID)", r"\1THEN  "),
    (r"(?m)( +[0-9]+\.[0-9])(?= ms|  +[0-9]+\.[0-9]|$)", " N.N"),
    # Steps change with the language, and only with that.
    (r"(?m) +[0-9]+(?= N\.N)|(?<=^  )[0-9]+(?= steps, )|(?<=^  steps    )[0-9]+$", " N"),
    (r"RestrictedPython-[0-9.]+ Python-[0-9.]+", "VERSIONS"),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "YYYY-MM-DD"),
    # A broker that has just lost a site has not tried to reach it again.
    (
        r"the connection broke, or nothing was heard on it for too long",
        "it cannot be reached: connection refused",
    ),
    # A site may confirm before or after the answer is out.
    (r"(?m)  (promised|confirmed|being freed|freed|-)$", "  SAID"),
    (r"\bP[SD]T\b", "PT"),
    (r"UTC-0[78]:00", "UTC-LOCAL"),
    (r"expired [0-9]+ (s|min) ago", "expired N s ago"),
]


def environment(more: dict[str, str]) -> dict[str, str]:
    """Only what an example may depend on."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    usual = {"COLUMNS": "80", "LANG": "C.UTF-8", "TZ": "UTC", "KALENDS_CONFIG": "/nowhere"}
    return {"PATH": programs, **usual, **more}


def run_paper(script: str, *arguments: str) -> str:
    """What the script of a paper prints; it must end well."""
    run = subprocess.run(
        [sys.executable, PAPERS / script, *arguments],
        env=environment({"PYTHONPATH": str(ROOT / "src")}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


def run_script(path: Path, variables: dict[str, str]) -> str:
    """What a Python example prints; it must end well."""
    run = subprocess.run(
        [sys.executable, str(path)],
        env=environment(variables), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


def run_session(path: Path, variables: dict[str, str]) -> str:
    """A shell example as a transcript: its comments, each command, what it prints, its exit code."""
    lines = []
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            lines.append(f"echo {shlex.quote(line)}")
            continue
        lines.append(f"echo {shlex.quote('$ ' + line)}")
        lines.append(line)
        lines.append('code=$?; [ $code = 0 ] || echo "(exit code $code)"')
    run = subprocess.run(
        ["sh", "-c", "\n".join(lines)],
        env=environment(variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd=variables["KALENDS_FACILITY"], check=False,
    )  # fmt: skip
    return run.stdout


def comparable(printed: str, directory: str) -> str:
    """`printed` without what differs from run to run."""
    printed = printed.replace(directory, "FACILITY")
    for pattern, replacement in _SUBSTITUTIONS:
        printed = re.sub(pattern, replacement, printed)
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def check(name: str, printed: str) -> None:
    """`printed` is what is stored; with KALENDS_RECORD set it is stored instead."""
    stored = OUTPUT / f"{name}.txt"
    if os.environ.get("KALENDS_RECORD"):
        OUTPUT.mkdir(exist_ok=True)
        stored.write_text(printed, "utf-8")
    assert printed == stored.read_text("utf-8")
