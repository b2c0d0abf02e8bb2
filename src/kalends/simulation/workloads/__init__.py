"""Where simulated jobs come from: logs of real machines, and generators."""
