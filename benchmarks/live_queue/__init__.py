"""Workload logs told to the queue of a live machine, on a virtual clock."""
