"""The shipped servers and the shipped client, under a seed: see docs/fault-simulation.md.

Only `running` may be imported by tests: everything else here puts itself in the place of clocks,
chance, sockets, threads and disks, and therefore lives in processes of its own (`python -m tests.shells`).
"""
