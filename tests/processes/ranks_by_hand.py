"""A program that changes its size, by hand: what `kalends_malleable` says and does, and what it never would.

Run by any Python 3 as `ranks_by_hand.py FOLDER`. Each rank is a process. It notes its sizes in
``FOLDER/sizes``, a line each, and what it is denied in ``FOLDER/denied``. Files there have it behave:

- ``deaf``: it answers nothing as long as that is there;
- ``linger``: ranks that are given up stay as long as that is there;
- ``slow``: it stays in the midst of a change that it has begun as long as that is there, and notes ``begun``;
- ``want``: it asks for as many ranks as the file says, once;
- ``dies-asked``, ``dies-grown``, ``dies-left``: it kills itself at that step of its next change;
- ``stop``: it ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

NAP_S = 0.01
SIZES = [1, 2, 4]


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranks: list[int] = []
        self.line: socket.socket | None = None
        self.rest = b""
        self.asked: dict[int, int] = {}
        self.resize(len(os.environ["KALENDS_NODES"].split(",")))

    def run(self) -> None:
        while not self.there("stop"):
            if self.line is None:
                self.connect()
            wanted = self.folder / "want"
            if wanted.exists():
                self.say(want=int(wanted.read_text()))
                wanted.unlink()
            self.hear()
        self.resize(0)

    def connect(self) -> None:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(os.environ["KALENDS_CONTROL"])
        except OSError:
            time.sleep(NAP_S)
            return
        self.line, self.rest = line, b""
        self.say(sizes=SIZES)

    def say(self, **what: object) -> None:
        assert self.line is not None
        self.line.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> None:
        assert self.line is not None
        if self.there("deaf") or not select.select([self.line], [], [], NAP_S)[0]:
            time.sleep(NAP_S)
            return
        data = self.line.recv(65536)
        if not data:
            self.line = None
        *lines, self.rest = (self.rest + data).split(b"\n")
        for each in map(json.loads, lines):
            if "denied" in each:
                self.note("denied", f"{each['denied']}: {each['why']}")
            elif "change" in each:
                self.asked[each["change"]] = each["to"]
                self.say(taking=each["change"])
            elif "go" in each:
                self.change(each["go"], self.asked[each["go"]])

    def change(self, change: int, to: int) -> None:
        self.die_at("asked")
        left = self.resize(to)
        if self.there("slow"):
            self.note("begun", str(to))
        while self.there("slow"):
            time.sleep(NAP_S)
        self.die_at("left")
        self.say(changed=change, ranks=to, took_s=0.0, left=left)

    def resize(self, to: int) -> list[int]:
        while len(self.ranks) < to:
            self.ranks.append(self.forked(len(self.ranks)))
        self.die_at("grown")
        left, self.ranks = self.ranks[to:], self.ranks[:to]
        for number in range(to, to + len(left)):
            self.note(f"leave-{number}", "now")
        self.note("sizes", str(to))
        return left

    def forked(self, number: int) -> int:
        leave = self.folder / f"leave-{number}"
        leave.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            parent = os.getppid()
            while os.getppid() == parent and (not leave.exists() or self.there("linger")):
                time.sleep(NAP_S)
            os._exit(0)
        return child

    def there(self, name: str) -> bool:
        return (self.folder / name).exists()

    def note(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(text + "\n")

    def die_at(self, step: str) -> None:
        if self.there(f"dies-{step}"):
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Program(Path(sys.argv[1])).run()
