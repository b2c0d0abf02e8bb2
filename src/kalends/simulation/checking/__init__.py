"""An independent check of schedules, ours and other simulators': nothing of ours is used to make them.

`check` takes a log, a result and the name of a policy, and tells every broken rule by job, time and
amount. It reads with its own parser and replays the result's own starts: it imports no policy, no
cluster, no kernel and no reader of the simulator.
"""

from kalends.simulation.checking.checker import POLICIES, CheckReport, check
from kalends.simulation.checking.findings import Finding

__all__ = ["POLICIES", "CheckReport", "Finding", "check"]
