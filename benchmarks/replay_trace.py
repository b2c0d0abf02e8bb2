"""Replays a trace of benchmarks/calendar.py on the plainest planner there is: a list of bookings.

python benchmarks/calendar.py --only capacity --sizes 200 --nodes 64 --write-trace work.txt
python benchmarks/replay_trace.py work.txt > answers.txt
python benchmarks/calendar.py --only capacity --sizes 200 --nodes 64 --answers answers.txt
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main() -> None:
    head, *trace = Path(sys.argv[1]).read_text().splitlines()
    nodes = int(head.split("nodes=")[1].split()[0])
    booked: dict[int, tuple[int, int, int]] = {}

    def free(start: int, end: int) -> int:
        inside = [job for job in booked.values() if job[0] < end and start < job[1]]
        moments = [start, *(job[0] for job in inside if job[0] > start)]
        return nodes - max(sum(j[2] for j in inside if j[0] <= at < j[1]) for at in moments)

    def fit(units: int, length: int, not_before: int, not_after: int) -> int | str:
        starts = sorted({not_before, *(job[1] for job in booked.values() if job[1] > not_before)})
        possible = (at for at in starts if at + length <= not_after)
        return next((at for at in possible if free(at, at + length) >= units), "-")

    print(head, "engine list-of-bookings", sep="\n")
    for number, line in enumerate(trace, 2):
        word, *rest = line.split()
        numbers = [int(text) for text in rest]
        answer: int | str = 0
        began_ns = time.perf_counter_ns()
        if word == "add":
            booked[numbers[0]] = (numbers[1], numbers[2], numbers[3])
        elif word == "rem":
            del booked[numbers[0]]
        elif word == "min":
            answer = free(*numbers)
        elif word == "fit":
            answer = fit(*numbers)
        else:
            continue
        print(number, answer, time.perf_counter_ns() - began_ns)


if __name__ == "__main__":
    main()
