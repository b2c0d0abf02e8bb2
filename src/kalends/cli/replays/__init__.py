"""What the commands for research share: workloads, policies, runs, and their tables."""
