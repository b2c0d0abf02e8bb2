"""Shared code of the commands for research: workloads, policies, runs, and their tables."""
