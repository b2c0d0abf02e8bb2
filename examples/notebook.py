"""A first hour in a notebook: look, find, book, change, cancel; then compare policies on a workload log.

Each ``# %%`` begins a cell, as Jupyter (by Jupytext), VS Code and other editors read it. Run it while
`kalends demo --keep` runs, with the environment that it writes, or after `kalends login`.
"""

# %%
from __future__ import annotations

from datetime import timedelta

import kalends

broker = kalends.connect_sync(zone="America/Los_Angeles")
broker.resources()

# %% What is taken tomorrow? A notebook draws it.
broker.calendar("sdsc/sp2", start="tomorrow", end="tomorrow 24:00")

# %% Where do all three fit?
wanted = "sdsc/sp2:64 + caltech/beamline + ncsa/cave"
found = broker.find(wanted, duration=timedelta(hours=2), window="next week")
found

# %% The best of these starts.
first = found.candidates[0].start
booked = broker.book(wanted, duration=timedelta(hours=2), at=first, note="run 7")
booked

# %% Shorter, after all; the last digits of its id name it.
broker.shrink(booked.id[-8:], duration="1h")

# %% All of my reservations, however many there are.
[reservation.note for reservation in broker.reservations()]

# %% One page of them, as a table.
broker.list(state="reserved")

# %% What cannot be says why, and what to do.
try:
    broker.book("sdsc/sp2:4096", duration="1h", window="tomorrow")
except kalends.KalendsError as error:
    print(type(error).__name__, error.where, error.remedy, sep=" | ")

# %%
broker.cancel(booked.id).state

# %% No server is needed to compare scheduling policies.
jobs = [
    kalends.SimulatedJob(id=n, submit_s=60 * n, nodes=1 + n * 7 % 16, run_s=900, requested_s=1_800)
    for n in range(200)
]
kalends.simulate(jobs, nodes=32, policy="easy")
