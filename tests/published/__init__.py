"""Published results on real workload logs, to the last digit."""
