"""What `benchmarks/agents.py` measures: runs, how they end, memory, and visits over a slow line."""
