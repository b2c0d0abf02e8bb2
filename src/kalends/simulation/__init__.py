"""Replays workloads through the policies that run live, and measures what comes of it.

Programs find `simulate` and `SimulatedJob` in `kalends` itself. Nothing is imported here, so that a replay
loads only what it needs.
"""
