"""Sources of simulated jobs: logs of real machines, and generators."""
