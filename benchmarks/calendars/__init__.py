"""Workloads, engines and measurements of `benchmarks/calendar.py`."""
