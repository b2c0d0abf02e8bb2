"""Other simulators of parallel-job scheduling, each in an environment of its own, on the same logs."""
