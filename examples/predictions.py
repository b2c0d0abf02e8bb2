"""When will my job start? Predictions at submission, as things change, and how good they were."""

from __future__ import annotations

from pathlib import Path

import kalends
from kalends.scheduling import Cluster, Job, policy_maker
from kalends.scheduling.prediction.predictor import PredictingScheduler
from kalends.simulation.prediction_accuracy import Accounts

LOG = Path(__file__).parent / "data" / "sdsc-sp2-excerpt.swf"

# A queue as it is live: whoever drives it tells what happens, and when.
scheduler = PredictingScheduler(policy_maker("easy")(Cluster(4)))
running = Job(id=1, submit_s=0, nodes=4, requested_s=3600, user=7)
mine = Job(id=2, submit_s=60, nodes=2, requested_s=600, user=8)
scheduler.submit(running, 0)
scheduler.submit(mine, 60)
told = scheduler.predictions[mine]
print(f"at {told.made_s} s job {mine.id} is told: start at {told.requested_s} s at the latest")

# Somebody with a short, wide job comes later; that changes nothing for the head of the queue.
scheduler.submit(Job(id=3, submit_s=90, nodes=4, requested_s=60, user=9), 90)
for job, now_told in scheduler.predict_all(90).items():
    print(f"at 90 s job {job.id} starts at {now_told.requested_s} s")

# The running job ends early, and everybody hears of it.
scheduler.end(running, 1000)
print(f"job {mine.id} started at {mine.start_s} s")
for job, now_told in scheduler.predict_all(1000).items():
    print(f"at 1000 s job {job.id} starts at {now_told.requested_s} s")

# How good are they on a real log, where users' estimates are wrong?
for policy in ("easy", "conservative"):
    accounts = Accounts()
    kalends.simulate(LOG, policy=policy, accounts=accounts)
    found = accounts.summary()
    print(
        f"{policy}: {found['predicted']} of {found['jobs']} jobs waited; started by P50 "
        f"{found['p50_coverage']:.0%}, by P90 {found['p90_coverage']:.0%}; off by "
        f"{found['p50_relative_error']:.0%} of the mean wait, requested times alone by "
        f"{found['requested_relative_error']:.0%}"
    )
