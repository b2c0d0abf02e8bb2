"""What a replay of jobs costs: the parts of ``benchmarks/simulate.py``."""
