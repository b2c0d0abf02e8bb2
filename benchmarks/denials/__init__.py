"""What `benchmarks/denial.py` does to servers, and what an honest user has of them meanwhile."""
