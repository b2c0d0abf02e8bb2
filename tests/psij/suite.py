"""The test suite of PSI/J itself, run against a real site: ``python -m tests.psij.suite``.

The tests are those of the release that is installed, from its source distribution, which the package
index has. The fixtures that they import are not in it, so ours (`fixtures`) stand in their place. Tests of
how PSI/J loads plug-ins need some that are not in it either: they are left out. With ``--checkout FOLDER``, a
checkout of PSI/J at that release, all of its tests run, with its own fixtures (they import ``filelock``).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.processes.laboratory import MACHINE, Laboratory, opened

RELEASE: Final = "0.9.11"
SHA256: Final = "de069062d96e6a75a646594cecac67dfa090ab9a0f13a112c0efb97526286e37"
LAUNCHERS: Final = ("single", "multiple")
LOADING: Final = "tests/test_executor_loading.py"
FIXTURES: Final = Path(__file__).parent / "fixtures"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--checkout", type=os.path.abspath, help="a checkout of PSI/J, for all of its tests"
    )
    parser.add_argument("--launchers", default=",".join(LAUNCHERS), help="single,multiple")
    known, for_pytest = parser.parse_known_args()
    if os.geteuid() == 0:
        # A site runs no job as root, and nobody else gets into the folders that these tests make.
        somebody = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
        os.execvp(somebody[0], [*somebody, sys.executable, "-m", "tests.psij.suite", *sys.argv[1:]])
    if version("psij-python") != RELEASE:
        parser.error(f"the tests are those of psij-python {RELEASE}, which is not installed")
    with tempfile.TemporaryDirectory(prefix="kalends-psij-") as directory:
        return asyncio.run(_run(Path(directory), known.checkout, known.launchers, for_pytest))


async def _run(home: Path, checkout: str | None, launchers: str, for_pytest: list[str]) -> int:
    environment = {**os.environ, "HOME": str(home), "KALENDS_MACHINE": MACHINE}
    executors = ",".join(f"kalends:{launcher}" for launcher in launchers.split(","))
    if checkout is None:
        folder, added = _from_the_index(home), [FIXTURES]
        words = [
            "-p",
            "psij_fixtures",
            "-c",
            os.devnull,
            f"--rootdir={folder}",
            f"--ignore={LOADING}",
        ]
    else:
        folder, words = Path(checkout), []
        added = [folder / "tests" / "plugins1", folder / "tests" / "plugins2"]
    searched = filter(None, [*map(str, added), os.environ.get("PYTHONPATH", "")])
    environment["PYTHONPATH"] = os.pathsep.join(searched)
    os.environ["HOME"] = str(home)
    code = 1
    async for laboratory in opened(Laboratory(home)):
        environment["KALENDS_BROKER"] = laboratory.site.url
        suite = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pytest", "-q", "-rfEs", "-p", "no:cacheprovider",
            f"--executors={executors}", *words, "tests", *for_pytest, cwd=folder, env=environment,
        )  # fmt: skip
        code = await suite.wait()
    return code


def _from_the_index(home: Path) -> Path:
    """Return a folder with the source distribution, downloaded and compared with what it is to be."""
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--no-binary=:all:", f"--dest={home}", f"psij-python=={RELEASE}",
        ],
        check=True,
    )  # fmt: skip
    archive = home / f"psij-python-{RELEASE}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{archive.name} has the checksum {found}, and {SHA256} was expected")
    with tarfile.open(archive) as packed:
        packed.extractall(home, filter="data")
    folder = home / f"psij-python-{RELEASE}"
    shutil.copy(FIXTURES / "test_nodefile.sh", folder / "tests")
    return folder


if __name__ == "__main__":
    sys.exit(main())
