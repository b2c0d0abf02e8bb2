"""Room in the order of requests: lines, waiting lists, and what is kept for whom."""
