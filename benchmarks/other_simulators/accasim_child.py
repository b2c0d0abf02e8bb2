"""Runs in AccaSim's own environment: LOG SYSTEM POLICY RESULTS. Knows nothing of kalends."""

import collections
import collections.abc
import sys

# AccaSim 1.1.3 imports this from where Python before 3.10 had it.
collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]

from accasim.base.allocator_class import FirstFit  # noqa: E402 - after the line above
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

POLICIES = {"fcfs": FirstInFirstOut, "easy": EASYBackfilling}


def main(log: str, system: str, policy: str, results: str) -> None:
    simulator = Simulator(
        log,
        system,
        POLICIES[policy](FirstFit()),
        RESULTS_FOLDER_NAME=results,
        scheduling_output=True,
        statistics_output=False,
        show_statistics=False,
    )
    simulator.start_simulation()


if __name__ == "__main__":
    main(*sys.argv[1:])
