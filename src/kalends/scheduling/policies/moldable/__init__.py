"""Policies that choose, or change, the number of nodes of a job."""
